"""A file with a right digest and wrong numbers is refused in a sentence; no edit ends in a traceback or a crash."""

import numpy as np
import pytest
from unsound_cases import fuzz, learners, played, revived, stream

import osamd
from osamd.accounting import book as books
from osamd.accounting import meter
from osamd.errors import InputError
from osamd.learner import saving
from osamd.preset import state as layout

FILES = 60
"""Edited files of every kind of learner; `python tests/learner/unsound_cases.py FILES SEED` plays more."""


@pytest.fixture(scope="module")
def saved():
    x, y = stream(80, seed=1)
    return played(osamd.OSAMD.from_source(x, y, budget=0.3, window=60))._saved()


def changed(saved, name, place, value):
    array = saved.arrays[name].copy()
    array[place] = value
    return saving.packed(saving.Saved(saved.arrays | {name: array}, saved.content))


@pytest.mark.parametrize(
    ("name", "place", "value", "named"),
    [
        ("meter", meter.WINDOW, 2e8, "meter"),
        ("meter", meter.WINDOW, 8200.0, "meter"),
        ("meter", meter.CLASSES, 5e8, "meter"),
        ("meter", meter.ROUNDS, 1e9, "rounds of meter's rings"),
        ("meter", meter.RINGS + meter.DECISION * 60, 1e7, "decisions of meter's rings holds 10000000.0"),
        ("meter", meter.RINGS + meter.BIN * 60, -4.0, "bins of meter's rings holds -4.0"),
        ("meter", meter.TOLD, np.nan, "meter holds numbers that are not finite"),
        ("uniforms", 0, -1.0, "uniforms holds -1.0"),
        ("uniforms", 3, 1.0, "uniforms holds 1.0"),
        ("book", books.MAX_LABELS, 0.0, "book.max_labels is 0.0"),
        ("book", books.RATE, 1.0, "book.rate is 1.0, but by the budget it is 0.3"),
        ("book", books.ASKED, 0.0, "the book has 0.0 labels of"),
        ("book", books.ASKED, 1e6, "book.asked holds 1000000.0"),
        ("head", layout.CAPACITY, 1e12, "head.capacity is 1000000000000.0"),
        ("head", layout.FEATURES, 5e6, "head holds the sizes"),
        ("head", layout.KEPT, 2.0**62, "head.kept"),
        ("head", layout.SEED, 0.5, "head.seed holds 0.5"),
        ("forest.child", (0, 0), 1e6, "forest.child holds 1000000.0"),
        ("forest.child", (0, 0), 0.0, "forest.child holds 0.0"),
        ("forest.feature", (0, 1), 90.0, "forest.feature holds 90.0"),
        ("forest.feature", (0, 1), -9.0, "forest.feature holds -9.0"),
        ("memory.labels", 3, 3.0, "memory.labels holds 3.0"),
        ("memory.samples", (2, 1), 4.9, "memory.columns is not the transpose of memory.samples"),
        ("arbiter.guard", 0, -1.0, "arbiter.guard holds -1.0"),
        ("student", (0, 0), np.inf, "student holds numbers that are not finite"),
        ("pending.draws", 0, 0.999999, "pending.draws holds 0.999999"),
    ],
)
def test_a_wrong_number_is_refused_by_its_name(saved, name, place, value, named):
    with pytest.raises(InputError, match=named):
        osamd.OSAMD.from_bytes(changed(saved, name, place, value))


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("window", 10**12, "window is 1000000000000"),
        ("features", 10**12, "it names 1000000000000 features"),
        ("features", 5, "it names 5 features"),
        ("classes", [], "classes"),
        ("rounds", -1, "rounds is -1"),
        ("rounds", 7.5, "rounds is 7.5"),
        ("told", 0, "the header counts 0 told"),
        ("expired", 10**6, "labels were asked for"),
        ("pending", [], "labels were asked for"),
        ("generator", {"bit_generator": "MT19937"}, "generator is not a state of PCG64"),
        ("source_rows", [1, -1, 1], "source_rows is -1"),
        ("kind", "tree", "what kind of learner"),
    ],
)
def test_a_wrong_value_of_the_header_is_refused_by_its_name(saved, name, value, named):
    with pytest.raises(InputError, match=named):
        osamd.OSAMD.from_bytes(saving.packed(saving.Saved(saved.arrays, saved.content | {name: value})))


def test_what_is_missing_from_the_header_is_named(saved):
    for name in saved.content:
        held = {key: value for key, value in saved.content.items() if key != name}
        if name != "source_rows":  # which older files do not have
            with pytest.raises(InputError, match=name):
                osamd.OSAMD.from_bytes(saving.packed(saving.Saved(saved.arrays, held)))


def test_terms_of_the_next_query_are_worked_out_anew(saved):
    """So nobody can write into a file that the next query is certain, or that the budget allows it."""
    for place in (books.SIGMA, books.LEAST, books.REASON, books.EAGERNESS):
        held = osamd.OSAMD.from_bytes(changed(saved, "book", place, 0.7))
        assert np.array_equal(held._book, saved.arrays["book"])


@pytest.mark.parametrize("kind", [kind for kind, _ in learners()])
def test_files_that_were_not_changed_come_back_bit_for_bit(kind):
    learner = played(dict(learners())[kind]())
    ours, theirs = learner._saved(), revived(learner.to_bytes(), kind)._saved()
    assert ours.content == theirs.content
    assert {n: a.tobytes() for n, a in ours.arrays.items()} == {n: a.tobytes() for n, a in theirs.arrays.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind, _ in learners()])
def test_no_edit_ends_in_a_traceback_or_breaks_the_budget(kind):
    assert fuzz(kind, FILES)["refused"] > FILES // 3
