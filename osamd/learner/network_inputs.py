"""Reads what users give to a learner of networks: their module, its source data and their samples."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError
from osamd.fleet.calling import Inputs
from osamd.fleet.net import ModuleNet
from osamd.learner.saving import Saved


def kind_of(module: nn.Module, learning: list[Tensor]) -> tuple[torch.dtype, torch.device]:
    """The type that the module is computed in (float64 if such parameters learn, else float32), and its device."""
    uninitialised = [p for p in module.parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if uninitialised or not learning:
        what = "layers that have seen no sample yet" if uninitialised else "no parameters that require a gradient"
        raise InputError(f"`NetworkOSAMD(module=...)`: the module has {what}, so there is nothing to adapt.")
    if any(p.is_complex() for p in module.parameters()):
        raise InputError("`NetworkOSAMD(module=...)`: the module has complex parameters; real ones are needed.")
    wide = any(p.dtype == torch.float64 for p in learning)
    return torch.float64 if wide else torch.float32, learning[0].device


def check_outputs(module: nn.Module, scores: Tensor, probabilities: bool) -> None:
    """Refuse outputs that are not probabilities where those are declared, and logits that went through a softmax."""
    last = list(module.modules())[-1]
    if probabilities and (bool((scores < 0).any()) or abs(float(scores.sum()) - 1.0) > 1e-2):
        raise InputError(
            f"`NetworkOSAMD(outputs='probabilities')`: the module gave {[round(s, 3) for s in scores.tolist()]},"
            " which are not probabilities; use outputs='logits'."
        )
    if not probabilities and isinstance(last, nn.Softmax | nn.LogSoftmax | nn.Sigmoid):
        raise InputError(
            f"`NetworkOSAMD(outputs='logits')`: the module ends in {type(last).__name__}; take that layer off, or"
            " use outputs='probabilities' where it gives those."
        )


def takes_batches(net: ModuleNet, start: Tensor, row: Tensor, other: Tensor) -> bool:
    """Whether the module scores each sample of a batch as it scores the sample alone."""
    batch = torch.cat([row, other])[None]
    try:
        alone = torch.cat([net.many(start, batch[:, i : i + 1]) for i in range(2)], 1)
        return bool(torch.allclose(net.many(start, batch), alone, rtol=1e-3, atol=1e-3))
    except Exception:  # whatever a user's module raises
        return False


def restored_module(like: nn.Module, saved: Saved) -> nn.Module:
    """A copy of the module with the parameters that were saved; a module of another architecture or type is refused."""
    module = copy.deepcopy(like)
    arrays, content = saved
    types = {name: str(tensor.dtype) for name, tensor in module.state_dict().items()}
    if types.keys() == content["types"].keys() and types != content["types"]:
        raise InputError(
            "`load(module=...)`: the module and the saved one have different types, such as float32 and float64;"
            " convert it with module.double() or module.float()."
        )
    start = {name[7:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("module.")}
    try:
        module.load_state_dict(start)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"`load(module=...)`: the module is not like the one that was saved ({why}).") from error
    for name, parameter in module.named_parameters(remove_duplicate=False):
        parameter.requires_grad_(name in content.get("learning", [name]))  # older files do not say
    return module


def inputs_of(x: Any, device: torch.device, dtype: torch.dtype, *, whole: bool, kept: bool = True) -> Inputs:
    """A batch that holds the sample: a tensor, or a tuple or dictionary of tensors, for that many arguments.

    A tuple of plain numbers is one array. With `whole`, whole numbers stay whole, for modules that embed them; inside
    tuples and dictionaries they always do, and truth values stay what they are, since masks are made of those. A sample
    that is `kept` is copied, and checked to be finite.
    """
    if isinstance(x, Mapping):
        if not x or not all(isinstance(name, str) for name in x):
            raise InputError("`ask(x=...)`: x is a dictionary; its keys must be the names of the module's arguments.")
        named = {name: row_of(part, device, dtype, part=f"x[{name!r}]", kept=kept) for name, part in x.items()}
        if all(part.ndim == 1 for part in named.values()):
            rule = "x is a dictionary of single numbers; give its values as an array, in the module's order"
            raise InputError(f"`ask(x=...)`: {rule}.")
        found: Inputs = named
    elif isinstance(x, tuple) and any(isinstance(part, Tensor | np.ndarray) for part in x):
        found = tuple(row_of(part, device, dtype, part=f"x[{i}]", kept=kept) for i, part in enumerate(x))
    else:
        found = row_of(x, device, dtype, whole=whole, kept=kept)
    if kept:
        require_finite(found)
    return found


def row_of(
    x: Any, device: torch.device, dtype: torch.dtype, *, whole: bool = True, part: str = "", kept: bool = True
) -> Tensor:
    """One tensor of a sample, as a batch; `part` names it where it is a part of the sample."""
    what = part or "x"
    try:
        read_only = isinstance(x, np.ndarray) and not x.flags.writeable  # torch warns about those
        given = torch.as_tensor(x.copy() if read_only else x, device=device)
        if given.is_floating_point() or given.is_complex():
            kind = dtype if given.is_floating_point() else given.dtype
        elif part and given.dtype == torch.bool:
            kind = torch.bool
        else:
            kind = torch.int64 if whole else dtype
        row = given.detach().to_dense().to(kind, copy=kept)[None]
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"`ask(x=...)`: {what} must be numbers, an array or a tensor ({error}).") from error
    if row.is_complex() or (row.ndim < 2 and not part):
        raise InputError(f"`ask(x=...)`: {what} must be an array of real numbers; this is {x!r:.100}.")
    return row


def require_finite(inputs: Inputs) -> None:
    """Refuse a sample with numbers that are not finite."""
    parts = {"x": inputs} if isinstance(inputs, Tensor) else inputs
    named = parts.items() if isinstance(parts, dict) else enumerate(parts)
    for name, part in named:
        if not bool(torch.isfinite(part).all()):
            what = "x" if isinstance(inputs, Tensor) else f"x[{name!r}]"
            raise InputError(
                f"`ask(x=...)`: {what} holds numbers that are not finite; fill or drop missing values first."
            )


def pairs_of(source: Any) -> tuple[list[Any], list[Any]]:
    """Samples and labels as lists of the same length."""
    rule = "give a pair (X, y): labelled samples, and one label for each"
    if not isinstance(source, tuple | list) or len(source) != 2:
        raise InputError(f"`NetworkOSAMD(source=...)`: it is a {type(source).__name__}; {rule}.")
    samples, labels = (_listed(part) for part in source)
    if samples is None or labels is None:
        raise InputError(f"`NetworkOSAMD(source=(X, y))`: {rule}, in arrays, tensors, lists or data frames.")
    if len(samples) != len(labels) or not labels:
        raise InputError(
            f"`NetworkOSAMD(source=(X, y))`: {len(samples)} samples and {len(labels)} labels; give a label for each."
        )
    return samples, labels


def _listed(part: Any) -> list[Any] | None:
    """The rows as a list, with numbers as plain Python values; None where the value has no rows."""
    if isinstance(part, Mapping):  # columns by name, for a module with named arguments
        columns = [_listed(column) for column in part.values()]
        lists = [column for column in columns if column is not None]
        if len({len(column) for column in lists}) != 1 or len(lists) < len(columns):
            return None
        return [dict(zip(part, row, strict=True)) for row in zip(*lists, strict=True)]
    if hasattr(part, "to_numpy"):  # a data frame, or one of its columns, whose index is not a position
        part = part.to_numpy()
    if isinstance(part, Tensor | np.ndarray) and part.ndim == 1:
        return list(part.tolist())
    try:
        return [row.item() if isinstance(row, np.generic) else row for row in part]
    except TypeError:
        return None
