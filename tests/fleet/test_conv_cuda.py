"""The kernels for two convolutions compute what `ConvNet` does."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from osamd.fleet.conv import ConvNet, parts_of
from osamd.fleet.engines import engine
from osamd.fleet.fleet import Fleet, Member, Samples
from osamd.fleet.kernels.conv_cuda import HAS_TRITON, TritonConvNet, Tuning, supports
from osamd.fleet.reading import on_scores, pointing
from osamd.paper.losses import loss
from osamd.reproduce.table_columns import settings

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_gpu = pytest.mark.skipif(
    not HAS_TRITON or not (torch.cuda.is_available() or INTERPRETED),
    reason="the kernels need triton and a CUDA device (or TRITON_INTERPRET=1, slowly)",
)
MODELS = 3


def network(classes: int, norm: bool, *, channels: tuple[int, int] = (64, 64), kernel: int = 5, stride: int = 2) -> Any:
    def place(size: int) -> int:
        return (size + 2 * 2 - kernel) // stride + 1

    first, second = channels
    size = 28 if classes > 2 else 32
    layers = [nn.Conv2d(1, first, kernel, stride, 2), nn.ReLU(), nn.Conv2d(first, second, kernel, stride, 2), nn.ReLU()]
    layers += [nn.BatchNorm2d(second)] * norm
    layers += [nn.Flatten(), nn.Linear(second * place(place(size)) ** 2, classes)]
    return nn.Sequential(*layers).eval(), (1, size, size)


NETWORKS = {
    "digits": lambda: network(10, True),
    "digits, statistics of the sample": lambda: network(10, True),
    "two classes": lambda: network(2, True),
    "no norm": lambda: network(10, False, channels=(16, 32)),
    "kernel 2, stride 2": lambda: network(3, True, channels=(16, 16), kernel=2),
    "kernel 4, stride 3": lambda: network(20, True, channels=(32, 16), kernel=4, stride=3),
    "the same, statistics of the sample": lambda: network(20, True, channels=(32, 16), kernel=4, stride=3),
}


class Pair:
    """The two nets, and rows, samples and slopes drawn afresh."""

    def __init__(self, name: str, precision: str = "ieee", **options: Any) -> None:
        torch.manual_seed(7)
        module, sample = NETWORKS[name]()
        parts = parts_of(module)
        assert parts is not None
        assert supports(module, sample)
        statistics = "sample" if name.endswith("of the sample") else "training"
        self.plain = ConvNet(module, parts, sample, statistics)
        self.fused = TritonConvNet(module, parts, sample, statistics, precision=precision, **options)
        row = self.plain.row(module, torch.float32)
        w = row + 0.02 * torch.randn(MODELS + 1, len(row))
        if parts.norm:
            self.plain.parameter(w, f"{parts.norm}.running_mean").add_(0.3)
            self.plain.parameter(w, f"{parts.norm}.running_var").abs_().add_(0.1)
        self.w = w.to(DEVICE)[:MODELS]
        self.x = torch.randn(MODELS, *sample).to(DEVICE)
        self.q = torch.randn(MODELS, self.plain.places[-3 if parts.norm else -1].shape[0]).to(DEVICE)


def close(ours: Tensor, theirs: Tensor) -> bool:
    return bool((ours - theirs).norm() <= 1e-4 * theirs.norm())


def tensorwise(pair: Pair, ours: Tensor, theirs: Tensor) -> dict[str, bool]:
    """For every tensor of the rows, whether both say the same."""
    return {
        p.name: close(ours[:, p.first : p.last], theirs[:, p.first : p.last])
        for p in pair.plain.places
        if p.last <= ours.shape[1]
    }


@needs_gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_scores_and_gradients_equal_the_plain_nets(name: str) -> None:
    pair = Pair(name)
    scores, tape = pair.fused.forward(pair.w, pair.x)
    expected, plain_tape = pair.plain.forward(pair.w, pair.x)
    assert close(scores, expected)
    before = pair.w.clone()
    ours = pair.fused.dense(pair.w, pair.fused.backward(pair.w, tape, pair.q))
    theirs = pair.plain.dense(pair.w, pair.plain.backward(pair.w, plain_tape, pair.q))
    assert all(tensorwise(pair, ours, theirs).values()), tensorwise(pair, ours, theirs)
    assert torch.equal(pair.w, before)


@needs_gpu
@pytest.mark.parametrize("name", ["digits", "digits, statistics of the sample", "no norm"])
def test_steps_equal_the_plain_nets_and_leave_frozen_columns(name: str) -> None:
    pair = Pair(name)
    pair.q[1] = 0.0
    anchor = pair.w + 0.1 * torch.randn_like(pair.w)
    rate = torch.linspace(0.05, 0.2, MODELS, device=DEVICE)[:, None]
    trained = pair.plain.trained
    changes: list[list[Tensor]] = []
    for net in (pair.fused, pair.plain):
        _, tape = net.forward(pair.w, pair.x)
        gradient = net.backward(pair.w, tape, pair.q)
        other, own = anchor.clone(), pair.w.clone()
        net.subtract(other, gradient)
        net.descend(own, gradient, anchor, rate)
        changes.append([(other - anchor)[:, :trained], (own - pair.w)[:, :trained]])
        if net is pair.fused:
            assert torch.equal(other[1], anchor[1])
            assert torch.equal(other[:, trained:], anchor[:, trained:])
            assert torch.equal(own[:, trained:], pair.w[:, trained:])
    for ours, theirs in zip(*changes, strict=True):
        assert all(tensorwise(pair, ours, theirs).values()), tensorwise(pair, ours, theirs)


@needs_gpu
@pytest.mark.parametrize("name", ["digits", "digits, statistics of the sample", "kernel 4, stride 3"])
def test_the_fused_gradient_is_that_of_the_softmax_loss(name: str) -> None:
    pair, softmax = Pair(name), loss("softmax")
    own = pointing(torch.arange(MODELS, device=DEVICE), pair.q)
    lengths = torch.linspace(0.5, 2.0, MODELS, device=DEVICE)
    scores, tape = pair.plain.forward(pair.w, pair.x)
    q = on_scores(softmax, probabilities=False).slope(scores, own) * lengths[:, None]
    theirs = pair.plain.dense(pair.w, pair.plain.backward(pair.w, tape, q))
    assert pair.fused._fuses(softmax, pair.w, pair.x) == (len(own[0]) <= 16)
    ours = pair.fused.dense(pair.w, pair.fused.gradient_at(pair.w, pair.x, own, lengths, softmax))
    assert all(tensorwise(pair, ours, theirs).values()), tensorwise(pair, ours, theirs)
    assert not pair.fused._fuses(loss("hinge"), pair.w, pair.x)


@needs_gpu
def test_products_in_three_parts_are_as_exact_as_float32() -> None:
    pair = Pair("no norm", precision="tf32x3")
    w, x, q = pair.w.double(), pair.x.double(), pair.q.double()
    scores, tape = pair.fused.forward(pair.w, pair.x)
    expected, plain_tape = pair.plain.forward(w, x)
    ours = pair.fused.dense(pair.w, pair.fused.backward(pair.w, tape, pair.q))
    theirs = pair.plain.dense(w, pair.plain.backward(w, plain_tape, q))
    assert float((scores - expected).norm() / expected.norm()) < 2e-6
    assert float((ours - theirs).norm() / theirs.norm()) < 2e-6


@needs_gpu
@pytest.mark.parametrize("method", ["osamd", "paa"])
def test_a_fleet_plays_the_same_rounds_with_either_net(method: str) -> None:
    torch.manual_seed(3)
    module, sample = network(3, True, channels=(16, 16), stride=3)
    parts = parts_of(module)
    assert parts is not None
    chosen = settings(0.05, 0.3, cap=0.02, scale=0.01, loops=2, inner_rate=0.1)
    members = [Member(module, method, chosen, seed=seed) for seed in range(2)]
    x, y, u = torch.randn(1, 9, *sample), torch.randint(0, 3, (1, 9)), torch.rand(2, 9, dtype=torch.float64)
    moves = []
    for net in (TritonConvNet(module, parts, sample, precision="ieee"), ConvNet(module, parts, sample)):
        fleet = Fleet(members, sample, net=net, device=DEVICE)
        start = torch.cat([*fleet.state])
        _, advance = engine(fleet, Samples(x, y, u).to(fleet.device), fleet.record(9))
        advance(0, 9)
        moves.append(torch.cat([*fleet.state]) - start)
    assert float(moves[1].norm()) > 0.01
    assert float((moves[0] - moves[1]).norm()) <= 1e-3 * float(moves[1].norm())


@needs_gpu
def test_the_cut_of_the_work_changes_nothing_but_rounding() -> None:
    tuning = Tuning(split=16, depth=16, features=256, channels=8, patches=32, pairs=4, linear=512)
    pair, other = Pair("digits"), Pair("digits", tuning=tuning)
    rows = []
    for one in (pair, other):
        _, tape = one.fused.forward(one.w, one.x)
        rows.append(one.fused.dense(one.w, one.fused.backward(one.w, tape, one.q)))
    assert all(tensorwise(pair, *rows).values()), tensorwise(pair, *rows)


def test_other_types_and_devices_take_the_plain_path() -> None:
    pair = Pair("no norm")
    w, x, q = (tensor.cpu().double() for tensor in (pair.w, pair.x, pair.q))
    anchor, rate = w + 0.5, torch.full((MODELS, 1), 0.1, dtype=torch.float64)
    rows = []
    for net in (pair.fused, pair.plain):
        own = w.clone()
        scores, tape = net.forward(own, x)
        net.descend(own, net.backward(own, tape, q), anchor, rate)
        rows.append(torch.cat([scores, own], 1))
    assert torch.equal(*rows)


def test_networks_without_kernels_are_told_apart() -> None:
    fits, sample = network(10, True)
    assert supports(fits, sample)
    assert not supports(nn.Sequential(*fits, nn.Softmax(1)), sample)
    assert not supports(network(10, True, channels=(24, 64))[0], sample)
    assert not supports(nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10)), sample)
    assert not supports(nn.Sequential(nn.Linear(4, 2)), (4,))
