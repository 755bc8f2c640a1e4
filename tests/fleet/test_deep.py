"""OSAMD around one's own module."""

import numpy as np
import pytest
import torch
from fleet_cases import convolutional, dense, samples
from torch import nn

from osamd.errors import InputError
from osamd.fleet.engines import by_steps
from osamd.fleet.fleet import Fleet, Member
from osamd.learner.network import NetworkOSAMD
from osamd.paper.losses import loss
from osamd.paper.methods import METHODS, InnerLoops, Settings, TeacherStep
from osamd.streams.base import query_generator

NUMBERS = {"eta": 0.01, "sigma": 0.3, "teacher": TeacherStep(cap=0.1, scale=0.05), "adaptation": InnerLoops(3, 0.2)}


def same(ours, theirs):
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [dense, convolutional])
def test_ask_and_tell_are_a_fleet_of_one(make, method):
    shape = (5,) if make is dense else (1, 9, 9)
    rounds, module = 30, make().double()
    learner = NetworkOSAMD(module, method=method, label_rate=0.3, seed=7, **NUMBERS)
    seen = samples(shape, rounds)
    seen = seen._replace(u=torch.from_numpy(query_generator(7).random(rounds))[None])
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
    learner = NetworkOSAMD(module, **NUMBERS)
    decisions = [learner.ask(torch.ones(5)) for _ in range(3)]
    assert len({(d.label, d.margin, *d.probabilities.values()) for d in decisions}) == 1
    assert same(before, learner.state_dict())
    learner.tell(decisions[0], 2)
    assert not same(before, learner.state_dict())
    assert same(before, module.state_dict()), "the user's module is left alone"


def test_state_dict_goes_back_into_the_module():
    module = convolutional()
    learner = NetworkOSAMD(module, **NUMBERS)
    x = torch.randn(1, 9, 9)
    learner.tell(learner.ask(x), 1)
    module.load_state_dict(learner.state_dict())
    again = NetworkOSAMD(module, **NUMBERS)
    assert same(again.state_dict(), learner.state_dict())


def test_labels_may_come_late_and_crossed():
    learner = NetworkOSAMD(dense(), **NUMBERS)
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
    learner = NetworkOSAMD(nn.Sequential(linear, *last), outputs=outputs, **NUMBERS)
    decision = learner.ask(torch.ones(4))
    p = torch.sigmoid(gap.sum())
    margin = gap.sum().abs() if outputs == "logits" else (2 * p - 1).abs()
    assert decision.margin == pytest.approx(float(margin))
    assert decision.pseudolabel == int(gap.sum() >= 0)
    assert sum(decision.probabilities.values()) == pytest.approx(1.0)


def test_dropout_and_batch_norm_while_online_are_options():
    x = torch.randn(1, 9, 9)
    still = NetworkOSAMD(convolutional(), **NUMBERS)
    assert still.ask(x).margin == still.ask(x).margin
    dropping = NetworkOSAMD(convolutional(), dropout=True, **NUMBERS)
    assert len({dropping.ask(x).margin for _ in range(4)}) > 1
    own = NetworkOSAMD(convolutional(), batch_statistics="sample", **NUMBERS)
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
    learner = NetworkOSAMD(module, eta=0.03, sigma=1.0, teacher=TeacherStep(cap=0.3, scale=0.1))
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
        ({"batch_statistics": "none", "dropout": True}, "Known: training, sample"),
        ({"eta": "a"}, "eta must be positive"),
        ({"device": "cdua"}, "no such device"),
        ({"module": nn.LazyLinear(3)}, "seen no sample yet"),
        ({"module": nn.Linear(5, 3).requires_grad_(False)}, "nothing to adapt"),
        ({"module": nn.Sequential(nn.Linear(5, 3), nn.Softmax(1))}, "ends in Softmax"),
        ({"outputs": "probabilities"}, "which are not probabilities"),
        ({"method": "omd-partial"}, "label_rate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(change, words):
    given = {"module": dense(), **NUMBERS, **change}
    with pytest.raises(InputError, match=words):
        NetworkOSAMD(given.pop("module"), **given).ask(torch.ones(5))


@pytest.mark.parametrize("x", [[1.0, 2.0], torch.ones(1, 5), "five", [float("nan")] * 5, None])
def test_samples_that_do_not_fit_are_refused_and_change_nothing(x):
    learner = NetworkOSAMD(dense(), **NUMBERS)
    before = learner.ask(torch.ones(5)).margin
    with pytest.raises(InputError, match="ask"):
        learner.ask(x)
    assert learner.ask(torch.ones(5)).margin == before


def test_a_dictionary_and_many_samples_are_refused_with_what_to_give_instead():
    learner = NetworkOSAMD(dense(), **NUMBERS)
    for _ in range(2):
        with pytest.raises(InputError, match="give its values as an array, in the module's order"):
            learner.ask({"a": 1.0, "b": 2.0})
        learner.ask(torch.ones(5))
    with pytest.raises(InputError, match=r"`predict\(x=.*Give one sample at a time"):
        learner.predict(torch.ones(3, 5))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": 5}, r"^`NetworkOSAMD\(budget=5\)`.*5 % is budget=0.05"),
        ({"classes": ["a", "a", "b"]}, r"^`NetworkOSAMD\(classes=.*different names"),
        (
            {"source": [(torch.ones(5), 0), (torch.ones(5), 1)]},
            r"list of pairs \(x, y\).*source=tuple\(zip\(\*pairs\)\)",
        ),
        ({"source": [(torch.ones(5), 0)] * 3}, r"list of pairs \(x, y\)"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_the_call_that_got_them(given, words):
    with pytest.raises(InputError, match=words):
        NetworkOSAMD(dense(), **given)


def test_two_samples_and_their_labels_are_a_source():
    for source in (
        [(torch.ones(5), torch.zeros(5)), (0, 1)],
        tuple(zip((torch.ones(5), 0), (torch.zeros(5), 1), strict=True)),
    ):
        assert NetworkOSAMD(dense(), source=source)._source_rows == [1, 1, 0]


@pytest.mark.parametrize("y", [1.0, torch.tensor(1.0), torch.tensor([1]), np.float32(1.0)])
def test_a_label_may_be_any_one_number_that_is_a_class(y):
    learner, other = (NetworkOSAMD(dense(), **NUMBERS) for _ in range(2))
    learner.tell(learner.ask(torch.ones(5)), y)
    other.tell(other.ask(torch.ones(5)), 1)
    assert same(learner.state_dict(), other.state_dict())


@pytest.mark.parametrize("y", [3, -1, "dog", 1.5, torch.tensor(0.5)])
def test_labels_that_are_no_class_are_refused_and_change_nothing(y):
    learner = NetworkOSAMD(dense(), **NUMBERS)
    decision = learner.ask(torch.ones(5))
    before = learner.state_dict()
    with pytest.raises(InputError, match="tell"):
        learner.tell(decision, y)
    assert same(before, learner.state_dict())


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell, self.last = kind(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.cell(x)[0][:, -1])


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.layer(x).mean(1))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.table(x).mean(1))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(self, x):
        return self.last(x + self.shift if x.sum() > 0 else x)


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(x).squeeze(1)


def tied():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    module[2].weight = module[0].weight
    return module


def twice():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 3))


def frozen():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    module[0].requires_grad_(False)
    return module


ROW, SEQUENCE = torch.tensor([0.3, -1.0, 2.0, 0.5]), torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
MODULES = {
    "lstm": (lambda: Recurrent(nn.LSTM), SEQUENCE),
    "gru": (lambda: Recurrent(nn.GRU), SEQUENCE),
    "attention": (Attending, SEQUENCE),
    "embedding": (Embedding, torch.tensor([1, 5, 0])),
    "branch and a buffer that is not kept": (Branching, ROW),
    "one score without an axis": (Flat, ROW),
    "tied weights": (tied, ROW),
    "a layer used twice": (twice, ROW),
    "frozen layer": (frozen, ROW),
    "group norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 3)), ROW),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)).bfloat16(), ROW),
    "whole numbers as features": (lambda: nn.Linear(4, 3), np.array([3, 1, 0, 2])),
}


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("method", ["omd-all", "osamd", "paa"])
def test_modules_of_many_kinds_adapt_and_give_their_parameters_back(kind, method):
    torch.manual_seed(0)
    make, x = MODULES[kind]
    module = make().eval()
    learner = NetworkOSAMD(module, method=method, **NUMBERS)
    for _ in range(3):
        learner.tell(learner.ask(x), 1)
    after = learner.state_dict()
    assert {name: tensor.dtype for name, tensor in after.items()} == {
        n: t.dtype for n, t in module.state_dict().items()
    }
    learns = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    unused = {"table.weight"} if kind == "embedding" else set()
    changed = {name for name in after if not torch.equal(after[name], module.state_dict()[name])}
    assert changed - unused <= learns | {"2.weight", "2.bias"}
    assert changed
    module.load_state_dict(after)
    again = NetworkOSAMD(module, method=method, **NUMBERS).ask(x).probabilities
    if method == "omd-all" and kind != "bfloat16":
        assert again == pytest.approx(learner.ask(x).probabilities, abs=1e-5)


def test_one_labelled_step_of_omd_is_sgd_on_the_module():
    for kind in ("lstm", "attention", "tied weights", "a layer used twice", "frozen layer"):
        torch.manual_seed(0)
        make, x = MODULES[kind]
        module = make().eval()
        learner = NetworkOSAMD(module, method="omd-all", **NUMBERS)
        learner.tell(learner.ask(x), 1)
        optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], NUMBERS["eta"])
        nn.functional.cross_entropy(module(x[None]), torch.tensor([1])).backward()
        optimiser.step()
        for name, tensor in module.state_dict().items():
            torch.testing.assert_close(learner.state_dict()[name], tensor, rtol=0, atol=1e-6)


def test_a_buffer_that_the_caller_uses_again_does_not_change_what_was_asked():
    learners = [NetworkOSAMD(dense(), **NUMBERS) for _ in range(2)]
    buffer = np.ones(5, dtype=np.float32)
    first = [learner.ask(buffer) for learner in learners]
    learners[0].tell(first[0], 1)
    buffer[:] = 100.0
    learners[1].tell(first[1], 1)
    assert same(learners[0].state_dict(), learners[1].state_dict())


def test_after_a_sample_that_was_refused_the_right_one_is_taken():
    learner = NetworkOSAMD(dense(), **NUMBERS)
    for wrong in (torch.ones(1, 4), torch.ones(7)):
        with pytest.raises(InputError):
            learner.ask(wrong)
    learner.tell(learner.ask(torch.ones(5)), 0)


def test_batch_norm_by_the_sample_gives_a_state_dict_that_loads():
    module = convolutional()
    learner = NetworkOSAMD(module, batch_statistics="sample", **NUMBERS)
    learner.tell(learner.ask(torch.randn(1, 9, 9)), 0)
    module.load_state_dict(learner.state_dict())
    assert same(learner.state_dict(), module.state_dict())


def test_what_a_module_cannot_be_asked_is_said_in_a_sentence():
    class Odd(nn.Module):
        def __init__(self, out):
            super().__init__()
            self.last, self.out = nn.Linear(4, 3), out

        def forward(self, x):
            return self.out(self.last(x))

    cases = ((lambda h: (), "a tuple"), (lambda h: {"h": h}, "a dict"), (lambda h: h[0, 0], "shape"))
    for out, words in cases:
        with pytest.raises(InputError, match=words):
            NetworkOSAMD(Odd(out), **NUMBERS).ask(ROW)
    with pytest.raises(InputError, match="another learner"):
        NetworkOSAMD(dense(), **NUMBERS).tell(NetworkOSAMD(dense(), **NUMBERS).ask(torch.ones(5)), 1)
    with torch.inference_mode():
        learner = NetworkOSAMD(dense(), **NUMBERS)
        decision = learner.ask(torch.ones(5))
    learner.tell(decision, torch.tensor(1))


def test_late_labels_play_their_round_when_they_come():
    """Told at once or later, a label teaches the same where the model has not moved in between."""
    x = torch.randn(4, 5)
    learners = [NetworkOSAMD(dense(), seed=1, **NUMBERS) for _ in range(2)]
    at_once = learners[0].ask(x[0])
    learners[0].tell(at_once, 1)
    late = learners[1].ask(x[0])
    for row in x[1:]:
        learners[1].ask(row)
    learners[1].tell(late, 1)
    assert same(learners[0].state_dict(), learners[1].state_dict())


def test_a_network_keeps_its_budget_and_names_its_classes():
    torch.manual_seed(0)
    learner = NetworkOSAMD(dense(), classes=["a", "b", "c"], budget=0.2, **NUMBERS)
    for row in torch.randn(100, 5):
        decision = learner.ask(row)
        assert decision.label in ("a", "b", "c")
        learner.tell(decision, "b" if decision.query else None)
        assert learner.asked <= 0.2 * learner.rounds
    assert learner.asked >= 15
    assert learner.accuracy().labels == learner.asked
    with pytest.raises(InputError, match="2 are named"):
        NetworkOSAMD(dense(), classes=["a", "b"], **NUMBERS).ask(torch.ones(5))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [dense, convolutional])
def test_a_saved_network_goes_on_bit_for_bit(make, method, tmp_path):
    shape = (5,) if make is dense else (1, 9, 9)
    x = torch.randn(40, *shape, generator=torch.Generator().manual_seed(2))
    learner = NetworkOSAMD(make(), method=method, budget=0.3, seed=3, **NUMBERS)
    for row in x[:20]:
        decision = learner.ask(row)
        if not decision.query:
            learner.tell(decision, None)
    learner.save(tmp_path / "learner")
    torch.manual_seed(99)
    again = NetworkOSAMD.load(tmp_path / "learner", make())
    assert [d.id for d in again.pending] == [d.id for d in learner.pending]
    for one in (learner, again):
        for row in x[20:]:
            decision = one.ask(row)
            one.tell(decision, 1 if decision.query else None)
        for late in one.pending:
            one.tell(late.id, 2)
    assert same(learner.state_dict(), again.state_dict())
    assert same(learner.teacher_state_dict(), again.teacher_state_dict())
    ours, theirs = learner._saved(), again._saved()
    assert ours.content == theirs.content
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)


def test_files_of_the_other_kind_and_other_modules_are_refused(tmp_path):
    import osamd

    osamd.OSAMD(features=2).save(tmp_path / "linear")
    learner = NetworkOSAMD(dense(), **NUMBERS)
    learner.ask(torch.ones(5))
    learner.save(tmp_path / "network")
    with pytest.raises(InputError, match=r"osamd\.OSAMD\.load"):
        NetworkOSAMD.load(tmp_path / "linear", dense())
    with pytest.raises(InputError, match=r"osamd\.NetworkOSAMD\.load"):
        osamd.OSAMD.load(tmp_path / "network")
    with pytest.raises(InputError, match="not like the one that was saved"):
        NetworkOSAMD.load(tmp_path / "network", convolutional())
    with pytest.raises(
        InputError, match=r"has shape \(9, 5\), and the saved one \(8, 5\); make it with the same layers"
    ):
        NetworkOSAMD.load(tmp_path / "network", nn.Sequential(nn.Linear(5, 9), *list(dense())[1:]))


def test_a_network_can_be_copied_and_pickled():
    import pickle

    learner = NetworkOSAMD(dense(), **NUMBERS)
    learner.tell(learner.ask(torch.ones(5)), 1)
    for other in (learner.copy(), pickle.loads(pickle.dumps(learner))):
        assert same(other.state_dict(), learner.state_dict())
        other.tell(other.ask(torch.ones(5)), 0)
        assert not same(other.state_dict(), learner.state_dict())


def test_tensors_of_any_order_in_memory_are_saved(tmp_path):
    module = convolutional().to(memory_format=torch.channels_last)
    learner = NetworkOSAMD(module, **NUMBERS)
    learner.tell(learner.ask(torch.randn(1, 9, 9)), 1)
    learner.save(tmp_path / "learner")
    assert same(NetworkOSAMD.load(tmp_path / "learner", convolutional()).state_dict(), learner.state_dict())
    with pytest.raises(InputError, match="have different types"):
        NetworkOSAMD.load(tmp_path / "learner", convolutional().double())
    with pytest.raises(InputError, match="Module"):
        NetworkOSAMD.load(tmp_path / "learner", "net")


def test_a_learner_with_statistics_of_the_sample_can_be_copied():
    learner = NetworkOSAMD(convolutional(), batch_statistics="sample", **NUMBERS)
    x = torch.randn(1, 9, 9)
    learner.ask(x)
    assert learner.copy().peek(x).margin == learner.peek(x).margin


def test_samples_do_not_keep_the_graph_that_made_them():
    learner = NetworkOSAMD(dense(), **NUMBERS)
    decision = learner.ask(torch.ones(5, requires_grad=True) * 2.0)
    assert not decision._learner._core.last().requires_grad
    learner.copy()


def test_a_module_that_raises_costs_no_draw():
    class Fussy(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            if bool((x > 100).any()):
                raise RuntimeError("too large")
            return self.last(x)

    torch.manual_seed(0)
    learner = NetworkOSAMD(Fussy(), **NUMBERS)
    twin = learner.copy()
    for row in torch.randn(20, 4):
        with pytest.raises(InputError, match="too large"):
            learner.ask(row + 1000.0)
        decision = learner.ask(row)
        assert decision.query == twin.ask(row).query
