"""The object people hold: OSAMD with a linear model, by ask and tell, under a budget, with late labels.

    learner = osamd.OSAMD.from_source(X, y, budget=0.05)
    decision = learner.ask(x)
    learner.tell(decision, y if decision.query else None)

What it does is said in `osamd.learner.ask_tell`, the budget in `osamd.accounting.budget`, the accuracy in
`osamd.accounting.accuracy`.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from osamd.accounting import budget as budgets
from osamd.checks import one_sentence
from osamd.errors import (
    ENCODE,
    InputError,
    lookup,
    reject,
    require_finite,
    require_numbers,
    require_positive,
    require_whole,
)
from osamd.learner import saving, source
from osamd.learner.ask_tell import AskTell
from osamd.learner.cores.preset import PresetCore
from osamd.learner.decision import known_classes, plain, share_asked
from osamd.learner.recipes import REACH, PaperRecipe, PresetRecipe, Recipe, settings_of
from osamd.learner.resuming import require_fitting
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

__all__ = ["OSAMD", "REACH"]


class OSAMD(AskTell):
    """A linear classifier that keeps up with a drifting stream while it asks for few labels.

    `features`: how many, or their names (then samples may be dictionaries or rows of a data frame); taken from the
    first sample where it is left out. `classes`: their names, two or more, or how many. It starts from nothing unless
    there is a `start` (weights with the bias last, one row a class for three and more), or by `from_source` and
    `from_sklearn`.

    `budget` is the largest share of rounds whose label is asked for, over the whole stream, or over any
    `budget_window` rounds; `max_labels` the largest number. How readily it asks is steered so that the budget is spent,
    from `sigma` on. `floor` is the least probability of a query while the budget allows one. With a `target_accuracy`
    it asks for no more than keeps the lower end of the accuracy's interval above it, within the budget; `health` says
    when that cannot be.
    `expire_after`: with every `tell`, give up waiting for labels that were asked for more than so many rounds ago.
    `window`: the rounds of the sliding accuracy.

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
        asking = recipe.asking(share_asked(budget), floor)
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
    def from_source(cls, X: Any, y: Any, *, classes: Sequence[Any] | None = None, **settings: Any) -> Self:
        """A learner that starts from a logistic or softmax regression, fitted to labelled rows.

        X: rows of numbers, or a data frame, whose columns then name the features. Running statistics, of the preset
        or with `standardise`, begin with those of X. `classes` may hold more than occur in y.

        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 200)
        >>> learner = OSAMD.from_source(rng.normal(size=(200, 3)) + 2.0 * y[:, None], y, budget=0.1)
        >>> learner.predict([2.0, 2.0, 2.0]), learner.classes
        (1, [0, 1])
        """
        if "start" in settings:
            raise InputError("`from_source(start=...)`: the start is fitted to X and y; leave it out.")
        columns = getattr(X, "column_names", None) or getattr(X, "columns", None)  # of Arrow, or of other data frames
        if columns is not None and not hasattr(X, "to_numpy"):
            X = [np.asarray(X[name]) for name in columns]
            numeric = all(column.dtype.kind in "biuf" for column in X)
            X = np.column_stack(X if numeric else [column.astype(object) for column in X])
        if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
            raise InputError("`from_source(X=...)`: X is a list of dictionaries; give pandas.DataFrame(X), a table.")
        table = X.to_numpy() if hasattr(X, "to_numpy") else X
        rows = require_numbers("from_source", "X", table, None if columns is None else list(columns), ENCODE)
        if rows.ndim != 2 or not len(rows):
            raise InputError(f"`from_source(X=...)`: X must be a table of rows; its shape is {rows.shape}.")
        require_finite("from_source", "X", rows)
        labels = [plain(label) for label in (y.to_pylist() if hasattr(y, "to_pylist") else y)]
        if len(labels) != len(rows):
            raise InputError(f"`from_source(X=..., y=...)`: {len(rows)} rows have {len(labels)} labels.")
        try:
            found = set(labels)
            names = sorted(found) if classes is None else known_classes(classes)
        except TypeError as error:
            raise InputError(
                f"`from_source(y=...)`: y must be one class a row, all text or numbers ({error})."
            ) from error
        if len(names) < 2:
            raise reject("from_source", "y", names, "the labels are all alike; give rows of two classes or more.")
        unknown = found - set(names)
        if unknown:
            raise reject("from_source", "y", unknown.pop(), f"it is not among the declared classes {names}.")
        learner = cls(
            features=rows.shape[1] if columns is None else [str(name) for name in columns],
            classes=names,
            **settings,
        )
        core = learner._linear()
        if isinstance(core, PresetCore):
            with np.errstate(over="ignore", invalid="ignore"):  # it refuses what is too large to be squared
                core.gather(rows)
        elif settings.get("standardise"):
            core.gather(rows)
            rows = core.scaled(rows)
        index = {name: i for i, name in enumerate(names)}
        truth = np.array([index[label] for label in labels])
        core.start(source.fit(rows, truth, len(names)))
        if isinstance(core, PresetCore):
            core.remember(rows, truth)
        learner._source_rows = np.bincount(truth, minlength=len(names)).tolist()
        return learner

    @classmethod
    def from_sklearn(cls, model: Any, **settings: Any) -> Self:
        """A learner that starts from a fitted scikit-learn linear classifier, with its classes and feature names."""
        weights, classes, names = source.from_sklearn(model)
        return cls(features=names or weights.shape[-1] - 1, classes=classes, start=weights, **settings)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The learner that was saved there, to go on bit for bit."""
        return cls._linear_only(saving.read(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner whose `to_bytes` gave this."""
        return cls._linear_only(saving.unpacked(data, "bytes"), "bytes")

    @classmethod
    def _linear_only(cls, saved: saving.Saved, name: str) -> Self:
        if saved.content.get("kind") != "linear":
            raise InputError(f"`OSAMD.load({name!r})`: it holds a network; use osamd.NetworkOSAMD.load(path, module).")
        with one_sentence():
            require_fitting(saved)
            return cls._revive(saved)

    def _described(self) -> dict[str, Any]:
        width = None if self._core is None else self._core.features
        return {
            "kind": "linear",
            "features": self._names or width,
        }

    @classmethod
    def _revive(cls, saved: saving.Saved, *like: Any) -> Self:
        content = saved.content
        settings = settings_of(content)
        own = {}
        if settings is not None:
            own = {name: getattr(settings, name) for name in OF_THE_PAPER if hasattr(settings, name)}
            own |= {"eta": content["eta"], "standardise": content["standardise"]}
        asking = cls._asking_of(content)
        learner = cls(features=content["features"], classes=content["classes"], **asking, **own)
        learner._resume(saved)
        return learner

    @property
    def features(self) -> list[str] | None:
        """The names of the features, where they have any."""
        return None if self._names is None else list(self._names)

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
        self._bind(core, self._row)

    def _meet(self, x: Any) -> Array:
        names = names_of(x)
        row = one_row(x, names)
        require_finite("ask", "x", row)
        self._begin(len(row) if names is None else names)
        return row

    def _row(self, x: Any) -> Array:
        """One sample as the compiled round takes it."""
        return x if type(x) is np.ndarray and x.ndim == 1 else one_row(x, self._names)


def names_of(x: Any) -> list[str] | None:
    """The names that a dictionary or a row of a data frame gives its features."""
    keys: list[Any] = []
    if isinstance(x, Mapping):
        keys = list(x)
    elif hasattr(x, "to_numpy") and getattr(x, "ndim", 1) == 1:  # a row, not a table
        keys = list(getattr(x, "index", ()))
    elif isinstance(x, tuple):
        keys = list(getattr(x, "_fields", ()))  # as `itertuples` gives rows
    return keys if keys and all(isinstance(key, str) for key in keys) else None


def one_row(x: Any, names: list[str] | None) -> Array:
    """One sample as a vector; of a dictionary or a row of a data frame the named features, in their order."""
    given = names_of(x)
    if given is not None:
        if names is None:
            raise InputError("`ask(x=...)`: x names its features, the learner was made without names; give numbers.")
        missing = set(names) - set(given)
        if missing:
            raise InputError(f"`ask(x=...)`: x has no {first_missing(names, missing)}; give every feature a number.")
        x = [getattr(x, name) if isinstance(x, tuple) else x[name] for name in names]
    if np.ma.is_masked(x):
        raise InputError("`ask(x=...)`: x has masked values; fill them first.")
    row = require_numbers("ask", "x", x, names if given is not None else None, ENCODE)
    if row.ndim != 1:
        many = " Give one row at a time; for many at once there is osamd.adapters.sklearn.OSAMDClassifier."
        shown = f"x must be one row of numbers; its shape is {row.shape}.{many if row.ndim > 1 else ''}"
        raise InputError(f"`ask(x=...)`: {shown}")
    return np.array(row)


def first_missing(names: list[str], missing: set[str]) -> str:
    """The first few features that are missing, in their order."""
    listed = [repr(name) for name in names if name in missing]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
