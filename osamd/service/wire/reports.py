"""The bodies of responses that say how a stream stands, now and over its rounds."""

from __future__ import annotations

from typing import Literal

from osamd.service.schema import ClassName
from osamd.service.wire.responses import Out


class BudgetStatus(Out):
    """The budget, what was spent of it, and how many labels it allows now."""

    rate: float | None
    window: int | None
    max_labels: int | None
    floor: float | None
    target: float | None
    spent: float | None
    left: int | None
    since: int
    """The round in which the budget was changed last; 0 where it never was."""
    asked_before: int
    """Labels that were asked for before that."""


class TodayStatus(Out):
    """Since midnight, UTC."""

    rounds: int
    asked: int
    told: int
    left: int | None


class AccuracyStatus(Out):
    """An estimate from the labels that were asked for alone, with its interval."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    rounds: int
    labels: int
    blind: int


class HealthStatus(Out):
    """How it fares in the last rounds: fine, unknown or alarm, why, and what to do; `collapsed` where it is alarm."""

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
    """Samples that were refused since the start for a value far beyond all before, and why the last one was."""

    count: int
    last: str


class Agreement(Out):
    """How far two people agree on the same samples, with the interval of the share at a level of 90 %; Cohen's `kappa`
    is 0 for chance and 1 for full agreement."""

    number: int
    agreed: int
    share: float | None
    low: float | None
    high: float | None
    kappa: float | None


class Status(Out):
    """How it stands."""

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
    """How it stood after a round."""

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
    """How it stood, over the rounds."""

    points: list[HistoryPoint]
    classes: list[ClassName]


class ServiceUp(Out):
    """That the service is there."""

    status: Literal["ok"]
