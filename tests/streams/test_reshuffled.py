"""Tables that stand still: every row as often as the others, none of the source among the rounds."""

import sys

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.streams import Reshuffled, still_breast_cancer, still_digits, still_wine
from osamd.streams.reshuffled import MOST_WARMUP

ROWS = np.arange(50.0)[:, None]
LABELS = ["even", "odd"] * 25


def test_every_row_comes_once_in_each_pass_and_none_of_the_source_does():
    stream = Reshuffled(ROWS, LABELS, rounds=95, warmup=20)
    x, y = stream.sample(3)
    kept, labels = stream.source(20, 3)
    rest = set(range(50)) - set(kept[:, 0].astype(int))
    assert len(rest) == 30
    for start in range(0, 90, 30):
        assert set(x[start : start + 30, 0].astype(int)) == rest
    assert set(x[90:, 0].astype(int)) <= rest
    assert len(x) == 95
    assert (x[:30] != x[30:60]).any()
    assert (y == x[:, 0] % 2).all()
    assert (labels == kept[:, 0] % 2).all()
    assert stream.classes == ("even", "odd")


def test_a_seed_decides_the_source_and_the_order():
    stream = Reshuffled(ROWS, LABELS, rounds=40)
    assert (stream.sample(1)[0] == Reshuffled(ROWS, LABELS, rounds=40).sample(1)[0]).all()
    assert (stream.sample(1)[0] != stream.sample(2)[0]).any()
    assert (stream.source(25, 1)[0] != stream.source(25, 2)[0]).any()
    assert (stream.source(25, 1)[0][:10] == stream.source(10, 1)[0]).all()


def test_half_of_the_rows_are_the_source_and_600_at_most():
    assert Reshuffled(ROWS, LABELS, rounds=1).warmup == 25
    many = np.zeros((2 * MOST_WARMUP + 10, 1))
    assert Reshuffled(many, [0, 1] * (MOST_WARMUP + 5), rounds=1).warmup == MOST_WARMUP


@pytest.mark.parametrize(
    ("make", "features", "classes", "warmup"),
    [(still_digits, 64, 10, 600), (still_breast_cancer, 30, 2, 284), (still_wine, 13, 3, 89)],
)
def test_tables_of_scikit_learn_stand_still_for_any_number_of_rounds(make, features, classes, warmup):
    stream = make(3000)
    x, y = stream.sample(0)
    assert x.shape == (3000, features)
    assert set(y) == set(range(classes))
    assert len(stream.source(stream.warmup, 0)[1]) == warmup


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"`still_wine`: .* pip install 'osamd\[sklearn\]'"):
        still_wine()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Reshuffled(ROWS, LABELS, rounds=0), r"`Reshuffled\(rounds=0\)`"),
        (lambda: Reshuffled(ROWS, LABELS, rounds=10, warmup=50), "the table has 50 rows; leave at least one"),
        (lambda: Reshuffled(ROWS, LABELS[1:], rounds=10), "x has 50 rows but y has 49 labels"),
        (lambda: Reshuffled(ROWS, LABELS, rounds=10).source(26, 0), "keeps 25 warm-up rows; ask for no more"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_rule(make, words):
    with pytest.raises(InputError, match=words):
        make()
