"""A fleet is the plain round for every one of its models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fleet_cases import SETTINGS, SHAPES, convolutional, dense, members, played, samples, with_loss
from torch import nn

from osamd.errors import InputError
from osamd.fleet import engines
from osamd.fleet.engines import by_steps
from osamd.fleet.fleet import Fleet, Member, Samples, net_of
from osamd.fleet.net import ModuleNet
from osamd.fleet.play import play
from osamd.paper.geometry import GEOMETRIES
from osamd.paper.losses import LOSSES
from osamd.paper.methods import METHODS, InnerLoops, Settings, TeacherStep, learner
from osamd.paper.models import linear
from osamd.paper.play import play as plain_play
from osamd.streams import Arrays
from osamd.streams.base import query_generator

NETWORKS = {"dense": dense, "convolutional": convolutional}
CALM = replace(SETTINGS, eta=0.002, teacher=TeacherStep(cap=0.01, scale=0.005))
"""Steps small enough that rounding, which depends on the size of the fleet, stays rounding over 200 rounds."""


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_a_fleet_of_linear_modules_is_the_linear_path(name, classes, l2):
    rounds, features = 60, 4
    generator = np.random.default_rng([classes, len(name)])
    x, y = generator.normal(size=(rounds, features)), generator.integers(0, classes, rounds)
    # Every kind of teacher step: the paper's for linear models, by the norm, and the one of a fixed scale.
    teachers = (TeacherStep(cap=1.0), TeacherStep(cap=0.1, scale=0.05))
    cases = [(m, with_loss(name, l2, teacher=t)) for m in METHODS for t in teachers]
    start = generator.normal(size=(1 if classes == 2 else classes, features + 1))
    module = nn.Linear(features, len(start)).double()
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(start[:, :-1]))
        module.bias.copy_(torch.from_numpy(start[:, -1]))
    seen = Samples(
        torch.from_numpy(x)[None], torch.from_numpy(y)[None], torch.from_numpy(query_generator(0).random(rounds))[None]
    )
    fleet, record = played([Member(module, m, s) for m, s in cases], (features,), seen)
    for i, (method, settings) in enumerate(cases):
        model = linear(features=features, classes=classes)
        bound = learner(method, model, settings, start[0] if classes == 2 else start)
        ledger, state = plain_play(bound, Arrays(x, list(y), classes=range(classes)), seed=0)
        mine = fleet.ledger(i, record, seen.y)
        assert np.array_equal(mine.asked, ledger.asked)
        assert np.array_equal(mine.decision, ledger.decision)
        np.testing.assert_allclose(mine.loss, ledger.loss, atol=1e-9)
        for teacher, params in ((True, state.teacher), (False, state.student)):
            if not teacher and METHODS[method].teacher_decides:
                continue
            tensors = fleet.tensors(i, teacher=teacher)
            row = torch.cat([tensors["weight"], tensors["bias"][:, None]], 1).numpy()
            np.testing.assert_allclose(row, np.atleast_2d(params), atol=1e-9)


@pytest.mark.parametrize("count", [2, 3])
def test_the_parts_that_play_beside_each_other_on_a_gpu_are_the_fleet(monkeypatch, count):
    monkeypatch.setattr(engines, "PARTS", count)
    monkeypatch.setattr(engines, "captured", lambda device, touched, work: work)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    rounds, shape = 40, SHAPES["convolutional"]
    some = members(convolutional, with_loss("softmax", 0.1), seeds=2)
    seen = samples(shape, rounds, seeds=2)
    fleet, record = played(some, shape, seen)
    other = Fleet(some, shape, dtype=torch.float64)
    its_record = other.record(rounds)
    with torch.no_grad():
        engines.by_graph(other, seen, its_record)(0, rounds)
    torch.testing.assert_close(its_record, record, rtol=0, atol=1e-9)
    for ours, theirs in zip(other.state, fleet.state, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    alone = other.part(1, count)
    moved = Fleet([alone.members[0]], shape, dtype=torch.float64).tensors(0)
    assert any(not torch.equal(moved[name], tensor) for name, tensor in alone.tensors(0).items())
    assert alone.ledger(0, its_record[:, 1::count], seen.y).label_rate > 0.0


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_fleet_is_as_many_fleets_of_one(kind):
    rounds, shape = 200, SHAPES[kind]
    some = members(NETWORKS[kind], CALM, seeds=2)
    seen = samples(shape, rounds, seeds=2)
    fleet, record = played(some, shape, seen)
    for i, member in enumerate(some):
        alone, its_record = played([member], shape, seen)
        mine, its = fleet.ledger(i, record, seen.y), alone.ledger(0, its_record, seen.y)
        assert np.array_equal(mine.asked, its.asked)
        assert np.array_equal(mine.decision, its.decision)
        for teacher in (True, False):
            ours, theirs = fleet.tensors(i, teacher=teacher), alone.tensors(0, teacher=teacher)
            assert all(torch.allclose(ours[name], theirs[name], rtol=0, atol=1e-9) for name in ours)


@pytest.mark.parametrize("kind", NETWORKS)
def test_from_equal_state_every_round_of_a_fleet_is_that_of_fleets_of_one(kind):
    rounds, shape = 12, SHAPES[kind]
    some = members(NETWORKS[kind])
    seen = samples(shape, rounds)
    fleet = Fleet(some, shape, dtype=torch.float64)
    record, advance = fleet.record(rounds), None
    advance = by_steps(fleet, seen, record)
    for t in range(rounds):
        before = [tensor.clone() for tensor in fleet.state]
        advance(t, t + 1)
        for row, i in enumerate(fleet.order):
            alone = Fleet([some[i]], shape, dtype=torch.float64)
            for tensor, old in zip(alone.state, before, strict=True):
                tensor.copy_(old[row : row + 1])
            by_steps(alone, seen, alone.record(rounds))(t, t + 1)
            for tensor, now in zip(alone.state, fleet.state, strict=True):
                torch.testing.assert_close(tensor[0], now[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("kind", [*NETWORKS, "without norm"])
def test_the_fast_paths_are_any_modules_path(kind, softmax):
    if kind == "without norm":
        kind, make = "convolutional", lambda seed: convolutional(seed, norm=False, softmax=softmax)
    else:
        make = lambda seed: NETWORKS[kind](seed, softmax=softmax)  # noqa: E731
    shape, seen = SHAPES[kind], samples(SHAPES[kind], 40)
    some = members(make)
    fast = net_of(some[0].module, torch.randn(1, *shape), softmax)
    assert not isinstance(fast, ModuleNet)
    fleets = [played(some, shape, seen, net=net)[0] for net in (fast, ModuleNet(make(0), softmax))]
    for mine, its in zip(fleets[0].state, fleets[1].state, strict=True):
        torch.testing.assert_close(mine, its, rtol=0, atol=1e-10)


def test_modules_of_another_make_take_the_general_path():
    twice, hooked = nn.Linear(5, 5), nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    hooked[0].register_forward_hook(lambda module, given, out: 2 * out)
    frozen = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    frozen[0].requires_grad_(False)

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    class Skipping(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + 1

    for module in (
        nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)),
        nn.Sequential(twice, nn.ReLU(), twice, nn.ReLU(), nn.Linear(5, 2)),
        nn.Sequential(Doubled(5, 5), nn.ReLU(), nn.Linear(5, 2)),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 5)), nn.ReLU(), nn.Linear(5, 2)),
        Skipping(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)),
        hooked,
        frozen,
        nn.Linear(5, 2),
    ):
        x = torch.randn(1, 5)
        net = net_of(module.eval(), x)
        assert isinstance(net, ModuleNet)
        own = module(x)[0].detach()
        scores = net.forward(net.row(module, torch.float32)[None], x)[0][0]
        torch.testing.assert_close(scores, own if len(own) > 1 else torch.cat([-0.5 * own, 0.5 * own]))
    dilated = nn.Sequential(nn.Conv2d(1, 2, 3, dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(50, 2))
    assert isinstance(net_of(dilated.eval(), torch.randn(1, 1, 9, 9)), ModuleNet)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(1, 10, 4)}, "x must be"),
        ({"y": torch.zeros(1, 9, dtype=torch.long)}, "x must be"),
        ({"u": torch.zeros(1, 3)}, "u must be"),
        ({"y": torch.full((1, 10), 3)}, "from 0 to 2"),
        ({"u": torch.zeros(0, 10)}, "seed is not one of the 0"),
    ],
)
def test_samples_that_do_not_fit_a_fleet_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        play(Fleet(members(dense), (5,)), samples((5,), 10)._replace(**change))


def test_members_of_another_kind_or_method_are_refused():
    with pytest.raises(InputError, match="differ in their layers"):
        Fleet([Member(dense(classes=c), "osamd", SETTINGS) for c in (3, 4)], (5,))
    with pytest.raises(InputError, match="Did you mean 'osamd'"):
        Fleet([Member(dense(), "osmad", SETTINGS)], (5,))


def test_osamd_paa_and_osamd_without_self_adaptation_ask_for_the_same_labels():
    seen = samples((5,), 150)
    fleet, record = played(members(dense), (5,), seen)
    asked = {member.method: fleet.ledger(i, record, seen.y).asked for i, member in enumerate(fleet.members)}
    assert np.array_equal(asked["osamd"], asked["paa"])
    assert np.array_equal(asked["osamd"], asked["osamd-no-self-adaptation"])
    assert 0 < asked["osamd"].sum() < 150
    assert asked["omd-all"].all()


def test_members_with_other_numbers_of_loops_and_rates_go_together():
    seen = samples((5,), 60)
    some = [
        Member(dense(n), "osamd", with_loss("softmax", eta=0.01 * (n + 1), adaptation=InnerLoops(loops, 0.1 + 0.1 * n)))
        for n, loops in enumerate((1, 5, 3))
    ]
    fleet, _ = played(some, (5,), seen)
    assert fleet.plan.loops == (3, 2, 2, 1, 1)
    for i, member in enumerate(some):
        alone, _ = played([member], (5,), seen)
        ours, theirs = fleet.tensors(i), alone.tensors(0)
        assert all(torch.allclose(ours[name], theirs[name], rtol=0, atol=1e-12) for name in ours)


@pytest.mark.parametrize("kind", NETWORKS)
def test_scores_that_are_not_finite_stop_one_model_and_leave_the_rest(kind):
    shape, seen = SHAPES[kind], samples(SHAPES[kind], 50)
    wild = Member(NETWORKS[kind](), "omd-all", replace(with_loss("squared-hinge"), eta=1e9))
    calm = Member(NETWORKS[kind](), "osamd", replace(CALM, loss=wild.settings.loss))
    done = play(Fleet([wild, calm], shape, dtype=torch.float64), seen)
    alone = play(Fleet([calm], shape, dtype=torch.float64), seen)
    assert [stop.member for stop in done.stopped] == [0]
    assert 0 < done.stopped[0].round < 50
    assert not alone.stopped
    place = 0  # calm loops, so its row comes first
    torch.testing.assert_close(done.record[:, place], alone.record[:, 0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("softmax", [False, True])
def test_a_teacher_nobody_listens_to_may_do_what_it_likes(softmax):
    seen = samples((5,), 50)
    seen = seen._replace(x=seen.x.float())
    wild = replace(CALM, teacher=TeacherStep(cap=1e30, scale=1e20))
    some = [Member(dense(softmax=softmax), m, s) for m in ("omd-all", "omd-partial", "osamd") for s in (wild, CALM)]
    done = play(Fleet(some, (5,), probabilities=softmax), seen)
    assert {stop.member for stop in done.stopped} <= {4}
    for column in (0, 4, 5):  # decision, asked, loss; OMD's rows follow OSAMD's
        assert torch.equal(done.record[:, [2, 4], column], done.record[:, [3, 5], column])


def test_a_run_goes_on_from_its_checkpoint_as_if_never_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("osamd.fleet.play.SECONDS_A_CHECKPOINT", -1.0)
    seen = samples((1, 9, 9), 60)
    whole = play(Fleet(members(convolutional), (1, 9, 9)), seen._replace(x=seen.x.float()))

    class Enough(BaseException):
        pass

    def stop(done):
        if done > 20:
            raise Enough

    folder = tmp_path / "checkpoint"
    first = Fleet(members(convolutional), (1, 9, 9))
    with pytest.raises(Enough):
        play(first, seen._replace(x=seen.x.float()), checkpoint=folder, identity="a", progress=stop)
    told = []
    second = Fleet(members(convolutional), (1, 9, 9))
    rest = play(second, seen._replace(x=seen.x.float()), checkpoint=folder, identity="a", progress=told.append)
    assert 0 < told[0] < 60
    assert torch.equal(rest.record, whole.record)
    other = play(
        Fleet(members(convolutional), (1, 9, 9)), seen._replace(x=seen.x.float()), checkpoint=folder, identity="b"
    )
    assert torch.equal(other.record, whole.record)


def test_a_damaged_checkpoint_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "state.safetensors").write_bytes(b"nothing of the kind")
    seen = samples((5,), 10)
    with pytest.raises(InputError, match="delete that folder"):
        play(Fleet(members(dense), (5,)), seen._replace(x=seen.x.float()), checkpoint=tmp_path, identity="a")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(eta=0.1, sigma=0.1, adaptation=None), "no exact implicit step"),
        (Settings(eta=0.1, sigma=0.1, adaptation=InnerLoops(), geometry=GEOMETRIES["ball"](1.0)), "whole space"),
    ],
)
def test_settings_a_fleet_cannot_use_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Fleet([Member(dense(), "osamd", settings)], (5,))
    with pytest.raises(InputError, match="must share one"):
        Fleet([Member(dense(), "omd-all", with_loss(name)) for name in ("hinge", "logistic")], (5,))


def test_a_class_whose_probability_underflows_is_still_learned():
    module = dense(softmax=True)
    with torch.no_grad():
        module[-2].bias.copy_(torch.tensor([500.0, 0.0, -500.0]))
    seen = samples((5,), 3)._replace(y=torch.full((1, 3), 2))
    fleet, _ = played([Member(module, "omd-all", SETTINGS)], (5,), seen._replace(x=seen.x * 0.01), probabilities=True)
    moved = fleet.tensors(0)["5.bias"] - module[-2].bias.detach().double()
    assert moved[2] == pytest.approx(3 * SETTINGS.eta)
