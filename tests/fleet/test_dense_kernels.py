"""The fused kernels for dense networks do what `by_steps` does, round for round."""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

from osamd.errors import InputError  # noqa: E402
from osamd.fleet.dense import DenseNet, layers_of  # noqa: E402
from osamd.fleet.engines import by_steps  # noqa: E402
from osamd.fleet.fleet import COLUMNS, Fleet, Member, Samples  # noqa: E402
from osamd.fleet.kernels import dense_cpu, dense_cuda  # noqa: E402
from osamd.paper.losses import loss  # noqa: E402
from osamd.paper.methods import METHODS, InnerLoops, Settings, experiments_step  # noqa: E402

ROUNDS = 200
COVER_TYPE = (54, 30, 30, 2)
WHOLE = [COLUMNS.index(name) for name in ("decision", "pseudolabel", "asked")]


def network(widths: tuple[int, ...], probabilities: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([nn.Softmax(1)] if probabilities else []))


def make(
    widths: tuple[int, ...] = COVER_TYPE,
    probabilities: bool = True,
    dtype: torch.dtype = torch.float64,
    scale: float = 0.05,
    etas: tuple[float, ...] = (0.05,),
    device: str = "cpu",
    loss_name: str = "softmax",
    l2: float = 0.0,
) -> Fleet:
    """Every method with every eta, each model from its own start."""
    torch.manual_seed(5)
    members = [
        Member(
            network(widths, probabilities),
            method,
            Settings(
                eta=eta,
                sigma=0.3,
                loss=loss(loss_name, l2=l2),
                teacher=experiments_step(cap=0.5, scale=scale),
                adaptation=InnerLoops(3 + n % 2, 0.1),
                label_rate=0.3,
            ),
            stream=n % 2,
            seed=n % 3,
        )
        for eta in etas
        for n, method in enumerate(METHODS)
    ]
    found = layers_of(members[0].module)
    assert found is not None
    net = DenseNet(members[0].module, *found)
    return Fleet(members, (widths[0],), net=net, dtype=dtype, device=device)


def drawn(widths: tuple[int, ...], dtype: torch.dtype, rounds: int = ROUNDS, device: str = "cpu") -> Samples:
    """Two streams, some features of which are mostly 0."""
    generator = torch.Generator().manual_seed(7)
    y = torch.randint(widths[-1], (2, rounds), generator=generator)
    x = torch.randn(2, rounds, widths[0], generator=generator, dtype=torch.float64)
    x[..., ::2] *= x[..., ::2] > 1.0
    x[..., : widths[-1]] += nn.functional.one_hot(y, widths[-1])
    u = torch.rand(3, rounds, generator=generator, dtype=torch.float64)
    return Samples(x.to(dtype), y, u).to(torch.device(device))


def furthest(a: Fleet, b: Fleet) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a.state, b.state, strict=True))


def assert_same(numbers: Tensor, others: Tensor, within: float) -> None:
    assert torch.equal(numbers[..., WHOLE], others[..., WHOLE])
    assert float((numbers - others).abs().max()) < within


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("widths", [(6, 2), (9, 7, 4), COVER_TYPE, (5, 16, 6, 8, 4)], ids=str)
def test_numba_equals_torch(widths: tuple[int, ...], probabilities: bool) -> None:
    samples = drawn(widths, torch.float64)
    slow, fast = make(widths, probabilities), make(widths, probabilities)
    expected, record = slow.record(ROUNDS), fast.record(ROUNDS)
    by_steps(slow, samples, expected)(0, ROUNDS)
    dense_cpu.by_numba(fast, samples, record)(0, ROUNDS)
    assert 0.0 < float(expected[..., COLUMNS.index("asked")].mean()) < 1.0
    assert_same(record, expected, 1e-9)
    assert furthest(slow, fast) < 1e-9


@pytest.mark.parametrize("probabilities", [True, False])
def test_numba_divides_the_teacher_step_by_the_gradient_s_norm(probabilities: bool) -> None:
    samples = drawn(COVER_TYPE, torch.float64)
    slow, fast = make(probabilities=probabilities, scale=0.0), make(probabilities=probabilities, scale=0.0)
    expected, record = slow.record(ROUNDS), fast.record(ROUNDS)
    by_steps(slow, samples, expected)(0, ROUNDS)
    dense_cpu.by_numba(fast, samples, record)(0, ROUNDS)
    assert_same(record, expected, 1e-9)
    assert furthest(slow, fast) < 1e-9


def test_numba_in_float32_is_near_float64() -> None:
    both = []
    for dtype in (torch.float32, torch.float64):
        fleet = make(dtype=dtype)
        record = fleet.record(ROUNDS)
        dense_cpu.by_numba(fleet, drawn(COVER_TYPE, dtype), record)(0, ROUNDS)
        assert record.dtype == dtype
        both.append(record.double())
    assert_same(*both, within=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numba_cut_in_two_and_on_one_thread_is_the_same_to_the_last_bit(dtype: torch.dtype) -> None:
    samples = drawn(COVER_TYPE, dtype)
    whole, cut = make(dtype=dtype), make(dtype=dtype)
    expected, record = whole.record(ROUNDS), cut.record(ROUNDS)
    dense_cpu.by_numba(whole, samples, expected, threads=2)(0, ROUNDS)
    advance = dense_cpu.by_numba(cut, samples, record, threads=1)
    advance(0, ROUNDS // 2)
    assert not record[ROUNDS // 2 :].any()
    advance(ROUNDS // 2, ROUNDS)
    assert torch.equal(record, expected)
    assert furthest(whole, cut) == 0.0


def test_a_member_that_diverges_leaves_the_others_as_they_were() -> None:
    samples = drawn(COVER_TYPE, torch.float32)
    alone, beside = make(dtype=torch.float32), make(dtype=torch.float32, etas=(0.05, 1e30))
    expected, record = alone.record(ROUNDS), beside.record(ROUNDS)
    dense_cpu.by_numba(alone, samples, expected)(0, ROUNDS)
    dense_cpu.by_numba(beside, samples, record)(0, ROUNDS)
    assert {stopped.member for stopped in beside.stopped(record)} >= {len(METHODS) + n for n in (0, 2, 4, 5)}
    for member in range(len(METHODS)):
        ours, theirs = beside.ledger(member, record, samples.y), alone.ledger(member, expected, samples.y)
        assert (ours.decision == theirs.decision).all()
        assert (ours.loss == theirs.loss).all()
        for name, tensor in alone.tensors(member).items():
            assert torch.equal(beside.tensors(member)[name], tensor)


def test_what_the_kernels_do_not_cover_is_refused() -> None:
    assert dense_cpu.supports(make())
    assert not dense_cpu.supports(make(loss_name="hinge"))
    assert not dense_cpu.supports(make(l2=0.1))
    assert not dense_cuda.supports(make(dtype=torch.float32))  # no CUDA device
    assert dense_cuda.fits(make(dtype=torch.float32))
    assert not dense_cuda.fits(make())
    assert not dense_cuda.fits(make((9, 7, 4), dtype=torch.float32))
    fleet, samples = make(), drawn(COVER_TYPE, torch.float64)
    samples.y[1, 3] = 2
    with pytest.raises(InputError, match="labels from 0 to 2"):
        dense_cpu.by_numba(fleet, samples, fleet.record(ROUNDS))


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NO_TRITON = find_spec("triton") is None
NOWHERE = not INTERPRETED and not torch.cuda.is_available()


@pytest.mark.skipif(NO_TRITON, reason="Triton is not installed")
@pytest.mark.skipif(NOWHERE, reason="no CUDA device, and TRITON_INTERPRET is not 1")
@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # in Triton's interpreter
@pytest.mark.parametrize("scale", [0.05, 0.0])
@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("widths", [COVER_TYPE, (5, 6, 7, 3)], ids=str)
def test_triton_equals_torch(widths: tuple[int, ...], probabilities: bool, scale: float) -> None:
    rounds, device = (20, "cpu") if INTERPRETED else (50, "cuda")
    samples = drawn(widths, torch.float32, rounds, device)
    slow, fast = (make(widths, probabilities, torch.float32, scale, device=device) for _ in range(2))
    expected, record = slow.record(rounds), fast.record(rounds)
    by_steps(slow, samples, expected)(0, rounds)
    advance = dense_cuda.by_triton(fast, samples, record)
    advance(0, rounds // 2)
    advance(rounds // 2, rounds)
    assert_same(record, expected, 1e-4)
    assert furthest(slow, fast) < 1e-4
