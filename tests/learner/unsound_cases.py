"""Learner files that were edited by hand, with the digest made right again, and what must hold of each."""

import copy
import json
import random
from collections import Counter

import numpy as np

import osamd
from osamd.errors import InputError
from osamd.learner import saving
from osamd.paper.losses import loss

NUMBERS = (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 17.0, 1e3, 8200.0, 2e8, 2.0**53, 2.0**63, 1e20, 1e160, 1e308)
WORSE = (float("nan"), float("inf"), float("-inf"), 5e-324)
WHOLE = (-1, 0, 1, 2, 63, 10**6, 2**31, 2**63, 10**30)
VALUES = (*WHOLE, *WORSE, None, True, False, 2.5, 1e308, "", "text", [], [1], {}, [[0] * 8])


def stream(rounds, classes=3, features=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rounds)
    return rng.normal(size=(rounds, features)) + 2.0 * np.eye(features)[y % features], y


def played(learner, rounds=120):
    """The learner after some rounds, in which every second label is late and some never come."""
    x, y = stream(rounds)
    for t in range(rounds):
        decision = learner.ask(x[t])
        if not decision.query or t % 2:
            learner.tell(decision, int(y[t]) if decision.query else None)
        for late in learner.pending[:-3]:
            learner.tell(late, int(y[late.id]))
    return learner


def module():
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def learners():
    """One of every kind, by name."""
    x, y = stream(80, seed=1)
    yield "source", lambda: osamd.OSAMD.from_source(x, y, budget=0.3, window=60)
    yield "nothing", lambda: osamd.OSAMD(features=4, classes=3, budget=0.3, target_accuracy=0.6, window=60)
    yield (
        "paper",
        lambda: osamd.OSAMD(
            features=4, classes=3, method="osamd", budget=0.3, budget_window=20, standardise=True, window=60
        ),
    )
    yield (
        "simplex",
        lambda: osamd.OSAMD(
            features=4,
            classes=3,
            method="osamd",
            budget=0.3,
            max_labels=60,
            geometry=osamd.paper.geometry.signed_simplex(2.0),
            loss=loss("softmax", l2=0.01),
            window=60,
        ),
    )

    def network(**settings):
        from osamd.learner.network import NetworkOSAMD

        return NetworkOSAMD(module(), budget=0.3, window=60, **settings)

    yield "network", lambda: network(source=(x, y.tolist()))
    yield "network's head", lambda: network(source=(x, y.tolist()), learn="head")
    yield "paper's network", lambda: network(eta=0.01, sigma=0.5, budget_window=20)


def revived(data, kind):
    """The learner in these bytes."""
    if "network" in kind:
        from osamd.learner.network import NetworkOSAMD

        return NetworkOSAMD.from_bytes(data, module())
    return osamd.OSAMD.from_bytes(data)


def edited(saved, dice):
    """A copy with some of its arrays or header values replaced, and a sentence that says which."""
    arrays = {name: array.copy() for name, array in saved.arrays.items()}
    content = copy.deepcopy(saved.content)
    done = []
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        done.append(_edit_array(arrays, dice) if dice.random() < 0.6 else _edit_header(content, dice))
    return saving.Saved(arrays, content), "; ".join(done)


def _edit_array(arrays, dice):
    name = dice.choice(sorted(arrays))
    array, how = arrays[name], dice.random()
    if how < 0.02:
        del arrays[name]
        return f"without {name}"
    if how < 0.05:
        arrays[name] = dice.choice((array[:-1], array.ravel(), array.astype(np.int32), np.concatenate([array, array])))
        return f"{name} of another shape or type"
    if how < 0.08:
        arrays[name] = np.full_like(array, dice.choice(NUMBERS[:8]))
        return f"{name} filled"
    places = [dice.randrange(array.size) for _ in range(dice.choice((1, 1, 3)))] if array.size else []
    if array.size and dice.random() < 0.3:
        places = [dice.randrange(min(array.size, 26))]  # the heads of books and meters
    for place in places:
        before = float(array.flat[place])
        value = dice.choice((*NUMBERS, *WORSE, before + 1.0, -before, before * 2.0, before * (1.0 + 1e-9)))
        if array.dtype.kind in "iu":
            value = int(min(max(value, -(2.0**62)), 2.0**62)) if value == value else 7
        with np.errstate(over="ignore"):
            array.reshape(-1)[place] = np.asarray(value).astype(array.dtype)
        done = f"{name}[{place}] = {value}"
    return done if places else "nothing"


def _edit_header(content, dice):
    holder, key = dice.choice(list(_places(content)))
    before = holder[key]
    if isinstance(holder, dict) and dice.random() < 0.1:
        del holder[key]
        return f"without header {key}"
    choices = list(VALUES)
    if type(before) in (int, float):
        choices += [before + 1, before - 1, -before, before * 2, before / 2] * 2
    holder[key] = copy.deepcopy(dice.choice(choices))
    return f"header {key} = {holder[key]!r:.40}"


def _places(value):
    """Where a header can be changed."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def packed(saved):
    """As `osamd.learner.saving.packed`, but for numbers that are none: whoever edits a header can write them."""
    from safetensors.numpy import save

    text = json.dumps({"version": saving.VERSION, **saved.content})
    arrays = {name: np.require(array, requirements="C") for name, array in saved.arrays.items()}
    return save(arrays, {"osamd": text, "digest": saving._digest(arrays, text)})


def outcome(saved, kind):
    """What becomes of a file: "refused", "refuses samples" or "plays on"; anything else is an error."""
    data = packed(saved)
    try:
        learner = revived(data, kind)
    except InputError as error:
        return _in_a_sentence("refused", error)
    try:
        play_on(learner)
        play_on(revived(learner.to_bytes(), kind))
    except InputError as error:
        return _in_a_sentence("refuses samples", error)
    return "plays on"


def _in_a_sentence(end, error):
    assert "\n" not in str(error)
    assert str(error).startswith("`"), error
    return end


def play_on(learner, rounds=40):
    """Everything a learner is asked for, with its budget watched."""
    x, y = stream(rounds, seed=2)
    names, queries = learner.classes, []
    limits, asked = learner.limits, learner.asked
    for t in range(rounds):
        decision = learner.ask(x[t])
        queries.append(decision.query)
        assert decision.label in names
        assert 0.0 <= decision.probability <= 1.0
        assert set(decision.probabilities) <= set(names)
        learner.tell(decision, names[int(y[t]) % len(names)] if decision.query and t % 3 else None)
        for late in learner.pending[:3]:
            learner.tell(late, names[0])
    learner.predict(x[0])
    learner.accuracy(), learner.accuracy(window=True), learner.gain(), learner.gain(window=True), learner.health()
    repr(learner)
    assert learner.asked == asked + sum(queries)
    if limits.max_labels is not None:
        assert learner.asked <= limits.max_labels
    if limits.rate is not None and limits.window is None:
        assert learner.asked <= limits.rate * learner.rounds
    if limits.window is not None:
        for end in range(rounds):
            assert sum(queries[max(0, end + 1 - limits.window) : end + 1]) <= limits.rate * limits.window


def fuzz(kind, files, seed=0):
    """So many edited files of one kind of learner; how many came to what end."""
    dice, ends = random.Random(seed), Counter()
    saved = played(dict(learners())[kind]())._saved()
    for _ in range(files):
        changed, what = edited(saved, dice)
        try:
            ends[outcome(changed, kind)] += 1
        except Exception as error:
            raise AssertionError(f"{kind}: {what}") from error
    return ends


if __name__ == "__main__":
    import sys
    import warnings

    warnings.simplefilter("ignore")
    for kind, _ in learners():
        print(kind, dict(fuzz(kind, int(sys.argv[1]), int(sys.argv[2]))), flush=True)
