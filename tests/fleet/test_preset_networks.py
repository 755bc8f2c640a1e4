"""The preset for networks: its round beside a plain one, fleets beside single pairs, ask and tell beside fleets."""

import math

import numpy as np
import pytest
import torch
from fleet_cases import convolutional, dense, samples
from test_deep import MODULES, same
from torch import nn

from osamd.accounting import budget, steering
from osamd.accounting.book import terms
from osamd.errors import InputError
from osamd.evaluation.arbiter_guarantee import NETWORK_MEMBERS, GuardRun, constant, hardest_path, member_losses, regret
from osamd.fleet import augmentation, balancing, engines, grouped, pair
from osamd.fleet import preset_fleet as preset
from osamd.fleet.conv import ConvNet, Patches
from osamd.fleet.engines import by_halves, per_member
from osamd.fleet.fleet import net_of
from osamd.fleet.kernels import pairs
from osamd.fleet.net import ModuleNet, Net
from osamd.fleet.play import Checkpoint, play
from osamd.fleet.preset_fleet import PresetFleet, PresetMember
from osamd.learner.network import NetworkOSAMD
from osamd.preset import arbiter
from osamd.preset.grounds import Grounds
from osamd.streams.base import query_generator

SHAPES = {dense: (5,), convolutional: (1, 9, 9)}
RATE = 0.3


def books(number, rate=RATE):
    limits = budget.budget(rate, floor=arbiter.NETWORK_AUDIT * rate)
    return np.stack([steering.open_book(limits, 1.0, "margin") for _ in range(number)])


def fleet_of(make, seeds, softmax=False, memory=None, **kinds):
    pairs = [PresetMember(make(seed, softmax=softmax), 0, seed, memory) for seed in seeds]
    return PresetFleet(pairs, SHAPES[make], books(len(pairs)), probabilities=softmax, dtype=torch.float64, **kinds)


class Plain:
    """The round as `osamd.fleet.preset_fleet` states it: three modules, lists, torch's own gradient, one sample at a
    time. The arbiter has tests of its own, so its functions are used here."""

    def __init__(self, module, softmax, memory, places):
        self.places = places
        self.modules = [module(), module()]  # student, teacher
        for part in (part for one in self.modules for part in one.modules()):
            part.training = isinstance(part, torch.nn.BatchNorm2d)  # it normalises by the sample's own statistics
        self.source = module()
        self.average = module()
        for part in self.average.modules():
            part.training = isinstance(part, torch.nn.BatchNorm2d)
        self.squares = [[torch.zeros_like(p) for p in m.parameters()] for m in self.modules]
        self.losses, self.trust, self.guard = np.zeros(2), np.zeros(6), np.zeros(4)
        arbiter.open_trust(self.trust)
        arbiter.open_guard(self.guard, True)
        self.arbiter, self.verified, self.usual = arbiter.Arbiter(self.losses, self.trust, self.guard), 0.0, 0.0
        parameters = torch.cat([p.detach().flatten() for p in self.modules[0].parameters()])
        self.size = float(parameters.square().mean().sqrt())
        self.softmax, self.book, self.steps, self.taken = softmax, books(1)[0], 0, [0, 0]
        self.memory = [] if memory is None else list(zip(*memory, strict=True))
        if memory is not None:
            self.usual = float(memory[0].flatten(1).square().mean(1).sqrt().median())
        self.written = len(self.memory)
        self.recent = []
        self.sure = self.known = 0.0
        if memory is not None:
            with torch.no_grad():
                self.sure = self.known = float(np.mean([float(self.shares(self.source, x).max()) for x in memory[0]]))
        self.expected = None  # the shares of the classes, where self-training is balanced
        if memory is not None and any(isinstance(part, nn.Conv2d) for part in self.source.modules()):
            self.expected = (torch.bincount(memory[1], minlength=3).double() + 1.0) / (len(memory[1]) + 3.0)

    def varied(self, x, place):
        """Image number `place` among those that student and teacher replay; how images vary has tests of its own."""
        if x.ndim == 1:
            return x
        batch = torch.zeros(1, 32, *x.shape, dtype=x.dtype)
        batch[0, place] = x
        return augmentation.Augmentation(x.numel(), x.device, x.dtype)(batch, torch.tensor([self.steps]))[0, place]

    def shares(self, module, x):
        out = module(x[None])[0]
        return out if self.softmax else torch.softmax(out, 0)

    def play(self, x, y, u):
        opinions = np.concatenate([self.shares(m, x).detach().numpy() for m in (self.average, self.modules[1])])
        source = self.shares(self.source, x).detach().numpy()
        blend, trusted, mixture = np.zeros_like(source), np.zeros_like(source), np.zeros_like(source)
        pseudolabel, _ = arbiter.mix(self.losses, opinions, True, 1.0, blend)
        fall = max(0.0, self.known - self.sure)
        credit = 8.0 ** (1.0 / (1.0 + (fall / 0.1) ** 4) - 1.0)
        grounds = Grounds(sourced=True, verified=self.verified, credit=credit, boldness=1.0)
        self.sure += 0.01 * (float(source.max()) - self.sure)
        arbiter.trusted_into(self.trust, grounds, source, blend, trusted)
        arbiter.guarded_into(self.guard, trusted, source, opinions, mixture)
        label = int(mixture.argmax())
        second, first = np.sort((mixture + blend) / 2)[-2:]
        sigma, floor, _ = terms(self.book)
        confidence = (first - second) ** 8
        probability = max(floor, sigma / (sigma + confidence)) if sigma else floor
        query = bool(u < probability)
        steering.enter(self.book, confidence, probability, query)
        self.verified *= 1 - 0.05 * RATE
        if query:
            least = min(arbiter.NETWORK_AUDIT, 0.5) * RATE
            arbiter.keep_guard(self.guard, trusted, source, opinions, y, min(1.0, least / probability))
            arbiter.verify(self.trust, source[y], blend[y], len(source), 1.0)
            arbiter.weigh(self.losses, opinions, len(source), y)
            self.verified += 1.0
        arbiter.fall_back(self.arbiter, RATE, True)
        size = float(x.square().mean().sqrt())
        fits = self.usual == 0.0 or size <= 10.0 * self.usual
        self.usual = size if self.usual == 0.0 else self.usual + 0.01 * (min(size, 10 * self.usual) - self.usual)
        target = y if query else pseudolabel if pseudolabel == label else None
        if query and fits:
            if len(self.memory) < self.places:
                self.memory.append((x, y))
            else:
                self.memory[self.written % self.places] = (x, y)
            self.written += 1
        if len(self.recent) < pair.RECENT:
            self.recent.append((x, target if fits else None))
        else:
            self.recent[self.steps % pair.RECENT] = (x, target if fits else None)
        self.steps += 1
        for which, module in enumerate(self.modules):
            loss = -torch.log(self.shares(module, x)[target]) if query and fits else torch.zeros(())
            replayed = list(self.by_student() if which == 0 else self.by_teacher())
            for (a, b), weight, place in replayed:
                if b is not None:
                    loss = loss - weight * torch.log(self.shares(module, self.varied(a, place))[b])
            if replayed:
                self.taken[which] += 1
            if loss.requires_grad:
                self.step(which, module, loss)
            elif replayed:
                for v in self.squares[which]:
                    v.mul_(0.999)
        with torch.no_grad():
            for a, p in zip(self.average.parameters(), self.modules[0].parameters(), strict=True):
                a += 0.02 * (p - a)
        return label, query

    def by_student(self):
        held = len(self.memory)
        for j in range(16) if self.memory else ():
            if held > pair.LEAST_PLACES:  # the cubes of even draws: new samples more often
                age = int(self.golden(16, j) ** 3 * held)
                yield self.memory[(self.written - 1 - age) % self.places], 1 / 16, j
            else:
                yield self.memory[self.turn(16, j, held)], 1 / 16, j
        for j in range(8):
            again = self.recent[self.turn(8, j, len(self.recent))]
            yield again, self.weight(again[1]) / 8, 16 + j

    def weight(self, c):
        """The weight of self-training for a recent sample of class c."""
        if self.expected is None or c is None:
            return 0.5
        known = [b for _, b in self.recent if b is not None]
        share = (known.count(c) + 4.0 * 3 * float(self.expected[c])) / (len(known) + 4.0 * 3)
        return min(float(self.expected[c]) / share, 4.0)

    def by_teacher(self):
        newest = min(len(self.memory), pair.NEWEST)
        for j in range(8) if self.memory else ():
            yield self.memory[(self.written - 1 - self.turn(8, j, newest)) % self.places], 1 / 8, 24 + j

    def turn(self, width, j, held):
        return int(self.golden(width, j) * held)

    def golden(self, width, j):
        return ((self.steps * width + j) * (math.sqrt(5) - 1) / 2) % 1.0

    def step(self, which, module, loss):
        for p, v, g in zip(
            module.parameters(), self.squares[which], torch.autograd.grad(loss, module.parameters()), strict=True
        ):
            v.mul_(0.999).add_(0.001 * g * g)
            with torch.no_grad():
                p -= (0.005, 0.025)[which] * self.size * g / ((v / (1 - 0.999 ** self.taken[which])).sqrt() + 1e-8)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("least", [4, 7], ids=["long memory", "short memory"])
def test_the_fleet_plays_the_round_of_the_docstring(make, softmax, begun, least, monkeypatch):
    for module in (pair, preset):
        monkeypatch.setattr(module, "RECENT", 11)  # with 7 places, both rings come round
    monkeypatch.setattr(pair, "LEAST_PLACES", least)
    monkeypatch.setattr(pair, "NEWEST", 3)
    rounds, shape = 60, SHAPES[make]
    seen = samples(shape, rounds)
    seen.x[:, [3, 17, 40]] *= 1e3  # outliers, which are not learned from
    memory = (torch.randn(5, *shape, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])) if begun else None
    fleet = fleet_of(make, [0], softmax, memory=memory, places=7)
    record = fleet.record(rounds)
    plainly = pair.Compiled(pair.decide, pair.opine_apart, pair.order)  # compiled code keeps its constants
    monkeypatch.setattr("osamd.fleet.engines.compiled", lambda: plainly)
    by_halves(fleet, seen, record)[1](0, rounds)
    ledger = fleet.ledger(0, record, seen.y)
    plain = Plain(lambda: make(0, softmax=softmax).double(), softmax, memory, places=7)
    for t in range(rounds):
        said = plain.play(seen.x[0, t], int(seen.y[0, t]), float(seen.u[0, t]))
        assert said == (ledger.decision[t], ledger.asked[t])
    for which, module in enumerate((plain.average, plain.modules[1])):
        ours = fleet.tensors(0, teacher=which == 1)
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(ours[name], parameter.detach(), rtol=0, atol=1e-9)
    numbers = np.concatenate([plain.losses, plain.trust, plain.guard])
    assert np.allclose(fleet.numbers.arbiters[0], numbers, rtol=0, atol=1e-10)


def test_the_compiled_half_is_the_plain_one_bit_for_bit():
    generator = np.random.default_rng(0)
    states = [
        [pair.open_arbiters(3), pair.open_counts(3, 600), books(3), np.zeros((3, 4 * pair.WORK)), orders()]
        for _ in range(2)
    ]
    for state in states:
        state[1][:, pair.LABELS] = [0, 500, 3000]  # short, about to be long, and long
    for _ in range(400):
        shares, sizes = generator.dirichlet(np.ones(4), 9), generator.lognormal(sigma=1.5, size=3)
        u, y = generator.random(3), generator.integers(0, 4, 3)
        records = np.zeros((2, 3, 6))
        for function, state, record in zip((pair.decide, pair.compiled().decide), states, records, strict=True):
            function(shares, sizes, u, y, *state, record)
        assert np.array_equal(records[0], records[1])
        for plain, fast in zip(*states, strict=True):
            assert np.array_equal(plain, fast)
    assert states[0][1][0, pair.LABELS] > 50, "labels were asked for"


def orders():
    return np.zeros((3, pair.ORDERS), np.int64)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("make", [dense, convolutional])
def test_scores_of_many_samples_are_those_of_each(make, softmax):
    modules = [make(seed, softmax=softmax).double() for seed in range(3)]
    x = torch.randn(3, 4, *SHAPES[make], dtype=torch.float64)
    for net in (net_of(modules[0], x[0, :1], softmax), ModuleNet(modules[0], softmax)):
        rows = torch.stack([net.row(module, torch.float64) for module in modules])
        many = net.many(rows, x)
        many = many.softmax(2) if softmax else many
        for j in range(4):
            torch.testing.assert_close(many[:, j], net.forward(rows, x[:, j])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("kind", ["dense", "convolutional", "strides and paddings"])
def test_the_gradients_of_the_fast_paths_are_those_of_autograd(kind, softmax):
    def odd(seed, *, softmax):
        torch.manual_seed(seed)
        layers = [nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 4, stride=3), nn.ReLU()]
        layers += [nn.Conv2d(4, 5, 2, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(245, 3)]
        return nn.Sequential(*layers, *([nn.Softmax(1)] if softmax else []))

    make, shape = {"dense": (dense, (5,)), "convolutional": (convolutional, (1, 9, 9))}.get(kind, (odd, (2, 15, 13)))
    modules = [make(seed, softmax=softmax).double().eval() for seed in range(3)]
    x, y = torch.randn(3, 4, *shape, dtype=torch.float64), torch.randint(0, 3, (3, 4))
    net, weights = net_of(modules[0], x[0, :1], softmax), torch.rand(3, 4, dtype=torch.float64)
    rows = torch.stack([net.row(module, torch.float64) for module in modules])
    assert type(net).loss_gradient is not Net.loss_gradient
    own, automatic = (kind.loss_gradient(net, rows, x, y, weights) for kind in (type(net), Net))
    torch.testing.assert_close(own, automatic, rtol=0, atol=1e-12)
    if isinstance(net, ConvNet):  # as a GPU computes them
        torch.testing.assert_close(grouped.of_all(net, rows, x, y, weights), automatic, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(5, 2, 2), (4, 3, 0), (2, 3, 1), (3, 1, 1)])
def test_the_slope_on_the_input_of_grouped_convolutions_is_that_of_torch(kernel, stride, padding):
    patches = Patches(nn.Conv2d(2, 3, kernel, stride=stride, padding=padding), 11, 10)
    slope = torch.randn(4, 6, patches.out_height, patches.out_width, dtype=torch.float64)
    weight = torch.randn(2, 3, 2, kernel, kernel, dtype=torch.float64)
    theirs = torch.nn.grad.conv2d_input((4, 4, 11, 10), weight.flatten(0, 1), slope, stride, padding, groups=2)
    torch.testing.assert_close(grouped.input_slope(slope, weight, patches), theirs, rtol=0, atol=1e-12)


def test_the_statistics_of_the_sample_have_the_gradients_of_autograd():
    module, x = convolutional().double().eval(), torch.randn(2, 4, 1, 9, 9, dtype=torch.float64)
    fast = net_of(module, x[0, :1], False, "sample")
    general = ModuleNet(convolutional().double(), batch_statistics="sample")
    rows = torch.stack([fast.row(convolutional(seed).double(), torch.float64) for seed in range(2)])
    y, weights = torch.randint(0, 3, (2, 4)), torch.rand(2, 4, dtype=torch.float64)
    assert fast.own_statistics
    ours, theirs = (net.loss_gradient(rows, x, y, weights) for net in (fast, general))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    torch.testing.assert_close(fast.many(rows, x), general.many(rows, x), rtol=0, atol=1e-12)
    (ours, tape), (theirs, other) = (net.forward(rows, x[:, 0]) for net in (fast, general))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    q = torch.randn_like(ours)
    pulled = fast.dense(rows, fast.backward(rows, tape, q)), general.dense(rows, general.backward(rows, other, q))
    torch.testing.assert_close(*pulled, rtol=0, atol=1e-12)


def test_one_lane_of_the_kernel_for_pairs_plays_as_torch_does():
    torch.manual_seed(0)
    modules = [nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3)) for _ in "ab"]
    rounds, memory = 150, (torch.randn(5, 5), torch.tensor([0, 1, 2, 0, 1]))
    seen = samples((5,), rounds, seeds=2)
    seen = seen._replace(x=seen.x.float())
    seen.x[:, [9, 50]] *= 1e4
    fleets = [PresetFleet([PresetMember(m, 0, s, memory) for s, m in enumerate(modules)], (5,), books(2)) for _ in "ab"]
    records = [fleet.record(rounds) for fleet in fleets]
    by_halves(fleets[0], seen, records[0])[1](0, rounds)
    advance = pairs.by_lane(fleets[1], seen, *per_member(fleets[1], seen), records[1])
    advance(0, 40)
    advance(40, rounds)
    assert torch.equal(records[0][:, :, 4], records[1][:, :, 4]), "the same queries"
    torch.testing.assert_close(records[0], records[1], rtol=0, atol=1e-4)
    torch.testing.assert_close(fleets[0].networks, fleets[1].networks, rtol=0, atol=1e-4)
    assert pairs.supports(fleets[0])
    assert not pairs.supports(fleet_of(dense, [0])), "float64"


def trained_on(x, y, hidden=16):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, int(y.max()) + 1))
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimiser.step()
    return module


def overlapping(rounds, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (rounds,), generator=generator)
    return torch.randn(rounds, 4, generator=generator) + 0.8 * (2.0 * y[:, None] - 1.0), y


@pytest.mark.parametrize("answered", ["nobody", "half", "late"])
def test_a_world_that_stands_still_is_not_harmed_whoever_answers(answered):
    source, rest = overlapping(300, 0), overlapping(1500, 1)
    module = trained_on(*source)
    alone = float((module(rest[0]).argmax(1) == rest[1]).float().mean())
    learner, draws = NetworkOSAMD(module, budget=0.05, source=source), np.random.default_rng(0)
    right, late = 0, []
    for t, (row, label) in enumerate(zip(rest[0], rest[1].tolist(), strict=True)):
        decision = learner.ask(row)
        right += decision.label == label
        if not decision.query:
            learner.tell(decision, None)
        elif answered == "late":
            late.append((t, decision, label))
        elif answered == "half" and draws.random() < 0.5:
            learner.tell(decision, label)
        if late and late[0][0] < t - 300:
            learner.tell(late[0][1], late[0][2])
            late.pop(0)
    assert right / 1500 > alone - 0.01
    if answered == "nobody":
        assert right / 1500 == pytest.approx(alone, abs=0.002)
        assert learner.health().state != "fine"


@pytest.mark.parametrize("labels", ["of the world", "against it"])
def test_the_guard_of_a_network_keeps_its_bound_in_every_run(labels):
    source, rest = overlapping(200, 0), overlapping(400, 1)
    learner = NetworkOSAMD(trained_on(*source), budget=0.3, source=source)
    learner.peek(rest[0][0])
    seen, least = learner._core._seen, budget.least(learner.limits)
    rows = []
    for row, label in zip(rest[0], rest[1].tolist(), strict=True):
        decision = learner.ask(row)
        y = label if labels == "of the world" else 1 - decision.label
        loss = -math.log(seen.mixture[y])
        rows.append((loss, member_losses(seen, y), decision.label != y, decision.query, decision.probability))
        learner.tell(decision, y if decision.query else None)
    columns = (np.array(column) for column in zip(*rows, strict=True))
    run = GuardRun(*columns, rate=0.3, floor=least, classes=2, with_source=True)
    for path in (hardest_path(run), *(constant(member, 400, NETWORK_MEMBERS) for member in NETWORK_MEMBERS)):
        found = regret(run, path)
        assert found.estimated <= found.bound.value + 1e-9


def test_samples_far_too_large_are_decided_on_but_not_learned_from():
    source, rest = overlapping(300, 0), overlapping(800, 1)
    module = trained_on(*source)
    with_outliers, without = (NetworkOSAMD(module, budget=1.0, source=source) for _ in range(2))
    for t, (row, label) in enumerate(zip(rest[0], rest[1].tolist(), strict=True)):
        if t in (100, 250):
            outlier = with_outliers.ask(row * 1e6)
            with_outliers.tell(outlier, 1 - label)
        for learner in (with_outliers, without):
            learner.tell(learner.ask(row), label)
    ours, theirs = (
        np.mean([one.predict(row) == label for row, label in zip(rest[0], rest[1].tolist(), strict=True)])
        for one in (with_outliers, without)
    )
    assert ours > theirs - 0.02
    same_scale = {name: tensor.abs().max() for name, tensor in with_outliers.state_dict().items()}
    assert all(float(most) < 100.0 for most in same_scale.values())


def test_finite_samples_whose_squares_are_infinite_are_decided_on():
    learner = NetworkOSAMD(dense().double(), budget=1.0)
    far = np.full(5, 1e160)
    for row in (far, np.ones(5), far):
        learner.tell(learner.ask(row), 1)
    assert learner.rounds == 3
    assert np.isfinite(learner._core.fleet.numbers.counts.numpy()).all()


@pytest.mark.parametrize("make", [dense, convolutional])
def test_any_module_plays_as_the_fast_paths_do_and_a_fleet_as_its_pairs(make):
    seen = samples(SHAPES[make], 50, seeds=3)
    together = fleet_of(make, [0, 1, 2], batch_statistics="training")
    record = play(together, seen).record
    slow = fleet_of(make, [0, 1, 2], net=ModuleNet(make(0)), batch_statistics="training")
    torch.testing.assert_close(play(slow, seen).record, record, rtol=0, atol=1e-10)
    for seed in range(3):
        alone = fleet_of(make, [seed], batch_statistics="training")
        torch.testing.assert_close(play(alone, seen).record[:, 0], record[:, seed], rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", [dense, convolutional])
def test_ask_and_tell_are_a_fleet_of_one(make):
    rounds, shape = 40, SHAPES[make]
    seen = samples(shape, rounds)
    seen = seen._replace(u=torch.from_numpy(query_generator(7).random(rounds))[None])
    fleet = fleet_of(make, [0])
    ledger = fleet.ledger(0, play(fleet, seen).record, seen.y)
    learner = NetworkOSAMD(make(0).double(), budget=RATE, seed=7)
    for t in range(rounds):
        decision = learner.ask(seen.x[0, t])
        assert (decision.label, decision.query) == (ledger.decision[t], ledger.asked[t])
        assert decision.probability == ledger.probability[t]
        assert decision.probabilities[decision.label] == max(decision.probabilities.values())
        learner.tell(decision, int(seen.y[0, t]) if decision.query else None)
    assert learner.asked > 5
    assert same(fleet.tensors(0, teacher=True), learner.teacher_state_dict())
    student, teacher = fleet.numbers.arbiters[0, :2]
    assert same(fleet.tensors(0, teacher=bool(teacher + 2 < student)), learner.state_dict())


@pytest.mark.parametrize("kind", MODULES)
def test_modules_of_many_kinds_adapt_and_give_their_parameters_back(kind):
    torch.manual_seed(0)
    make, x = MODULES[kind]
    module = make().eval()
    learner = NetworkOSAMD(module, budget=0.5)
    for _ in range(4):
        learner.tell(learner.ask(x), 1)
    after = learner.state_dict()
    assert {n: t.dtype for n, t in after.items()} == {n: t.dtype for n, t in module.state_dict().items()}
    learns = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    changed = {name for name in after if not torch.equal(after[name], module.state_dict()[name])}
    again = {"2.weight", "2.bias"} if kind in ("tied weights", "a layer used twice") else set()
    assert changed <= learns | again
    assert changed
    module.load_state_dict(after)


@pytest.mark.parametrize("make", [dense, convolutional])
def test_a_saved_learner_goes_on_bit_for_bit(make, tmp_path):
    shape = SHAPES[make]
    x = torch.randn(60, *shape, generator=torch.Generator().manual_seed(2))
    learner = NetworkOSAMD(make(), budget=0.3, seed=3, source=(x[:9], [0, 1, 2] * 3))
    learner.copy().save(tmp_path / "before a round")
    learner = NetworkOSAMD.load(tmp_path / "before a round", make())
    for row in x[:30]:
        decision = learner.ask(row)
        if not decision.query:
            learner.tell(decision, None)
    learner.save(tmp_path / "learner")
    again = NetworkOSAMD.load(tmp_path / "learner", make())
    for one in (learner, again):
        for row in x[30:]:
            decision = one.ask(row)
            one.tell(decision, 1 if decision.query else None)
        for late in one.pending:
            one.tell(late.id, 2)
    ours, theirs = learner._saved(), again._saved()
    assert ours.content == theirs.content
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)
    assert same(learner.state_dict(), again.state_dict())


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("osamd.fleet.play.SECONDS_A_CHECKPOINT", -1.0)
    seen = samples((5,), 80, seeds=2)
    whole = play(fleet_of(dense, [0, 1]), seen)

    class Enough(BaseException):
        pass

    def stop(done):
        if done > 20:
            raise Enough

    with pytest.raises(Enough):
        play(fleet_of(dense, [0, 1]), seen, checkpoint=tmp_path, identity="a", progress=stop)
    told = []
    rest = play(fleet_of(dense, [0, 1]), seen, checkpoint=tmp_path, identity="a", progress=told.append)
    assert 0 < told[0] < 80
    assert torch.equal(rest.record, whole.record)


def test_a_checkpoint_with_another_memory_is_not_resumed(tmp_path):
    seen = samples((5,), 80, seeds=2)
    folder = Checkpoint(tmp_path, "a", fleet_of(dense, [0, 1]), 80)
    folder.save(fleet_of(dense, [0, 1], places=512), fleet_of(dense, [0, 1]).record(80), 40)
    told = []
    play(fleet_of(dense, [0, 1]), seen, checkpoint=tmp_path, identity="a", progress=told.append)
    assert told[0] == 0


def test_a_checkpoint_without_averages_is_not_resumed(tmp_path, monkeypatch):
    seen, fleet = samples((5,), 80, seeds=2), fleet_of(dense, [0, 1])
    kept = fleet.kept()
    del kept["averages"]
    monkeypatch.setattr(fleet, "kept", lambda: kept)
    Checkpoint(tmp_path, "a", fleet, 80).save(fleet, fleet.record(80), 40)
    told = []
    play(fleet_of(dense, [0, 1]), seen, checkpoint=tmp_path, identity="a", progress=told.append)
    assert told[0] == 0


def test_a_mask_of_infinities_stays_as_it_is_in_the_average():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)
            self.register_buffer("mask", torch.tensor([0.0, -math.inf, 0.0, 0.0, 0.0]))

        def forward(self, x):
            return self.layer(torch.softmax(x + self.mask, 1))

    learner = NetworkOSAMD(Masked(), budget=1.0)
    for t, row in enumerate(torch.randn(30, 5, generator=torch.Generator().manual_seed(0))):
        learner.tell(learner.ask(row), t % 3)
    assert torch.isfinite(learner.state_dict()["layer.weight"]).all()
    assert learner.state_dict()["mask"].tolist()[1] == -math.inf


def test_a_file_from_before_memories_grew_with_small_samples_goes_on():
    learner = NetworkOSAMD(dense(), budget=1.0)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(700, 5, generator=generator)
    for t, row in enumerate(rows):
        learner.tell(learner.ask(row), t % 3)
    saved = learner._saved()
    del saved.arrays["averages"], saved.content["augment"]
    arrays, former, places = saved.arrays, pair.LEAST_PLACES, pair.MOST_PLACES
    newest = np.arange(700 - former, 700)
    for name in ("samples", "labels"):
        rings = np.zeros((1, former + pair.RECENT, *arrays[name].shape[2:]), arrays[name].dtype)
        rings[:, newest % former], rings[:, former:] = arrays[name][:, newest], arrays[name][:, places:]
        arrays[name] = rings
    arrays["counts"] = arrays["counts"][:, : pair.PLACES]
    again = NetworkOSAMD._revive(saved, dense(), torch.device("cpu"))
    fleet = again._core.fleet
    assert torch.equal(fleet.state.averages, learner._core.fleet.state.rows[:1]), "the student spoke for itself"
    assert torch.equal(fleet.state.samples[0, :former], rows[-former:])
    assert fleet.state.labels[0, :former].tolist() == [t % 3 for t in newest]
    assert torch.equal(fleet.state.samples[0, places:], learner._core.fleet.state.samples[0, places:])
    assert fleet.numbers.counts[0, [pair.LABELS, pair.PLACES]].tolist() == [former, places]
    decision = again.ask(rows[0])
    assert decision.label == learner.ask(rows[0]).label
    again.tell(decision, 2)
    assert torch.equal(fleet.state.samples[0, former], rows[0])
    spoilt = again._saved()
    spoilt.arrays["counts"][0, pair.PLACES] = 600.0
    with pytest.raises(InputError, match="counts"):
        NetworkOSAMD._revive(spoilt, dense(), torch.device("cpu"))


def test_the_memory_begins_with_the_source_and_gives_it_up_oldest_first():
    places = pair.places_for((5,))
    x, y = torch.randn(places + 50, 5), torch.arange(places + 50) % 3
    learner = NetworkOSAMD(dense(), budget=1.0, classes=["a", "b", "c"], source=(x, ["abc"[i] for i in y]))
    fleet = learner._core.fleet
    first = fleet.state.samples[0, :4].clone()
    assert fleet.numbers.counts[0, pair.LABELS] == places == pair.MOST_PLACES
    assert {tuple(row) for row in first.tolist()} <= {tuple(row) for row in x.tolist()}
    labels = dict(zip(map(tuple, x.tolist()), y.tolist(), strict=True))
    assert fleet.state.labels[0, :4].tolist() == [labels[tuple(row)] for row in first.tolist()]
    for _ in range(2):
        decision = learner.ask(torch.ones(5))
        learner.tell(decision, "c")
    assert torch.equal(fleet.state.samples[0, :2], torch.ones(2, 5))
    assert torch.equal(fleet.state.samples[0, 2:4], first[2:])
    assert fleet.state.labels[0, :2].tolist() == [2, 2]


def test_it_keeps_its_budget_and_spends_it():
    learner = NetworkOSAMD(dense(), budget=0.1)
    generator = torch.Generator().manual_seed(0)
    for row in torch.randn(600, 5, generator=generator):
        decision = learner.ask(row)
        learner.tell(decision, 1 if decision.query else None)
        assert learner.asked <= 0.1 * learner.rounds
    assert learner.asked >= 50
    assert learner.accuracy().labels == learner.asked
    assert NetworkOSAMD(dense()).limits.rate == arbiter.RATE


def test_it_follows_a_world_that_turns():
    generator = torch.Generator().manual_seed(0)
    rounds = 1500
    y = torch.randint(0, 2, (rounds,), generator=generator)
    x = torch.randn(rounds, 2, generator=generator) * 0.5
    angle = torch.linspace(0, torch.pi, rounds)
    x += (2.0 * y[:, None] - 1.0) * torch.stack([angle.cos(), angle.sin()], 1) * 1.5
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x[:60]), y[:60]).backward()
        optimiser.step()
    still = float((module(x).argmax(1) == y).float().mean())
    learner = NetworkOSAMD(module, budget=0.05, source=(x[:60], y[:60]))
    right = 0
    for row, label in zip(x, y.tolist(), strict=True):
        decision = learner.ask(row)
        right += decision.label == label
        learner.tell(decision, label if decision.query else None)
    assert learner.asked <= 0.05 * rounds
    assert right / rounds > 0.95 > still + 0.3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "osamd-preset", "eta": 0.1}, "leave it out"),
        ({"method": "osamd-preset", "sigma": 0.1}, "leave it out"),
        ({"method": "osamd"}, "eta"),
        ({"eta": 0.1}, "sigma"),
        ({"eta": 0.1, "sigma": 0.1, "source": (torch.ones(2, 5), [0, 1])}, "leave source out"),
        ({"source": (torch.ones(2, 5), ["a", "b"])}, r"give classes=\[...\]"),
        ({"source": (torch.ones(2, 5), [0])}, "2 samples and 1 labels"),
        ({"source": torch.ones(20, 5)}, "it is a Tensor; give a pair"),
        ({"source": (torch.ones(2, 5), None)}, "one label for each"),
        ({"source": (torch.ones(2, 5), np.eye(2))}, "not a class"),
        ({"source": (torch.ones(2, 5), [[0], [1]])}, "not a class"),
        ({"source": ([[1.0] * 5, [1.0] * 4], [0, 1])}, "has shape"),
        ({"source": (torch.ones(0, 5), [])}, "a label for each"),
        ({"source": (torch.ones(2, 5), [0, 7])}, "not a class"),
        ({"source": (torch.ones(2, 4), [0, 1])}, "does not take"),
        ({"method": "osamd-pre-set"}, "osamd-preset"),
        ({"budget": 5}, "rate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(change, words):
    with pytest.raises(InputError, match=words):
        NetworkOSAMD(dense(), **change)


def test_scores_that_are_not_finite_stop_a_member_and_are_refused_by_ask():
    modules = [dense(0).double(), dense(1).double()]
    with torch.no_grad():
        modules[1][0].weight.fill_(float("nan"))
    pairs = [PresetMember(module) for module in modules]
    fleet = PresetFleet(pairs, (5,), books(2), net=ModuleNet(dense(0).double()), dtype=torch.float64)
    assert [stop.member for stop in play(fleet, samples((5,), 10)).stopped] == [1]
    with torch.no_grad():
        modules[0][0].weight.mul_(1e4)
    learner = NetworkOSAMD(modules[0], budget=0.5)
    learner.ask(torch.ones(5))
    with pytest.raises(InputError, match="not finite"):
        learner.ask(np.full(5, 1e308))
    assert learner.rounds == 1


def test_a_source_is_read_by_places_whatever_holds_it():
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    names = np.array(["a", "b", "c"] * 3)
    shuffled = np.random.default_rng(1).permutation(9)
    frame, column = pandas.DataFrame(x, columns=list("vwxyz"), index=shuffled), pandas.Series(names, index=shuffled)
    for source in ((x, names), (torch.from_numpy(x), list(names)), (x.tolist(), column), (frame, column)):
        fleet = NetworkOSAMD(dense(), classes=["a", "b", "c"], source=source)._core.fleet
        assert torch.equal(fleet.state.samples[0, :9], torch.from_numpy(x))
        assert fleet.state.labels[0, :9].tolist() == [0, 1, 2] * 3
    drawn = [
        NetworkOSAMD(dense(), source=(np.tile(x, (500, 1)), [0] * 4500), seed=seed)._core.fleet for seed in (0, 0, 1)
    ]
    assert torch.equal(drawn[0].state.samples, drawn[1].state.samples)
    assert not torch.equal(drawn[0].state.samples, drawn[2].state.samples)


def test_what_state_dict_gives_is_a_copy_of_whom_the_arbiter_believes():
    learner = NetworkOSAMD(dense(), budget=1.0)
    learner.tell(learner.ask(torch.ones(5)), 1)
    given = learner.state_dict()
    kept = {name: tensor.clone() for name, tensor in given.items()}
    learner.tell(learner.ask(torch.ones(5)), 1)
    assert same(given, kept)
    given["0.weight"].zero_()
    assert not same(given, learner.state_dict())
    for losses, teacher in (([0.0, 0.0], False), ([3.0, 0.0], True), ([1.0, 0.0], False)):
        learner._core.fleet.numbers.arbiters[0, :2] = torch.tensor(losses)
        assert same(learner.state_dict(), learner._core.fleet.tensors(0, teacher=teacher))


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.Sigmoid()])
def test_a_network_that_is_sure_and_wrong_learns_through_its_last_layer(last):
    linear = nn.Linear(2, 2 if isinstance(last, nn.Softmax) else 1, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[-60.0, 0.0], [60.0, 0.0]])[-len(linear.weight) :])
    learner = NetworkOSAMD(nn.Sequential(linear, last), outputs="probabilities", budget=1.0)
    x = torch.tensor([1.0, 0.0])
    assert learner.predict(x) == 1
    for _ in range(200):
        learner.tell(learner.ask(x), 0)
    assert learner.predict(x) == 0


def test_whole_numbers_of_any_type_are_one_kind_and_fractions_another():
    make, _ = MODULES["embedding"]
    torch.manual_seed(0)
    learner = NetworkOSAMD(make(), budget=1.0)
    for kind in (np.int32, np.int64, np.uint8):
        learner.tell(learner.ask(np.array([1, 5, 0], kind)), 1)
    with pytest.raises(InputError, match="whole numbers"):
        learner.ask([1.0, 5.0, 0.0])
    again = learner.copy()
    again.tell(again.ask(np.array([1, 5, 0], np.int32)), 1)


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_what_was_frozen_stays_so_in_a_module_that_is_not(method, tmp_path):
    module = dense()
    module[0].requires_grad_(False)
    given = {} if method == "osamd-preset" else {"eta": 0.1, "sigma": 0.1}
    learner = NetworkOSAMD(module, method=method, **given)
    learner.tell(learner.ask(torch.ones(5)), 1)
    learner.save(tmp_path / "learner")
    again = NetworkOSAMD.load(tmp_path / "learner", dense(3))
    assert same(learner.state_dict(), again.state_dict())
    for one in (learner, again):
        one.tell(one.ask(-torch.ones(5)), 2)
    assert same(learner.state_dict(), again.state_dict())
    assert torch.equal(again.state_dict()["0.weight"], module[0].weight)


class OneAtATime(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        return self.last(x.view(1, 5))


def test_a_module_that_takes_one_sample_alone_is_given_one_at_a_time():
    torch.manual_seed(0)
    module = OneAtATime()
    learner, like = NetworkOSAMD(module, budget=1.0), NetworkOSAMD(nn.Sequential(module.last), budget=1.0)
    for row in torch.randn(12, 5):
        for one in (learner, like):
            one.tell(one.ask(row), 1)
    ours, theirs = learner.state_dict(), like.state_dict()
    torch.testing.assert_close(ours["last.weight"], theirs["0.weight"], rtol=0, atol=1e-5)


def test_statistics_of_the_sample_are_not_those_of_the_batch():
    learner = NetworkOSAMD(convolutional(), batch_statistics="sample", budget=1.0)
    x = torch.randn(3, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    learner.peek(x[0])
    fleet = learner._core.fleet
    together = fleet.net.many(fleet.state.rows[:1], x[None])[0].softmax(1)
    for row, shares in zip(x, together, strict=True):
        learner.peek(row)
        torch.testing.assert_close(fleet.shares[0].float(), shares, rtol=0, atol=1e-5)


def test_a_network_of_zeros_learns():
    module = nn.Linear(5, 3)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    learner = NetworkOSAMD(module, budget=1.0)
    for _ in range(50):
        learner.tell(learner.ask(torch.ones(5)), 2)
    assert learner.predict(torch.ones(5)) == 2


def test_a_late_label_is_weighed_by_what_the_networks_hold_then():
    late, simple = (NetworkOSAMD(dense(), budget=1.0, seed=1) for _ in range(2))
    x = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    first = late.ask(x[0])
    late.tell(late.ask(x[1]), 1)
    late.tell(first, 2)
    for row, label in ((x[1], 1), (x[0], 2)):
        simple.tell(simple.ask(row), label)
    assert torch.equal(late._core.fleet.numbers.arbiters[0, :2], simple._core.fleet.numbers.arbiters[0, :2])
    assert same(late.state_dict(), simple.state_dict())


def test_a_label_that_a_module_chokes_on_changes_nothing():
    class Fussy(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.chokes = nn.Linear(5, 3), False

        def forward(self, x):
            if self.chokes:
                raise RuntimeError("no more")
            return self.last(x)

    learner = NetworkOSAMD(Fussy(), budget=1.0)
    decision = learner.ask(torch.ones(5))
    fleet = learner._core.fleet
    fleet.net.module.chokes = True
    with pytest.raises(InputError, match="no more"):
        learner.tell(decision, 1)
    assert np.array_equal(fleet.numbers.arbiters, pair.open_arbiters(1))
    assert np.array_equal(fleet.numbers.counts, pair.open_counts(1, fleet.places))
    fleet.net.module.chokes = False
    learner.tell(decision, 1)
    assert fleet.numbers.counts[0, : pair.VERIFIED].tolist() == [1, 1, 1]


@pytest.mark.parametrize("change", [{"eta": 0.1}, {"sigma": 0.1}, {"label_rate": 0.1}, {"method": "osamd"}])
def test_a_made_preset_takes_no_setting_of_the_paper(change):
    with pytest.raises(InputError, match="osamd-preset"):
        NetworkOSAMD(dense(), budget=0.1).remade(**change)
    assert NetworkOSAMD(dense(), budget=0.1).remade(budget=0.2).limits.rate == 0.2


@pytest.mark.parametrize("make", [dense, convolutional])
def test_torch_can_compile_each_half_of_a_round_as_one_graph(make):
    seen = samples(SHAPES[make], 6, seeds=2)
    record = play(fleet_of(make, [0, 1]), seen).record
    torch.compiler.reset()
    fleet = fleet_of(make, [0, 1])
    for half in ("see", "descend"):  # as on a GPU, but for the kernels that are made of the graph
        compiled = torch.compile(getattr(fleet, half), fullgraph=True, dynamic=False, backend="eager")
        setattr(fleet, half, compiled)
    torch.testing.assert_close(play(fleet, seen).record, record, rtol=0, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("make", [dense, convolutional])
def test_on_a_gpu_the_rounds_are_the_same(make):
    seen = samples(SHAPES[make], 60, seeds=3)
    record = play(fleet_of(make, [0, 1, 2]), seen).record
    pairs = [PresetMember(make(seed), 0, seed) for seed in range(3)]
    there = PresetFleet(pairs, SHAPES[make], books(3), device="cuda", dtype=torch.float64)
    torch.testing.assert_close(play(there, seen).record, record, rtol=0, atol=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_on_a_gpu_the_kernel_for_pairs_plays_the_rounds_of_the_cpu():
    seen, records = samples((5,), 200, seeds=3), []
    for device in ("cpu", "cuda"):
        fleet = PresetFleet([PresetMember(dense(seed), 0, seed) for seed in range(3)], (5,), books(3), device=device)
        assert pairs.supports(fleet)
        records.append(play(fleet, seen).record)
    ours, theirs = records
    assert torch.equal(theirs[:, :, [0, 1, 4]], ours[:, :, [0, 1, 4]])  # decisions, pseudolabels and queries
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-3)


def asked_and_told(learner, shape, rounds=60):
    """The probabilities and queries of a learner that is asked about noise and told the labels that it wants."""
    said = []
    for x, y in zip(samples(shape, rounds).x[0], samples(shape, rounds).y[0].tolist(), strict=True):
        decision = learner.ask(x)
        said.append([*decision.probabilities.values(), decision.query])
        learner.tell(decision, y if decision.query else None)
    return np.array(said)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("make", [dense, convolutional])
def test_on_a_gpu_ask_and_tell_play_the_rounds_of_the_cpu(make, tmp_path):
    learners = [NetworkOSAMD(make().double(), budget=RATE, device=device) for device in ("cpu", "cuda")]
    ours, theirs = (asked_and_told(learner, SHAPES[make]) for learner in learners)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-8)
    learners[1].save(tmp_path / "there")
    learners[1] = NetworkOSAMD.load(tmp_path / "there", make().double(), device="cuda")
    ours, theirs = (asked_and_told(learner, SHAPES[make], 20) for learner in learners)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make", [dense, convolutional])
def test_halves_that_are_replayed_are_the_halves(make, monkeypatch):
    monkeypatch.setattr(engines, "captured", lambda device, touched, work: work)
    fleets = [fleet_of(make, [0, 1]) for _ in range(2)]
    seen = samples(SHAPES[make], 5, streams=2).x
    fleets[1].device = torch.device("cuda")  # what decides which halves there are; the tensors are on the CPU
    played = [(fleets[0].see, fleets[0].descend), engines.halves(fleets[1])]
    for t in range(seen.shape[1]):
        for fleet, halves in zip(fleets, played, strict=True):
            fleet.orders[:, : pair.HEAD] = torch.tensor([1, 1, t % 3, t, fleet.places + t, t + 1, t + 1, 1])
            for half in halves:
                half(seen[:, t])
        assert torch.equal(fleets[1].shares, fleets[0].shares)
        assert torch.equal(fleets[1].sizes, fleets[0].sizes)
    for one, other in zip(*(fleet.state for fleet in fleets), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(fleets[0].state.rows, fleet_of(make, [0, 1]).state.rows)


def remembering(make, labels, pairs=1):
    """A fleet whose memories begin with noise that has these labels."""
    shape = SHAPES[make]
    noise = torch.randn(len(labels), *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return fleet_of(make, range(pairs), memory=(noise, torch.tensor(labels)))


def weights_of(fleet, steps):
    recent, expected = fleet.state.labels[:, fleet.places :], fleet.state.expected
    return balancing.weights(recent, expected, torch.tensor([steps]))[0]


def test_recent_samples_of_a_class_weigh_together_as_its_share_of_the_source():
    fleet = remembering(convolutional, [0] * 60 + [1] * 30 + [2] * 30)
    recent = fleet.state.labels[0, fleet.places :]
    recent[:] = torch.tensor([0, 1, 2, pair.NO_TARGET]).repeat_interleave(pair.RECENT // 4)
    expected = fleet.state.expected[0]
    assert expected.tolist() == [61 / 123, 31 / 123, 31 / 123]
    found = weights_of(fleet, pair.RECENT)
    share = (torch.full((3,), 64.0) + 12.0 * expected) / (3 * 64.0 + 12.0)  # pseudolabels are evenly spread here
    torch.testing.assert_close(found * share, expected)
    recent[:] = 0
    alone = weights_of(fleet, pair.RECENT)
    assert alone[0] < found[0]
    assert alone[1:].tolist() == [balancing.MOST_OFTEN] * 2  # rare ones count more, but not without a limit
    torch.testing.assert_close(weights_of(fleet, 0), torch.ones(3, dtype=torch.float64))  # none yet


@pytest.mark.parametrize(("make", "labels"), [(dense, [0, 1, 2]), (convolutional, [])])
def test_without_convolutions_or_a_source_every_class_weighs_as_much(make, labels):
    fleet = remembering(make, labels)
    fleet.state.labels[0, fleet.places :] = 1
    assert weights_of(fleet, pair.RECENT).tolist() == [pair.SELF] * 3
    assert fleet.balances == (make is convolutional)


def test_a_source_that_is_less_sure_than_of_its_own_samples_gives_way_to_fewer_labels():
    counts, work = pair.open_counts(1, 512)[0], np.zeros(2 * pair.WORK)
    seen = pair.seen_in(work, 2)
    seen.source[:], seen.shares[:] = (0.6, 0.4), (0.45, 0.55, 0.45, 0.55)
    needed = []
    for sure, known in ((0.6, 0.6), (0.6, 0.95), (0.6, 0.0)):
        arbiters, labels = pair.open_arbiters(1)[0], 0
        counts[[pair.SURE, pair.KNOWN, pair.VERIFIED]] = sure, known, 0.0
        while pair.opine(arbiters, counts, work, 0.5, 0.1, 0.0).label == 0:
            pair.judge(arbiters, counts, work, 1, 0.1, 0.05)
            labels += 1
        needed.append(labels)
    assert 0 < needed[1] < needed[0]  # without any label the source decides
    assert needed[2] == needed[0]  # nobody knows how sure it is of its own


def test_how_sure_the_source_is_follows_the_stream():
    fleet = remembering(dense, [0, 1, 2] * 4)
    sure, known = fleet.numbers.counts[0, [pair.SURE, pair.KNOWN]].tolist()
    module = dense().double()
    shares = torch.softmax(module(fleet.state.samples[0, :12]), 1).amax(1)
    assert sure == known == pytest.approx(float(shares.mean().detach()), abs=1e-12)
    play(fleet, samples(SHAPES[dense], 300))
    assert fleet.numbers.counts[0, pair.KNOWN] == known
    assert 1 / 3 < float(fleet.numbers.counts[0, pair.SURE]) != sure


def test_the_sources_own_samples_may_come_in_any_order_and_some_without_scores():
    known, y = overlapping(300, 0)
    module = nn.Sequential(trained_on(known, y), Halting()).eval()
    known[y == 1] *= 0.1  # the network is less sure of this class
    most = torch.softmax(module(known).detach(), 1).amax(1)
    sure, found = float(most.mean()), []
    assert float(most[y == 0].mean()) > sure + 0.05
    for order in (torch.arange(300), y.argsort(stable=True)):
        x = known[order].clone()
        x[7] = Halting.AT
        learner = NetworkOSAMD(module, budget=0.05, source=(x, y[order]))
        found.append(learner._core.fleet.numbers.counts[0, pair.KNOWN])
        assert learner.ask(known[0]).probabilities == pytest.approx(learner.predict_proba(known[0]), abs=1e-12)
    assert float(found[0]) == pytest.approx(sure, abs=0.03)
    assert float(found[1]) == pytest.approx(sure, abs=0.03)


class Halting(nn.Module):
    """Scores that are not finite for one sample."""

    AT = 1e5

    def forward(self, scores):
        return torch.where(scores.abs().amax(1, keepdim=True) > 1e3, torch.nan, scores)


def test_a_sample_of_the_source_that_a_module_cannot_take_is_refused_in_a_sentence():
    words = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 2))
    tokens = torch.randint(0, 10, (9, 2), generator=torch.Generator().manual_seed(0))
    tokens[7] = 12
    with pytest.raises(InputError, match=r"^`NetworkOSAMD\(source=\(X, y\)\)`: the module cannot take these samples"):
        NetworkOSAMD(words, budget=0.1, source=(tokens, [0, 1] * 4 + [0]))


def test_a_file_from_before_self_training_was_balanced_goes_on():
    source = samples(SHAPES[convolutional], 30)
    learner = NetworkOSAMD(convolutional(), budget=RATE, source=(source.x[0].float(), source.y[0]))
    assert float(learner._core.fleet.state.expected.sum()) == pytest.approx(1.0)
    asked_and_told(learner, SHAPES[convolutional], 20)
    saved = learner._saved()
    del saved.arrays["expected"]
    saved.arrays["counts"] = saved.arrays["counts"][:, : pair.SURE]
    again = NetworkOSAMD._revive(saved, convolutional(), None)
    assert not again._core.fleet.state.expected.any()
    assert again._core.fleet.numbers.counts[0, [pair.SURE, pair.KNOWN]].tolist() == [0.0, 0.0]
    asked_and_told(again, SHAPES[convolutional], 20)
    saved.arrays["expected"] = np.full((1, 3), 2.0, np.float32)
    with pytest.raises(InputError, match="expected"):
        NetworkOSAMD._revive(saved, convolutional(), None)
