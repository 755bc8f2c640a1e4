"""Checks for the content of learner files, which anyone may have written.

A digest tells a damaged file from a good one, but says nothing about a file that was made to deceive. Compiled code
trusts the numbers it is given, so every size, index, count and draw is checked once, before the first round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.errors import LONGEST, InputError

ROUNDING = 1e-6
"""The relative rounding error allowed in sums that are updated from round to round."""


def unsound(what: str) -> InputError:
    """The error for a file that cannot hold a learner; `what` is a clause that says what is wrong.

    >>> str(unsound("uniforms holds -1.0, which must lie between 0 and 1"))
    '`load`: the file was changed after it was saved: uniforms holds -1.0, which must lie between 0 and 1.'
    """
    return InputError(f"`load`: the file was changed after it was saved: {what}.")


def require_that(holds: Any, what: str) -> None:
    """Refuse the file unless all of these conditions hold."""
    if holds is not True and not np.all(holds):  # most conditions are one: numpy would take longer than all the rest
        raise unsound(what)


def require_within(name: str, values: Any, low: float, high: float, *, whole: bool = False) -> None:
    """Refuse numbers that are nan, outside [low, high], or not whole although they must be.

    >>> require_within("meter.rounds", 2.5, 0, 10, whole=True)
    Traceback (most recent call last):
    osamd.errors.InputError: `load`: the file was changed after it was saved: meter.rounds holds 2.5, which must be ...
    """
    if type(values) in (float, int) and low <= values <= high and (not whole or values == math.floor(values)):
        return  # one number that is fine: numpy would take ten times as long
    numbers = np.asarray(values, dtype=np.float64)
    fine = (numbers >= low) & (numbers <= high)
    if whole:
        fine &= np.floor(numbers) == numbers
    if not fine.all():
        kind = "be a whole number" if whole else "lie"
        shown = numbers[~fine].flat[0]
        raise unsound(f"{name} holds {shown}, which must {kind} between {low:.6g} and {high:.6g}")


def require_finite_in(name: str, values: Any) -> None:
    """Refuse numbers that are not finite."""
    if not np.isfinite(values).all():
        raise unsound(f"{name} holds numbers that are not finite")


def require_shaped(arrays: Mapping[str, NDArray[Any]], name: str, like: NDArray[Any]) -> NDArray[Any]:
    """The array of this name, if it has the same shape and type as `like`."""
    found = arrays.get(name)
    if found is None:
        raise unsound(f"it holds no {name}")
    if found.shape != like.shape or found.dtype != like.dtype:
        shown, needed = (f"{array.dtype} of shape {array.shape}" for array in (found, like))
        raise unsound(f"{name} is {shown}, but must be {needed}")
    return found


def whole_number(content: Mapping[str, Any], name: str, least: int, most: float = 2.0**53) -> int:
    """A whole number from the header, within limits."""
    value = content.get(name)
    if type(value) is not int or not least <= value <= most:
        raise unsound(f"{name} is {value!r:.60}, which must be a whole number between {least} and {most:.6g}")
    return value


def listed(content: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """A list from the header, with at most `most` entries."""
    value = content.get(name)
    if type(value) is not list or len(value) > most:
        raise unsound(f"{name} must be a list of at most {most}")
    return value


def require_probability_like(name: str, shares: NDArray[Any]) -> None:
    """Refuse weights that do not add up to 1."""
    require_within(name, shares, 0.0, 1.0 + ROUNDING)
    require_within(f"the sum of {name}", shares.sum(), 1.0 - ROUNDING, 1.0 + ROUNDING)


def product(sizes: Sequence[int]) -> int:
    """How many numbers an array of this shape holds."""
    return math.prod(sizes)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn any other error of a bad file, such as a missing field, into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError, MemoryError) as error:
        why = (str(error).splitlines() or [""])[0][:LONGEST]
        raise unsound(f"no learner can be made from it ({type(error).__name__}: {why})") from error
