"""Compile a function as one whole: the functions that it calls are linked into it, and it alone becomes machine code.

Numba optimises every function that a compiled function calls, makes machine code of it, then links it into its caller
and optimises all of it again, and so on up to the function that Python calls. Only that one ever runs. Here the others
stay as they were lowered until they are linked into it, which halves the time to compile. LLVM then sees the same
functions and inlines them, and without `fastmath` no optimisation may change a result. Loops over whole streams lose
a twentieth of their speed so; their parts are optimised first, as numba does it, and only their machine code is spared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen
from numba.core.registry import cpu_target

CALLED_BY_PYTHON = "_ZN7cpython"
"""How the names of the functions begin by which Python enters compiled code."""

_Library: Any = codegen.JITCodeLibrary


class LinkedLibrary(_Library):  # type: ignore[misc]
    """The code of one function, of which machine code is made only if Python can call it."""

    def _called_by_python(self) -> bool:
        return any(
            function.name.startswith(CALLED_BY_PYTHON) and not function.is_declaration
            for function in self._final_module.functions
        )

    def _finalize_final_module(self) -> None:
        if self._called_by_python():
            super()._finalize_final_module()
        else:
            self._finalize_dynamic_globals()
            self._finalized = True


class LibraryOptimisedAsOne(LinkedLibrary):
    """The code of one function, which is optimised only if Python can call it."""

    def _optimize_final_module(self) -> None:
        if self._called_by_python():
            super()._optimize_final_module()


@contextmanager
def compiled_as_one(*, optimise_parts: bool) -> Iterator[None]:
    """While it lasts, numba makes machine code only of functions that Python calls; hold numba's lock around it."""
    target: Any = cpu_target.target_context.codegen()
    set_environment = target.set_env

    def set_environment_of_machine_code(name: str, environment: Any) -> None:
        if target._engine.is_symbol_defined(name):
            set_environment(name, environment)

    target._library_class = LinkedLibrary if optimise_parts else LibraryOptimisedAsOne
    target.set_env = set_environment_of_machine_code
    try:
        yield
    finally:
        del target._library_class, target.set_env
