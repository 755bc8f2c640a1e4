"""OSAMD as a scikit-learn classifier, for pipelines, grid searches and semi-supervised streams.

    model = OSAMDClassifier().fit(X_source, y_source)
    model.partial_fit(X, y)         # a missing label in y is an unlabelled round: the pseudolabel stands in for it

A label is missing if it is nan, None or -1, as in scikit-learn's semi-supervised models. With classes -1 and 1 that
would be ambiguous. So -1 is a class if the declared `classes` contain it, or, if none are declared, if y holds fewer
than two other classes.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from osamd.adapters import needs
from osamd.errors import InputError, reject
from osamd.learner.decision import Decision
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.methods import PRESET
from osamd.preset.arbiter import POWER

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.utils import assert_all_finite, check_random_state, column_or_1d  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        check_consistent_length,
        check_is_fitted,
        validate_data,
    )
except ImportError:
    raise needs("scikit-learn", "sklearn") from None

AnyLabels = NDArray[Any]
Missing = NDArray[np.bool_]


class OSAMDClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier that learns from labels and, round by round, from samples without one.

    The parameters are those of `osamd.OSAMD`, and none is needed: without any it is the preset, and with a setting of
    the paper's methods it is the paper's OSAMD. `budget` is the largest share of rounds whose label `learner_.ask` asks
    for. `random_state` seeds the draws of its queries, which only
    `learner_.ask` uses. After `fit` or `partial_fit`, `learner_` is the learner inside: it asks, and estimates its
    accuracy. `predict`, `predict_proba` and `decision_function` say what `ask` would decide, and never change the
    model.

    >>> import numpy as np
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0], [3.0]])
    >>> model = OSAMDClassifier().fit(X, [0, 0, 1, 1, -1])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        budget: float | None = None,
        method: str | None = None,
        eta: float | None = None,
        sigma: float | None = None,
        loss: Any = None,
        l2: float | None = None,
        geometry: Any = None,
        teacher: Any = None,
        adaptation: Any = None,
        label_rate: float | None = None,
        standardise: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.budget = budget
        self.method = method
        self.eta = eta
        self.sigma = sigma
        self.loss = loss
        self.l2 = l2
        self.geometry = geometry
        self.teacher = teacher
        self.adaptation = adaptation
        self.label_rate = label_rate
        self.standardise = standardise
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Start from scratch: fit the labelled rows as a source, then play the others in order as unlabelled rounds."""
        rows, labels, missing = self._checked(X, y, None, reset=True)
        classes = np.unique(labels[~missing])
        if len(classes) < 2:
            raise InputError(
                f"`fit(y=...)`: y holds {len(classes)} class{'es' * (len(classes) != 1)}, but must hold two or more; to"
                " start before they are seen, name them in partial_fit(X, y, classes=...)."
            )
        source = rows[~missing], labels[~missing]
        self.learner_ = OSAMD.from_source(*source, classes=classes.tolist(), **self._settings())
        self.classes_ = classes
        return self._play(rows[missing], labels[missing], missing[missing])

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Play a round for every row, in order: with its label, or with the pseudolabel if the label is missing.

        The first call, if there was no `fit` before it, names all classes that may occur.
        """
        first = not hasattr(self, "learner_")
        named = np.unique(classes) if classes is not None else None if first else self.classes_
        if named is None:
            raise InputError("`partial_fit(classes=None)`: the first call must name all classes that may occur.")
        if not first and not np.array_equal(named, self.classes_):
            rule = f"they have been {self.classes_.tolist()} so far; fit starts from scratch."
            raise reject("partial_fit", "classes", named.tolist(), rule)
        rows, labels, missing = self._checked(X, y, named, reset=first)
        strange = np.setdiff1d(labels[~missing], named)
        if len(strange):
            raise reject("partial_fit", "y", strange[0], f"it is not among the classes, {named.tolist()}.")
        if first:
            self.learner_ = OSAMD(features=rows.shape[1], classes=named.tolist(), **self._settings())
            self.classes_ = named
        return self._play(rows, labels, missing)

    def predict(self, X: Any) -> AnyLabels:
        """The class of every row, as `ask` would decide."""
        rows = self._seen(X)
        return np.array([self.learner_.predict(row) for row in rows], dtype=self.classes_.dtype)

    def predict_proba(self, X: Any) -> Array:
        """The probabilities for every row, one column per class; with the paper's methods they are calibrated only
        where the loss is a likelihood."""
        rows = self._seen(X)
        return np.array([list(self.learner_.predict_proba(row).values()) for row in rows])

    def decision_function(self, X: Any) -> Array:
        """The scores by which `predict` decides: positive for the second of two classes, else one column per class."""
        return np.array([decision.score for decision in self._decisions(X)])

    def margin(self, X: Any) -> Array:
        """The confidence that the query uses for every row: the teacher's |H|, or its best minus second-best score; for
        the preset, the margin of its mixture to the power `osamd.preset.arbiter.POWER`."""
        margins = np.array([decision.margin for decision in self._decisions(X)])
        return margins**POWER if self.learner_.method == PRESET.name else margins

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on the rows that have a label; the others are ignored."""
        check_is_fitted(self)
        rows, labels, missing = self._checked(X, y, self.classes_, reset=False)
        weight = None if sample_weight is None else np.asarray(sample_weight)[~missing]
        return float(super().score(rows[~missing], labels[~missing], weight))

    def _settings(self) -> dict[str, Any]:
        given: dict[str, Any] = self.get_params(deep=False)
        seed = given.pop("random_state")
        plain = isinstance(seed, numbers.Integral)
        return given | {"seed": int(seed if plain else check_random_state(seed).randint(2**31 - 1))}

    def _checked(self, X: Any, y: Any, classes: AnyLabels | None, *, reset: bool) -> tuple[Array, AnyLabels, Missing]:
        """Rows, labels, and which labels are missing."""
        if y is None:
            raise InputError("`fit(y=None)`: OSAMDClassifier requires y to be passed, but the target y is None.")
        rows = self._rows(X, reset=reset)
        labels = column_or_1d(y, warn=True, dtype=object if isinstance(y, list) else None)
        check_consistent_length(rows, labels)
        missing = missing_labels(labels, classes)
        if labels.dtype.kind == "O":
            alike = np.array(labels[~missing].tolist())
            if alike.dtype.kind in "biuf":  # numbers among None
                labels = np.zeros(len(labels), dtype=alike.dtype)
                labels[~missing] = alike
        if labels.dtype.kind == "f":
            assert_all_finite(labels[~missing], input_name="y")
        check_classification_targets(labels[~missing])
        return rows, labels, missing

    def _play(self, rows: Array, labels: AnyLabels, missing: Missing) -> Self:
        learner = self.learner_
        for row, label, unlabelled in zip(rows, labels.tolist(), missing, strict=True):
            learner.tell(learner.ask(row), None if unlabelled else label)
        return self

    def _seen(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._rows(X, reset=False)

    def _rows(self, X: Any, *, reset: bool) -> Array:
        rows: Array = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
        return rows

    def _decisions(self, X: Any) -> Iterator[Decision]:
        return (self.learner_.peek(row) for row in self._seen(X))


def missing_labels(labels: AnyLabels, classes: AnyLabels | None) -> Missing:
    """Which labels are missing; `classes` are the declared ones (None: the classes are those of the labels).

    >>> missing_labels(np.array([0, -1, 1]), None).tolist(), missing_labels(np.array([1, -1, 1]), None).tolist()
    ([False, True, False], [False, False, False])
    """
    missing: Missing = np.zeros(len(labels), dtype=bool)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_absent(label) for label in labels], dtype=bool)
    if labels.dtype.kind not in "ifO":
        return missing
    present = labels[~missing].tolist()
    is_class = len({*present, -1}) < 3 if classes is None else -1 in classes.tolist()
    if not is_class:
        missing[~missing] = [label == -1 for label in present]
    return missing


def _absent(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True
