"""What a lean state needs, compiled: the functions of `osamd.accounting.lean_books` and `osamd.preset.packing`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from osamd.accounting.few_bytes import put_numbers, take_numbers
from osamd.accounting.lean_books import put_accounts, take_accounts
from osamd.compiled.lowering import jit, lower
from osamd.numerics import Array
from osamd.preset import state as layout
from osamd.preset.growing import grow_again
from osamd.preset.packing import put_state, take_state
from osamd.preset.state import parts_of, work_of


class CompiledPacking(NamedTuple):
    """The compiled functions, by the names of the plain ones."""

    put_numbers: Any
    take_numbers: Any
    put_accounts: Any
    take_accounts: Any
    put_state: Any
    take_state: Any
    grow_again: Any


@lru_cache
def packing() -> CompiledPacking:
    """The compiled functions."""
    for helper in (put_accounts, take_accounts, put_state, take_state, grow_again, parts_of, work_of):
        lower(helper)

    def numbers_out(out: Any, at: Any, numbers: Any, reference: Any) -> Any:
        return put_numbers(out, at, numbers, reference)

    def numbers_in(data: Any, at: Any, numbers: Any, reference: Any) -> Any:
        return take_numbers(data, at, numbers, reference)

    def accounts_out(out: Any, at: Any, book: Any, opened: Any, meter: Any, empty: Any, narrow: Any) -> Any:
        return put_accounts(out, at, book, opened, meter, empty, narrow)

    def accounts_in(data: Any, at: Any, book: Any, opened: Any, meter: Any, empty: Any, narrow: Any) -> Any:
        return take_accounts(data, at, book, opened, meter, empty, narrow)

    def state_out(out: Any, at: Any, state: Any, opened: Any) -> Any:
        return put_state(out, at, state, opened)

    def state_in(data: Any, at: Any, state: Any, opened: Any) -> Any:
        return take_state(data, at, state, opened)

    def trees(state: Any, work: Any) -> Any:
        part, seen = parts_of(state), work_of(work, state)
        grow_again(part.forest, part.memory, int(state[layout.KEPT]), seen.room)

    plain = (numbers_out, numbers_in, accounts_out, accounts_in, state_out, state_in, trees)
    return CompiledPacking(*(jit(function) for function in plain))


@lru_cache(maxsize=64)
def opened_state(features: int, classes: int, rate: float, capacity: int) -> Array:
    """An open state of the preset, which nobody changes: what a lean state is compared with."""
    return layout.open_state(features, classes, rate, capacity)
