"""Lean states: few bytes, the same for equal learners, and the learner goes on to the last bit."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osamd import OSAMD, InputError
from osamd.accounting import lean_books as accounts
from osamd.accounting.accuracy import window_of
from osamd.accounting.meter import NOT_ASKED
from osamd.learner import lean
from osamd.learner.cores.compiled_packing import packing as compiled_packing
from osamd.paper.methods import KNOWN, METHODS


def stream(rounds, features=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rounds)
    centres = rng.normal(size=(classes, features))
    return rng.normal(size=(rounds, features)) + 2.0 * centres[y] + np.linspace(0.0, 1.0, rounds)[:, None], y


def play(learner, x, y, late=0, lose=False):
    """Labels come `late` rounds late; every third is lost where `lose` says so. Returns all that was decided."""
    said = []
    for t in range(len(y)):
        decision = learner.ask(x[t])
        said.append((decision.label, decision.query, decision.probability, decision.margin, decision.draw))
        if not decision.query:
            learner.tell(decision, None)
        for query in [q for q in learner.pending if learner.rounds - 1 - q.id >= late]:
            label = int(y[t - (learner.rounds - 1 - query.id)]) if learner.rounds - 1 - query.id <= t else 0
            learner.tell(query, None if lose and query.id % 3 == 0 else label)
    return said


@settings(max_examples=60, deadline=None)
@given(
    method=st.sampled_from(sorted(KNOWN)),
    features=st.sampled_from([1, 3, 8]),
    classes=st.sampled_from([2, 3, 5]),
    rounds=st.integers(0, 400),
    late=st.sampled_from([0, 3, 40]),
    budget=st.sampled_from([0.05, 0.3, 1.0]),
    extra=st.sampled_from([{}, {"window": 50}, {"budget_window": 60}, {"max_labels": 9}, {"expire_after": 30}]),
    source=st.booleans(),
    seed=st.integers(0, 3),
)
def test_a_learner_comes_back_and_goes_on_bit_for_bit(
    method, features, classes, rounds, late, budget, extra, source, seed
):
    kind = {"method": method, "budget": budget, "seed": seed, **extra}
    if source:
        fresh = OSAMD.from_source(*stream(60, features, classes, seed=9), classes=list(range(classes)), **kind)
    else:
        fresh = OSAMD(features=features, classes=classes, **kind)
    used = fresh.copy()
    x, y = stream(rounds + 150, features, classes, seed)
    play(used, x[:rounds], y[:rounds], late, lose=True)
    state = used.to_state()
    again = fresh.from_state(state)
    assert again.to_state() == state == used.copy().to_state()
    assert again.accuracy() == used.accuracy()
    assert [q.id for q in again.pending] == [q.id for q in used.pending]
    assert play(again, x[rounds:], y[rounds:], late) == play(used, x[rounds:], y[rounds:], late)
    assert again.to_state() == used.to_state()


def test_a_state_may_be_read_after_every_few_rounds():
    """Rounding the window again and again changes neither decisions nor bytes."""
    x, y = stream(1200)
    fresh = OSAMD(features=3, budget=0.2, window=100)
    plain, keyed = fresh.copy(), fresh
    for first in range(0, 1200, 17):
        part = slice(first, first + 17)
        keyed = fresh.from_state(keyed.to_state(), trusted=True)
        assert play(plain, x[part], y[part]) == play(keyed, x[part], y[part])
    assert plain.to_state() == keyed.to_state()


def test_with_a_target_the_window_is_exact():
    """The target steers by the probabilities of the window, so they must come back to the last bit."""
    x, y = stream(3000)
    fresh = OSAMD(features=3, budget=0.3, target_accuracy=0.7)
    plain, keyed = fresh.copy(), fresh
    for first in range(0, 3000, 111):
        part = slice(first, first + 111)
        keyed = fresh.from_state(keyed.to_state())
        assert play(plain, x[part], y[part]) == play(keyed, x[part], y[part])


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_the_window_has_the_stated_precision(method):
    fresh = OSAMD(features=3, budget=0.3, method=method)
    used = fresh.copy()
    play(used, *stream(1500))
    ours, theirs = window_of(used._meter), window_of(fresh.from_state(used.to_state())._meter)
    for exact in ("round", "decision", "bin", "label", "mistaught", "source"):
        told = ours.label >= 0.0 if exact == "mistaught" else slice(None)
        assert np.array_equal(getattr(ours, exact)[told], getattr(theirs, exact)[told])
    asked = ours.label != NOT_ASKED
    off = np.abs(theirs.probability / np.where(ours.probability > 0.0, ours.probability, 1.0) - 1.0)
    off[ours.probability == 0.0] = theirs.probability[ours.probability == 0.0]
    assert 0 < off[asked].max() <= accounts.PRECISION["asked"]
    assert off[~asked].max() <= accounts.PRECISION["not asked"]
    margins = accounts.PRECISION["narrow margin" if method == "osamd-preset" else "margin"]
    usual = ours.margin > 2.0**-15
    assert 0 < np.abs(theirs.margin / ours.margin - 1.0)[usual].max() <= margins
    assert np.abs(theirs.disagreement - ours.disagreement).max() <= accounts.PRECISION["disagreement"]
    a, b = used.health(), fresh.from_state(used.to_state()).health()
    assert (a.state, a.labels, a.pending) == (b.state, b.labels, b.pending)
    assert a.margin == pytest.approx(b.margin, rel=0.01)
    near, far = (learner.accuracy(window=True) for learner in (used, fresh.from_state(used.to_state())))
    assert (near.value, near.low, near.high) == pytest.approx((far.value, far.low, far.high), abs=0.003)


def test_the_bytes_are_few():
    """At 3 features, two classes, after 3,000 rounds: 12 kB for the default learner, 4 kB for the paper's."""
    for settings_given, most in (
        ({}, 12_000),
        ({"method": "osamd"}, 4_000),
        ({"method": "osamd", "budget": 0.05}, 4_000),
    ):
        learner = OSAMD(features=3, **settings_given)
        play(learner, *stream(3000))
        assert len(learner.to_state()) <= most


def test_the_bytes_follow_the_formula():
    """The bytes of the documentation's formula are an upper bound, and not a loose one."""
    for features, classes, budget in ((3, 2, 0.05), (10, 2, 0.1), (5, 4, 0.1), (20, 3, 0.3)):
        learner = OSAMD(features=features, classes=classes, budget=budget)
        play(learner, *stream(2000, features, classes))
        labels = min(learner.told, 512)
        most = lean.most_bytes(features, classes, labels, rounds=2000, share=budget)
        assert 0.7 * most <= len(learner.to_state()) <= most, (len(learner.to_state()), most)


def test_new_classes_come_back():
    fresh = OSAMD(features=3, classes=["a", "b"], budget=0.5)
    used = fresh.copy()
    x, y = stream(300, classes=3)
    for row, label in zip(x, y.tolist(), strict=True):
        decision = used.ask(row)
        used.tell(decision, "abc"[label] if decision.query else None)
    again = fresh.from_state(used.to_state())
    assert again.classes == ["a", "b", "c"]
    assert fresh.classes == ["a", "b"]
    assert [again.predict(row) for row in x] == [used.predict(row) for row in x]
    assert again.to_state() == used.to_state()


def test_a_forest_without_seeds_comes_back():
    """Files of earlier versions have none; their trees are kept as they are."""
    fresh = OSAMD(features=3, budget=0.5)
    used = fresh.copy()
    x, y = stream(400)
    play(used, x[:300], y[:300])
    used._core._parts.forest.seeds[:] = 0.0
    again = fresh.from_state(used.to_state())
    assert play(again, x[300:], y[300:]) == play(used, x[300:], y[300:])
    assert again.to_state() == used.to_state()


def test_a_state_read_can_be_saved_as_a_file():
    fresh = OSAMD(features=3, budget=0.5)
    used = fresh.copy()
    x, y = stream(400)
    play(used, x[:300], y[:300])
    again = OSAMD.from_bytes(fresh.from_state(used.to_state()).to_bytes())
    assert play(again, x[300:], y[300:]) == play(used, x[300:], y[300:])


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_no_bytes_raise_anything_but_a_sentence(method):
    """Damage is found by the digest; forged bytes with a good digest are checked as a file is."""
    fresh = OSAMD(features=3, budget=0.5, method=method, budget_window=50)
    used = fresh.copy()
    play(used, *stream(200), late=20)
    state = used.to_state()
    rng = np.random.default_rng(0)
    for bad in (b"", b"x", state[:-1], state + b"x", bytes(len(state)), "text", None, 7):
        with pytest.raises(InputError, match="from_state"):
            fresh.from_state(bad)
    refused = 0
    for _ in range(600):
        body = bytearray(state[: -lean.DIGEST])
        place = int(rng.integers(1 if rng.random() < 0.9 else 0, len(body)))
        body[place] = int(rng.integers(0, 256))
        if rng.random() < 0.2:
            del body[int(rng.integers(0, len(body))) :]
        forged = bytes(body) + lean._digest(bytes(body))
        for trusted in (False, True):
            try:
                found = fresh.from_state(forged, trusted=trusted)
                found.ask(np.zeros(3))
            except InputError:
                refused += 1
    assert refused > 300


def test_other_settings_and_versions_are_refused():
    state = OSAMD(features=3, budget=0.5).to_state()
    for other in ({"budget": 0.4}, {"budget": 0.5, "window": 7}, {"budget": 0.5, "method": "osamd"}):
        with pytest.raises(InputError, match="other settings"):
            OSAMD(features=3, **other).from_state(state)
    with pytest.raises(InputError, match="other settings"):
        OSAMD(features=4, budget=0.5).from_state(state)
    later = bytes([lean.VERSION + 1]) + state[1 : -lean.DIGEST]
    with pytest.raises(InputError, match="version"):
        OSAMD(features=3, budget=0.5).from_state(later + lean._digest(later))
    with pytest.raises(InputError, match="features"):
        OSAMD().to_state()
    with pytest.raises(InputError, match="features"):
        OSAMD().from_state(state)


def test_a_learner_that_nobody_holds_is_freed_at_once():
    """One who keeps a learner per key lets thousands go; they must not wait for the collector of cycles."""
    x, _ = stream(50)

    def played(kind):
        learner = OSAMD(features=3, **kind).from_state(OSAMD(features=3, **kind).to_state())
        for row in x:
            learner.tell(learner.ask(row))
        return learner

    kinds = ({}, {"method": "osamd"}, {"method": "osamd", "classes": 3})
    for kind in kinds:
        played(kind)  # the compiler holds on to what it was called from, so the first of a kind does not count
    gc.disable()
    try:
        for kind in kinds:
            learner = played(kind)
            core = weakref.ref(learner._core)
            del learner
            assert core() is None
    finally:
        gc.enable()


def test_compiled_and_plain_packing_agree():
    used = OSAMD(features=3, budget=0.3, method="osamd")
    play(used, *stream(300))
    opened, empty = lean._settings(used).opened, lean._empty_meter(2, 1000)
    outs = []
    for put in (accounts.put_accounts, compiled_packing().put_accounts):
        out = np.zeros(100_000, dtype=np.uint8)
        end = put(out, 0, used._book, opened, used._meter, empty, False)
        outs.append(out[:end].tobytes())
    assert outs[0] == outs[1]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_equal_learners_give_equal_files(method):
    """The keys of the header come in one order."""
    learner = OSAMD(features=3, method=method, budget=0.3)
    assert len({learner.copy().to_bytes() for _ in range(8)}) == 1
