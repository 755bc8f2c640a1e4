"""Checks of the arrays that users pass in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, require_numbers
from osamd.numerics import Array


def finite_array(
    call: str, name: str, value: ArrayLike, dimensions: int, *, like: tuple[int, ...] | None = None
) -> Array:
    """A finite, non-empty array of that many dimensions (and of shape `like`), or an error."""
    array = require_numbers(call, name, value)
    here = f"`{call}({name}=<shape {array.shape}>)`: {name} must"
    if array.ndim != dimensions:
        remedy = "; reshape(-1, 1) turns a list of numbers into rows" if (array.ndim, dimensions) == (1, 2) else ""
        raise InputError(f"{here} be a {dimensions}-D array{remedy}.")
    if array.size == 0:
        raise InputError(f"{here} not be empty.")
    if like is not None and array.shape != like:
        raise InputError(f"{here} have shape {like}, to go with the other arguments.")
    if not np.isfinite(array).all():
        raise InputError(f"{here} be finite; drop or fill the rows that hold NaN or infinity.")
    return array


def two_windows(
    call: str, p: ArrayLike, q: ArrayLike, *, least: int = 1, names: tuple[str, str] = ("p", "q")
) -> tuple[Array, Array]:
    """Two windows of samples with the same columns and at least `least` rows each, or an error."""
    a, b = finite_array(call, names[0], p, 2), finite_array(call, names[1], q, 2)
    if a.shape[1] != b.shape[1]:
        rule = f"it must have as many columns as {names[0]}, which has {a.shape[1]}."
        raise InputError(f"`{call}({names[1]}=<shape {b.shape}>)`: {rule}")
    for name, window in zip(names, (a, b), strict=True):
        if len(window) < least:
            raise InputError(
                f"`{call}({name}=<{len(window)} rows>)`: it needs at least {least} rows; widen the window."
            )
    return a, b
