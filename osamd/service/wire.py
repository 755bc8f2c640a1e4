"""What travels over HTTP, as pydantic knows it: the OpenAPI document is made from these."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, PlainValidator, StringConstraints
from pydantic_core import PydanticCustomError

from osamd.service.display import ForPeople
from osamd.service.schema import Class, Column, In, Named

MOST = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""

CLIENT_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""Printable ASCII without blanks."""
ClientId = Annotated[str, StringConstraints(pattern=f"^{CLIENT_ID.pattern}$")]
Holder = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]
Round = Annotated[int, Field(ge=0, le=MOST, strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
LONGEST_TEXT = 20_000
"""Letters of a value: free text is shown to people, though no model learns from it."""
Value = Number | bool | Annotated[str, Field(max_length=LONGEST_TEXT)] | None
Order = Literal["oldest", "valuable"]


def _features(given: Any) -> Any:
    """Values by place or by name, whole numbers as floats.

    A function, and no type: pydantic would write an error for each of a million bad values, which takes a minute.
    """
    if type(given) not in (list, dict):
        raise PydanticCustomError("features", "give a list of values, or an object that has them by column")
    values = list(given.values()) if type(given) is dict else given
    kinds = set(map(type, values))
    if not kinds <= {float, int, bool, str, type(None)}:
        raise PydanticCustomError("features", "a value is a number, true, false, a text or null")
    if type(given) is dict and any(len(name) > 200 for name in given):
        raise PydanticCustomError("features", "the name of a column has at most 200 letters")
    if str in kinds and any(type(value) is str and len(value) > LONGEST_TEXT for value in values):
        raise PydanticCustomError("features", f"a text has at most {LONGEST_TEXT} letters")
    if int in kinds:
        try:
            values = [float(value) if type(value) is int else value for value in values]
        except OverflowError:
            raise PydanticCustomError("features", "a number is beyond all floats") from None
        return dict(zip(given, values, strict=True)) if type(given) is dict else values
    return given


def _label(given: Any) -> Any:
    if type(given) not in (str, int, float) or (type(given) is str and len(given) > 200):
        raise PydanticCustomError("label", "a label is the name of a class, a text of at most 200 letters or a number")
    return given


Features = Annotated[
    list[Any] | dict[str, Any],
    PlainValidator(_features, json_schema_input_type=list[Value] | dict[Annotated[str, Field(max_length=200)], Value]),
    Field(description="Values in the order of the columns, or by their names."),
]
Label = Annotated[
    str | int | float, PlainValidator(_label, json_schema_input_type=Annotated[str, Field(max_length=200)] | Number)
]


class Sample(In):
    """One sample to decide on."""

    features: Features
    id: ClientId | None = Field(None, description="Your own name for it: sending it again is answered as before.")
    display: ForPeople | None = Field(None, description="What people see who label it; never learned from.")


class Samples(In):
    """Samples to decide on, one after the other."""

    samples: Annotated[list[Sample], FailFast()] = Field(min_length=1, max_length=100_000)


class Told(In):
    """The label of one query, by its round or by the id of its sample."""

    round: Round | None = None
    id: ClientId | None = None
    label: Label
    holder: Holder | None = Field(None, description="Who answers, where several people share a token.")


class Labels(In):
    """Labels of queries."""

    labels: Annotated[list[Told], FailFast()] = Field(min_length=1, max_length=100_000)


class Claim(In):
    """Who wants queries to answer, and how many."""

    holder: Holder
    order: Order = "oldest"
    limit: int = Field(1, ge=1, le=100, strict=True)
    lease: float = Field(120.0, ge=5.0, le=3600.0, allow_inf_nan=False, strict=True, description="Seconds.")


class Skip(In):
    """Who skips a query, cannot tell, or finds that no class fits."""

    holder: Holder


class Correct(In):
    """Another label for a query that was answered."""

    round: Round
    label: Label
    holder: Holder | None = None


class Expire(In):
    """Which queries are given up: those asked for more than so many rounds ago."""

    older_than: Round


class Login(In):
    """What people give to log in."""

    token: str = Field(max_length=200)


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
    label: Class
    probabilities: dict[str, float]
    margin: float
    query: bool
    probability: float
    withheld: Literal["rate", "window", "max_labels"] | None


class Decisions(Out):
    """The decisions on samples, in their order; in place of one that the model could make nothing of, the error."""

    decisions: list[Decided | Error]


class Outcome(Out):
    """What became of one label."""

    round: int
    label: Class
    status: Literal["learned", "repeated", "second", "corrected"]


class Outcomes(Out):
    """What became of labels, in their order."""

    outcomes: list[Outcome | Error]


class Shown(Out):
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


class Seen(Out):
    """What was sent for people to see; `image` and `audio` are where they can be had."""

    text: str | None
    fields: list[Shown] | None
    image: str | None
    audio: str | None
    link: str | None


class Query(Out):
    """A sample whose label is asked for; `second`: somebody has answered it, and a second opinion is wanted."""

    round: int
    id: str | None
    asked_at: float
    guess: Class
    probabilities: dict[str, float]
    margin: float
    features: list[Shown] | None
    image: Pixels | None
    display: Seen | None
    second: bool
    skips: int
    held: bool
    lease_until: float | None


class Queries(Out):
    """Queries that wait; `pending` counts all."""

    queries: list[Query]
    pending: int


class Ended(Out):
    """What became of a query."""

    round: int
    status: Literal["skipped", "unsure", "none", "expired", "repeated"]


class Expired(Out):
    """How many queries were given up."""

    expired: int


class Budget(Out):
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


class NewBudget(In):
    """Another budget; what is left out stays, null takes a limit away."""

    budget: float | None = Field(default=None, gt=0.0, le=1.0, description="The largest share of rounds.")
    budget_window: int | None = Field(default=None, ge=1, le=10**7, description="In any so many rounds on end.")
    max_labels: int | None = Field(default=None, ge=1, le=MOST, description="In all, those of before among them.")
    target_accuracy: float | None = Field(default=None, gt=0.0, lt=1.0)


class NewClass(In):
    """A class that was not there before."""

    name: Class
    title: str = Field(default="", max_length=200, description="What people call it; its name by default.")
    about: str = Field(default="", max_length=2000, description="When it is right, for those who label.")


class Archive(In):
    """Which events to archive."""

    older_than_days: float = Field(ge=0.0, le=1e6, allow_inf_nan=False)


class Archived(Out):
    """How many events were archived, and into which file of STATE/archive; none where there was nothing."""

    events: int
    file: str | None


class Erase(In):
    """Whose data to erase."""

    ids: list[Annotated[str, Field(max_length=128)]] = Field(default=[], max_length=10_000)
    rounds: list[Round] = Field(default=[], max_length=10_000)
    labeller: str | None = Field(default=None, min_length=1, max_length=200, description="The name of a token.")


class ErasedNow(Out):
    """How many samples and answers were erased."""

    samples: int
    answers: int


class Classes(Out):
    """All classes."""

    classes: list[Class]


class Today(Out):
    """Since midnight, UTC."""

    rounds: int
    asked: int
    told: int
    left: int | None


class Accuracy(Out):
    """An estimate from the labels that were asked for alone, with its interval."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    rounds: int
    labels: int
    blind: int


class Health(Out):
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


class Wild(Out):
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


class Own(Out):
    """An answer of one's own."""

    seq: int
    round: int
    at: float
    kind: Literal["label", "none", "unsure", "second", "correct"]
    label: Class | None


class Answers(Out):
    """One's own answers, the last one first."""

    answers: list[Own]


class Status(Out):
    """How it stands."""

    seq: int
    rounds: int
    asked: int
    told: int
    expired: int
    pending: int
    held: int
    classes: list[Class]
    method: str
    budget: Budget
    today: Today
    accuracy: Accuracy
    recent: Accuracy
    health: Health
    second_opinions: Agreement
    wild: Wild
    version: str


class Point(Out):
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

    points: list[Point]
    classes: list[Class]


class ImageSize(Out):
    """Of samples that are images."""

    height: int
    width: int
    channels: int


class Described(Out):
    """What samples and classes are."""

    title: str
    guidelines: str
    show_guess: bool
    ignored: list[str]
    features: int
    columns: list[Column] | None
    image: ImageSize | None
    classes: list[Named]


class Alive(Out):
    """That the service is there."""

    status: Literal["ok"]


def problem(code: str, message: str, where: str | None = None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"code": code, "message": message, "where": where}}
