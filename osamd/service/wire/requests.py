"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from osamd.service.display import ForPeople
from osamd.service.schema import ClassName, In
from osamd.service.wire.values import MOST, ClientId, FeatureValues, Holder, LabelName, Order, RoundNumber


class SampleIn(In):
    """One sample to decide on."""

    features: FeatureValues
    id: ClientId | None = Field(None, description="Your own name for it: sending it again is answered as before.")
    display: ForPeople | None = Field(None, description="What people see who label it; never learned from.")


class SamplesIn(In):
    """Samples to decide on, one after the other."""

    samples: Annotated[list[SampleIn], FailFast()] = Field(min_length=1, max_length=100_000)


class LabelIn(In):
    """The label of one query, by its round or by the id of its sample."""

    round: RoundNumber | None = None
    id: ClientId | None = None
    label: LabelName
    holder: Holder | None = Field(None, description="Who answers, where several people share a token.")


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
    """Who skips a query, cannot tell, or finds that no class fits."""

    holder: Holder


class Correct(In):
    """Another label for a query that was answered."""

    round: RoundNumber
    label: LabelName
    holder: Holder | None = None


class Expire(In):
    """Which queries are given up: those asked for more than so many rounds ago."""

    older_than: RoundNumber


class Login(In):
    """What people give to log in."""

    token: str = Field(max_length=200)


class NewBudget(In):
    """Another budget; what is left out stays, null takes a limit away."""

    budget: float | None = Field(default=None, gt=0.0, le=1.0, description="The largest share of rounds.")
    budget_window: int | None = Field(default=None, ge=1, le=10**7, description="In any so many rounds on end.")
    max_labels: int | None = Field(default=None, ge=1, le=MOST, description="In all, those of before among them.")
    target_accuracy: float | None = Field(default=None, gt=0.0, lt=1.0)


class NewClass(In):
    """A class that was not there before."""

    name: ClassName
    title: str = Field(default="", max_length=200, description="What people call it; its name by default.")
    about: str = Field(default="", max_length=2000, description="When it is right, for those who label.")


class Archive(In):
    """Which events to archive."""

    older_than_days: float = Field(ge=0.0, le=1e6, allow_inf_nan=False)


class Erase(In):
    """Whose data to erase."""

    ids: list[Annotated[str, Field(max_length=128)]] = Field(default=[], max_length=10_000)
    rounds: list[RoundNumber] = Field(default=[], max_length=10_000)
    labeller: str | None = Field(default=None, min_length=1, max_length=200, description="The name of a token.")
