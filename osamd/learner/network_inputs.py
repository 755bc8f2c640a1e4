"""Reads what users give to a learner of networks: their module, its source data and their samples."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError
from osamd.fleet.augmentation import Augmentation
from osamd.fleet.calling import Inputs, said
from osamd.fleet.net import ModuleNet, Net
from osamd.learner.saving import Saved

VARIED = 8
"""The number of varied copies of the first image that a module must take, to be given such images later."""


def kind_of(module: nn.Module, learning: list[Tensor]) -> tuple[torch.dtype, torch.device]:
    """The type that the module is computed in (float64 if such parameters learn, else float32), and its device."""
    problem = ""
    if isinstance(module, torch.jit.ScriptModule):
        problem = "the module is compiled by torch.jit; give the one that it was made from."
    elif any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        problem = "the module has layers that have seen no sample yet; pass a batch through it first."
    elif not any(True for _ in module.parameters()):
        problem = "the module has no parameters, so there is nothing to adapt; give a network that was trained."
    elif not learning:
        problem = (
            "the module has no parameters that require a gradient, so there is nothing to adapt; give learn='head'."
        )
    if problem:
        raise InputError(f"`NetworkOSAMD(module=...)`: {problem}")
    require_memory("NetworkOSAMD", module)
    if any(p.is_complex() for p in module.parameters()):
        raise InputError("`NetworkOSAMD(module=...)`: the module has complex parameters; real ones are needed.")
    wide = any(p.dtype == torch.float64 for p in learning)
    return torch.float64 if wide else torch.float32, learning[0].device


def no_gradient(module: nn.Module, error: Exception) -> str:
    """Why no gradient comes back through the module, and what to do, where that is known."""
    text = str(error)
    if "more than 1 value per channel" in text:
        return "one sample has no statistics of its own for a BatchNorm here; give batch_statistics='training'."
    if "does not require grad" in text or "not have been used in the graph" in text:
        return (
            "the scores do not depend on the parameters that learn, or are computed without gradients; change learn=..."
        )
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return f"{type(module).__name__} cannot be adapted; give module.module, the network inside it."
    hint = "; give enable_nested_tensor=False to the nn.TransformerEncoder" if "Nested" in text else ""
    return f"no gradient comes back through the module ({said(error)}){hint}."


def require_memory(call: str, module: nn.Module) -> None:
    """Refuse a module on the meta device."""
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        rule = "it has shapes and no numbers; give one with memory, such as module.to_empty(device='cpu')"
        raise InputError(f"`{call}(module=...)`: the module is on the meta device, where {rule}.")


def check_outputs(module: nn.Module, scores: Tensor, probabilities: bool) -> None:
    """Refuse outputs that are not probabilities where those are declared, and logits that went through a softmax."""
    last = list(module.modules())[-1]
    if probabilities and (bool((scores < 0).any()) or abs(float(scores.sum()) - 1.0) > 1e-2):
        raise InputError(
            f"`NetworkOSAMD(outputs='probabilities')`: the module gave {[round(s, 3) for s in scores.tolist()]},"
            " which are not probabilities; use outputs='logits'."
        )
    if (
        not probabilities
        and isinstance(last, nn.Softmax | nn.LogSoftmax | nn.Sigmoid)
        and _comes_from(last, module, scores)
    ):
        raise InputError(
            f"`NetworkOSAMD(outputs='logits')`: the module ends in {type(last).__name__}; take that layer off, or"
            " use outputs='probabilities' where it gives those."
        )


def _comes_from(last: nn.Module, module: nn.Module, scores: Tensor) -> bool:
    """Whether the scores are this layer's outputs: in a sequence they must be, elsewhere they have to look so.

    The layer that a module names last may be a gate or a part of attention.
    """
    end = module
    while type(end) is nn.Sequential and len(end):
        end = end[-1]
    if end is last:
        return True
    if len(scores) == 2 and float(scores[0]) == -float(scores[1]):  # one score for two classes
        scores = 2.0 * scores[1:]
    shares = scores.exp() if isinstance(last, nn.LogSoftmax) else scores
    whole = isinstance(last, nn.Sigmoid) or abs(float(shares.sum()) - 1.0) < 1e-2
    return whole and bool(((shares >= 0.0) & (shares <= 1.0)).all())


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
    require_memory("load", like)
    module = copy.deepcopy(like)
    arrays, content = saved
    tensors, others = parts_of_state(module)
    types = {name: str(tensor.dtype) for name, tensor in tensors.items()}
    if types.keys() == content["types"].keys() and types != content["types"]:
        raise InputError(
            "`load(module=...)`: the module and the saved one have different types, such as float32 and float64;"
            " convert it with module.double() or module.float()."
        )
    start = {name[7:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("module.")}
    apart = unlike_saved(tensors, start)
    if apart:
        raise InputError(
            f"`load(module=...)`: the module is not like the one that was saved: {apart}; make it with the same layers."
        )
    module.load_state_dict(start | others)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        parameter.requires_grad_(name in content.get("learning", [name]))  # older files do not say
    return module


def unlike_saved(tensors: dict[str, Tensor], saved: dict[str, Tensor]) -> str:
    """The first difference between the names and shapes of a module's tensors and of those that were saved."""
    for name, tensor in tensors.items():
        if name not in saved:
            return f"its {name} is not in the file"
        if tensor.shape != saved[name].shape:
            return f"its {name} has shape {tuple(tensor.shape)}, and the saved one {tuple(saved[name].shape)}"
    missing = sorted(saved.keys() - tensors.keys())
    return f"it has no {missing[0]}" if missing else ""


def parts_of_state(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a module's `state_dict`, and whatever else it holds there, such as a quantised layer's weights."""
    state = module.state_dict()
    tensors = {name: part.detach() for name, part in state.items() if isinstance(part, Tensor)}
    return tensors, {name: part for name, part in state.items() if name not in tensors}


def inputs_of(x: Any, device: torch.device, dtype: torch.dtype, *, whole: bool, finite: bool = True) -> Inputs:
    """A batch that holds the sample: a tensor, or a tuple or dictionary of tensors, for that many arguments.

    A tuple of plain numbers is one array. With `whole`, whole numbers stay whole, for modules that embed them; inside
    tuples and dictionaries they always do, and truth values stay what they are, since masks are made of those. Tensors
    are copied, and checked to be `finite`.
    """
    if isinstance(x, Mapping):
        if not x or not all(isinstance(name, str) for name in x):
            raise InputError("`ask(x=...)`: x is a dictionary; its keys must be the names of the module's arguments.")
        named = {name: row_of(part, device, dtype, part=f"x[{name!r}]") for name, part in x.items()}
        if all(part.ndim == 1 for part in named.values()):
            rule = "x is a dictionary of single numbers; give its values as an array, in the module's order"
            raise InputError(f"`ask(x=...)`: {rule}.")
        found: Inputs = named
    elif isinstance(x, tuple) and any(isinstance(part, Tensor | np.ndarray) for part in x):
        found = tuple(row_of(part, device, dtype, part=f"x[{i}]") for i, part in enumerate(x))
    else:
        found = row_of(x, device, dtype, whole=whole)
    if finite:
        require_finite(found)
    return found


def row_of(x: Any, device: torch.device, dtype: torch.dtype, *, whole: bool = True, part: str = "") -> Tensor:
    """One tensor of a sample, as a batch; `part` names it where it is a part of the sample."""
    what = part or "x"
    if isinstance(x, np.ma.MaskedArray):
        require_unmasked(x, what)
    try:
        if hasattr(x, "to_numpy"):  # one row of a data frame, or a frame that holds one row
            x = x.to_numpy()
            x = x[0] if x.ndim == 2 and len(x) == 1 else x
        if isinstance(x, np.ndarray):  # torch takes no reversed axes or foreign byte orders, and warns if read-only
            x = np.array(x, dtype=x.dtype.newbyteorder("="))
        given = torch.as_tensor(x, device=device)
        if given.is_floating_point() or given.is_complex():
            kind = dtype if given.is_floating_point() else given.dtype
        elif part and given.dtype == torch.bool:
            kind = torch.bool
        else:
            kind = torch.int64 if whole else dtype
        row = given.detach().to_dense().to(kind, copy=True)[None]
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"`ask(x=...)`: {what} must be numbers, an array or a tensor, made by your own transform ({error})."
        ) from error
    if row.is_complex() or (row.ndim < 2 and not part):
        raise InputError(f"`ask(x=...)`: {what} must be an array of real numbers; this is {x!r:.100}.")
    return row


def require_unmasked(x: Any, what: str) -> None:
    """Refuse an array with masked values."""
    if bool(np.ma.getmaskarray(x).any()):
        raise InputError(f"`ask(x=...)`: {what} has masked values; fill or drop missing values first.")


@contextmanager
def sample_of_source(i: int) -> Iterator[None]:
    """Let errors about a sample of the source say which one it is."""
    try:
        yield
    except InputError as error:
        said = str(error)
        for of in ("", "the module's features of "):
            said = said.replace(f"`ask(x=...)`: {of}x", f"`NetworkOSAMD(source=(X, y))`: {of}X[{i}]", 1)
        raise InputError(said) from error


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
    in_pairs = isinstance(source, list) and all(_is_pair(part) for part in source)
    if in_pairs or not isinstance(source, tuple | list) or len(source) != 2:
        what = "list of pairs (x, y)" if in_pairs else type(source).__name__
        remedy = "Of pairs (x, y), source=tuple(zip(*pairs)) makes one."
        raise InputError(f"`NetworkOSAMD(source=...)`: it is a {what}; {rule}. {remedy}")
    samples, labels = (_listed(part) for part in source)
    if samples is None or labels is None:
        raise InputError(f"`NetworkOSAMD(source=(X, y))`: {rule}, in arrays, tensors, lists or data frames.")
    if len(samples) != len(labels) or not labels:
        raise InputError(
            f"`NetworkOSAMD(source=(X, y))`: {len(samples)} samples and {len(labels)} labels; give a label for each."
        )
    return samples, labels


def _is_pair(part: Any) -> bool:
    """Whether it is one sample with its label, and no pair of samples or of labels."""
    if not isinstance(part, tuple) or len(part) != 2:
        return False
    sample, label = (isinstance(one, Mapping | list | tuple) or getattr(one, "ndim", 0) > 0 for one in part)
    return sample and not label


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
        return [row.item() if isinstance(row, np.generic) or _single(row) else row for row in part]
    except TypeError:
        return None


def _single(row: Any) -> bool:
    """Whether it is an array or a tensor that holds a number without an axis."""
    return isinstance(row, Tensor | np.ndarray) and row.ndim == 0


def takes_varied(net: Net, weights: Tensor, row: Tensor, vary: Augmentation) -> bool:
    """Whether the module learns from varied copies of an image, whose pixels may lie beyond its own range.

    Variation leaves an image without contrast as it is, so a ramp from 0 to 1 stands in for one.
    """
    if bool((row == row.flatten()[0]).all()):
        row = torch.linspace(0.0, 1.0, row.numel(), dtype=row.dtype, device=row.device).view_as(row)
    copies = vary(row[:, None].expand(-1, VARIED, *row.shape[1:]), torch.ones(1, dtype=torch.long, device=row.device))
    y = torch.zeros(1, VARIED, dtype=torch.long, device=row.device)
    try:
        return bool(torch.isfinite(net.loss_gradient(weights, copies, y, torch.ones_like(y, dtype=row.dtype))).all())
    except Exception:  # whatever a user's module raises
        return False
