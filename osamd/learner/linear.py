"""The object people hold: OSAMD with a linear model, by ask and tell, under a budget, with late labels.

    learner = osamd.OSAMD.from_source(X, y, budget=0.05)
    decision = learner.ask(x)
    learner.tell(decision, y if decision.query else None)

What it does is said in `osamd.learner.ask_tell`, the budget in `osamd.accounting.budget`, the accuracy in
`osamd.accounting.accuracy`. The file is a little longer than others, since all that can be called on the object by its
own name is here.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from osamd.accounting import budget as budgets
from osamd.checks import one_sentence, require_that
from osamd.errors import (
    InputError,
    lookup,
    reject,
    require_finite,
    require_numbers,
    require_positive,
    require_whole,
)
from osamd.learner import lean, saving
from osamd.learner.decision import known_classes, share_asked
from osamd.learner.inputs import as_row, many_samples, names_of, one_row, one_sample
from osamd.learner.recipes import REACH, PaperRecipe, PresetRecipe, Recipe, settings_of
from osamd.learner.resuming import require_fitting
from osamd.learner.source import FrozenSource, recognised, sourced
from osamd.learner.starting import StartingLearner
from osamd.numerics import Array
from osamd.paper.geometry import Geometry, euclidean
from osamd.paper.losses import Loss
from osamd.paper.losses import loss as named_loss
from osamd.paper.methods import (
    KNOWN,
    OF_THE_PAPER,
    PRESET,
    InnerLoops,
    Settings,
    TeacherStep,
    experiments_step,
    method_name,
    refuse_of_the_paper,
)
from osamd.paper.models import linear
from osamd.tables.samples import SampleEncoder, encoder_from

__all__ = ["OSAMD", "REACH"]


class OSAMD(StartingLearner):
    """A linear classifier that keeps up with a drifting stream while it asks for few labels.

    `features`: how many, or their names (then samples may be dictionaries or rows of a data frame); taken from the
    first sample where it is left out. `classes`: their names, two or more, or how many. It starts from nothing unless
    there is a `start` (weights with the bias last, one row a class for three and more), or by `from_source` and
    `from_sklearn`. `source` is a fitted classifier of scikit-learn's kind, of whatever sort, that the default learner
    keeps to until labels show that others do better; it stays as it is, and `load` needs it again.

    `budget` is the largest share of rounds whose label is asked for, over the whole stream, or over any
    `budget_window` rounds; `max_labels` the largest number. How readily it asks is steered so that the budget is spent,
    from `sigma` on. `floor` is the least probability of a query while the budget allows one. With a `target_accuracy`
    it asks for no more than keeps the lower end of the accuracy's interval above it, within the budget; `health` says
    when that cannot be. `expire_after`: with every `tell`, give up waiting for labels that were asked for more than so
    many rounds ago. `window`: the rounds of the sliding accuracy.

    Nothing more is needed: without a `method` it is the preset (`osamd.preset`), which has no step size, asks for at
    most 5 % of the labels where no budget is given, and for which units and scales of the features do not matter.

    For the paper's rounds name a method of the paper, as method="osamd", or give one of their settings, which means
    that method: eta, sigma, loss, l2, geometry, teacher, adaptation, label_rate or standardise. `learner.method` tells
    which it is. There, without a budget rate sigma stays (larger asks for more), 1 by default; `eta` is the student's
    step size, 0.3 / (features + 1) by default; `standardise` scales features by their running mean and deviation: do
    so unless they are of like scale already; the others are as in `osamd.paper.methods`.

    >>> learner = OSAMD(classes=["cat", "dog"], budget=0.5)
    >>> for x, y in [([0.0, 1.0], "cat"), ([1.0, 0.0], "dog")] * 20:
    ...     decision = learner.ask(x)
    ...     learner.tell(decision, y if decision.query else None)
    >>> learner.predict([0.9, 0.1]), learner.rounds, learner.asked <= 20
    ('dog', 40, True)
    """

    def __init__(
        self,
        *,
        features: int | Sequence[str] | None = None,
        classes: int | Sequence[Any] = 2,
        method: str | None = None,
        eta: float | None = None,
        sigma: float | None = None,
        loss: str | Loss | None = None,
        l2: float | None = None,
        geometry: Geometry | None = None,
        teacher: TeacherStep | None = None,
        adaptation: InnerLoops | None = None,
        label_rate: float | None = None,
        start: ArrayLike | None = None,
        source: Any = None,
        standardise: bool | None = None,
        budget: float | None = None,
        budget_window: int | None = None,
        max_labels: int | None = None,
        floor: float | None = None,
        target_accuracy: float | None = None,
        expire_after: int | None = None,
        window: int = 1000,
        seed: int = 0,
    ) -> None:
        numbers = (eta, sigma, loss, l2, geometry, teacher, adaptation, label_rate, standardise)
        of_the_paper = dict(zip(OF_THE_PAPER, numbers, strict=True))
        recipe = self._recipe_of(method_name(method, of_the_paper), of_the_paper)
        self._names: list[str] | None = None
        self._encoder: SampleEncoder | None = None
        self._source: FrozenSource | None = None
        if source is not None:
            alone = isinstance(recipe, PresetRecipe) and start is None
            self._source = sourced(source, None if classes == 2 else known_classes(classes), alone=alone)
            classes, features = self._source.classes, self._source.features if features is None else features
        asking = recipe.asking(share_asked("OSAMD", budget), floor)
        limits = budgets.budget(asking.budget, budget_window, max_labels, asking.floor, target_accuracy)
        super().__init__(recipe, limits, known_classes(classes), expire_after, window, seed)
        if start is not None and standardise:
            raise InputError(
                "`OSAMD(start=..., standardise=True)`: the weights are for features as they come, and standardised ones"
                " are of another scale; use from_source, or scale the features yourself."
            )
        if start is not None and features is None:
            given = require_numbers("OSAMD", "start", start)
            features = given.shape[-1] - 1 if given.ndim else 0
        if features is not None:
            self._begin(features, start)

    @staticmethod
    def _recipe_of(method: str, given: Mapping[str, Any]) -> Recipe:
        """The recipe of a method, with the settings of the paper that were given."""
        kind = lookup("OSAMD", "method", method, KNOWN)
        if kind is PRESET:
            refuse_of_the_paper(given)
            return PresetRecipe()
        eta = None if given["eta"] is None else require_positive("OSAMD", "eta", given["eta"])
        loss = "hinge" if given["loss"] is None else given["loss"]
        settings = Settings(
            eta=eta or REACH,
            sigma=1.0 if given["sigma"] is None else given["sigma"],
            loss=named_loss(loss, l2=given["l2"] or 0.0) if isinstance(loss, str) else loss,
            geometry=given["geometry"] or euclidean(),
            teacher=given["teacher"] or experiments_step(),
            adaptation=given["adaptation"],
            label_rate=given["label_rate"],
        )
        return PaperRecipe(kind, settings, eta, bool(given["standardise"]))

    @classmethod
    def load(cls, path: str | Path, source: Any = None) -> Self:
        """The learner that was saved there, to go on bit for bit; with its `source` model, if it has one of its own."""
        return cls._linear_only(saving.read(path), str(path), source)

    @classmethod
    def from_bytes(cls, data: bytes, source: Any = None) -> Self:
        """The learner whose `to_bytes` gave this; with its `source` model, if it has one of its own."""
        return cls._linear_only(saving.unpacked(data, "bytes"), "bytes", source)

    def to_state(self) -> bytes:
        """The learner as few bytes, for those who keep one learner for each of many keys: some 4 to 12 kB.

        They hold what it has learned, and not its settings: read them with `from_state` of a learner made alike. Equal
        learners give equal bytes. See `osamd.learner.lean`.

        >>> made = OSAMD(features=2, budget=0.5)
        >>> used = made.copy()
        >>> used.tell(used.ask([0.0, 1.0]))
        >>> again = made.from_state(used.to_state())
        >>> again.rounds, again.to_state() == used.to_state(), made.rounds
        (1, True, 0)
        """
        return lean.to_state(self)

    def from_state(self, data: bytes, *, trusted: bool = False, seed: int | None = None) -> Self:
        """A learner with the settings of this one, in the state that `to_state` gave; this one stays as it is.

        It continues bit for bit as the one that was written; reports on the window are rounded. With `trusted` only
        damage is detected: leave it out where others may have written the data. A `seed` starts its draws anew, for the
        first learner of a key.
        """
        learner: Self = lean.from_state(self, data, trusted=trusted, seed=seed)
        return learner

    @classmethod
    def _linear_only(cls, saved: saving.Saved, name: str, source: Any) -> Self:
        if saved.content.get("kind") != "linear":
            raise InputError(f"`OSAMD.load({name!r})`: it holds a network; use osamd.NetworkOSAMD.load(path, module).")
        with one_sentence():
            require_fitting(saved)
            return cls._revive(saved, source)

    def _like(self) -> tuple[Any, ...]:
        return () if self._source is None else (self._source.model,)

    def _described(self) -> dict[str, Any]:
        width = None if self._core is None else self._core.features
        described: dict[str, Any] = {"kind": "linear", "features": self._names or width}
        if self._encoder is not None:
            described["encoder"] = self._encoder.described()
        if self._source is not None:
            described["source_model"] = self._source.described(self._linear().features)
        return described

    @classmethod
    def _revive(cls, saved: saving.Saved, *like: Any) -> Self:
        content = saved.content
        settings = settings_of(content)
        own = {}
        if settings is not None:
            own = {name: getattr(settings, name) for name in OF_THE_PAPER if hasattr(settings, name)}
            own |= {"eta": content["eta"], "standardise": content["standardise"]}
        source = next(iter(like), None)
        if "source_model" in content:
            own["source"] = recognised(content["source_model"], source, content["features"], content["classes"])
        elif source is not None:
            raise InputError("`load(source=...)`: the learner was saved without a source model; leave source out.")
        asking = cls._asking_of(content)
        learner = cls(features=content["features"], classes=content["classes"], **asking, **own)
        if "encoder" in content:
            encoder = encoder_from(content["encoder"])
            require_that(encoder.features == content["features"], "its encoder has other features than its model")
            learner._take_up_encoder(encoder)
        learner._resume(saved)
        return learner

    @property
    def features(self) -> list[str] | None:
        """The names of the features, where they have any."""
        return None if self._names is None else list(self._names)

    @property
    def encoder(self) -> SampleEncoder | None:
        """What turns the columns of a table into features, for a learner that started from a table."""
        return self._encoder

    def predict(self, x: Any) -> Any:
        """The class that `ask` would decide on, without a round; of many samples, an array of their classes.

        Many samples are a table of numbers, a data frame, or a list of samples.
        """
        many = many_samples(x)
        if many is None:
            return super().predict(x)
        return np.array([super(OSAMD, self).predict(one) for one in many], dtype=np.array(self._classes).dtype)

    def predict_proba(self, x: Any) -> Any:
        """The probabilities that `ask` would give, by class; of many samples, an array with a column per class.

        The columns are in the order of `classes`.
        """
        many = many_samples(x)
        if many is None:
            return super().predict_proba(x)
        shares = [list(super(OSAMD, self).predict_proba(one).values()) for one in many]
        return np.array(shares).reshape(len(many), len(self._classes))

    @property
    def weights(self) -> Array:
        """What decides, with the bias last: the student (PAA's teacher), before it adapts to a sample.

        Of the preset it is the student, one of the experts that decide together. With `standardise` they are weights of
        standardised features.
        """
        weights: Array = self._linear().weights(teacher=self._method.teacher_decides)
        return weights

    @property
    def teacher_weights(self) -> Array:
        """The teacher, which gives the pseudolabels; of the preset the slow one of its two."""
        weights: Array = self._linear().weights(teacher=True)
        return weights

    def _linear(self) -> Any:
        if self._core is None:
            raise InputError("the learner has met no sample yet, so it has no weights; give it features=... at first.")
        return self._core

    def _begin(self, features: Any, start: ArrayLike | None = None) -> None:
        """Make the model, now that its features are known, with the book and the meter as they are."""
        if isinstance(features, numbers.Integral):
            self._names, width = None, require_whole("OSAMD", "features", features)
        else:
            names = [features] if isinstance(features, str) else list(features)
            if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
                raise reject("OSAMD", "features", features, "features must be different names, or how many there are.")
            self._names, width = names, len(names)
        plain = linear(width, len(self._classes))
        core = self._recipe.linear_core(width, len(self._classes), self._book, self._meter)
        if start is not None:
            core.start(plain.parameters(start, "OSAMD"))
        if self._source is not None:
            core.start_elsewhere(self._source)
        self._bind(core, partial(as_row, self._names, self._encoder))

    def _take_up_encoder(self, encoder: SampleEncoder) -> None:
        self._encoder, self._names = encoder, encoder.features
        self._sample = partial(as_row, self._names, encoder)

    def _meet(self, x: Any) -> Array:
        x = one_sample(x)
        names = names_of(x)
        row = one_row(x, names)
        require_finite("ask", "x", row)
        self._begin(len(row) if names is None else names)
        return row
