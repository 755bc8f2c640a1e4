"""Recovery after a change: the first window that is right often enough, and the labels until then."""

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation.recovery import Recovery, recovery, sliding_accuracy


def run(*stretches):
    """A row of rounds from pairs (right, how many)."""
    return np.concatenate([np.full(count, right) for right, count in stretches])


def test_the_sliding_accuracy_is_the_mean_over_rounds_and_runs():
    generator = np.random.default_rng(0)
    right = generator.random((3, 50)) < 0.7
    found = sliding_accuracy(right, window=8)
    assert found == pytest.approx([right[:, t : t + 8].mean() for t in range(43)])
    assert sliding_accuracy(right[0], window=50) == pytest.approx([right[0].mean()])
    assert len(sliding_accuracy(right, window=51)) == 0
    assert len(sliding_accuracy(right, window=80)) == 0


def test_a_learner_that_was_never_wrong_is_back_at_once_and_without_a_label():
    assert recovery(run((True, 300)), run((True, 300)), change=100, level=1.0) == (0, 0.0)


def test_the_rounds_are_those_until_the_first_good_window_begins():
    right = run((True, 100), (False, 60), (True, 200))
    asked = run((True, 130), (False, 230))
    assert recovery(right, asked, change=100, level=1.0) == (59, 30.0)  # 99 of the 100 rounds from 159 on
    assert recovery(right, asked, change=100, level=1.0, tolerance=0.0) == (60, 30.0)
    assert recovery(right, asked, change=100, level=0.5, tolerance=0.0) == (10, 10.0)


def test_within_a_point_takes_in_the_point():
    right = run((True, 98), (False, 2))
    assert recovery(right, right, change=0, level=0.99).rounds == 0
    assert recovery(right, right, change=0, level=0.991).rounds is None


def test_windows_beyond_the_next_change_do_not_count():
    right = run((False, 150), (True, 250))
    asked = np.zeros(400, dtype=bool)
    assert recovery(right, asked, change=0, level=1.0, stop=249).rounds == 149
    assert recovery(right, asked, change=0, level=1.0, stop=248) == Recovery(None, None)
    assert recovery(right, asked, change=350, level=0.0).rounds is None  # no whole window is left


def test_several_runs_are_back_when_their_mean_is():
    right = np.stack([run((False, 50), (True, 250)), run((False, 100), (True, 200))])
    asked = np.stack([run((True, 300)), run((False, 300))])
    both = recovery(right, asked, change=0, level=1.0, tolerance=0.0)
    assert both == (100, 50.0)
    assert recovery(right[0], asked[0], change=0, level=1.0, tolerance=0.0) == (50, 50.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"right": [0.5, 1.0]}, "one true or false per round"),
        ({"right": []}, "one true or false per round"),
        ({"asked": [True]}, "one value per round and run in both"),
        ({"change": 2}, "needs change < stop <= 2"),
        ({"change": -1}, "change must be a whole number"),
        ({"stop": 3}, "needs change < stop <= 2"),
        ({"level": 98.9}, r"`recovery\(level=98.9\)`: level is a fraction"),
        ({"tolerance": -0.1}, "tolerance is a fraction"),
        ({"window": 0}, "window must be a whole number"),
    ],
)
def test_what_cannot_be_used_is_refused(given, words):
    usual = {"right": [True, True], "asked": [True, False], "change": 0, "level": 0.9}
    with pytest.raises(InputError, match=words):
        recovery(**(usual | given))
