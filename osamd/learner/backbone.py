"""What learns of a network: its head, its norms, small factors, everything, or parameters by name.

`osamd.learner.features` splits a module at its head, and `osamd.learner.rows` trains one as a whole. What a learner
does not change, it shares with the module that it was given instead of copying it (`duplicate`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from osamd.errors import InputError, reject
from osamd.fleet.calling import said
from osamd.fleet.net import named_tensors
from osamd.learner.low_rank import adaptable

WORDS = ("head", "norm", "low-rank", "all")
NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)

Learn = str | list[str] | None
"""A word, names of parameters, or None for those that require a gradient."""


def wanted(module: nn.Module, learn: Any) -> Learn:
    """What the user wants to learn, checked against the module; patterns become names of parameters."""
    if learn is None or (isinstance(learn, str) and learn in WORDS):
        if learn not in (None, "head"):
            names_of(module, learn)
        return learn
    known = ", ".join(WORDS)
    if isinstance(learn, str) or not isinstance(learn, Iterable):
        raise reject("NetworkOSAMD", "learn", learn, f"give one of {known}, or a list of names of parameters.")
    patterns = list(learn)
    names = [name for name, tensor in module.named_parameters(remove_duplicate=False) if tensor.is_floating_point()]
    found: list[str] = []
    for pattern in patterns:
        fits = [name for name in names if name == pattern]
        fits = fits or [name for name in names if isinstance(pattern, str) and fnmatchcase(name, pattern)]
        if not fits:
            close = get_close_matches(str(pattern), names, n=1, cutoff=0.4)
            meant = f"Did you mean {close[0]!r}? " if close else ""
            shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise InputError(
                f"`NetworkOSAMD(learn=...)`: no parameter is called {pattern!r:.80}. {meant}Known: {shown}."
            )
        found += fits
    if not found:
        raise reject("NetworkOSAMD", "learn", patterns, f"name at least one parameter, or give one of {known}.")
    return sorted(set(found), key=names.index)


def names_of(module: nn.Module, learn: str | list[str]) -> list[str]:
    """The names of the parameters that change; "low-rank" changes the weights that get factors."""
    if isinstance(learn, list):
        return learn
    if learn == "norm":
        names = [
            f"{place}.{name}" if place else name
            for place, part in module.named_modules()
            for name, parameter in part.named_parameters(recurse=False)
            if isinstance(part, NORMS) or ("norm" in type(part).__name__.lower() and parameter.ndim == 1)
        ]
        missing = "has no norm layers with parameters of their own"
    elif learn == "low-rank":
        names, missing = adaptable(module), "has no linear layers"
    else:
        names = [name for name, tensor in module.named_parameters() if tensor.is_floating_point()]
        missing = "has no parameters"
    if not names:
        kinds = sorted({type(part).__name__ for part in module.modules() if not list(part.children())})
        raise InputError(
            f"`NetworkOSAMD(learn={learn!r})`: the module {missing}; its layers are {', '.join(kinds)}. Give another of"
            f" {', '.join(WORDS)}, or a list of names of parameters."
        )
    return names


def learning_of(module: nn.Module, learn: Learn) -> list[Tensor]:
    """The parameters that learn, or among which those are that will be found with the first sample."""
    if learn is None:
        return [parameter for parameter in module.parameters() if parameter.requires_grad]
    names = set(named_tensors(module)) if learn == "head" else set(names_of(module, learn))
    return [p for name, p in module.named_parameters(remove_duplicate=False) if name in names and p.is_floating_point()]


def changing(module: nn.Module, learn: Learn) -> list[str] | None:
    """The names of the parameters that are known to change; None where the whole module is copied."""
    return None if learn is None else [] if learn == "head" else names_of(module, learn)


def duplicate(module: nn.Module, apart: Iterable[str] | None) -> nn.Module:
    """A copy whose tensors share their memory with the module, except those named in `apart`; None copies all."""
    memo: dict[int, Any] = {}
    if apart is not None:
        own = {id(tensor) for name, tensor in named_tensors(module).items() if name in set(apart)}
        for tensor in (*module.parameters(), *module.buffers()):
            if id(tensor) not in own:
                view = tensor.detach().clone() if tensor.is_inference() else tensor.detach()
                shared = nn.Parameter(view, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else view
                memo[id(tensor)] = shared
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # whatever a user's module holds
        raise InputError(f"`NetworkOSAMD(module=...)`: the module cannot be copied ({said(error)}).") from error
