"""Whatever is wrong: one sentence that says what to do, and a state that did not change."""

import copy
import math
import pickle
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import osamd
from osamd.errors import InputError
from osamd.paper.geometry import ball


def fresh(**more):
    held = osamd.OSAMD(features=["a", "b"], classes=["no", "yes"], budget=0.5, **more)
    for t in range(6):
        decision = held.ask([float(t), -1.0])
        held.tell(decision, "yes" if decision.query else None)
    return held


def everything(held):
    """All that a learner is, to be compared."""
    saved = held.copy()._saved()
    return {name: array.tobytes() for name, array in saved.arrays.items()}, saved.content


BAD_SAMPLES = {
    "too short": ([1.0], "the model takes 2"),
    "too long": (np.ones(3), "the model takes 2"),
    "NaN": ([1.0, math.nan], "finite"),
    "infinite": (np.array([np.inf, 1.0]), "finite"),
    "text": (["a", "b"], "numbers"),
    "a stack of tables": (np.ones((1, 1, 2)), "one row"),
    "a number": (3.0, "one row"),
    "nothing": (None, "one row"),
    "a dictionary that lacks one": ({"a": 1.0}, "'b'"),
    "a dictionary with text": ({"a": 1.0, "b": "two"}, "numbers"),
    "complex": (np.array([1j, 2.0]), "numbers"),
}


@pytest.mark.parametrize("what", BAD_SAMPLES)
@pytest.mark.parametrize("standardise", [None, False, True])  # None: the preset
def test_samples_that_do_not_fit_are_refused(what, standardise):
    held = fresh(standardise=standardise)
    open_decision = held.ask([1.0, 2.0])
    before = everything(held)
    x, words = BAD_SAMPLES[what]
    for call in (held.ask, held.predict):
        with pytest.raises(InputError, match=words):
            call(x)
    assert everything(held) == before
    held.tell(open_decision, "no")


def test_text_in_a_sample_is_named_with_its_column_and_the_remedy():
    pandas = pytest.importorskip("pandas")
    row = namedtuple("row", ["a", "b"])
    for held in (fresh(), osamd.OSAMD()):
        for x in ({"a": 1.0, "b": "red"}, pandas.Series({"a": 1.0, "b": "red"}), row(a=1.0, b="red")):
            with pytest.raises(InputError, match=r"ask\(x=.*'b' is the text 'red': encode it, as pandas.get_dummies"):
                held.ask(x)
        for x in ([1.0, "red"], np.array([1.0, "red"], dtype=object)):
            with pytest.raises(InputError, match="one of them is the text 'red': encode it"):
                held.ask(x)


def test_text_in_source_data_is_named_with_its_column_and_the_remedy():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    columns = {"a": [1.0, 2.0], "b": ["red", "blue"]}
    for table in (pandas.DataFrame(columns), arrow.table(columns)):
        with pytest.raises(InputError, match=r"from_source\(X=.*'b' is the text 'red': .*osamd.prequential.run"):
            osamd.OSAMD.from_source(table, [0, 1])
    with pytest.raises(InputError, match=r"give pandas.DataFrame\(X\)"):
        osamd.OSAMD.from_source([{"a": 1.0}, {"a": 2.0}], [0, 1])


def test_many_rows_where_one_is_meant_are_refused_by_the_call_that_was_made():
    pandas = pytest.importorskip("pandas")
    held = fresh()
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}, index=["first", "second"])
    for call in (held.ask, held.peek):
        for x in (np.ones((3, 2)), [[1.0, 2.0]], frame):
            with pytest.raises(InputError, match=rf"^`{call.__name__}\(x=.* one row at a time; for many .* predict"):
                call(x)
    for call in (held.ask, held.peek, held.predict, held.predict_proba):
        with pytest.raises(InputError, match=rf"^`{call.__name__}\(x="):
            call(np.ones(3))


@pytest.mark.parametrize("budget", [5, "5%", 0, -0.1, True, math.nan])
@pytest.mark.parametrize("method", [None, "osamd"])
def test_a_budget_that_is_no_share_is_refused_as_the_learners(budget, method):
    with pytest.raises(InputError, match=r"^`OSAMD\(budget=.*5 % is budget=0.05"):
        osamd.OSAMD(features=2, budget=budget, method=method)


def test_the_preset_speaks_of_numbers_too_large_and_of_no_steps():
    held = fresh()
    with pytest.raises(InputError, match="x holds numbers that are too large") as refused:
        held.ask([1e300, -1e300])
    assert "steps" not in str(refused.value)


@pytest.mark.parametrize("method", ["osamd", "osamd-preset"])
def test_labels_that_are_no_class_are_refused(method):
    """A new name is one that the preset takes in; the rest can be no class of any learner."""
    held = fresh(method=method)
    decision = held.ask([1.0, 2.0])
    before = everything(held)
    for y in (*(["maybe"] if method == "osamd" else []), 1, math.nan, ["yes"], {"yes"}, b"yes"):
        with pytest.raises(InputError, match=r"no such class|it is not a class|a class is text or a whole number"):
            held.tell(decision, y)
    with pytest.raises(InputError, match="give None"):
        held.tell(decision, math.nan)
    assert everything(held) == before
    held.tell(decision, "yes")


def test_a_decision_is_told_once():
    held = fresh()
    decision = held.ask([1.0, 2.0])
    held.tell(decision, "yes")
    before = everything(held)
    assert not decision.open
    for told in (decision, decision.id):
        with pytest.raises(InputError, match="once"):
            held.tell(told, "yes")
    assert everything(held) == before


def test_unknown_foreign_and_expired_decisions_are_refused():
    held, other = fresh(), fresh(seed=1)
    query = next(d for d in (held.ask([0.0, 0.0]) for _ in range(20)) if d.query)
    held.expire(query)
    before = everything(held)
    for told, words in [
        (query, "its label came too late"),
        (query.id, "expired"),
        (10**6, "id of a pending query"),
        (-1, "id of a pending query"),
        ("first", "id of a pending query"),
        (None, "id of a pending query"),
        (other.ask([1.0, 1.0]), "another learner"),
        (held.peek([1.0, 1.0]), "what `ask` returned"),
    ]:
        with pytest.raises(InputError, match=words):
            held.tell(told, "yes")
    for call in (lambda: held.expire(query), lambda: held.expire(), lambda: held.expire(1, older_than=2)):
        with pytest.raises(InputError, match="expire"):
            call()
    assert everything(held) == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"classes": 1}, "classes"),
        ({"classes": "ab"}, "two or more different names"),
        ({"classes": ["a", "a"]}, "two or more different names"),
        ({"classes": [None, 1]}, "two or more different names"),
        ({"classes": {"a", "b"}}, "in a list"),
        ({"classes": [0.0, math.inf]}, "two or more different names"),
        ({"features": 0}, "features"),
        ({"features": ["a", "a"]}, "different names"),
        ({"eta": 0.0}, "eta must be positive"),
        ({"sigma": -1.0}, "sigma must be positive"),
        ({"method": "osmad"}, "Did you mean 'osamd'"),
        ({"loss": "l1"}, "no such name"),
        ({"method": "omd-partial"}, "label_rate"),
        ({"start": [1.0, 2.0], "features": 4}, "shape"),
        ({"budget": 1.5}, "rate"),
        ({"max_labels": 0}, "max_labels"),
        ({"expire_after": 0}, "expire_after"),
        ({"window": 0}, "window"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_once(given, words):
    with pytest.raises(InputError, match=words):
        osamd.OSAMD(**{"features": 2, **given})


def test_source_data_that_cannot_be_used_is_refused():
    x = np.ones((4, 2))
    for rows, labels, words in [
        (x, [1, 1, 1, 1], "all alike"),
        (x, [0, 1], "4 rows have 2 labels"),
        (np.ones(4), [0, 1, 0, 1], "table of rows"),
        (np.full((4, 2), np.nan), [0, 1, 0, 1], "finite"),
        (np.array([[1e200, 0.0], [-1e200, 0.0], [0.0, 1.0], [0.0, 2.0]]), [0, 1, 0, 1], "too large"),
        (x, [0, 1, None, 1], "the label of row 2 is missing"),
        (x, [0.0, 1.0, math.nan, 1.0], "the label of row 2 is missing"),
        (x, [0.25, 1.5, 0.7, 3.1], "measured numbers such as 0.25; .* cut them into ranges"),
        (x, [[0], [1], [0], [1]], "class a row"),
        (np.ones((0, 2)), [], "table of rows"),
    ]:
        with pytest.raises(InputError, match=words):
            osamd.OSAMD.from_source(rows, labels)
    with pytest.raises(InputError, match="declared classes"):
        osamd.OSAMD.from_source(x, [0, 1, 2, 0], classes=[0, 1])


@pytest.mark.parametrize(
    "more",
    [{}, {"standardise": True}, {"geometry": ball(2.0)}, {"classes": 3, "l2": 0.1}],
    ids=["flat", "standardised", "ball", "L2"],
)
def test_a_sample_too_large_to_score_is_refused_and_does_no_harm(more):
    held = osamd.OSAMD(features=2, sigma=1.0, **more)
    for t in range(20):
        held.tell(held.ask([float(t % 2), 1.0]), t % 2)
    before = everything(held)
    for x in ([1e200, 1.0], [1e300, -1e300]):
        with pytest.raises(InputError, match="not finite"):
            held.ask(x)
    assert everything(held) == before
    assert np.isfinite(held.weights).all()


def test_a_query_that_the_model_can_no_longer_score_expires_without_a_lesson():
    held = osamd.OSAMD(features=1, method="omd-all", loss="squared-hinge", eta=0.1, expire_after=2)
    far = held.ask([1e150])
    for label in (1, 0):  # two lessons that no weights survive
        held.tell(held.ask([1e153]), label)
    with pytest.raises(InputError, match="have spoilt the learner"):
        held.tell(far, 1)
    held.expire(far)
    assert (far.open, held.expired, held.pending) == (False, 1, [])
    with pytest.raises(InputError, match="expired"):
        held.tell(far, 1)


def test_ids_may_be_numbers_of_numpy_and_decisions_of_others_expire_nothing():
    held, other = fresh(sigma=1e9), fresh(sigma=1e9)
    ours, theirs = (next(d for d in (one.ask([0.0, 0.0]) for _ in range(9)) if d.query) for one in (held, other))
    with pytest.raises(InputError, match="another learner"):
        held.expire(theirs)
    assert ours.open
    with pytest.raises(InputError, match="id of a pending query"):
        held.tell(True, "yes")
    held.tell(np.int64(ours.id), "yes")
    assert not ours.open
    rest = held.ask([9.0, 9.0])
    while rest.query:
        rest = held.ask([9.0, 9.0])
    with pytest.raises(InputError, match="is not a query"):
        held.expire(rest)


def test_decisions_do_not_travel_and_have_no_twins():
    held = fresh(sigma=1e9)
    decision = held.ask([0.0, 0.0])
    assert copy.copy(decision) is copy.deepcopy(decision) is decision
    with pytest.raises(TypeError, match="send its id"):
        pickle.dumps(decision)


def test_weights_of_raw_features_are_not_put_on_standardised_ones():
    with pytest.raises(InputError, match="another scale"):
        osamd.OSAMD(start=[1.0, 2.0, 3.0], standardise=True)
    with pytest.raises(InputError, match="leave it out"):
        osamd.OSAMD.from_source([[1.0], [2.0]], [0, 1], start=[1.0, 0.0])


def test_rows_of_named_tuples_are_read_by_name_and_masks_are_refused():
    row = namedtuple("row", ["b", "a"])
    held = fresh()
    assert held.peek(row(b=1.0, a=2.0)).margin == held.peek({"a": 2.0, "b": 1.0}).margin
    with pytest.raises(InputError, match="masked"):
        held.ask(np.ma.array([1.0, 2.0], mask=[True, False]))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.floats(), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.one_of(st.floats(), st.text(max_size=2), st.none())),
    st.sampled_from([np.ones(2), np.ones((2, 2)), np.array("x"), np.array([None, 1]), object(), 3j]),
)


@given(st.lists(st.tuples(st.sampled_from(["ask", "tell", "last", "expire"]), ANYTHING, ANYTHING), max_size=12))
@settings(max_examples=150, deadline=None)
def test_fuzz_only_sentences_come_back_and_refusals_change_nothing(calls):
    held = fresh()
    last = held.ask([0.0, 1.0])
    for what, first, second in calls:
        before, refused = everything(held), ""
        try:
            if what == "ask":
                last = held.ask(first)
            elif what == "tell":
                held.tell(first, second)
            elif what == "last":
                held.tell(last, second)
            else:
                held.expire(first)
        except InputError as error:
            refused = str(error)
        assert not refused or (refused.endswith(".") and everything(held) == before)
    assert np.isfinite(held.weights).all()
