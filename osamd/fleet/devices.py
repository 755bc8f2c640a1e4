"""Devices by name, their peak memory, cores, threads for a small network, and work beside other work on a GPU."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import torch

from osamd.errors import InputError

FEW_PARAMETERS = 50_000


def peak_memory_mib(device: torch.device) -> float:
    """The peak memory so far: on a GPU that of tensors, otherwise that of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 1024


def cores() -> int:
    """The number of cores that this process may use, if the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads_for(parameters: int) -> Iterator[None]:
    """Use one torch thread for a network with few parameters: two would wait for each other longer than they work."""
    before = torch.get_num_threads()
    if parameters < FEW_PARAMETERS and before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


@lru_cache
def companion(stream: torch.cuda.Stream, number: int) -> torch.cuda.Stream:
    """A stream that belongs to this one."""
    return torch.cuda.Stream(stream.device)


@contextmanager
def aside(device: torch.device, number: int = 0) -> Iterator[Callable[[], None]]:
    """Let a GPU do the work within beside what follows, and beside work with other numbers; other devices do it at
    once.

    What it yields is to be called once the results are needed, and before any tensor is released that the work reads.
    Threads whose present stream is the same must not do so at the same time.
    """
    if device.type != "cuda":
        yield lambda: None
        return
    stream = torch.cuda.current_stream(device)
    beside = companion(stream, number)
    beside.wait_stream(stream)
    with torch.cuda.stream(beside):
        yield partial(stream.wait_stream, beside)


def device_named(device: Any, call: str) -> torch.device:
    """The device, if this machine has it; errors name `call`.

    >>> device_named("cpu", "experiment(device='cpu')")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.empty(1, device=found).cpu()
    except (RuntimeError, TypeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        why = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"`{call}`: no such device here ({why}); use cpu, or cuda where torch sees a GPU.") from error
    return found
