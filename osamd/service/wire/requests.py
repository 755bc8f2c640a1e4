"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from osamd.service.display import ForPeople
from osamd.service.schema import ClassName, In
from osamd.service.wire.request_values import MOST, ClientId, FeatureValues, Holder, LabelName, Order, RoundNumber


class SampleIn(In):
    """One sample to decide on."""

    features: FeatureValues
    id: ClientId | None = Field(None, description="Your own name for it; a sample sent again gets the same response.")
    display: ForPeople | None = Field(None, description="What annotators see; the model never learns from it.")


class SamplesIn(In):
    """Samples to decide on, one after the other."""

    samples: Annotated[list[SampleIn], FailFast()] = Field(min_length=1, max_length=100_000)


class LabelIn(In):
    """The label of one query, by its round or by the id of its sample."""

    round: RoundNumber | None = None
    id: ClientId | None = None
    label: LabelName
    holder: Holder | None = Field(None, description="Who answers, if several people share a token.")


class LabelsIn(In):
    """Labels of queries."""

    labels: Annotated[list[LabelIn], FailFast()] = Field(min_length=1, max_length=100_000)


class Claim(In):
    """Who wants queries to answer, and how many."""

    holder: Holder
    order: Order = "oldest"
    limit: int = Field(1, ge=1, le=100, strict=True)
    lease: float = Field(120.0, ge=5.0, le=3600.0, allow_inf_nan=False, strict=True, description="Seconds.")


class Skip(In):
    """Who skips a query, does not know, or finds that no class fits."""

    holder: Holder


class Correct(In):
    """Another label for a query that was answered."""

    round: RoundNumber
    label: LabelName
    holder: Holder | None = None


class Expire(In):
    """Which queries expire: those asked more than this many rounds ago."""

    older_than: RoundNumber


class Login(In):
    """What people give to log in."""

    token: str = Field(max_length=200)


class NewBudget(In):
    """A new budget; fields that are left out stay, null removes a limit."""

    budget: float | None = Field(default=None, gt=0.0, le=1.0, description="The largest share of rounds.")
    budget_window: int | None = Field(
        default=None, ge=1, le=10**7, description="Keep the budget within every window of this many rounds."
    )
    max_labels: int | None = Field(
        default=None, ge=1, le=MOST, description="In total, including labels asked for before."
    )
    target_accuracy: float | None = Field(default=None, gt=0.0, lt=1.0)


class NewClass(In):
    """A new class."""

    name: ClassName
    title: str = Field(default="", max_length=200, description="The name that people see.")
    about: str = Field(default="", max_length=2000, description="When the class applies, for annotators.")


class Archive(In):
    """Which events to archive."""

    older_than_days: float = Field(ge=0.0, le=1e6, allow_inf_nan=False)


class Erase(In):
    """Whose data to erase."""

    ids: list[Annotated[str, Field(max_length=128)]] = Field(default=[], max_length=10_000)
    rounds: list[RoundNumber] = Field(default=[], max_length=10_000)
    labeller: str | None = Field(default=None, min_length=1, max_length=200, description="The name of a token.")
