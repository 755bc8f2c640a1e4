"""Where a linear learner starts: fitted to labelled source data, taken from a fitted scikit-learn model, or beside any
fitted classifier, which stays as it is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, softmax

from osamd.checks import listed, require_that
from osamd.errors import LONGEST, InputError
from osamd.numerics import Array
from osamd.streams.base import Labels


def fit(x: Array, y: Labels, classes: int) -> Array:
    """Weights of a logistic (two classes) or softmax regression with the ridge ||w||^2 / 2n, the bias left free.

    Their shape is that of the parameters of `osamd.paper.models.linear`: (features + 1,), or one row per class. The fit
    uses standardised columns, and the weights are then converted to the original ones, so the scale of the features
    does not matter.

    >>> x = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    >>> w = fit(x, np.array([0, 1, 0, 1]), 2)
    >>> bool(w[0] > 0.5), bool(abs(w[1]) < 1e-3)
    (True, True)
    """
    n = len(x)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = x.mean(axis=0), x.std(axis=0)
    if not np.isfinite(deviation).all():
        raise InputError("`from_source(X=...)`: X holds numbers too large to be squared; scale its columns.")
    scale = np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)
    rows = np.column_stack([(x - mean) / scale, np.ones(n)])
    free = np.ones(rows.shape[1])
    free[-1] = 0.0
    if classes == 2:
        signs = np.where(y == 1, 1.0, -1.0)

        def objective(w: Array) -> tuple[float, Array]:
            margins = signs * (rows @ w)
            ridge = free * w
            slope = -signs * expit(-margins)
            return float(-log_expit(margins).mean() + ridge @ w / (2 * n)), rows.T @ slope / n + ridge / n

        shape: tuple[int, ...] = (rows.shape[1],)
    else:
        truth = np.eye(classes)[y]
        shape = (classes, rows.shape[1])

        def objective(w: Array) -> tuple[float, Array]:
            weights = w.reshape(shape)
            scores = rows @ weights.T
            ridge = free * weights
            value = -(truth * log_softmax(scores, axis=1)).sum() / n + (ridge * weights).sum() / (2 * n)
            return float(value), ((softmax(scores, axis=1) - truth).T @ rows / n + ridge / n).ravel()

    found = minimize(objective, np.zeros(int(np.prod(shape))), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    fitted: Array = found.x.reshape(shape)
    fitted[..., :-1] /= scale
    fitted[..., -1] -= fitted[..., :-1] @ mean
    return fitted


def from_sklearn(model: Any) -> tuple[Array, list[Any], list[str] | None]:
    """Weights with the bias last, classes and feature names of a fitted scikit-learn linear classifier."""
    if not all(hasattr(model, name) for name in ("coef_", "intercept_", "classes_")):
        what = type(model).__name__
        last = " Give the last step of the pipeline, and its transformed features." if hasattr(model, "steps") else ""
        raise InputError(
            f"`from_sklearn(model={what}(...))`: the model has no coef_, intercept_ and classes_; give a fitted linear"
            f" classifier, such as LogisticRegression or SGDClassifier.{last}"
        )
    coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64).reshape(-1, 1), (len(coefficients), 1))
    weights: Array = np.hstack([coefficients, intercept])
    names = getattr(model, "feature_names_in_", None)
    classes = [label.item() if isinstance(label, np.generic) else label for label in model.classes_]
    return (weights[0] if len(classes) == 2 else weights), classes, None if names is None else [str(n) for n in names]


class FrozenSource:
    """Any fitted classifier with scikit-learn's interface as the source of the default learner; it never changes.

    It is asked for its probabilities once per sample, in Python; without `predict_proba` its decision counts as sure.
    It is not saved, since that would take pickle: whoever loads the learner gives it again, and its answer to one
    sample of zeros is compared with the one in the file.
    """

    def __init__(self, model: Any, classes: Sequence[Any] | None = None) -> None:
        """`classes` are the learner's, by default those of the model; they may hold more than the model knows."""
        self.model, self.kind = model, type(model).__name__
        own = getattr(model, "classes_", None)
        if own is None or np.ndim(own) != 1 or not callable(getattr(model, "predict", None)):
            raise InputError(
                f"`OSAMD(source={self.kind}(...))`: it is no fitted classifier; give one that has classes_ and predict,"
                " as those of scikit-learn have after fit."
            )
        self.own_classes = [label.item() if isinstance(label, np.generic) else label for label in own]
        self.classes = self.own_classes if classes is None else list(classes)
        unknown = [label for label in self.own_classes if label not in self.classes]
        if unknown:
            raise InputError(
                f"`OSAMD(source={self.kind}(...), classes=...)`: the model knows the class {unknown[0]!r}, which is not"
                f" among {self.classes}; name all of its classes."
            )
        self._places = np.array([self.classes.index(label) for label in self.own_classes])

    @property
    def features(self) -> list[str] | int | None:
        """The names or the number of the features that the model was fitted to, where it tells them."""
        names = getattr(self.model, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        width = getattr(self.model, "n_features_in_", None)
        return None if width is None else int(width)

    def probabilities(self, sample: Array, count: int) -> Array:
        """The probabilities of the learner's first `count` classes; 0 for those that the model does not know."""
        found, row = np.zeros(count), np.array(sample, dtype=np.float64)[None]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            try:
                if hasattr(self.model, "predict_proba"):
                    found[self._places] = np.asarray(self.model.predict_proba(row), dtype=np.float64)[0]
                else:
                    found[self.classes.index(np.asarray(self.model.predict(row)).tolist()[0])] = 1.0
            except Exception as error:  # the user's own model may raise anything
                why = " ".join(str(error).split())[:LONGEST]
                raise InputError(f"`OSAMD(source={self.kind}(...))`: the model refuses a sample ({why}).") from error
        if not (np.isfinite(found).all() and (found >= 0.0).all() and found.sum() > 0.0):
            raise InputError(f"`OSAMD(source={self.kind}(...))`: its probabilities are {found.tolist()}.")
        shares: Array = found / found.sum()
        return shares

    def described(self, features: int) -> dict[str, Any]:
        """What a file keeps about the model, to recognise it."""
        probe = self.probabilities(np.zeros(features), len(self.classes))[self._places]
        return {"kind": self.kind, "classes": self.own_classes, "probe": probe.tolist()}


def sourced(model: Any, classes: Sequence[Any] | None, *, alone: bool) -> FrozenSource:
    """The model as the source of a learner of these classes, by default those of the model.

    `alone` says whether the learner is one that keeps a source, and has no other.
    """
    if not alone:
        raise InputError(
            "`OSAMD(source=...)`: only the default learner has a source model, and only one; leave out start and the"
            " method with its settings."
        )
    return FrozenSource(model.model if isinstance(model, FrozenSource) else model, classes)


def recognised(content: Mapping[str, Any], model: Any, features: Any, classes: Sequence[Any]) -> FrozenSource:
    """The model that a file's learner had as its source, given again; `features` are a number or names."""
    kind = content.get("kind")
    require_that(isinstance(kind, str), "its source model has no kind")
    if model is None:
        raise InputError(
            f"`load`: the source of the learner is a {kind!s:.60} model, which is not in the file; give it again, as in"
            " OSAMD.load(path, source=model)."
        )
    found = FrozenSource(model, classes)
    width = features if isinstance(features, int) else len(features)
    probe = found.probabilities(np.zeros(width), len(classes))[: len(found.classes)]
    told = probe[[found.classes.index(label) for label in found.own_classes]]
    before = np.array(listed(content, "probe", len(classes)), dtype=np.float64)
    if content.get("classes") != found.own_classes or before.shape != told.shape or not np.allclose(before, told):
        raise InputError(
            f"`load(source={found.kind}(...))`: this is another model than the one that the learner was saved with, a"
            f" {kind!s:.60} model for {content.get('classes')!s:.60}; give that one."
        )
    return found
