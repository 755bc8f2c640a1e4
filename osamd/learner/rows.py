"""How samples become rows of numbers for a fleet, and the module that the fleet trains on them.

A network that learns as a whole takes its samples as they are (`Whole`). One whose head alone learns takes the features
of its frozen body (`osamd.learner.features`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from osamd.errors import InputError
from osamd.fleet.calling import Inputs
from osamd.learner.backbone import Learn, duplicate, learning_of
from osamd.learner.low_rank import LowRank
from osamd.learner.several_parts import Packing, Unpacking, unlike

PLAIN_MODES: dict[str, Any] = {"dropout": False, "batch_statistics": "training"}


class NetworkRows(ABC):
    """How samples become rows of numbers, and the module that a fleet trains on them."""

    module: nn.Module
    """The module that the fleet trains: it takes batches of rows."""
    device: torch.device
    """Where the fleet is."""
    dtype: torch.dtype
    shared: bool
    """Whether what is frozen stays in the module, outside the fleet's rows."""
    probabilities: bool
    modes: dict[str, Any]
    """The modes of its Dropout and BatchNorm layers, as in `osamd.fleet.net.ModuleNet`."""

    @abstractmethod
    def row(self, inputs: Inputs) -> Tensor:
        """A batch that holds one sample, as the fleet takes it."""

    def other(self, row: Tensor) -> Tensor:
        """A row like this one, with other numbers."""
        return unlike(row)

    @abstractmethod
    def merged(self, moved: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the user's module that learned, from those of the fleet."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What JSON must hold to make this again."""


class Whole(NetworkRows):
    """The module as it is, or with low-rank factors: what it takes is a row."""

    def __init__(
        self,
        module: nn.Module,
        learn: Learn,
        *,
        probabilities: bool,
        modes: dict[str, Any],
        device: torch.device,
        dtype: torch.dtype,
        packing: Packing | None,
    ) -> None:
        """`packing` says how samples with several parts become rows."""
        self.packing = packing
        self.probabilities, self.modes, self.device, self.dtype = probabilities, modes, device, dtype
        self.shared = learn is not None
        self.module = module._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)
        self._factors: LowRank | None = None
        if learn is not None:
            self.module = duplicate(module, [])
            learning = {id(parameter) for parameter in learning_of(self.module, learn)}
            for parameter in self.module.parameters():
                parameter.requires_grad_(id(parameter) in learning)
        if learn == "low-rank":
            self.module = self._factors = LowRank(self.module).eval()
        if packing is not None:
            self.module = Unpacking(self.module, packing).eval()

    def row(self, inputs: Inputs) -> Tensor:
        if self.packing is not None:
            return self.packing.packed(inputs)
        if not isinstance(inputs, Tensor):
            raise InputError("`ask(x=...)`: x has several parts; the samples before were arrays.")
        return inputs

    def other(self, row: Tensor) -> Tensor:
        return unlike(row) if self.packing is None else self.packing.other(row)

    def merged(self, moved: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.packing is not None:
            moved = {name.removeprefix("module."): tensor for name, tensor in moved.items()}
        return moved if self._factors is None else self._factors.weights(moved)

    def described(self) -> dict[str, Any]:
        return {} if self.packing is None else self.packing.described()
