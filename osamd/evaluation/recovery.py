"""How soon a learner recovers after a change, in rounds and in labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, reject, require_number, require_numbers, require_whole
from osamd.numerics import Array

POINT = 0.01
"""How far below the level an accuracy may lie and still count as recovered."""
WINDOW = 100
"""The number of rounds of the sliding mean."""


class Recovery(NamedTuple):
    """The rounds from the change to recovery, and the labels asked for in them per run; None if there is no
    recovery."""

    rounds: int | None
    labels: float | None


def sliding_accuracy(right: ArrayLike, window: int = WINDOW) -> Array:
    """The accuracy over the `window` rounds that begin with each round, over all runs together.

    `right` says for each round whether the decision was right; it is one row, or one row per run. The last window - 1
    rounds do not begin a whole window, so the answer is shorter by that number.

    >>> sliding_accuracy([True, False, False, True, True], window=2).tolist()
    [0.5, 0.0, 0.5, 1.0]
    """
    runs = _runs("sliding_accuracy", "right", right)
    window = require_whole("sliding_accuracy", "window", window)
    total = np.concatenate([[0.0], np.cumsum(runs.sum(axis=0))])
    counted: Array = total[window:] - total[:-window]
    return counted / (window * len(runs))


def recovery(
    right: ArrayLike,
    asked: ArrayLike,
    *,
    change: int,
    level: float,
    tolerance: float = POINT,
    window: int = WINDOW,
    stop: int | None = None,
) -> Recovery:
    """Rounds and labels from round `change` until the accuracy is back within `tolerance` of `level`.

    With a(r) = `sliding_accuracy` at round change + r, the rounds are the least r >= 0 with a(r) >= level - tolerance:
    the first of `window` rounds which together are right often enough. Only windows that end before round `stop` (the
    next change; the end by default) count. The labels are those asked for in the rounds change, ..., change + r - 1,
    averaged over runs. With several rows in `right` and `asked`, one per run, the accuracy is that over all of them:
    the mean curve. Give one row for the recovery of one run.

    >>> right = [True] * 4 + [False] * 3 + [True] * 5
    >>> asked = [False, True] * 6
    >>> recovery(right, asked, change=4, level=1.0, window=2)
    Recovery(rounds=3, labels=1.0)
    >>> recovery(right, asked, change=4, level=1.0, window=2, stop=8)
    Recovery(rounds=None, labels=None)
    """
    good, queries = _runs("recovery", "right", right), _runs("recovery", "asked", asked)
    if good.shape != queries.shape:
        raise InputError(
            f"`recovery(right=..., asked=...)`: their shapes are {good.shape} and {queries.shape}; give one value per"
            " round and run in both."
        )
    rounds = good.shape[1]
    change = require_whole("recovery", "change", change, 0)
    stop = rounds if stop is None else require_whole("recovery", "stop", stop)
    if not change < stop <= rounds:
        rule = f"needs change < stop <= {rounds}, the number of rounds; stop is {stop}."
        raise reject("recovery", "change", change, rule)
    level, tolerance = (
        require_number("recovery", name, value, lambda v: 0.0 <= v <= 1.0, f"{name} is a fraction, from 0 to 1.")
        for name, value in (("level", level), ("tolerance", tolerance))
    )
    enough = level - tolerance - 1e-12  # 0.98 is back within 0.01 of 0.99, whatever floats make of it
    back = np.flatnonzero(sliding_accuracy(good[:, change:stop], window) >= enough)
    if not len(back):
        return Recovery(None, None)
    taken = int(back[0])
    return Recovery(taken, float(queries[:, change : change + taken].sum(axis=1).mean()))


def _runs(call: str, argument: str, values: ArrayLike) -> Array:
    """The values as (runs x rounds); a single row becomes one run."""
    found = require_numbers(call, argument, values)
    if found.ndim not in (1, 2) or found.size == 0 or not np.isin(found, (0.0, 1.0)).all():
        raise InputError(f"`{call}({argument}=...)`: give one true or false per round, or one row of them per run.")
    return np.atleast_2d(found)
