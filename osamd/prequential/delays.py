"""How a user describes the delay of labels: a number of rounds, random, in batches, or never."""

from __future__ import annotations

import math

from osamd.errors import InputError, nearest
from osamd.evaluation.answers import Delay

KINDS = {
    "fixed": "rounds that every label takes",
    "random": "mean number of rounds, geometrically distributed",
    "bursty": "rounds between two batches of labels",
    "lost": "share of labels that never come, between 0 and 1",
}
EXAMPLE = "as in delay='fixed:100' or delay='random:100,lost:0.1'"


def delay_named(given: str | Delay) -> Delay:
    """The delay that a user wrote as KIND:NUMBER, several separated by commas; a `Delay` is checked in the same way.

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
            raise InputError(
                f"`run(delay={text!r})`: there is no kind of delay called {kind!r}. {nearest(kind, KINDS)}"
            )
        value = _number(number)
        whole = kind in ("fixed", "bursty")
        good = 0.0 <= value <= 1.0 if kind == "lost" else 0.0 <= value <= 1e9
        if not colon or not good or (whole and value != int(value)) or (kind == "bursty" and value < 1.0):
            raise InputError(f"`run(delay={text!r})`: {kind}:NUMBER needs the {KINDS[kind]}, {EXAMPLE}.")
        if kind in found:
            raise InputError(f"`run(delay={text!r})`: {kind} is given twice; give it once, {EXAMPLE}.")
        found[kind] = int(value) if whole else value
    return Delay(**found)  # type: ignore[arg-type]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
