"""Named parts of one long vector, which is what compiled code takes at the least cost.

A part is cut where it is named, one after the other; `at` is where the next one begins. So a layout is stated once: cut
from an empty vector, it tells how long the vector must be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from osamd.numerics import Array


class Sizes(NamedTuple):
    """What the length of every part follows from."""

    features: int
    classes: int
    capacity: int
    """How many labelled samples there is room for."""


def cut(vector: Any, at: int, length: int) -> Any:
    """The next `length` numbers, and where the part after them begins."""
    return vector[at : at + length], at + length


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
