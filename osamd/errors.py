"""Errors that tell the user the call, the argument, the value, the rule and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

Part = TypeVar("Part")


class InputError(ValueError):
    """Something the caller gave cannot be used; the message is one sentence or two, and names the remedy."""


def reject(call: str, argument: str, value: object, rule: str) -> InputError:
    """The error for one bad argument; `rule` says what must hold and, where it is not plain, what to do.

    >>> str(reject("Ball", "radius", -1.0, "radius must be positive."))
    '`Ball(radius=-1.0)`: radius must be positive.'
    """
    return InputError(f"`{call}({argument}={value!r})`: {rule}")


def require_positive(call: str, argument: str, value: float, *, infinite: bool = False) -> None:
    """Refuse a number that is not positive (or, unless `infinite`, not finite)."""
    if not value > 0 or (value == float("inf") and not infinite):
        raise reject(call, argument, value, f"{argument} must be positive{'' if infinite else ' and finite'}.")


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that offers the nearest known name, and all of them.

    >>> nearest("osmad", ["osamd", "paa"])
    "Did you mean 'osamd'? Known: osamd, paa."
    """
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"Known: {', '.join(known)}."


def lookup(call: str, argument: str, name: str, registry: Mapping[str, Part]) -> Part:
    """The entry of a registry, or an error with the nearest name."""
    if name not in registry:
        raise reject(call, argument, name, f"no such {argument}. {nearest(name, registry)}")
    return registry[name]
