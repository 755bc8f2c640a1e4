"""The six methods of Table 1 as settings of the one round, and the settings that a user gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from osamd.errors import (
    InputError,
    lookup,
    reject,
    require_kind,
    require_not_negative,
    require_positive,
    require_rate,
    require_whole,
)
from osamd.numerics import Array
from osamd.paper.algorithm import Rates, Round, State, bind
from osamd.paper.geometry import Geometry, euclidean
from osamd.paper.losses import Loss, loss
from osamd.paper.models import Linear
from osamd.paper.queries import QUERIES, Query, margin, uniform


@dataclass(frozen=True)
class Method:
    """How queries are made, whether the student trains itself on pseudolabels, and who decides."""

    name: str
    title: str
    query: str
    self_training: bool
    teacher_decides: bool = False

    def __post_init__(self) -> None:
        lookup("Method", "query", self.query, QUERIES)


METHODS = {
    method.name: method
    for method in (
        Method("osamd", "OSAMD", "margin", self_training=True),
        Method("paa", "PAA", "margin", self_training=False, teacher_decides=True),
        Method("omd-all", "OMD (all)", "always", self_training=False),
        Method("omd-partial", "OMD (partial)", "uniform", self_training=False),
        Method("osamd-no-self-adaptation", "OSAMD w/o self-adaptation", "margin", self_training=False),
        Method("osamd-no-active-query", "OSAMD w/o active query", "uniform", self_training=True),
    )
}

PRESET = Method("osamd-preset", "OSAMD preset", "margin", self_training=True)
"""Not in the paper: several models and a memory, without a step size (`osamd.preset`, `osamd.fleet.preset_fleet`)."""

KNOWN = METHODS | {PRESET.name: PRESET}

OF_THE_PAPER = ("eta", "sigma", "loss", "l2", "geometry", "teacher", "adaptation", "label_rate", "standardise")
"""Settings of the paper's round, which the preset does not use."""


def method_name(method: str | None, given: Mapping[str, Any]) -> str:
    """The name of the method that these settings ask for; a setting that is None was not given.

    It is the named method. If none is named it is the preset, or "osamd" if one of `OF_THE_PAPER` is given.

    >>> method_name(None, {"budget": 0.05}), method_name(None, {"eta": 0.1}), method_name("paa", {"budget": 0.05})
    ('osamd-preset', 'osamd', 'paa')
    """
    if method is not None:
        return method
    return PRESET.name if all(given.get(name) is None for name in OF_THE_PAPER) else "osamd"


def refuse_of_the_paper(given: Mapping[str, Any]) -> None:
    """Refuse settings that the preset does not use; a setting that is None was not given."""
    name = next((name for name in OF_THE_PAPER if given.get(name) is not None), None)
    if name is not None:
        raise InputError(
            f"`OSAMD(method='osamd-preset', {name}=...)`: the preset sets its steps and scales by itself; leave it out,"
            " or name a method of the paper, as method='osamd'."
        )


class TeacherStep(NamedTuple):
    """tau = min{cap, s max(0, target - Psi)}, with s = 1 / ||grad Psi||_*^2, or s = `scale` if that is positive."""

    cap: float = 1.0
    target: float = 1.0
    scale: float = 0.0


def lemma1_step(sigma: float) -> TeacherStep:
    """Lemma 1: no cap, target margin sigma."""
    return TeacherStep(cap=math.inf, target=require_positive("lemma1_step", "sigma", sigma))


def lemma3_step(sigma: float, G: float) -> TeacherStep:
    """Lemma 3: the cap sigma / G^2, target margin sigma."""
    sigma = require_positive("lemma3_step", "sigma", sigma)
    G = require_positive("lemma3_step", "G", G)
    return TeacherStep(cap=sigma / (G * G), target=sigma)


def experiments_step(cap: float = 1.0, scale: float = 0.0) -> TeacherStep:
    """The paper's experiments: target margin 1, a cap, and for deep models a fixed scale instead of the norm."""
    return _checked(TeacherStep(cap=cap, target=1.0, scale=scale), "experiments_step")


def _checked(step: TeacherStep, call: str) -> TeacherStep:
    """The teacher step with its numbers checked, as floats; errors name `call`."""
    return TeacherStep(
        require_positive(call, "cap", step.cap, infinite=True),
        require_positive(call, "target", step.target),
        require_not_negative(call, "scale", step.scale),
    )


class InnerLoops(NamedTuple):
    """Approximate the implicit step by `number` gradient steps of rate `rate`."""

    number: int = 20
    rate: float = 0.01


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a method needs besides its model: the parts and the numbers.

    `adaptation`: None solves the implicit step exactly; `InnerLoops` approximates it as the paper's experiments do.
    `label_rate`: the label rate of the methods that ask uniformly.
    """

    eta: float
    sigma: float
    loss: Loss = field(default_factory=lambda: loss("hinge"))
    geometry: Geometry = field(default_factory=euclidean)
    teacher: TeacherStep = field(default_factory=experiments_step)
    adaptation: InnerLoops | None = None
    label_rate: float | None = None

    def __post_init__(self) -> None:
        require_positive("Settings", "eta", self.eta)
        require_positive("Settings", "sigma", self.sigma)
        require_kind("Settings", "loss", self.loss, Loss, 'use one such as loss("hinge")')
        require_kind("Settings", "geometry", self.geometry, Geometry, "use one such as euclidean() or ball(1.0)")
        require_kind("Settings", "teacher", self.teacher, TeacherStep, "use one such as experiments_step(cap=1.0)")
        _checked(self.teacher, "TeacherStep")
        if self.adaptation is not None:
            remedy = "use InnerLoops(number=20, rate=0.01), or None for the exact step"
            require_kind("Settings", "adaptation", self.adaptation, InnerLoops, remedy)
            require_whole("InnerLoops", "number", self.adaptation.number)
            require_positive("InnerLoops", "rate", self.adaptation.rate)
        if self.label_rate is not None:
            require_rate("Settings", "label_rate", self.label_rate)


class Learner(NamedTuple):
    """A method bound to its parts: the round, its numbers, and its initial state."""

    method: Method
    model: Linear
    loss: Loss
    geometry: Geometry
    round: Round
    rates: Rates
    state: State


def learner(method: str | Method, model: Linear, settings: Settings, start: ArrayLike | None = None) -> Learner:
    """Bind a method to a model and settings; teacher and student both start at `start` (inside K; zeros by default).

    >>> import numpy as np
    >>> from osamd.paper.models import linear
    >>> paa = learner("paa", linear(features=2), Settings(eta=0.01, sigma=0.35), start=[0.4, 0.0, -4.0])
    >>> x = paa.model.augment(np.array([15.0, 0.0]))
    >>> paa.round.observe(paa.state, x, 0.5, paa.rates).label
    1
    """
    chosen = method if isinstance(method, Method) else lookup("learner", "method", method, METHODS)
    require_kind("learner", "model", model, Linear, "build one with linear(features=...)")
    require_kind("learner", "settings", settings, Settings, "build them with Settings(eta=..., sigma=...)")
    geometry = settings.geometry
    if model.signed != geometry.signed:
        raise InputError(
            f"`learner(model=..., geometry={geometry.name!r})`: the model has signed={model.signed}, the geometry needs"
            f" signed={geometry.signed}; build the model with linear(..., signed={geometry.signed})."
        )
    params = geometry.start(model.shape) if start is None else model.parameters(start, "learner")
    params = geometry.project(params)
    rates = rates_of(chosen, settings, model.penalty(settings.loss.l2, settings.loss.free_bias))
    bound = bind(model, settings.loss, geometry)
    return Learner(chosen, model, settings.loss, geometry, bound, rates, State(params, params))


def rates_of(method: Method, settings: Settings, penalty: Array) -> Rates:
    """The numbers and switches of the round for a method; `penalty` is the L2 coefficient of every parameter."""
    query, teacher, loops = _query(method, settings), _checked(settings.teacher, "TeacherStep"), settings.adaptation
    return Rates(
        self_training=method.self_training,
        teacher_decides=method.teacher_decides,
        sigma=query.sigma,
        floor=query.floor,
        eta=float(settings.eta),
        cap=teacher.cap,
        target=teacher.target,
        scale=teacher.scale,
        inner_loops=int(loops.number) if loops else 0,
        inner_rate=float(loops.rate) if loops else 0.0,
        penalty=penalty,
    )


def _query(method: Method, settings: Settings) -> Query:
    if method.query == "margin":
        return margin(settings.sigma)
    if method.query == "uniform":
        if settings.label_rate is None:
            raise reject("learner", "method", method.name, "it asks uniformly: give Settings(label_rate=...).")
        return uniform(settings.label_rate)
    return QUERIES[method.query]()
