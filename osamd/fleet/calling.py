"""Calls of a user's module: what it is given, where its output has the scores, and what it says when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from osamd.errors import InputError

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""What a module is called with: one tensor, positional arguments, or named ones."""


def called(module: nn.Module, inputs: Inputs) -> Any:
    """The module's output for these inputs."""
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def tried(module: nn.Module, inputs: Inputs) -> Tensor:
    """The module's scores for a batch of one sample, as a vector; an error names what the module itself says."""
    try:
        with torch.no_grad():
            out = called(module, inputs)
    except InputError:
        raise
    except Exception as error:  # whatever a user's forward raises
        raise InputError(
            f"`module`: it does not take a batch of one sample, {shapes_of(inputs)} ({said(error)}); give samples"
            f" without a batch axis, of the kind it was trained on{_channels_first(inputs)}."
        ) from error
    return outputs_of(out)


def _channels_first(inputs: Inputs) -> str:
    """A hint for images whose channels seem to come last."""
    last = isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[3] in (1, 3, 4) and inputs.shape[1] > 4
    return "; images have their channels first: x.permute(2, 0, 1)" if last else ""


def shapes_of(inputs: Inputs) -> str:
    """The shapes of the inputs, in words."""
    if isinstance(inputs, Tensor):
        return f"of shape {tuple(inputs.shape)}"
    named = inputs.items() if isinstance(inputs, dict) else enumerate(inputs)
    return "with " + ", ".join(f"{name} of shape {tuple(part.shape)}" for name, part in named)


def said(error: Exception) -> str:
    """What an exception says, in one line."""
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def scores_of(out: Any) -> Tensor:
    """The scores in a module's output: a tensor, the first of a tuple or list, or the `logits` of an object."""
    found = out
    if isinstance(out, Mapping) and "logits" in out:
        found = out["logits"]
    elif not isinstance(out, Tensor) and hasattr(out, "logits"):
        found = out.logits
    elif isinstance(out, tuple | list) and out:
        found = out[0]
    if not isinstance(found, Tensor):
        raise InputError(
            f"`module`: its output is a {type(out).__name__}; it must be class scores for each sample: a tensor, a"
            " tuple that begins with it, or an object that has it as its logits."
        )
    return found


def outputs_of(given: Any) -> Tensor:
    """The module's output for a batch of one sample, as a vector: one score per class, or a single score."""
    out = scores_of(given)
    if out.ndim not in (1, 2) or out.shape[0] != 1 or out.numel() == 0:
        raise InputError(
            f"`module`: a batch of one sample gave outputs of shape {tuple(out.shape)}; it must be (1, classes), or"
            " (1, 1) for the one score of two classes. Give one sample at a time, without the batch axis."
        )
    return out.reshape(-1)
