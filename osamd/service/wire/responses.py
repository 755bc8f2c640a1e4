"""The bodies of responses."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from osamd.service.schema import ClassName, NamedClass, SampleColumn


class Out(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(frozen=True)


class Problem(Out):
    """Why a request was refused."""

    code: str
    message: str
    where: str | None = None


class Error(Out):
    """The body of every refusal."""

    error: Problem


class Decided(Out):
    """The decision on one sample."""

    round: int
    id: str | None
    label: ClassName
    probabilities: dict[str, float]
    margin: float
    query: bool
    probability: float
    withheld: Literal["rate", "window", "max_labels"] | None


class Decisions(Out):
    """The decisions on samples, in their order; an error stands for a sample that the model could not score."""

    decisions: list[Decided | Error]


class LabelOutcome(Out):
    """The outcome of one label."""

    round: int
    label: ClassName
    status: Literal["learned", "repeated", "second", "corrected"]


class LabelOutcomes(Out):
    """The outcomes of labels, in their order."""

    outcomes: list[LabelOutcome | Error]


class ShownValue(Out):
    """One value as people see it; `used`: whether the model uses it, too."""

    name: str
    value: float | bool | str | None
    unit: str = ""
    used: bool = True


class Pixels(Out):
    """An image, row by row, with values from 0 to 1."""

    height: int
    width: int
    channels: int
    pixels: list[float]


class ShownDisplay(Out):
    """What was sent for people to see; `image` and `audio` are addresses."""

    text: str | None
    fields: list[ShownValue] | None
    image: str | None
    audio: str | None
    link: str | None


class PendingQuery(Out):
    """A sample whose label is asked for; `second`: it has been answered, and a second opinion is wanted."""

    round: int
    id: str | None
    asked_at: float
    guess: ClassName
    probabilities: dict[str, float]
    margin: float
    features: list[ShownValue] | None
    image: Pixels | None
    display: ShownDisplay | None
    second: bool
    skips: int
    held: bool
    lease_until: float | None


class PendingQueries(Out):
    """Pending queries; `pending` counts all of them."""

    queries: list[PendingQuery]
    pending: int


class QueryOutcome(Out):
    """The outcome of a query."""

    round: int
    status: Literal["skipped", "unsure", "none", "expired", "repeated"]


class ExpiredCount(Out):
    """The number of queries that expired."""

    expired: int


class Archived(Out):
    """The number of archived events, and their file in STATE/archive; null if there were none."""

    events: int
    file: str | None


class Erased(Out):
    """The numbers of samples and answers that were erased."""

    samples: int
    answers: int


class ClassNames(Out):
    """All classes."""

    classes: list[ClassName]


class OwnAnswer(Out):
    """An answer of the caller."""

    seq: int
    round: int
    at: float
    kind: Literal["label", "none", "unsure", "second", "correct"]
    label: ClassName | None


class OwnAnswers(Out):
    """The answers of the caller, the latest first."""

    answers: list[OwnAnswer]


class ImageSize(Out):
    """The size of samples that are images."""

    height: int
    width: int
    channels: int


class LoggedIn(Out):
    """Who has logged in."""

    name: str
    roles: list[str]


class SchemaOut(Out):
    """What samples and classes are."""

    title: str
    guidelines: str
    show_guess: bool
    ignored: list[str]
    features: int
    columns: list[SampleColumn] | None
    image: ImageSize | None
    classes: list[NamedClass]


def problem(code: str, message: str, where: str | None = None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"code": code, "message": message, "where": where}}
