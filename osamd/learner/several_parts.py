"""Samples with several parts, each of any length, as rows of numbers, for modules that learn as a whole.

A row holds the lengths of all axes of every part, then the numbers of all parts, and then zeros up to the length of the
longest sample so far. Samples of the same lengths are passed through the module together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from osamd.checks import listed, require_that, whole_number
from osamd.errors import InputError
from osamd.fleet.calling import Inputs, called, scores_of

FRACTIONS, WHOLE, TRUTH = "fractions", "whole numbers", "truth values"
MOST_PARTS, MOST_AXES = 64, 8
EXACT = 2**24
"""Whole numbers below this are exact in single precision."""


class Part(NamedTuple):
    """One part of a sample: its name (a number in a tuple), what its numbers are, and how many axes it has."""

    name: str
    kind: str
    axes: int


class Packing:
    """How samples with these parts become rows: of whole numbers if all parts are such, otherwise of fractions."""

    def __init__(self, parts: list[Part], named: bool, dtype: torch.dtype) -> None:
        self.parts, self.named, self._fractions = parts, named, dtype
        self.kind = dtype if any(part.kind == FRACTIONS for part in parts) else torch.int64
        self.header = sum(part.axes for part in parts)

    @classmethod
    def of(cls, inputs: Inputs, dtype: torch.dtype) -> Packing:
        """The packing of samples like this one."""
        return cls(parts_of(inputs), isinstance(inputs, dict), dtype)

    @classmethod
    def saved(cls, content: Any, dtype: torch.dtype) -> Packing:
        """The packing that a file describes."""
        named, rows = content["named"], listed(content, "parts", MOST_PARTS)
        require_that(type(named) is bool and len(rows) > 0, "its parts of a sample are not known")
        for row in rows:
            fits = type(row) is list and len(row) == 3 and type(row[0]) is str and row[1] in (FRACTIONS, WHOLE, TRUTH)
            require_that(fits, "a part of its samples is not a name, a kind and a number of axes")
            whole_number({"axes": row[2]}, "axes", 0, MOST_AXES)
        return cls([Part(*row) for row in rows], named, dtype)

    def described(self) -> dict[str, Any]:
        """What JSON must hold to make this again."""
        return {"parts": [list(part) for part in self.parts], "named": self.named}

    def packed(self, inputs: Inputs) -> Tensor:
        """A batch of one sample as a row."""
        found = [] if isinstance(inputs, Tensor) else parts_of(inputs)
        if found != self.parts or isinstance(inputs, dict) != self.named:
            raise InputError(f"`ask(x=...)`: x has {_words(found)}; the samples before had {_words(self.parts)}.")
        tensors = list(inputs.values() if isinstance(inputs, dict) else inputs)
        lengths = torch.tensor([n for tensor in tensors for n in tensor.shape[1:]], dtype=torch.int64)
        if self.kind == torch.float32 and any(_largest(tensor) >= EXACT for tensor in (*tensors, lengths)):
            rule = f"whole numbers beside fractions must be below {EXACT:,}; convert the module with module.double()"
            raise InputError(f"`ask(x=...)`: {rule}.")
        flat = [tensor.reshape(-1).to(self.kind) for tensor in (lengths.to(tensors[0].device), *tensors)]
        return torch.cat(flat)[None]

    def lengths(self, header: list[float]) -> tuple[int, ...]:
        """The lengths of all axes, from the beginning of a row."""
        if not all(math.isfinite(n) and n >= 0 and n == int(n) for n in header):
            raise InputError("`ask(x=...)`: a remembered sample has no lengths; the learner's file is damaged.")
        return tuple(int(n) for n in header)

    def unpacked(self, rows: Tensor, lengths: tuple[int, ...]) -> Inputs:
        """Rows of samples with these lengths as a batch."""
        at, axis = self.header, 0
        tensors = []
        for part in self.parts:
            shape = lengths[axis : axis + part.axes]
            axis, size = axis + part.axes, math.prod(shape)
            if at + size > rows.shape[1]:
                raise InputError("`ask(x=...)`: a remembered sample is too short; the learner's file is damaged.")
            kind = {FRACTIONS: self._fractions, WHOLE: torch.int64, TRUTH: torch.bool}[part.kind]
            tensors.append(rows[:, at : at + size].reshape(len(rows), *shape).to(kind))
            at += size
        return {p.name: t for p, t in zip(self.parts, tensors, strict=True)} if self.named else tuple(tensors)

    def other(self, row: Tensor) -> Tensor:
        """Another row of the same lengths."""
        inputs = self.unpacked(row, self.lengths(row[0, : self.header].tolist()))
        tensors = inputs.values() if isinstance(inputs, dict) else inputs
        turned = [unlike(tensor) if tensor.ndim > 1 else tensor for tensor in tensors]
        found = self.packed(dict(zip(inputs, turned, strict=True)) if isinstance(inputs, dict) else tuple(turned))
        return functional.pad(found, (0, row.shape[1] - found.shape[1]))


class Unpacking(nn.Module):
    """A module that takes rows: it unpacks them, and passes samples of the same lengths through the inner one."""

    def __init__(self, module: nn.Module, packing: Packing) -> None:
        super().__init__()
        self.module, self._packing = module, packing

    def forward(self, rows: Tensor) -> Tensor:
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, header in enumerate(rows[:, : self._packing.header].tolist()):
            groups.setdefault(self._packing.lengths(header), []).append(i)
        outputs = [
            scores_of(called(self.module, self._packing.unpacked(rows[places], lengths))).reshape(len(places), -1)
            for lengths, places in groups.items()
        ]
        order = [i for places in groups.values() for i in places]
        back = torch.tensor(order, device=rows.device).argsort()
        return torch.cat(outputs)[back]


def parts_of(inputs: Tensor | tuple[Tensor, ...] | dict[str, Tensor]) -> list[Part]:
    """The parts of a sample."""
    named = inputs.items() if isinstance(inputs, dict) else enumerate(inputs)
    return [Part(str(name), _kind(tensor), tensor.ndim - 1) for name, tensor in named]


def unlike(tensor: Tensor) -> Tensor:
    """Other numbers of the same kind: the last axis in reverse, and fractions moved by up to a half.

    Whole numbers stay among those that are there, since a module that embeds has a vocabulary.
    """
    turned = tensor.flip(-1)
    if not tensor.is_floating_point():
        return turned
    return turned + torch.linspace(-0.5, 0.5, tensor.numel(), dtype=tensor.dtype, device=tensor.device).view_as(turned)


def _kind(tensor: Tensor) -> str:
    return FRACTIONS if tensor.is_floating_point() else TRUTH if tensor.dtype == torch.bool else WHOLE


def _words(parts: list[Part]) -> str:
    return ", ".join(f"{part.name} ({part.kind}, axes: {part.axes})" for part in parts) or "one array"


def _largest(tensor: Tensor) -> float:
    whole = tensor.numel() > 0 and not tensor.is_floating_point()
    return float(tensor.to(torch.int64).abs().max()) if whole else 0.0
