"""Linear models: the scores of an x, and the pull-back of a slope on the scores to the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, require_finite, require_numbers, require_whole
from osamd.numerics import Array, lane_sum
from osamd.paper.scores import BINARY, MULTICLASS, Reading, Score


@dataclass(frozen=True)
class Linear:
    """H(w; x) = w . (x, 1), with one row of weights for a binary model and one row per class for a multiclass model.

    Parameters have `shape` (width,) or (classes, width). The width counts the features and the bias, twice if the model
    is `signed`: such a model holds pairs (w+, w-) and takes (x, 1, -x, -1), as the plus-minus geometry needs. `scores`
    and `pull` take an x that `augment` has extended. `pull` is the transpose of `scores`: <s, scores(w, x)> =
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
    one_class: Callable[[Array, Array], Array]
    """The parameters of one class: all of a binary model's, the first row of a multiclass model's."""

    def augment(self, x: ArrayLike) -> Array:
        """Features (..., features) as the weights take them (..., width): a 1 appended, then a negated copy if signed.

        Samples enter here, so they are checked here: they must be finite numbers, `features` of them.

        >>> linear(features=2, signed=True).augment(np.array([15.0, 2.0])).tolist()
        [15.0, 2.0, 1.0, -15.0, -2.0, -1.0]
        """
        rows = require_numbers("augment", "x", x)
        if rows.shape[-1:] != (self.features,):
            raise InputError(
                f"`augment(x=...)`: x has shape {rows.shape}, the model takes {self.features} features along the last"
                " axis; build the model with linear(features=...) of the data."
            )
        require_finite("augment", "x", rows)
        rows = np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1) if self.bias else rows
        return np.concatenate([rows, -rows], axis=-1) if self.signed else rows

    def penalty(self, l2: float, free_bias: bool) -> Array:
        """The L2 coefficient of every parameter, in their shape: zero for the bias if that is left free.

        On a signed model it applies to w+ and w- separately, C (||w+||^2 + ||w-||^2), not to their difference.

        >>> linear(features=2).penalty(0.2, free_bias=True).tolist()
        [0.2, 0.2, 0.0]
        """
        penalty = np.full(self.shape, float(l2))
        if self.bias and free_bias:
            penalty[..., -1] = 0.0
            if self.signed:
                penalty[..., self.features] = 0.0
        return penalty

    def weights(self, params: Array) -> Array:
        """The plain weights w with the bias last: w+ - w- if the model is signed.

        >>> linear(features=1, signed=True).weights(np.array([0.5, 0.0, 0.25, 0.25])).tolist()
        [0.25, -0.25]
        """
        half = self.shape[-1] // 2
        return params[..., :half] - params[..., half:] if self.signed else params

    def parameters(self, start: ArrayLike, call: str = "parameters") -> Array:
        """A starting point given by the user, checked and copied; errors name `call`."""
        params = require_numbers(call, "start", start).copy()
        if params.shape != self.shape:
            raise InputError(
                f"`{call}(start=...)`: the starting point has shape {params.shape}, the model needs {self.shape}"
                f" ({self.features} features{', a bias' * self.bias}{', signed pairs' * self.signed})."
            )
        require_finite(call, "start", params)
        return params


def binary_scores(w: Array, x: Array) -> float:
    return float(lane_sum(w * x))


def _binary_pull(slope: float, x: Array) -> Array:
    return slope * x


def multiclass_scores(w: Array, x: Array) -> Array:
    return lane_sum(w * x)


def _multiclass_pull(slope: Array, x: Array) -> Array:
    return np.outer(slope, x)


def _only_class(params: Array, x: Array) -> Array:
    return params


def _first_class(params: Array, x: Array) -> Array:
    first: Array = params[0]
    return first


def linear(features: int, classes: int = 2, *, bias: bool = True, signed: bool = False) -> Linear:
    """A linear model for `features` inputs: binary (Algorithm 1) for two classes, multiclass (Algorithm 2) for more.

    >>> linear(features=2).shape, linear(features=2, classes=3).shape
    ((3,), (3, 3))
    """
    features = require_whole("linear", "features", features)
    classes = require_whole("linear", "classes", classes, 2)
    width = (features + bias) * (2 if signed else 1)
    if classes == 2:
        return Linear(features, 2, bias, signed, (width,), BINARY, binary_scores, _binary_pull, _only_class)
    shape = (classes, width)
    return Linear(features, classes, bias, signed, shape, MULTICLASS, multiclass_scores, _multiclass_pull, _first_class)
