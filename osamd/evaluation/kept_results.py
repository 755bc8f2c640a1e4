"""Finished results in a folder, one small file each, so that an interrupted sweep goes on where it ended.

A file is named by a digest of what its result depends on: the function, the task, and the sources of this package. It
holds JSON: numbers to the last bit, arrays in base64, named tuples by the name of their class. Nothing in it runs code.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from osamd.errors import InputError


class KeptResults:
    """The results of one function, in a folder that is made with the first of them."""

    def __init__(self, folder: str | Path, function: Callable[..., Any]) -> None:
        self.folder = Path(folder)
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._root = function.__module__.partition(".")[0]

    def path(self, key: str) -> Path:
        """The file of a task, which `key` identifies among all tasks of the function."""
        digest = hashlib.sha256("\n".join((sources(), self._name, key)).encode()).hexdigest()
        return self.folder / f"{digest[:32]}.json"

    def read(self, key: str) -> Any:
        """The result as `write` took it; raises FileNotFoundError where there is none."""
        path = self.path(key)
        try:
            return decoded(json.loads(path.read_text()), self._root)
        except (ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise InputError(
                f"{path}: the file is damaged ({error}); delete it, and the run is played again."
            ) from error

    def write(self, key: str, result: Any) -> Any:
        """Write the file, completely or not at all; returns the result as `read` will return it."""
        content = encoded(result)
        path = self.path(key)
        partial = path.with_name(f".{uuid.uuid4().hex}.partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(content, separators=(",", ":")))
            os.replace(partial, path)
        except OSError as error:
            raise InputError(f"cannot write {path} ({error.strerror or error}); make room there.") from error
        return decoded(content, self._root)


def encoded(value: Any) -> Any:
    """A result as JSON holds it.

    >>> encoded({"mean": (np.float64(0.1), None)})
    {'pairs': [['mean', {'tuple': [0.1, None]}]]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = type(value)
        return {"named": [f"{kind.__module__}:{kind.__qualname__}", [encoded(part) for part in value]]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(part) for part in value]}
    if isinstance(value, list):
        return [encoded(part) for part in value]
    if isinstance(value, dict):
        return {"pairs": [[encoded(key), encoded(part)] for key, part in value.items()]}
    rule = "a result that is kept must be made of numbers, text, arrays, lists, dictionaries and named tuples"
    raise TypeError(f"{type(value).__name__}: {rule}.")


def decoded(content: Any, root: str) -> Any:
    """The result that `encoded` gave; classes of named tuples must belong to the package `root`, or to osamd."""
    if isinstance(content, list):
        return [decoded(part, root) for part in content]
    if not isinstance(content, dict):
        return content
    ((kind, held),) = content.items()
    if kind == "array":
        dtype, shape, data = held
        return np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape).copy()
    if kind == "named":
        return _named_tuple(held[0], root)._make(decoded(part, root) for part in held[1])
    if kind == "tuple":
        return tuple(decoded(part, root) for part in held)
    return {decoded(key, root): decoded(part, root) for key, part in held}


def _named_tuple(name: str, root: str) -> Any:
    module, _, qualified = name.partition(":")
    if module.partition(".")[0] not in (root, "osamd"):
        raise TypeError(f"{name} is no class of {root}")
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise TypeError(f"{name} is no named tuple")
    return found


@cache
def sources() -> str:
    """A digest of all sources of this package: results of other sources are not taken for those of these."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
