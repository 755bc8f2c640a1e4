"""The bodies of responses that report on a stream: its status, and its history."""

from __future__ import annotations

from typing import Literal

from osamd.service.schema import ClassName
from osamd.service.wire.responses import Out


class BudgetStatus(Out):
    """The budget, how much of it was spent, and how many labels it allows now."""

    rate: float | None
    window: int | None
    max_labels: int | None
    floor: float | None
    target: float | None
    spent: float | None
    left: int | None
    since: int
    """The round in which the budget was last changed; 0 if it never was."""
    asked_before: int
    """Labels that were asked for before that round."""


class TodayStatus(Out):
    """The counts since midnight, UTC."""

    rounds: int
    asked: int
    told: int
    left: int | None


class AccuracyStatus(Out):
    """The accuracy, estimated only from the labels that were asked for, with its interval."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    rounds: int
    labels: int
    blind: int


class HealthStatus(Out):
    """The health in the last rounds: fine, unknown or alarm, why, and what to do; `collapsed` is true in an alarm."""

    state: Literal["fine", "unknown", "alarm"]
    why: str
    remedy: str
    labels: int
    pending: int
    oldest_pending: int
    disagreement: float | None
    pseudolabel_error: float | None
    margin: float | None
    margin_change: float | None
    label_spend: float | None
    window_spend: float | None
    collapsed: bool


class WildSamples(Out):
    """Samples that were refused since the start for a value far larger than any before, and the last reason."""

    count: int
    last: str


class Agreement(Out):
    """How often two people agree on the same samples, with the 90 % interval of that share; Cohen's `kappa` is 0 for
    chance agreement and 1 for full agreement."""

    number: int
    agreed: int
    share: float | None
    low: float | None
    high: float | None
    kappa: float | None


class Status(Out):
    """The status of a stream."""

    seq: int
    rounds: int
    asked: int
    told: int
    expired: int
    pending: int
    held: int
    classes: list[ClassName]
    method: str
    budget: BudgetStatus
    today: TodayStatus
    accuracy: AccuracyStatus
    recent: AccuracyStatus
    health: HealthStatus
    second_opinions: Agreement
    wild: WildSamples
    version: str


class HistoryPoint(Out):
    """The state of a stream after a round."""

    round: int
    at: float
    accuracy: float | None
    low: float | None
    high: float | None
    recent: float | None
    recent_low: float | None
    recent_high: float | None
    asked: int
    told: int
    expired: int
    pending: int
    margin: float | None
    disagreement: float | None
    decided: list[float]


class History(Out):
    """The history of a stream."""

    points: list[HistoryPoint]
    classes: list[ClassName]


class ServiceUp(Out):
    """The service works."""

    status: Literal["ok"]
