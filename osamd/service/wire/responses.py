"""The bodies of responses."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from osamd.service.schema import ClassName, NamedClass, SampleColumn


class Out(BaseModel):
    """An answer."""

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
    """The decisions on samples, in their order; in place of one that the model could make nothing of, the error."""

    decisions: list[Decided | Error]


class LabelOutcome(Out):
    """What became of one label."""

    round: int
    label: ClassName
    status: Literal["learned", "repeated", "second", "corrected"]


class LabelOutcomes(Out):
    """What became of labels, in their order."""

    outcomes: list[LabelOutcome | Error]


class ShownValue(Out):
    """One value, as people see it; `used`: whether the model sees it, too."""

    name: str
    value: float | bool | str | None
    unit: str = ""
    used: bool = True


class Pixels(Out):
    """An image, row by row, from 0 to 1."""

    height: int
    width: int
    channels: int
    pixels: list[float]


class ShownDisplay(Out):
    """What was sent for people to see; `image` and `audio` are where they can be had."""

    text: str | None
    fields: list[ShownValue] | None
    image: str | None
    audio: str | None
    link: str | None


class PendingQuery(Out):
    """A sample whose label is asked for; `second`: somebody has answered it, and a second opinion is wanted."""

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
    """Queries that wait; `pending` counts all."""

    queries: list[PendingQuery]
    pending: int


class QueryOutcome(Out):
    """What became of a query."""

    round: int
    status: Literal["skipped", "unsure", "none", "expired", "repeated"]


class ExpiredCount(Out):
    """How many queries were given up."""

    expired: int


class Archived(Out):
    """How many events were archived, and into which file of STATE/archive; none where there was nothing."""

    events: int
    file: str | None


class Erased(Out):
    """How many samples and answers were erased."""

    samples: int
    answers: int


class ClassNames(Out):
    """All classes."""

    classes: list[ClassName]


class OwnAnswer(Out):
    """An answer of one's own."""

    seq: int
    round: int
    at: float
    kind: Literal["label", "none", "unsure", "second", "correct"]
    label: ClassName | None


class OwnAnswers(Out):
    """One's own answers, the last one first."""

    answers: list[OwnAnswer]


class ImageSize(Out):
    """Of samples that are images."""

    height: int
    width: int
    channels: int


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
