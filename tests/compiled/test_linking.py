"""Our way of compiling ends with our functions: those of other people are compiled as numba does it."""

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

from osamd.compiled.linking import CALLED_BY_PYTHON
from osamd.compiled.lowering import NUMBER, VECTOR, jit_for, lower


def half(x):
    return 0.5 * x.sum()


def halves(x, y):
    return half(x) + y


lower(half)


def test_only_what_python_calls_becomes_machine_code_and_others_may_still_use_its_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("OSAMD_CACHE_DIR", str(tmp_path))
    ours = jit_for(halves, VECTOR, NUMBER)
    assert ours(np.arange(3.0), 1.0) == 2.5

    @numba.njit
    def inner(x):
        return half(x)  # lowered, and linked without machine code of its own

    @numba.njit
    def outer(x):
        return inner(x) + inner(2.0 * x)

    assert outer(np.arange(3.0)) == 4.5
    assert inner(np.arange(3.0)) == 1.5  # compiled within another, and called by Python all the same
    entered = [function.name for function in ours.overloads[ours.signatures[0]].library.get_defined_functions()]
    assert any(name.startswith(CALLED_BY_PYTHON) for name in entered)


def without_the_first(x):
    return x[1:].sum()


def copied(x):
    return x.copy().sum()


def test_a_function_that_makes_an_array_cannot_claim_to_make_none(tmp_path, monkeypatch):
    monkeypatch.setenv("OSAMD_CACHE_DIR", str(tmp_path))
    assert jit_for(without_the_first, VECTOR, allocates=False)(np.arange(3.0)) == 3.0
    with pytest.raises(NumbaError, match="NRT required"):
        jit_for(copied, VECTOR, allocates=False)
