"""When labels come: late by a number of rounds, at random, in batches, or never.

`arrivals` says for each round, as if its label were asked for, at the end of which round the label comes. It draws two
uniforms a round whatever is asked for, so that two methods on one seed wait equally long for the same label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError, nearest

KINDS = {
    "fixed": "rounds that every label takes",
    "random": "mean number of rounds, of a geometric law",
    "bursty": "rounds between two batches of labels",
    "lost": "share of labels that never come, between 0 and 1",
}
EXAMPLE = "as in --delay fixed:100 or --delay random:100,lost:0.1"

_DELAYS = 3
"""Marks the generator of delays, apart from those of source, stream and queries."""


class Delay(NamedTuple):
    """How late labels come: `fixed` rounds, and a geometric number of mean `random`, and then with the next batch.

    A batch ends every `bursty` rounds. The share `lost` never comes; it is given up when it would have come.
    """

    fixed: int = 0
    random: float = 0.0
    bursty: int = 0
    lost: float = 0.0


class Arrivals(NamedTuple):
    """For each round, at the end of which round its label comes, or, where `lost`, is given up."""

    when: NDArray[np.int64]
    lost: NDArray[np.bool_]


def delay_generator(seed: int) -> np.random.Generator:
    """The generator of `arrivals`, apart from that of the queries."""
    return np.random.default_rng([_DELAYS, seed])


def arrivals(delay: Delay, generator: np.random.Generator, first: int, count: int) -> Arrivals:
    """For the rounds first, ..., first + count - 1; what comes for a round does not depend on how they are grouped.

    >>> arrivals(Delay(fixed=10, bursty=50), delay_generator(0), 30, 3).when.tolist()
    [49, 49, 49]
    """
    uniforms = generator.random((count, 2))
    late = np.full(count, delay.fixed, dtype=np.int64)
    if delay.random > 0.0:
        # P(late > k) = q^(k+1) with q = mean / (1 + mean), inverted.
        late += np.floor(np.log1p(-uniforms[:, 0]) / math.log(delay.random / (1.0 + delay.random))).astype(np.int64)
    when = np.arange(first, first + count) + late
    if delay.bursty:
        when = (when // delay.bursty + 1) * delay.bursty - 1
    return Arrivals(when, uniforms[:, 1] < delay.lost)


def delay_named(given: str | Delay) -> Delay:
    """What a user wrote: KIND:NUMBER, more than one separated by commas; or a `Delay`, checked alike.

    >>> delay_named("random:100,lost:0.1")
    Delay(fixed=0, random=100.0, bursty=0, lost=0.1)
    """
    if isinstance(given, Delay):
        text = ",".join(f"{kind}:{number}" for kind, number in given._asdict().items() if number != 0) or "fixed:0"
    else:
        text = str(given)
    found: dict[str, float] = {}
    for part in text.split(","):
        kind, colon, number = part.strip().partition(":")
        if kind not in KINDS:
            raise InputError(f"`--delay {text}`: no kind of delay is called {kind!r}. {nearest(kind, KINDS)}")
        value = _number(number)
        whole = kind in ("fixed", "bursty")
        good = 0.0 <= value <= 1.0 if kind == "lost" else 0.0 <= value <= 1e9
        if not colon or not good or (whole and value != int(value)) or (kind == "bursty" and value < 1.0):
            raise InputError(f"`--delay {text}`: {kind}:NUMBER wants the {KINDS[kind]}, {EXAMPLE}.")
        if kind in found:
            raise InputError(f"`--delay {text}`: {kind} is there twice; give it once, {EXAMPLE}.")
        found[kind] = int(value) if whole else value
    return Delay(**found)  # type: ignore[arg-type]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
