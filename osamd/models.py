"""Linear models: the scores of an x, and the pull-back of a slope on the scores to the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, reject
from osamd.numerics import Array, lane_sum
from osamd.scores import BINARY, MULTICLASS, Reading, Score


@dataclass(frozen=True)
class Linear:
    """H(w; x) = w . (x, 1), one row of weights for a binary model and one a class for a multiclass one.

    Parameters have `shape` (width,) or (classes, width), and width counts the features and the bias, twice where
    `signed`: such models hold pairs (w+, w-) and see (x, 1, -x, -1), as the plus-minus geometry wants. `scores` and
    `pull` take an x that `augment` has widened; `pull` is the transpose of `scores`, <s, scores(w, x)> =
    <w, pull(s, x)>. Build one with `linear`.

    >>> model = linear(features=2, classes=2)
    >>> model.scores(np.array([0.4, 0.0, -4.0]), model.augment(np.array([15.0, 0.0])))
    2.0
    """

    features: int
    classes: int
    bias: bool
    signed: bool
    shape: tuple[int, ...]
    reading: Reading
    scores: Callable[[Array, Array], Score]
    pull: Callable[[Score, Array], Array]

    def augment(self, x: Array) -> Array:
        """Features (..., features) as the weights see them (..., width): a 1 appended, then a negated copy if signed.

        >>> linear(features=2, signed=True).augment(np.array([15.0, 2.0])).tolist()
        [15.0, 2.0, 1.0, -15.0, -2.0, -1.0]
        """
        x = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1) if self.bias else x
        return np.concatenate([x, -x], axis=-1) if self.signed else x

    def penalty(self, l2: float, free_bias: bool) -> Array:
        """The L2 coefficient of every parameter, shaped like them: zero at the bias where that is left free.

        On a signed model it weighs w+ and w- each, C (||w+||^2 + ||w-||^2), and not their difference.

        >>> linear(features=2).penalty(0.2, free_bias=True).tolist()
        [0.2, 0.2, 0.0]
        """
        penalty = np.full(self.shape, l2)
        if self.bias and free_bias:
            penalty[..., -1] = 0.0
            if self.signed:
                penalty[..., self.features] = 0.0
        return penalty

    def weights(self, params: Array) -> Array:
        """The plain weights w, bias last: w+ - w- where signed.

        >>> linear(features=1, signed=True).weights(np.array([0.5, 0.0, 0.25, 0.25])).tolist()
        [0.25, -0.25]
        """
        half = self.shape[-1] // 2
        return params[..., :half] - params[..., half:] if self.signed else params

    def parameters(self, start: ArrayLike, call: str = "parameters") -> Array:
        """A starting point given by the user, checked and copied; `call` is whom the error speaks of."""
        try:
            params = np.array(start, dtype=np.float64)
        except (TypeError, ValueError):
            raise reject(call, "start", start, "the starting point must be numbers in rows of one length.") from None
        if params.shape != self.shape:
            raise InputError(
                f"`{call}(start=...)`: the starting point has shape {params.shape}, the model needs {self.shape}"
                f" ({self.features} features{', a bias' * self.bias}{', signed pairs' * self.signed})."
            )
        if not np.isfinite(params).all():
            raise reject(call, "start", params.tolist(), "the starting point must be finite.")
        return params


def _binary_scores(w: Array, x: Array) -> float:
    return float(lane_sum(w * x))


def _binary_pull(slope: float, x: Array) -> Array:
    return slope * x


def _multiclass_scores(w: Array, x: Array) -> Array:
    return lane_sum(w * x)


def _multiclass_pull(slope: Array, x: Array) -> Array:
    return np.outer(slope, x)


def linear(features: int, classes: int = 2, *, bias: bool = True, signed: bool = False) -> Linear:
    """A linear model for `features` inputs: binary (Algorithm 1) for two classes, multiclass (Algorithm 2) above.

    >>> linear(features=2).shape, linear(features=2, classes=3).shape
    ((3,), (3, 3))
    """
    if features < 1:
        raise reject("linear", "features", features, "a model needs at least one feature.")
    if classes < 2:
        raise reject("linear", "classes", classes, "a classifier needs at least two classes to decide between.")
    width = (features + bias) * (2 if signed else 1)
    if classes == 2:
        return Linear(features, 2, bias, signed, (width,), BINARY, _binary_scores, _binary_pull)
    shape = (classes, width)
    return Linear(features, classes, bias, signed, shape, MULTICLASS, _multiclass_scores, _multiclass_pull)
