"""What learns of a network, chosen in a word: a frozen body whose features are computed once, norms, factors, names."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fleet_cases import convolutional, dense
from test_deep import Embedding, Flat, Recurrent, same
from torch import nn

from osamd.errors import InputError
from osamd.fleet.pair import LEAST_PLACES, MOST_PLACES
from osamd.learner.network import NetworkOSAMD
from osamd.paper.methods import InnerLoops, TeacherStep

NUMBERS = {"eta": 0.01, "sigma": 0.3, "teacher": TeacherStep(cap=0.1, scale=0.05), "adaptation": InnerLoops(3, 0.2)}
METHODS = {"preset": {"budget": 0.5}, "paper": NUMBERS}


class Reader(nn.Module):
    """A small encoder of texts: token ids with a mask, of any length."""

    def __init__(self, out=lambda logits: logits):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer = nn.Embedding(20, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.norm, self.score = nn.LayerNorm(8), nn.Linear(8, 3)
        self.out, self.calls = out, []

    def forward(self, ids, mask=None):
        self.calls.append(tuple(ids.shape))
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        seen = self.layer(self.table(ids), src_key_padding_mask=~mask)
        mean = (seen * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return self.out(self.score(self.norm(mean)))


def texts(count, seed=0, mask=True):
    dice = np.random.default_rng(seed)
    for _ in range(count):
        length = int(dice.integers(3, 9))
        ids = dice.integers(0, 20, length)
        yield {"ids": ids, "mask": np.arange(length) < length - 1} if mask else ids


def play(learner, samples, labels=(0, 1, 2)):
    for i, x in enumerate(samples):
        decision = learner.ask(x)
        learner.tell(decision, labels[i % len(labels)] if decision.query else None)
    return learner


def changed(learner, module):
    start = module.state_dict()
    return {name for name, tensor in learner.state_dict().items() if not torch.equal(tensor, start[name])}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("make", [dense, convolutional])
def test_a_head_on_features_learns_as_the_same_layer_in_its_module(make, softmax, method):
    module = make(softmax=softmax).double()
    frozen = make(softmax=softmax).double().requires_grad_(False)
    last = [part for part in frozen if isinstance(part, nn.Linear)][-1].requires_grad_(True)
    assert last.weight.requires_grad
    outputs = "probabilities" if softmax else "logits"
    images = {"augment": False} if method == "preset" else {}  # features are not varied
    head, whole = (
        NetworkOSAMD(one, learn=learn, outputs=outputs, seed=3, **kinds, **METHODS[method])
        for one, learn, kinds in ((module, "head", {}), (frozen, None, images))
    )
    x = torch.randn(40, *((5,) if make is dense else (1, 9, 9)), generator=torch.Generator().manual_seed(1))
    for i, row in enumerate(x):
        ours, theirs = head.ask(row), whole.ask(row)
        assert (ours.label, ours.query) == (theirs.label, theirs.query)
        assert ours.margin == pytest.approx(theirs.margin, abs=1e-7)
        for learner, decision in ((head, ours), (whole, theirs)):
            learner.tell(decision, i % 3 if decision.query else None)
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(head.state_dict()[name], tensor, rtol=0, atol=1e-7)
    assert len(changed(head, module)) == 2
    module.load_state_dict(head.state_dict())


@pytest.mark.parametrize("method", METHODS)
def test_a_frozen_body_is_run_once_per_ask_and_never_by_a_label(method):
    module = Reader()
    learner = NetworkOSAMD(module, learn="head", **METHODS[method])
    calls = module.calls = []  # the copy has a list of its own
    for i, x in enumerate(texts(12)):
        decision = learner.ask(x)
        body = learner._module.calls
        assert len(body) == i + 1
        learner.tell(decision, i % 3)
        assert len(body) == i + 1
    assert not calls
    assert learner._core.fleet.sample == (8,)


def test_the_frozen_body_exists_once_and_is_that_of_the_module():
    module = convolutional()
    learner = play(NetworkOSAMD(module, learn="head", budget=0.5), torch.randn(9, 1, 9, 9))
    assert learner._module[0].weight.data_ptr() == module[0].weight.data_ptr()
    fleet = learner._core.fleet
    learns = sum(p.numel() for p in module[7].parameters())
    assert fleet.net.size == fleet.net.trained == learns
    before = learner.predict_proba(torch.ones(1, 9, 9))
    module.load_state_dict(learner.state_dict())  # the module's own head changes, the learner does not
    assert learner.predict_proba(torch.ones(1, 9, 9)) == before
    assert same(learner.state_dict(), module.state_dict())


def test_features_and_samples_in_parts_have_few_places_and_small_rows_have_many():
    few = NetworkOSAMD(dense(), learn="head", budget=0.5), NetworkOSAMD(Reader(), budget=0.5)
    play(few[0], torch.randn(2, 5))  # each source sample would cost a pass of the body
    play(few[1], texts(2))  # texts may become long
    assert [learner._core.fleet.places for learner in few] == [LEAST_PLACES, LEAST_PLACES]
    assert play(NetworkOSAMD(dense(), budget=0.5), torch.randn(2, 5))._core.fleet.places == MOST_PLACES


@pytest.mark.parametrize("wrap", ["tuple", "object", "dict"])
def test_scores_may_come_in_a_tuple_or_as_the_logits_of_an_object(wrap):
    wraps = {
        "tuple": lambda logits: (logits, "states"),
        "object": lambda logits: SimpleNamespace(logits=logits),
        "dict": lambda logits: {"logits": logits, "states": 1},
    }
    plain = play(NetworkOSAMD(Reader(), learn="head", budget=0.5), texts(10))
    wrapped = play(NetworkOSAMD(Reader(wraps[wrap]), learn="head", budget=0.5), texts(10))
    assert same(plain.state_dict(), wrapped.state_dict())
    row = torch.tensor([1, 2, 3])
    assert NetworkOSAMD(Reader(wraps[wrap])).ask(row).label == NetworkOSAMD(Reader()).ask(row).label


@pytest.mark.parametrize("method", METHODS)
def test_samples_of_any_length_come_as_dictionaries_tuples_or_ids(method):
    dicts, tuples = [
        play(NetworkOSAMD(Reader(), learn="head", **METHODS[method]), samples)
        for samples in (texts(20), [(x["ids"], x["mask"]) for x in texts(20)])
    ]
    assert same(dicts.state_dict(), tuples.state_dict())
    ids = play(NetworkOSAMD(Reader(), learn="head", **METHODS[method]), texts(20, mask=False))
    assert ids.rounds == 20
    with pytest.raises(InputError, match="whole numbers"):
        ids.ask([0.5, 1.5])


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_head_goes_on_bit_for_bit_with_queries_that_wait(method, tmp_path):
    given = METHODS[method] | {"budget": 0.5}
    source = {"source": (list(texts(6, seed=5)), [0, 1, 2] * 2)} if method == "preset" else {}
    learner = NetworkOSAMD(Reader(), learn="head", seed=3, **given, **source)
    for x in texts(20):
        decision = learner.ask(x)
        if not decision.query:
            learner.tell(decision, None)
    assert learner.pending
    learner.save(tmp_path / "learner")
    again = NetworkOSAMD.load(tmp_path / "learner", Reader())
    for one in (learner, again, learner.copy()):
        play(one, texts(20, seed=1))
        for late in one.pending:
            one.tell(late.id, 2)
    ours, theirs = learner._saved(), again._saved()
    assert ours.content == theirs.content
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)


def test_a_body_in_half_precision_stays_so_and_its_head_is_wide():
    module = dense().bfloat16()
    learner = play(NetworkOSAMD(module, learn="head", budget=0.5), torch.randn(9, 5))
    assert learner._module[0].weight.dtype == torch.bfloat16
    assert learner._core.fleet.state.samples.dtype == torch.float32
    assert {tensor.dtype for tensor in learner.state_dict().values()} == {torch.bfloat16}
    assert changed(learner, module) <= {"5.weight", "5.bias"}


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_a_head_with_one_score_for_two_classes(outputs):
    torch.manual_seed(0)
    module = Flat() if outputs == "logits" else nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
    learner = NetworkOSAMD(module, learn="head", outputs=outputs, budget=1.0)
    x = torch.ones(4)
    for _ in range(200):
        learner.tell(learner.ask(x), 1)
    assert learner.predict_proba(x)[1] > 0.7


def test_a_convolution_may_be_the_head():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1), nn.Flatten())
    learner = play(NetworkOSAMD(module, learn="head", budget=0.5), torch.randn(9, 1, 9, 9))
    assert changed(learner, module) == {"3.weight", "3.bias"}
    assert learner._core.fleet.sample == (4, 1, 1)


def test_names_within_the_head_split_there_too():
    module = Reader()
    learner = play(NetworkOSAMD(module, learn=["score.b*"], budget=0.5), texts(12))
    assert changed(learner, module) == {"score.bias"}
    assert learner._core.fleet.net.trained == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("learn", [None, "norm", "low-rank"])
def test_a_sample_in_parts_teaches_the_whole_module_as_the_array_does(learn, method):
    module, rows = Reader().double(), torch.randint(0, 20, (25, 5), generator=torch.Generator().manual_seed(0))
    arrays, parts = (
        play(NetworkOSAMD(module, learn=learn, seed=2, **METHODS[method]), samples)
        for samples in (rows, [{"ids": row} for row in rows])
    )
    for name, tensor in arrays.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor, rtol=0, atol=1e-9)
    assert changed(parts, module)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("learn", ["low-rank", ["norm.*", "layer.*"]])
def test_the_whole_module_takes_parts_of_any_length_and_goes_on_from_a_file(learn, method, tmp_path):
    given = METHODS[method] | {"budget": 0.5}
    source = {"source": (list(texts(4, seed=5)), [0, 1, 2, 0])} if method == "preset" else {}
    learner = NetworkOSAMD(Reader(), learn=learn, seed=3, **given, **source)
    for x in texts(14):
        decision = learner.ask(x)
        if not decision.query:
            learner.tell(decision, None)
    assert learner.pending
    longest = max(2 + 2 * len(x["ids"]) for x in texts(14))
    assert learner._core.fleet.sample == (longest,)
    learner.save(tmp_path / "learner")
    again = NetworkOSAMD.load(tmp_path / "learner", Reader())
    long = {"ids": np.arange(19), "mask": np.ones(19, bool)}
    for one in (learner, again):
        play(one, [*texts(3, seed=1), long, *texts(2, seed=2)])
        for late in one.pending:
            one.tell(late.id, 2)
    ours, theirs = learner._saved(), again._saved()
    assert ours.content == theirs.content
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)
    for bad, words in (
        ({"ids": [1, 2]}, r"x has ids \(whole numbers, axes: 1\); the samples before had ids.*mask \(truth values"),
        ([1, 2], "x has one array"),
        ({"ids": [1, 99], "mask": np.ones(2, bool)}, "cannot take this sample.*IndexError"),
    ):
        with pytest.raises(InputError, match=words):
            again.ask(bad)


class Weighed(nn.Module):
    """Ids with a weight each: whole numbers beside fractions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.score = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, ids, weights):
        return self.score((self.table(ids) * weights[:, :, None]).sum(1))


def test_whole_numbers_stay_whole_beside_fractions():
    module = Weighed()
    learner = NetworkOSAMD(module, budget=1.0)
    ids, weights = torch.tensor([3, 19, 7]), torch.tensor([0.5, -1.0, 2.0])
    learner.ask((ids, weights))
    shares = module(ids[None], weights[None]).softmax(1)[0].tolist()
    assert learner._core.fleet.shares[0].tolist() == pytest.approx(shares, abs=1e-6)
    play(learner, [(ids[:n], weights[:n]) for n in (2, 3, 1)])
    with pytest.raises(InputError, match="must be below 16,777,216"):
        learner.ask((torch.tensor([2**24]), torch.ones(1)))


LEARNS = {
    "norm": {"norm.weight", "norm.bias", "layer.norm1.weight", "layer.norm1.bias", "layer.norm2.weight"}
    | {"layer.norm2.bias"},
    "low-rank": {"layer.linear1.weight", "layer.linear2.weight", "layer.self_attn.in_proj_weight"}
    | {"layer.self_attn.out_proj.weight", "score.weight"},
    "all": {name for name, _ in Reader().named_parameters()},
    "names": {"layer.linear2.weight", "layer.linear2.bias", "score.bias"},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("word", LEARNS)
def test_what_a_word_names_learns_and_nothing_else(word, method, tmp_path):
    module = Reader()
    learn = ["layer.linear2.*", "score.bias"] if word == "names" else word
    learner = NetworkOSAMD(module, learn=learn, seed=3, **METHODS[method] | {"budget": 0.5})
    rows = torch.randint(0, 20, (30, 5), generator=torch.Generator().manual_seed(0))
    play(learner, rows[:15])
    assert changed(learner, module) == LEARNS[word]
    fleet = learner._core.fleet
    assert fleet.net.size == fleet.net.trained, "what is frozen is in no row"
    probabilities = learner.predict_proba(rows[0])
    module.load_state_dict(learner.state_dict())
    assert learner.predict_proba(rows[0]) == probabilities, "what changes is the learner's own"
    learner.save(tmp_path / "learner")
    again = NetworkOSAMD.load(tmp_path / "learner", Reader())
    for one in (learner, again):
        play(one, rows[15:])
    ours, theirs = learner._saved(), again._saved()
    assert ours.content == theirs.content
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)


@pytest.mark.parametrize("word", ["head", "norm", "low-rank", "all"])
def test_every_choice_follows_a_world_that_turns(word):
    generator = torch.Generator().manual_seed(0)
    rounds = 1200
    y = torch.randint(0, 2, (rounds,), generator=generator)
    x = torch.randn(rounds, 2, generator=generator) * 0.4
    angle = torch.linspace(0, 0.8 * torch.pi, rounds)
    x += (2.0 * y[:, None] - 1.0) * torch.stack([angle.cos(), angle.sin()], 1) * 1.5
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 2))
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x[:60]), y[:60]).backward()
        optimiser.step()
    still = float((module(x).argmax(1) == y).float().mean())
    learner = NetworkOSAMD(module, learn=word, budget=0.1, source=(x[:60], y[:60]))
    right = 0
    for row, label in zip(x, y.tolist(), strict=True):
        decision = learner.ask(row)
        right += decision.label == label
        learner.tell(decision, label if decision.query else None)
    assert right / rounds > still + 0.1


class Pooled(nn.Module):
    """A layer per position whose scores are averaged: the layer's output is not the module's."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x).mean(1)


class Backwards(nn.Module):
    """Its head is registered before its body."""

    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(4, 3), nn.Linear(5, 4)

    def forward(self, x):
        return self.head(self.body(x).relu())


def test_the_head_is_found_by_what_it_gives_wherever_it_stands():
    module = Backwards()
    learner = play(NetworkOSAMD(module, learn="head", budget=0.5), torch.randn(9, 5))
    assert changed(learner, module) == {"head.weight", "head.bias"}


def tied():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module[2].weight = module[0].weight
    return module


@pytest.mark.parametrize(
    ("module", "learn", "words"),
    [
        (dense, "heads", "give one of head, norm, low-rank, all"),
        (dense, 3, "a list of names"),
        (dense, [], "at least one parameter"),
        (dense, ["5.wieght"], r"Did you mean '5.weight'\? Known: 0.weight"),
        (dense, "norm", "no norm layers.*its layers are Dropout, Linear, ReLU"),
        (lambda: nn.Sequential(nn.Conv1d(1, 3, 4), nn.Flatten()), "low-rank", "no linear layers"),
        (Pooled, "head", r"the last one, 'last', gives shape \(1, 7, 3\).*learn=\['last\.\*'\]"),
        (lambda: Recurrent(nn.LSTM), "head", "does not take a batch of one sample.*RuntimeError"),
        (tied, "head", "shares a tensor with '0.weight'"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)), "head", "ends in Softmax"),
        (lambda: nn.PReLU(4), "head", "no linear or convolutional layer"),
    ],
)
def test_what_cannot_learn_so_is_refused_with_its_cause(module, learn, words):
    x = torch.ones(7, 4) if module is Pooled else torch.ones(4)
    with pytest.raises(InputError, match=words):
        NetworkOSAMD(module(), learn=learn).ask(x)


@pytest.mark.parametrize("learn", ["head", "norm"])
def test_a_sample_that_the_module_cannot_take_changes_nothing_and_says_why(learn):
    learner = NetworkOSAMD(Reader(), learn=learn)
    good = {"ids": [1, 2, 3], "mask": np.array([True, True, False])}
    with pytest.raises(InputError, match=r"with ids of shape \(1, 3\), masks of shape \(1, 3\).*'masks'"):
        learner.ask({"ids": [1, 2, 3], "masks": [1, 1, 0]})
    before = learner.ask(good).probabilities
    for bad, words in (
        ({"ids": [1, 99], "mask": np.ones(2, bool)}, "cannot take this sample.*IndexError"),
        ({"mask": [True]}, "TypeError.*'ids'" if learn == "head" else "the samples before had ids"),
        ({"ids": [1, 2], "mask": "all"}, r"x\['mask'\] must be numbers"),
        ({1: [2]}, "keys must be the names"),
        ({"ids": [1, 2], "mask": [1.0, float("nan")]}, "TypeError" if learn == "head" else "not finite"),
    ):
        with pytest.raises(InputError, match=words):
            learner.ask(bad)
    assert learner.ask(good).probabilities == before


def test_numbers_that_are_not_finite_are_named_by_where_they_come_from():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    nn.init.constant_(module[0].weight, 2.0)
    learner = NetworkOSAMD(module, learn="head")
    learner.ask(torch.ones(4))
    with pytest.raises(InputError, match="x holds numbers that are not finite"):
        learner.ask([1.0, float("nan"), 0.0, 0.0])
    with pytest.raises(InputError, match="features of x are not finite"):
        learner.ask([3e38, 3e38, 3e38, 3e38])
    learner.tell(learner.ask(torch.ones(4)), 1)
    for row in ([1.0, 1.0, 1.0, float("inf")], [3e38] * 4):
        with pytest.raises(InputError, match=r"source=\(X, y\)\)`: (X|the module's features of X)\[1\]"):
            NetworkOSAMD(module, learn="head", source=([[1.0] * 4, row], [0, 1]))


class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x)


@pytest.mark.parametrize("paper", [{}, {"method": "paa", "eta": 0.1, "sigma": 0.1}])
def test_infinite_features_are_refused_even_if_the_scores_are_finite(paper):
    module = nn.Sequential(Exponential(), nn.Linear(3, 1), nn.Sigmoid())
    learner = NetworkOSAMD(module, learn="head", outputs="probabilities", budget=1.0, **paper)
    learner.tell(learner.ask(torch.zeros(3)), 1)
    for call in (learner.ask, learner.peek, learner.predict_proba):
        with pytest.raises(InputError, match="features of x are not finite"):
            call(torch.tensor([300.0, 0.0, 0.0]))
    learner.tell(learner.ask(torch.ones(3)), 0)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in learner.state_dict().values())


def test_without_a_choice_the_file_says_nothing_of_it():
    learner = play(NetworkOSAMD(Embedding(), budget=0.5), torch.randint(0, 7, (5, 3)))
    assert not {"learn", "head"} & set(learner._saved().content)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("ending", [[], [nn.Softmax(1)]])
def test_on_a_gpu_a_head_learns_as_on_the_cpu(ending):
    kinds = {"learn": "head", "budget": 0.5, "outputs": "probabilities" if ending else "logits"}
    learners = [
        NetworkOSAMD(nn.Sequential(*dense(), *ending).double().eval(), device=device, **kinds)
        for device in ("cpu", "cuda")
    ]
    noise = torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for i, x in enumerate(noise):
        here, there = (learner.ask(x) for learner in learners)
        assert there.query == here.query
        np.testing.assert_allclose(list(there.probabilities.values()), list(here.probabilities.values()), atol=1e-8)
        for learner, decision in zip(learners, (here, there), strict=True):
            learner.tell(decision, i % 3 if decision.query else None)
    assert learners[1].asked > 5
    assert {learner._core.fleet.device.type for learner in learners} == {"cpu", "cuda"}
