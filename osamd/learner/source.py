"""Where a linear learner starts: fitted to labelled source data, or taken from a fitted scikit-learn model."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, softmax

from osamd.errors import InputError
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
