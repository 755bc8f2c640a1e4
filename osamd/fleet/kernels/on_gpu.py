"""Plain functions of the package on a GPU: numba compiles the same sources for CUDA that it compiles for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from osamd.fleet import pair

THREADS = 32


@lru_cache
def cuda() -> Any:
    """The module of numba-cuda; None where that package, or a GPU that it can use, is missing."""
    if find_spec("numba_cuda") is None:
        return None
    vars(np).setdefault("row_stack", np.vstack)  # numba-cuda names it, and newer versions of numpy have removed it
    try:
        found: Any = import_module("numba.cuda")
        return found if found.is_available() else None
    except (ImportError, AttributeError, OSError):
        return None


def on_device(function: Any, replaced: dict[str, Any] | None = None) -> Any:
    """The function for CUDA, with every function of the package that it reaches.

    `replaced` gives other values for some of the global names that they use.
    """
    made: dict[Any, Any] = {}

    def convert(plain: FunctionType) -> Any:
        if plain not in made:
            known = dict(plain.__globals__) | (replaced or {})
            for name in plain.__code__.co_names:
                other = known.get(name)
                if isinstance(other, FunctionType) and other.__module__.startswith("osamd."):
                    known[name] = convert(other)
            copied = FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__, plain.__closure__)
            made[plain] = cuda().jit(device=True)(copied)
        return made[plain]

    return convert(function)


def barrier(number: int, threads: int) -> Any:
    """A place where so many threads of a block wait for each other; number 0 is that of `syncthreads`."""
    extending, types, ir = (import_module(name) for name in ("numba.cuda.extending", "numba.cuda.types", "llvmlite.ir"))

    def wait(typing: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind, text = ir.FunctionType(ir.VoidType(), ()), f"bar.sync {number}, {threads};"
            builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), (), attrs=("convergent",))
            return context.get_dummy_value()

        return types.none(), write

    return extending.intrinsic(wait)


def most_shared(device: torch.device) -> int:
    """The most bytes of memory that the threads of a block can share."""
    found = torch.cuda.get_device_properties(device)
    return int(getattr(found, "shared_memory_per_block_optin", 48 * 1024))  # which older versions of torch lack


@lru_cache
def decide() -> Callable[..., None]:
    """One round of every pair of networks, as `osamd.fleet.pair.decide`; the number of the round is on the device."""
    decide_pair, found = on_device(pair.decide_pair), cuda()

    def kernel(
        t: Any,
        shares: Any,
        sizes: Any,
        u: Any,
        y: Any,
        arbiters: Any,
        counts: Any,
        books: Any,
        work: Any,
        orders: Any,
        record: Any,
    ) -> None:
        i = found.grid(1)
        if i < counts.shape[0]:
            now = t[0]
            decide_pair(i, shares, sizes, u[now], y[now], arbiters, counts, books, work, orders, record[now])

    compiled = found.jit(kernel)

    def launch(*tensors: Tensor) -> None:
        blocks = -(-len(tensors[6]) // THREADS)
        launched_on(compiled, blocks, THREADS, *tensors)

    return launch


def launched_on(kernel: Any, blocks: int, threads: int | tuple[int, ...], *tensors: Any, shared: int = 0) -> None:
    """Launch a kernel on torch's present stream; numbers are passed as they are."""
    stream = cuda().external_stream(torch.cuda.current_stream().cuda_stream)
    arrays = [cuda().as_cuda_array(given) if isinstance(given, Tensor) else given for given in tensors]
    if shared:
        allow_shared(kernel, arrays, shared)
    kernel[blocks, threads, stream, shared](*arrays)


def allow_shared(kernel: Any, arguments: list[Any], most: int) -> None:
    """Allow a kernel so much shared memory besides what its code declares; numba has no option for it."""
    driver = import_module("numba.cuda.cudadrv.driver")
    found = kernel.compile(tuple(kernel.typeof_pyval(given) for given in arguments))._codelibrary.get_cufunc()
    attribute = driver.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.driver.cuKernelSetAttribute(attribute, most, found.handle, found.device.id)
