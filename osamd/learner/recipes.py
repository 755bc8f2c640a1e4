"""What a learner is made from: a recipe of the paper (a method with its settings), or the recipe of the preset.

A recipe knows its method, its default budget and floor, how its book of labels begins, what a file must hold about it,
and the core of a linear model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from osamd.accounting.budget import Budget
from osamd.accounting.steering import open_book
from osamd.errors import InputError, require_positive
from osamd.learner import saving
from osamd.learner.cores.paper import LinearCore
from osamd.learner.cores.preset import PresetCore
from osamd.numerics import Array
from osamd.paper.losses import loss as named_loss
from osamd.paper.methods import PRESET, InnerLoops, Method, Settings, TeacherStep, refuse_of_the_paper
from osamd.paper.methods import learner as bound
from osamd.paper.models import linear
from osamd.preset import arbiter

REACH = 0.3
"""eta * (features + 1) if no eta is given: roughly how far one step moves a score, with standardised features."""


class Asking(NamedTuple):
    """The share of rounds whose label may be asked for, and the least probability of a query; None is the default."""

    budget: float | None
    floor: float | None


class Recipe(ABC):
    """What all recipes know."""

    method: Method

    @abstractmethod
    def asking(self, budget: float | None, floor: float | None, audit: float | None = None) -> Asking:
        """Budget and floor, with the defaults of the recipe where they are not given.

        `audit` is the floor of the preset as a share of the rate, if it differs from that of linear models.
        """

    @abstractmethod
    def within(self, limits: Budget) -> Recipe:
        """The recipe under a budget."""

    @abstractmethod
    def book(self, limits: Budget) -> Array:
        """The book of labels before the first round."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What JSON must hold to make the recipe again, besides the name of its method."""

    @abstractmethod
    def linear_core(self, features: int, classes: int, book: Array, meter: Array) -> Any:
        """The core of a linear model that has seen no sample yet."""


@dataclass(frozen=True)
class PaperRecipe(Recipe):
    """A method of the paper; if `eta` is None, a linear model takes REACH / (features + 1)."""

    method: Method
    settings: Settings
    eta: float | None
    standardise: bool = False

    def asking(self, budget: float | None, floor: float | None, audit: float | None = None) -> Asking:
        return Asking(budget, floor)

    def within(self, limits: Budget) -> PaperRecipe:
        if self.method.query != "uniform" or self.settings.label_rate is not None:
            return self
        return replace(self, settings=replace(self.settings, label_rate=limits.rate))

    def book(self, limits: Budget) -> Array:
        return open_book(limits, self.settings.sigma, self.method.query, self.settings.label_rate)

    def described(self) -> dict[str, Any]:
        settings = saving.settings_to_json(self.settings)
        return {"settings": settings, "eta": self.eta, "standardise": self.standardise}

    def linear_core(self, features: int, classes: int, book: Array, meter: Array) -> LinearCore:
        settings = replace(self.settings, eta=self.eta or REACH / (features + 1))
        model = linear(features, classes, signed=settings.geometry.signed)
        return LinearCore(bound(self.method, model, settings), book, meter, self.standardise)


@dataclass(frozen=True)
class PresetRecipe(Recipe):
    """The default learner, which has no settings."""

    method: Method = PRESET

    def asking(self, budget: float | None, floor: float | None, audit: float | None = None) -> Asking:
        return Asking(*arbiter.limits(budget, floor, audit))

    def within(self, limits: Budget) -> PresetRecipe:
        return self

    def book(self, limits: Budget) -> Array:
        return open_book(limits, 1.0, self.method.query)

    def described(self) -> dict[str, Any]:
        return {}

    def linear_core(self, features: int, classes: int, book: Array, meter: Array) -> PresetCore:
        return PresetCore(features, classes, book, meter)


def settings_of(content: Mapping[str, Any]) -> Settings | None:
    """The settings of the learner that a file describes; None for the preset, which has none."""
    return None if content["method"] == PRESET.name else saving.settings_from_json(content["settings"])


def network_recipe(method: Method, given: Mapping[str, Any], *, with_source: bool) -> Recipe:
    """The recipe of a method around a network, with the settings that were given."""
    if method is PRESET:
        refuse_of_the_paper(given)
        return PresetRecipe()
    if with_source:
        raise InputError(
            "`NetworkOSAMD(source=...)`: the preset remembers a source, but the paper's methods have no memory;"
            " leave source out."
        )
    for name, role in (("eta", "the student's step size"), ("sigma", "the query's eagerness")):
        if given[name] is None:
            raise InputError(
                f"`NetworkOSAMD`: a method of the paper needs {name}, {role}; give {name}=..., or leave out the"
                " method and all of its settings for the preset, which needs none."
            )
    eta = require_positive("NetworkOSAMD", "eta", given["eta"])
    settings = Settings(
        eta=eta,
        sigma=given["sigma"],
        loss=named_loss(given["loss"] or "softmax", l2=given["l2"] or 0.0),
        teacher=given["teacher"] or TeacherStep(cap=10.0 * eta, scale=5.0 * eta),
        adaptation=given["adaptation"] or InnerLoops(number=10, rate=0.1),
        label_rate=given["label_rate"],
    )
    return PaperRecipe(method, settings, eta)
