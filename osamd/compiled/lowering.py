"""Lowering: turn plain functions of the package into compiled ones, cached on disk under a digest of their sources.

The plain functions are the source: `lower` makes a function, and every function of the package that it reaches, known
to numba as it stands. Only the sums in the stated order are written again for numba, since numpy expresses them by
reshaping; tests hold both forms equal to the last bit.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import caching
from numba.core.bytecode import FunctionIdentity
from numba.extending import overload, register_jitable

from osamd import numerics
from osamd.compiled.linking import compiled_as_one
from osamd.files import user_cache
from osamd.numerics import LANES, Array
from osamd.paper import models
from osamd.paper.models import Linear

Function = TypeVar("Function", bound=Callable[..., Any])
_Files: Any = caching.IndexDataCacheFile

_lowered: set[Any] = {numerics.lane_sum, numerics.dot, models.binary_scores}

SOURCES = (
    "numerics.py",
    "accounting/*.py",
    "compiled/*.py",
    "fleet/kernels/pair*.py",
    "fleet/kernels/stepping.py",
    "fleet/pair.py",
    "learner/cores/*.py",
    "learner/decision.py",
    "paper/*.py",
    "paper/geometry/*.py",
    "preset/*.py",
)
"""The files of everything that is lowered. Numba itself checks the file of the function that is compiled."""


def _dot(a: Any, b: Any) -> Any:
    """sum_i a_i b_i in the stated order: whole lanes first, then the rest is added to the first lanes."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.shape[0] // LANES * LANES
    for i in range(0, whole, LANES):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    rest = a.shape[0] - whole
    s0 += a[whole] * b[whole] if rest > 0 else 0.0
    s1 += a[whole + 1] * b[whole + 1] if rest > 1 else 0.0
    s2 += a[whole + 2] * b[whole + 2] if rest > 2 else 0.0
    s3 += a[whole + 3] * b[whole + 3] if rest > 3 else 0.0
    s4 += a[whole + 4] * b[whole + 4] if rest > 4 else 0.0
    s5 += a[whole + 5] * b[whole + 5] if rest > 5 else 0.0
    s6 += a[whole + 6] * b[whole + 6] if rest > 6 else 0.0
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


register_jitable(error_model="numpy", no_cfunc_wrapper=True)(_dot)


@overload(numerics.lane_sum)
def _lane_sum(products):  # type: ignore[no-untyped-def]
    """`osamd.numerics.lane_sum` for a vector; compiled models hold no matrices."""
    return lambda products: _dot(products, np.ones(products.shape[0]))


@overload(numerics.dot)
def _inner(a, b):  # type: ignore[no-untyped-def]
    return lambda a, b: _dot(a, b)


@overload(models.binary_scores)
def _binary_scores(w, x):  # type: ignore[no-untyped-def]
    return lambda w, x: _dot(w, x)


def row_scores(w: Array, x: Array) -> Array:
    """The scores of a multiclass model whose rows of weights follow each other in one vector."""
    n = x.shape[0]
    total = np.empty(w.shape[0] // n)
    for row in range(total.shape[0]):
        total[row] = _dot(w[row * n : (row + 1) * n], x)
    return total


def row_pull(slope: Array, x: Array) -> Array:
    """The pull-back of a slope on the scores to such a vector."""
    n = x.shape[0]
    pulled = np.empty(slope.shape[0] * n)
    for row in range(slope.shape[0]):
        for i in range(n):
            pulled[row * n + i] = slope[row] * x[i]
    return pulled


def first_row(params: Array, x: Array) -> Array:
    """The parameters of the first class in such a vector."""
    return params[: x.shape[0]]


def in_one_vector(model: Linear) -> Linear:
    """The model with its parameters as one vector, which compiles several times faster than a matrix."""
    if model.classes == 2:
        return model
    width = (math.prod(model.shape),)
    return replace(model, shape=width, scores=row_scores, pull=row_pull, one_class=first_row)


def lower(function: Function, *, inline: bool = False) -> Function:
    """Make `function`, and every function of the package that it reaches, callable from compiled code.

    `inline` inlines it into its callers: a call that passes arrays counts references, which can cost more than the
    round itself.
    """
    if function in _lowered or not isinstance(function, FunctionType):
        return function
    _lowered.add(function)
    register_jitable(forceinline=inline, error_model="numpy", no_cfunc_wrapper=True)(function)
    reached = [cell.cell_contents for cell in function.__closure__ or ()]
    reached += [function.__globals__.get(name) for name in function.__code__.co_names]
    for other in reached:
        if isinstance(other, FunctionType) and other.__module__.startswith("osamd."):
            lower(other, inline=inline)
    return function


@lru_cache
def cache_folder() -> Path:
    """The folder of compiled code: in the user's cache, under a digest of `SOURCES`.

    Numba notices edits of the file that defines a function, but not of the files that it calls. With the digest any
    edit of lowered code compiles again, and a second start with the same sources compiles nothing. OSAMD_CACHE_DIR
    moves the folder.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(found for pattern in SOURCES for found in root.glob(pattern)):
        digest.update(str(source.relative_to(root)).encode() + source.read_bytes())
    return user_cache() / f"compiled-{digest.hexdigest()[:16]}"


# Numba numbers the functions it compiles from 1 on in every process, and these numbers are part of the symbols that it
# keeps on disk. Two processes may give the same symbol to two functions, and a third that loads both would run the
# wrong one. Random numbers, drawn anew after a fork too, make every symbol unique.
_identity: Any = FunctionIdentity
_identity._unique_ids = iter(lambda: secrets.randbits(62), None)


def compiles_anew() -> bool:
    """Whether nothing was compiled here yet, from these sources: the first learner then takes some ten seconds."""
    return not cache_folder().is_dir()


class KeyedFiles(_Files):  # type: ignore[misc]
    """numba's cache files, named by a digest of their key.

    Numba numbers them, and two processes that compile at once may give the same number to two functions; a later start
    then runs the wrong one. With these names the worst loss is an entry of the index, which is compiled again.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:16], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


def jit(function: Function, *, nogil: bool = False, optimise_parts: bool = False, allocates: bool = True) -> Function:
    """Compile a function that calls lowered ones, and cache it on disk. No `fastmath`: sums keep their order.

    With `nogil` other threads may run at the same time. `optimise_parts` optimises the functions that it calls before
    it, which takes longer, and makes a loop over a whole stream a little faster (`osamd.compiled.linking`). A function
    that makes no arrays, only views of its arguments, should say so by `allocates=False`: then no references to arrays
    are counted, which takes longer than many a round. Numba refuses to compile it if it makes one after all.
    """
    config: Any = numba.config  # numba reads it when a function is decorated; restored below for everybody else
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        options: Any = {
            "nogil": nogil,
            "_nrt": allocates,
        }  # numba's types do not know the second, its counted references
        compiled: Any = numba.njit(function, cache=True, error_model="numpy", **options)
    finally:
        config.CACHE_DIR = before
    compiled._cache._cache_file.__class__ = KeyedFiles
    compile_parts = compiled._compiler.compile

    def compile_as_one(arguments: Any, return_type: Any) -> Any:
        with compiled_as_one(optimise_parts=optimise_parts):
            return compile_parts(arguments, return_type)

    compiled._compiler.compile = compile_as_one
    return cast(Function, compiled)


VECTOR, TABLE = numba.types.float64[::1], numba.types.float64[:, ::1]
NUMBER, WHOLE, WHOLES = numba.types.float64, numba.types.int64, numba.types.int64[::1]


def jit_for(function: Function, *arguments: Any, nogil: bool = False, allocates: bool = True) -> Function:
    """Compile a function now, for arguments of these types alone; the options are those of `jit`."""
    compiled: Any = jit(function, nogil=nogil, allocates=allocates)
    compiled.compile(arguments)
    compiled.disable_compile()  # another kind of array is copied instead, which is quick
    return cast(Function, compiled)
