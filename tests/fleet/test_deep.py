"""OSAMD around one's own module."""

import numpy as np
import pytest
import torch
from fleet_cases import convolutional, dense, samples
from torch import nn

from osamd.deep import OSAMD
from osamd.errors import InputError
from osamd.fleet.engines import by_steps
from osamd.fleet.fleet import Fleet, Member
from osamd.losses import loss
from osamd.methods import METHODS, InnerLoops, Settings, TeacherStep

NUMBERS = {"eta": 0.01, "sigma": 0.3, "teacher": TeacherStep(cap=0.1, scale=0.05), "adaptation": InnerLoops(3, 0.2)}


def same(ours, theirs):
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [dense, convolutional])
def test_ask_and_tell_are_a_fleet_of_one(make, method):
    shape = (5,) if make is dense else (1, 9, 9)
    rounds, module = 30, make().double()
    learner = OSAMD(module, method=method, label_rate=0.3, seed=7, **NUMBERS)
    seen = samples(shape, rounds)
    seen = seen._replace(u=torch.from_numpy(np.random.default_rng(7).random(rounds))[None])
    settings = Settings(loss=loss("softmax"), label_rate=0.3, **NUMBERS)
    fleet = Fleet([Member(module, method, settings)], shape, dtype=torch.float64)
    record = fleet.record(rounds)
    by_steps(fleet, seen, record)(0, rounds)
    ledger = fleet.ledger(0, record, seen.y)
    for t in range(rounds):
        decision = learner.ask(seen.x[0, t])
        assert (decision.label, decision.query) == (ledger.decision[t], ledger.asked[t])
        assert decision.probability == ledger.probability[t]
        learner.tell(decision, int(seen.y[0, t]) if decision.query else None)
    assert same(fleet.tensors(0, teacher=True), learner.teacher_state_dict())
    assert same(fleet.tensors(0, teacher=method == "paa"), learner.state_dict())


def test_ask_changes_nothing_and_tell_changes_the_student():
    module = dense()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    learner = OSAMD(module, **NUMBERS)
    decisions = [learner.ask(torch.ones(5)) for _ in range(3)]
    assert len({(d.label, d.margin, d.probabilities) for d in decisions}) == 1
    assert same(before, learner.state_dict())
    learner.tell(decisions[0], 2)
    assert not same(before, learner.state_dict())
    assert same(before, module.state_dict()), "the user's module is left alone"


def test_state_dict_goes_back_into_the_module():
    module = convolutional()
    learner = OSAMD(module, **NUMBERS)
    x = torch.randn(1, 9, 9)
    learner.tell(learner.ask(x), 1)
    module.load_state_dict(learner.state_dict())
    again = OSAMD(module, **NUMBERS)
    assert same(again.state_dict(), learner.state_dict())


def test_labels_may_come_late_and_crossed():
    learner = OSAMD(dense(), **NUMBERS)
    first, second = learner.ask(torch.ones(5)), learner.ask(-torch.ones(5))
    learner.tell(second, 0)
    learner.tell(first, None)
    assert learner.rounds == 2


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
@pytest.mark.parametrize("one", [True, False])
def test_two_classes_by_one_output_or_two_are_the_same_model(outputs, one):
    torch.manual_seed(0)
    weight = torch.randn(2, 4, dtype=torch.float64)
    gap = weight[1] - weight[0]
    linear = nn.Linear(4, 1 if one else 2, bias=False).double()
    with torch.no_grad():
        linear.weight.copy_(gap[None] if one else torch.stack([-0.5 * gap, 0.5 * gap]))
    last = [] if outputs == "logits" else [nn.Sigmoid() if one else nn.Softmax(1)]
    learner = OSAMD(nn.Sequential(linear, *last), outputs=outputs, **NUMBERS)
    decision = learner.ask(torch.ones(4))
    p = torch.sigmoid(gap.sum())
    margin = gap.sum().abs() if outputs == "logits" else (2 * p - 1).abs()
    assert decision.margin == pytest.approx(float(margin))
    assert decision.pseudolabel == int(gap.sum() >= 0)
    assert sum(decision.probabilities) == pytest.approx(1.0)


def test_dropout_and_batch_norm_while_online_are_options():
    x = torch.randn(1, 9, 9)
    still = OSAMD(convolutional(), **NUMBERS)
    assert still.ask(x).margin == still.ask(x).margin
    dropping = OSAMD(convolutional(), dropout=True, **NUMBERS)
    assert len({dropping.ask(x).margin for _ in range(4)}) > 1
    own = OSAMD(convolutional(), batch_norm="sample", **NUMBERS)
    assert own.ask(x).margin == own.ask(x).margin != still.ask(x).margin
    own.tell(own.ask(x), 0)


def test_adapting_helps_where_the_world_has_turned():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (600,), generator=generator)
    x = torch.randn(600, 2, generator=generator) * 0.5
    angle = torch.linspace(0, torch.pi, 600)
    x += (2.0 * y[:, None] - 1.0) * torch.stack([angle.cos(), angle.sin()], 1) * 1.5
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimiser = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x[:60]), y[:60]).backward()
        optimiser.step()
    still = (module(x).argmax(1) == y).float().mean()
    learner = OSAMD(module, eta=0.03, sigma=1.0, teacher=TeacherStep(cap=0.3, scale=0.1))
    right, asked = 0, 0
    for row, label in zip(x, y.tolist(), strict=True):
        decision = learner.ask(row)
        right += decision.label == label
        asked += decision.query
        learner.tell(decision, label if decision.query else None)
    assert right / 600 > float(still) + 0.2
    assert asked < 300


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"module": "net"}, "Module"),
        ({"module": nn.ReLU()}, "no parameters"),
        ({"eta": -1.0}, "eta must be positive"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"method": "osmad"}, "Did you mean 'osamd'"),
        ({"outputs": "scores"}, "Known: logits, probabilities"),
        ({"loss": "l1"}, "no such name"),
        ({"batch_norm": "none", "dropout": True}, "'evaluation' or 'sample'"),
        ({"method": "omd-partial"}, "label_rate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(change, words):
    given = {"module": dense(), **NUMBERS, **change}
    with pytest.raises(InputError, match=words):
        OSAMD(given.pop("module"), **given).ask(torch.ones(5))


@pytest.mark.parametrize("x", [[1.0, 2.0], torch.ones(1, 5), "five", [float("nan")] * 5, None])
def test_samples_that_do_not_fit_are_refused_and_change_nothing(x):
    learner = OSAMD(dense(), **NUMBERS)
    before = learner.ask(torch.ones(5)).margin
    with pytest.raises(InputError, match="ask"):
        learner.ask(x)
    assert learner.ask(torch.ones(5)).margin == before


@pytest.mark.parametrize("y", [3, -1, "dog", 1.5, True])
def test_labels_that_are_no_class_are_refused_and_change_nothing(y):
    learner = OSAMD(dense(), **NUMBERS)
    decision = learner.ask(torch.ones(5))
    before = learner.state_dict()
    with pytest.raises(InputError, match="tell"):
        learner.tell(decision, y)
    assert same(before, learner.state_dict())
