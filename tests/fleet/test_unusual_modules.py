"""Modules that work in place, share layers, hold odd buffers or come from odd places: each decides as it does alone."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from osamd.errors import InputError
from osamd.learner.network import NetworkOSAMD

WORDS = [None, "head", "norm", "low-rank", "all"]


class Small(nn.Module):
    """A body, a norm and a head; `before` and `after` say what is done to the inputs and to the scores."""

    def __init__(self, before=lambda x: x, after=lambda z: z):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.norm, self.head = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.before, self.after = before, after

    def forward(self, x):
        return self.after(self.head(torch.tanh(self.norm(self.body(self.before(x))))))


class Rotary(Small):
    """A module with a complex buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0) + 0.7))

    def forward(self, x):
        pairs = torch.view_as_complex(self.norm(self.body(x)).reshape(-1, 4, 2)) * self.turns
        return self.head(torch.view_as_real(pairs).flatten(1))


class TwoNames(nn.Module):
    """A module whose last layer has two names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)])
        self.head = self.layers[-1]

    def forward(self, x):
        return self.head(torch.relu(self.layers[1](self.layers[0](x))))


class Words(nn.Module):
    """Embeds token ids; `tied` uses the table to score as well."""

    def __init__(self, tied=False, places=0):
        super().__init__()
        torch.manual_seed(0)
        self.out = nn.Linear(8, 20 if tied else 3, bias=False)
        self.table = nn.Embedding(20, 8)
        if tied:
            self.table.weight = self.out.weight
        self.places = nn.Embedding(places, 8) if places else None

    def forward(self, ids):
        words = self.table(ids)
        if self.places is not None:
            words = words + self.places(torch.arange(ids.shape[1]))
        return self.out(words.mean(1))


class Gated(Small):
    """A gate, whose sigmoid is the layer registered last."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())

    def forward(self, x):
        seen = self.norm(self.body(x))
        return 9.0 * self.head(seen * self.gate(seen)) - 5.0


class Counted(Small):
    """A module whose `state_dict` holds more than tensors."""

    def get_extra_state(self):
        return {"version": 3}

    def set_extra_state(self, state):
        self.version = state["version"]


def in_place(operation):
    def work(x):
        operation(x)
        return x

    return work


def alone(module, x):
    return torch.softmax(module.eval()(x[None].clone()), 1)[0].double()


def source_of(learner):
    """What the frozen source says about the sample observed last."""
    return learner._core.fleet.shares[2]


def play(learner, samples, classes=3):
    for i, x in enumerate(samples):
        decision = learner.ask(x)
        learner.tell(decision, i % classes if decision.query else None)
    return learner


@pytest.mark.parametrize("learn", WORDS)
@pytest.mark.parametrize("make", [Small, Rotary, TwoNames, Counted, lambda: Small(in_place(lambda x: x.sub_(0.5)))])
def test_the_source_stays_the_module_and_copies_go_on_as_the_learner_does(make, learn):
    module, samples = make(), torch.randn(40, 6)
    learner = play(NetworkOSAMD(module, learn=learn, budget=0.5), samples)
    sample = samples[-1].clone()
    learner.predict(sample)
    assert torch.equal(sample, samples[-1])
    torch.testing.assert_close(source_of(learner), alone(module, sample), rtol=0, atol=1e-5)
    again = NetworkOSAMD.from_bytes(learner.to_bytes(), make())
    first = learner.predict_proba(sample)
    assert first == learner.predict_proba(sample) == again.predict_proba(sample) == learner.copy().predict_proba(sample)


@pytest.mark.parametrize("learn", WORDS)
@pytest.mark.parametrize("make", [Rotary, TwoNames, Counted])
def test_the_state_dict_is_the_student_under_every_name(make, learn):
    learner = play(NetworkOSAMD(make(), learn=learn, budget=0.5), torch.randn(40, 6))
    module, x = make(), torch.randn(6)
    given = {name: part for name, part in learner.state_dict().items() if isinstance(part, torch.Tensor)}
    before = {name: part.clone() for name, part in module.state_dict().items() if isinstance(part, torch.Tensor)}
    assert any(not torch.equal(given[name], before[name]) for name in before)
    module.load_state_dict(learner.state_dict())
    learner.predict(x)
    believed = int(learner._core.believes_teacher)
    torch.testing.assert_close(learner._core.fleet.shares[believed], alone(module, x), rtol=0, atol=1e-5)
    if make is Rotary:
        assert torch.equal(module.turns, Rotary().turns)


def test_factors_of_tied_weights_come_back_under_both_names():
    module = Words(tied=True)
    learner = play(NetworkOSAMD(module, learn="low-rank", budget=0.5), torch.randint(0, 20, (60, 5)), classes=20)
    state = learner.state_dict()
    assert torch.equal(state["out.weight"], state["table.weight"])
    assert not torch.equal(state["out.weight"], module.out.weight)


@pytest.mark.parametrize(
    "after",
    [lambda z: z.div_(0.05), in_place(lambda z: z.mul_(4.0)), in_place(lambda z: z[:, 0].fill_(-9.0))],
)
def test_scores_that_are_changed_in_place_are_not_taken_for_those_of_the_head(after):
    module, x = Small(after=after), torch.randn(6)
    with pytest.raises(InputError, match="no layer gives the module's own 3 scores"):
        NetworkOSAMD(module, learn="head").ask(x)
    learner = NetworkOSAMD(module, learn=["head.*"])
    learner.ask(x)
    torch.testing.assert_close(source_of(learner), alone(module, x), rtol=0, atol=1e-5)


def by_batch():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4, track_running_stats=False)
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def test_modules_whose_samples_depend_on_each_other_are_found_on_a_black_image_and_from_a_file():
    learner = NetworkOSAMD(by_batch(), budget=0.3)
    learner.ask(torch.zeros(3, 8, 8))
    again = NetworkOSAMD.from_bytes(learner.to_bytes(), by_batch())
    assert learner._core.fleet.net.one_by_one
    assert again._core.fleet.net.one_by_one
    for i, x in enumerate(torch.randn(12, 3, 8, 8)):
        ours, theirs = learner.ask(x), again.ask(x)
        assert ours.margin == theirs.margin
        for one, decision in ((learner, ours), (again, theirs)):
            one.tell(decision, i % 3 if decision.query else None)


@pytest.mark.parametrize("learn", WORDS)
def test_learners_are_made_in_inference_mode_and_of_modules_from_there(learn):
    with torch.inference_mode():
        learner = play(NetworkOSAMD(Small(), learn=learn, budget=0.5), torch.randn(5, 6))
    play(learner, torch.randn(5, 6))


@pytest.mark.parametrize("learn", [None, "low-rank"])
def test_the_default_device_and_type_of_torch_do_not_matter(learn):
    samples = torch.randn(9, 6)
    expected = play(NetworkOSAMD(Small(), learn=learn, budget=0.5), samples).predict_proba(samples[0])
    module = Small()
    before = torch.get_default_dtype()
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        learner = play(NetworkOSAMD(module, learn=learn, budget=0.5), samples)
        assert learner.predict_proba(samples[0]) == expected
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before)


@pytest.mark.parametrize("call", ["ask", "predict"])
def test_a_sample_that_is_refused_takes_no_room(call):
    learner = NetworkOSAMD(Words(places=64))
    learner.ask({"ids": [1, 2, 3]})
    before = len(learner.to_bytes())
    with pytest.raises(InputError, match="cannot take this sample"):
        getattr(learner, call)({"ids": [1] * 5000})
    learner.predict({"ids": [1] * 60})
    assert len(learner.to_bytes()) == before


def test_a_longer_sample_waits_for_its_label_and_is_saved():
    learner = NetworkOSAMD(Words(), budget=1.0, floor=1.0)
    first, longer = learner.ask({"ids": [1, 2]}), learner.ask({"ids": [4, 5, 6, 7, 8]})
    again = NetworkOSAMD.from_bytes(learner.to_bytes(), Words())
    for one in (learner, again):
        one.tell(longer.id, 2)
        one.tell(first.id, 0)
    assert learner.predict_proba({"ids": [9]}) == again.predict_proba({"ids": [9]})


def test_whole_numbers_that_a_module_converts_itself_may_be_followed_by_fractions():
    learner = NetworkOSAMD(Small(before=lambda x: x.float()))
    learner.ask([1, 2, 3, 4, 5, 6])
    learner.ask([1, 2.5, 3, 4, 5, 6])


def test_a_gate_that_is_registered_last_is_not_the_end_of_a_module():
    learner, x = NetworkOSAMD(Gated()), torch.randn(6)
    learner.ask(x)
    torch.testing.assert_close(source_of(learner), alone(Gated(), x), rtol=0, atol=1e-5)


def test_names_with_brackets_come_back_from_a_file():
    class Bracketed(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"a[0]": nn.Linear(6, 8), "b": nn.Linear(8, 3)})

        def forward(self, x):
            return self.parts["b"](torch.tanh(self.parts["a[0]"](x)))

    learner = NetworkOSAMD(Bracketed(), learn=["parts.*"])
    learner.ask(torch.randn(6))
    assert NetworkOSAMD.from_bytes(learner.to_bytes(), Bracketed())._choice == learner._choice


def test_arrays_in_any_order_and_labels_of_any_kind_are_taken():
    x = np.arange(6, dtype=">f4")[::-1]
    source = (torch.randn(2, 6), [torch.tensor(0), np.array(1)])
    learner = NetworkOSAMD(Small(), source=source)
    assert learner.predict_proba(x) == learner.predict_proba([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])


def frozen():
    return Small().requires_grad_(False)


def without_gradients():
    return Small(after=lambda z: z.detach())


def traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(Small(), torch.zeros(1, 6))


@pytest.mark.parametrize(
    ("make", "given", "x", "words"),
    [
        (Words, {}, [1, 2, 25], "index out of range"),
        (Words, {"classes": ["a", "b"]}, [1, 2, 5], "2 are named, but the module tells 3 apart"),
        (lambda: Words(tied=True), {"learn": "head"}, [1, 2, 5], "shares a tensor with 'table.weight'"),
        (lambda: Small().to("meta"), {}, torch.zeros(6), "on the meta device"),
        (frozen, {}, torch.zeros(6), "nothing to adapt; give learn='head'"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), {}, torch.zeros(6), "pass a batch through it first"),
        (without_gradients, {}, torch.zeros(6), "computed without gradients; change learn="),
        (
            lambda: Small(after=lambda z: z.softmax(1)),
            {"learn": "head"},
            torch.zeros(6),
            "Give outputs='probabilities'",
        ),
        (lambda: nn.DataParallel(Small()), {}, torch.zeros(6), "give module.module"),
        (traced, {}, torch.zeros(6), "compiled by torch.jit"),
        (
            lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)),
            {"batch_statistics": "sample"},
            torch.zeros(6),
            "give batch_statistics='training'",
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused_with_its_cause_and_a_remedy(make, given, x, words):
    with pytest.raises(InputError, match=words):
        NetworkOSAMD(make(), **given).ask(x)


def test_a_meta_module_is_refused_by_load_with_a_remedy():
    learner = play(NetworkOSAMD(Small()), torch.randn(2, 6))
    with pytest.raises(InputError, match=r"on the meta device.*to_empty"):
        NetworkOSAMD.from_bytes(learner.to_bytes(), Small().to("meta"))


def test_rows_of_data_frames_are_taken_and_masked_values_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(2, 6)))
    learner = NetworkOSAMD(Small())
    plain = learner.predict_proba(frame.to_numpy()[0])
    assert learner.predict_proba(frame.iloc[0]) == learner.predict_proba(frame.iloc[:1]) == plain
    whole = np.ma.masked_array(frame.to_numpy()[0])
    assert learner.predict_proba(whole) == plain
    whole[2] = np.ma.masked
    with pytest.raises(InputError, match=r"^`ask\(x=\.\.\.\)`: x has masked values; fill or drop"):
        learner.ask(whole)


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_in_the_source_says_which_sample_it_is(wrong):
    x = torch.randn(2, 6)
    x[wrong, 3] = torch.nan
    with pytest.raises(InputError, match=rf"source=\(X, y\)\)`: X\[{wrong}\] holds numbers that are not finite"):
        NetworkOSAMD(Small(), source=(x, [0, 1]))


class Halved(nn.Linear):
    """Scores that are less precise than the parameters."""

    def forward(self, x):
        return super().forward(x).bfloat16()


@pytest.mark.parametrize("loss", ["softmax", "hinge"])
@pytest.mark.parametrize("method", ["osamd", "paa", "omd-all"])
def test_outputs_less_precise_than_the_parameters_are_learned_from(method, loss):
    learner = NetworkOSAMD(Halved(3, 3), method=method, budget=1.0, eta=0.1, sigma=0.1, loss=loss)
    learner.peek(torch.zeros(3))  # makes the fleet
    teacher = learner._core.fleet.state.teacher
    before = teacher.clone()
    for row in torch.randn(20, 3, generator=torch.Generator().manual_seed(0)):
        learner.tell(learner.ask(row), 1)
    assert not torch.equal(teacher, before)
