"""Named parts of one long vector, the cheapest argument for compiled code.

Parts are cut one after the other, each where it is named; `at` is where the next one begins. So a layout is stated
once: applied to a stand-in for a vector, it tells how long the vector must be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from osamd.numerics import Array


class Sizes(NamedTuple):
    """The sizes that determine the length of every part."""

    features: int
    classes: int
    capacity: int
    """The number of labelled samples that the memory has room for."""


def cut(vector: Any, at: int, length: int) -> Any:
    """The next `length` numbers, and where the part after them begins."""
    return vector[at : at + length], at + length


def cut_single(vector: Any, at: int, length: int) -> Any:
    """The next `length` numbers in single precision, two in the place of one, and where the part after them begins."""
    end = at + (length + 1) // 2
    return vector[at:end].view(np.float32)[:length], end


def cut_whole(vector: Any, at: int, length: int) -> Any:
    """The next `length` whole numbers, and where the part after them begins."""
    return vector[at : at + length].view(np.int64), at + length


def named(parts: Any, prefix: str = "") -> dict[str, Array]:
    """The arrays of nested named tuples, by their dotted names.

    >>> class Inner(NamedTuple):
    ...     mean: object
    >>> named(Inner(mean=np.zeros(2)), "scale.")
    {'scale.mean': array([0., 0.])}
    """
    found: dict[str, Array] = {}
    for name, part in parts._asdict().items():
        found |= {f"{prefix}{name}": part} if isinstance(part, np.ndarray) else named(part, f"{prefix}{name}.")
    return found
