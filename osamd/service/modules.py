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
        raise InputError(f"`--module {name}`: give package.module:function, the function that returns the module.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make: Callable[[], Any] = getattr(import_module(package), function)
    except Exception as error:  # the code is the operator's own, and so may be its errors
        raise InputError(
            f"`--module {name}`: it cannot be imported ({_said(error)}); be in the folder that holds it, or install it."
        ) from error
    try:
        return make()
    except Exception as error:
        raise InputError(f"`--module {name}`: the function failed ({_said(error)}); mend it.") from error


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def networks() -> Any:
    """The learner of networks, `osamd.NetworkOSAMD`.

    torch adds up in another order with another number of threads, so that a log could not be repeated on another number
    of cores: the service has one.
    """
    try:
        import torch

        from osamd.learner.network import NetworkOSAMD
    except ImportError as error:
        raise InputError(f"{error}.") from error
    torch.set_num_threads(1)
    return NetworkOSAMD
