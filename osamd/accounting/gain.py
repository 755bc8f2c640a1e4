"""The gain: how much more often the learner is right than its source model would have been, left unchanged.

It is estimated from the labels that the learner asked for, each drawn with a known probability p. In rounds in which
both decide alike the gain is 0, whatever the label; in the others, the rounds *apart*, it is 1, 0 or -1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osamd.accounting import meter as at
from osamd.accounting.accuracy import LABELS_NEEDED, more_errors, quantile, window_of
from osamd.numerics import Array


class Gain(NamedTuple):
    """The accuracy minus that of the unchanged source model, over the rounds in which the source's decision is known.

    It is positive if learning was worth it. Its absolute value is at most `apart`, the share of rounds in which the two
    decide differently. With fewer than `LABELS_NEEDED` labels in those `rounds` it is not `known`: it is nan, in
    [-apart, apart].
    """

    value: float
    low: float
    high: float
    level: float
    rounds: int
    labels: int
    apart: float

    @property
    def known(self) -> bool:
        """Whether there are enough labels for an estimate."""
        return self.labels >= LABELS_NEEDED

    def __str__(self) -> str:
        if not self.known:
            return f"too few labels ({self.labels} of {LABELS_NEEDED})"
        return f"{100.0 * self.value:+.1f} points ({100.0 * self.low:+.1f} to {100.0 * self.high:+.1f})"


def gain(meter: Array, window: bool = False, level: float = 0.9) -> Gain:
    """The gain over the unchanged source model, in all rounds so far or in those of the window.

    Where both decide alike the gain of a round is 0, whatever its label. So the gain is the share of rounds apart times
    the mean gain of their labels, each weighted by 1 / p. Both limits allow for gains or losses that no label has shown
    yet, each with the weight of a random round apart.
    """
    z = quantile("gain", meter, level)
    sums = _gains_of_window(meter) if window else meter[at.SOURCED : at.SEEN]
    rounds, asked, told, apart, inverse, inverse_2, labels, *weights = sums.tolist()
    share = apart / rounds if rounds > 0.0 else 0.0
    counts = (level, int(rounds), int(told), share)
    if told < LABELS_NEEDED:
        return Gain(math.nan, -share, share, *counts)
    answered = told / asked
    once, twice = np.array(weights[:3]) / answered, np.array(weights[3:]) / answered**2
    mean = once[1] / once[0] if labels else 0.0
    squares = (twice - once)[2] - 2.0 * mean * (twice - once)[1] + mean * mean * (twice - once)[0]
    scale = apart / once[0] if labels else 0.0
    hidden = inverse_2 / inverse / answered if apart else 0.0
    reach = more_errors(z, max(0.0, squares) * scale**2, hidden) / rounds
    value = share * mean
    return Gain(value, max(value - reach, -share), min(value + reach, share), *counts)


def _gains_of_window(meter: Array) -> Array:
    """The sums of the meter about the source model, over the rounds of the window only."""
    window = window_of(meter)
    sourced = window.where((window.probability > 0.0) & (window.source != at.NO_SOURCE))
    apart = sourced.where(sourced.source != sourced.decision)
    told = apart.told
    gains = (told.label == told.decision).astype(np.float64) - (told.label == told.source)
    return np.array(
        [
            len(sourced.label),
            sourced.asked,
            len(sourced.told.label),
            *(np.sum(apart.probability**-j) for j in (0.0, 1.0, 2.0)),
            len(told.label),
            *(np.sum(gains**j / told.probability) for j in range(3)),
            *(np.sum(gains**j / told.probability**2) for j in range(3)),
        ]
    )
