"""Errors that name the call, the argument, the value, the rule and the remedy."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # its import would take a quarter of the time of `osamd --help`
    import numpy as np
    from numpy.typing import NDArray

Part = TypeVar("Part")

LONGEST = 200
"""The most characters of a value that an error shows."""

MOST_FRACTIONS = 10
"""The most different labels that are not whole numbers and still classes."""

ENCODE = "encode it, as pandas.get_dummies does, or let osamd read the table (osamd run, osamd.prequential.run)"
"""What to do about text in a sample."""


class InputError(ValueError):
    """Something that the caller gave cannot be used; the message is one or two sentences, and names the remedy."""


def reject(call: str, argument: str, value: object, rule: str) -> InputError:
    """The error for one bad argument; `rule` says what must hold and, if that is not obvious, what to do.

    >>> str(reject("Ball", "radius", -1.0, "radius must be positive."))
    '`Ball(radius=-1.0)`: radius must be positive.'
    """
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST else shown[:LONGEST] + "..."
    return InputError(f"`{call}({argument}={shown})`: {rule}")


def require_number(call: str, argument: str, value: object, holds: Callable[[float], bool], rule: str) -> float:
    """The value as a float, if it is a real number (not a bool) for which the rule holds.

    Anything else is tried as NaN, so `holds` must be false for NaN, as comparisons are.
    """
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int or a fraction beyond the range of floats
            number = math.inf
    if not holds(number):
        raise reject(call, argument, value, rule)
    return number


def require_positive(call: str, argument: str, value: object, *, infinite: bool = False) -> float:
    """Refuse what is not a positive (and, unless `infinite`, finite) number."""
    rule = f"{argument} must be positive{'' if infinite else ' and finite'}."
    return require_number(call, argument, value, lambda v: v > 0.0 and (infinite or v < math.inf), rule)


def require_not_negative(call: str, argument: str, value: object) -> float:
    """Refuse what is not zero or a positive finite number."""
    rule = f"{argument} must be zero or positive, and finite."
    return require_number(call, argument, value, lambda v: 0.0 <= v < math.inf, rule)


def require_rate(call: str, argument: str, value: object) -> float:
    """Refuse what is not a rate of labels."""
    rule = f"{argument} is a rate of labels: a number between 0 and 1."
    return require_number(call, argument, value, lambda v: 0.0 <= v <= 1.0, rule)


def require_whole(call: str, argument: str, value: object, least: int = 1) -> int:
    """Refuse what is not a whole number of at least `least`; bools and floats such as 2.0 are refused too.

    >>> require_whole("linear", "features", 2)
    2
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise reject(call, argument, value, f"{argument} must be a whole number (an int) of at least {least}.")
    return int(value)


def require_kind(call: str, argument: str, value: object, kind: type, remedy: str) -> None:
    """Refuse a value of another kind; `remedy` says how to get one of the right kind."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise reject(call, argument, value, f"{argument} must be {article} {kind.__name__}; {remedy}.")


def require_place(arrays: Mapping[str, NDArray[Any]], name: str, shape: Sequence[int]) -> NDArray[Any]:
    """A float64 array of a saved learner, if it has the shape that this version of osamd expects."""
    if name not in arrays or arrays[name].shape != tuple(shape) or arrays[name].dtype != "float64":
        raise InputError(
            "`load`: the file was saved by an incompatible version of osamd; load it with the version that wrote it."
        )
    return arrays[name]


def require_numbers(
    call: str, argument: str, values: object, names: Sequence[object] | None = None, remedy: str = ""
) -> NDArray[np.float64]:
    """The values as a float64 array; text, dates, complex numbers and rows of different lengths are refused.

    The error shows the first text among the values, with the name of its column if there are `names`, and the `remedy`.

    >>> require_numbers("ask", "x", [1.0, "red"], ["size", "colour"], "encode it")
    Traceback (most recent call last):
    osamd.errors.InputError: `ask(x=...)`: x must be numbers; 'colour' is the text 'red': encode it.
    """
    import numpy as np

    try:
        array = np.asarray(values)
        mixed = array.dtype.kind == "O" and all(v is None or isinstance(v, numbers.Real) for v in array.flat)
        if array.dtype.kind in "biuf" or mixed:
            return array.astype(np.float64, copy=False)
        found = f"it holds {array.dtype.name if array.dtype.kind != 'O' else 'other objects'}"
    except (TypeError, ValueError, OverflowError) as error:
        found = f"numpy says: {error}"
    text = _first_text(values, names)
    if text:
        raise InputError(f"`{call}({argument}=...)`: {argument} must be numbers; {text}{remedy and ': '}{remedy}.")
    raise InputError(f"`{call}({argument}=...)`: {argument} must be numbers in rows of equal length ({found}).")


def _first_text(values: object, names: Sequence[object] | None) -> str:
    """Which of the values is text, in words; empty if none is, or if they do not form an array."""
    import numpy as np

    try:
        array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, OverflowError):
        return ""
    found = next(((i, value) for i, value in enumerate(array.flat) if isinstance(value, str | bytes)), None)
    if found is None:
        return ""
    width = array.shape[-1] if array.ndim else 1
    which = "one of them" if array.ndim else "it"
    if names is not None and len(names) == width:
        which = repr(names[found[0] % width])
    return f"{which} is the text {found[1]!r:.60}"


def require_finite(call: str, argument: str, rows: NDArray[np.float64]) -> None:
    """Refuse numbers that are not finite, naming the first row that holds one."""
    import numpy as np

    finite = np.isfinite(rows)
    if not finite.all():
        bad = np.unravel_index(int(np.argmin(finite)), rows.shape)[:-1]
        shown = f"row {', '.join(str(i) for i in bad)}" if bad else argument
        raise InputError(
            f"`{call}({argument}=...)`: {shown} holds {str(rows[bad].tolist())[:LONGEST]}; {argument} must be finite,"
            " so fill or drop missing values first."
        )


def are_continuous(labels: Sequence[Any]) -> bool:
    """Whether these labels are measured numbers rather than classes: numbers, not all whole, that hardly repeat.

    >>> are_continuous([0.1, 0.7, 0.35, 1.2]), are_continuous([0.5, 1.5] * 10), are_continuous([1, 2, 3, 4])
    (True, False, False)
    """
    if any(isinstance(label, str | bool) or not isinstance(label, numbers.Real) for label in labels):
        return False
    different = {float(label) for label in labels}
    whole = all(label.is_integer() for label in different)
    return not whole and len(different) > 2 and (len(different) > MOST_FRACTIONS or 3 * len(different) > len(labels))


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence that suggests the nearest known name and lists all of them.

    >>> nearest("osmad", ["osamd", "paa"])
    "Did you mean 'osamd'? Known: osamd, paa."
    """
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"Known: {', '.join(known)}."


def lookup(call: str, argument: str, name: object, registry: Mapping[str, Part]) -> Part:
    """The entry of a registry, or an error with the nearest name."""
    if not isinstance(name, str):
        raise reject(call, argument, name, f"{argument} must be a string. {nearest('', registry)}")
    if name not in registry:
        raise reject(call, argument, name, f"no such {argument}. {nearest(name, registry)}")
    return registry[name]
