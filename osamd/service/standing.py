"""The status of a service, as in /v1/status, and the points of its history."""

from __future__ import annotations

import math
from typing import Any

from osamd.accounting.health import Health
from osamd.numerics import Array
from osamd.service.fold import Fold


def status(live: Fold, pending: int, day: int) -> dict[str, Any]:
    """The status; `day` is today, in days since 1970."""
    learner = live.learner
    limits, rounds, asked = learner.limits, learner.rounds, learner.asked
    counted = learner.counted
    today = live.today if live.today["day"] == day else {"rounds": 0, "asked": 0, "told": 0}
    rate_left = None if limits.rate is None else max(0, math.floor(limits.rate * counted.rounds) - counted.asked)
    count_left = None if limits.max_labels is None else max(0, limits.max_labels - asked)
    day_left = None if limits.rate is None else max(0, math.floor(limits.rate * today["rounds"]) - today["asked"])
    budget = limits._asdict() | {
        "spent": counted.asked / counted.rounds if counted.rounds else None,
        "left": _least(rate_left, count_left),
        "since": rounds - counted.rounds,
        "asked_before": asked - counted.asked,
    }
    return {
        "seq": live.seq,
        "rounds": rounds,
        "asked": asked,
        "told": learner.told,
        "expired": learner.expired,
        "pending": pending,
        "classes": learner.classes,
        "method": learner.method,
        "budget": budget,
        "today": {name: today[name] for name in ("rounds", "asked", "told")} | {"left": _least(day_left, count_left)},
        "accuracy": _numbers(learner.accuracy()),
        "recent": _numbers(learner.accuracy(window=True)),
        "health": _health(learner.health()),
        "second_opinions": _agreement(live.opinions),
    }


def _agreement(opinions: dict[str, Any]) -> dict[str, Any]:
    """How often two people agree on the same samples: the share, and Cohen's kappa, which corrects for chance."""
    first, second = opinions["first"], opinions["second"]
    number = sum(first)
    share = opinions["agreed"] / number if number else None
    chance = sum(a * b for a, b in zip(first, second, strict=True)) / number**2 if number else 1.0
    kappa = (share - chance) / (1.0 - chance) if share is not None and chance < 1.0 else None
    low, high = _wilson(opinions["agreed"], number)
    return {"number": number, "agreed": opinions["agreed"], "share": share, "low": low, "high": high, "kappa": kappa}


def _wilson(count: int, number: int) -> tuple[float | None, float | None]:
    """The 90 % Wilson score interval of a share."""
    if number == 0:
        return None, None
    z = 1.6449
    middle = (count + z * z / 2) / (number + z * z)
    half = z * math.sqrt(count * (number - count) / number + z * z / 4) / (number + z * z)
    return max(0.0, middle - half), min(1.0, middle + half)


def point(live: Fold, pending: int, decided: Array, at: float) -> dict[str, Any]:
    """One point of the history; `decided` counts the decisions for each class since the point before."""
    learner = live.learner
    whole, recent, rounds = learner.accuracy(), learner.accuracy(window=True), learner.recent_rounds()
    shares = decided / max(1.0, decided.sum())
    return {
        "round": learner.rounds,
        "at": round(at, 3),
        "accuracy": _number(whole.value),
        "low": _number(whole.low),
        "high": _number(whole.high),
        "recent": _number(recent.value),
        "recent_low": _number(recent.low),
        "recent_high": _number(recent.high),
        "asked": learner.asked,
        "told": learner.told,
        "expired": learner.expired,
        "pending": pending,
        "margin": _number(float(rounds.margin.mean())),
        "disagreement": _number(float(rounds.disagreement.mean())),
        "decided": [round(share, 4) for share in shares.tolist()],
    }


def _health(found: Health) -> dict[str, Any]:
    return _numbers(found) | {"collapsed": found.collapsed}


def _numbers(told: Any) -> dict[str, Any]:
    return {name: _number(value) for name, value in told._asdict().items()}


def _number(value: Any) -> Any:
    """A number for JSON: None if it is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _least(*values: int | None) -> int | None:
    given = [value for value in values if value is not None]
    return min(given) if given else None
