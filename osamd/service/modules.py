"""The torch modules of networks: how the code that a service folder names is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from osamd.errors import InputError


def made(name: str) -> Any:
    """The module that the operator's own function returns."""
    package, _, function = name.partition(":")
    if not package or not function:
        raise InputError(
            f"`made(module={name!r})`: give package.module:function, the function that returns the module."
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make: Callable[[], Any] = getattr(import_module(package), function)
    except Exception as error:  # the operator's own code may raise anything
        raise InputError(
            f"`made(module={name!r})`: it cannot be imported ({_said(error)}); change to its folder, or install it."
        ) from error
    try:
        return make()
    except Exception as error:
        raise InputError(f"`made(module={name!r})`: the function failed ({_said(error)}); correct it.") from error


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def networks() -> Any:
    """The learner of networks, `osamd.NetworkOSAMD`.

    The order of torch's sums depends on the number of threads, so a log could not be reproduced with another number of
    cores. The service therefore uses one thread.
    """
    try:
        import torch

        from osamd.learner.network import NetworkOSAMD
    except ImportError as error:
        raise InputError(f"{error}.") from error
    torch.set_num_threads(1)
    return NetworkOSAMD
