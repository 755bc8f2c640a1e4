"""What a fleet needs of a network: the scores of many models at once, and the way back.

The parameters of a model are one row: those that learn, in the order of `module.parameters()`, then its frozen buffers
(BatchNorm's statistics). A fleet is a matrix of such rows, so a prefix of it is a slice and a step is one operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.errors import InputError


class Place(NamedTuple):
    """Where a tensor of the module lies in a row."""

    name: str
    first: int
    last: int
    shape: torch.Size


class Net(ABC):
    """Scores for rows of parameters; `binary` where the module has one output, `probabilities` where it gives those.

    `size` is the length of a row and `trained` how many of its first columns learn.
    """

    def __init__(self, module: nn.Module, probabilities: bool) -> None:
        self.module = module
        self.probabilities = probabilities
        named = [*module.named_parameters(), *((n, b) for n, b in module.named_buffers() if b.is_floating_point())]
        self.places: list[Place] = []
        first = 0
        for name, tensor in named:
            self.places.append(Place(name, first, first + tensor.numel(), tensor.shape))
            first += tensor.numel()
        self.size = first
        self.trained = sum(p.numel() for p in module.parameters())
        self.binary = False

    @abstractmethod
    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        """Scores (models x classes) for rows w (models x size) and a sample each, and a tape for the way back."""

    @abstractmethod
    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        """The gradient of <q, scores> in the parameters, in a form that `subtract` takes; `w` as in `forward`."""

    @abstractmethod
    def subtract(self, w: Tensor, gradient: Any) -> None:
        """w -= gradient, in place; frozen columns stay."""

    def descend(self, w: Tensor, gradient: Any, anchor: Tensor, rate: Tensor) -> None:
        """w += rate (anchor - w) - gradient, in place; rate is (models x 1), and the gradient was taken before."""
        w.lerp_(anchor, rate)
        self.subtract(w, gradient)

    def dense(self, w: Tensor, gradient: Any) -> Tensor:
        """The gradient as rows (models x trained)."""
        rows = torch.zeros_like(w)
        self.subtract(rows, gradient)
        return -rows[:, : self.trained]

    def row(self, module: nn.Module, dtype: torch.dtype) -> Tensor:
        """The parameters and buffers of a module of this kind, as one row."""
        state = module.state_dict()
        return torch.cat([state[place.name].detach().reshape(-1).to("cpu", dtype) for place in self.places])

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """A row as tensors by name."""
        return {p.name: row[p.first : p.last].reshape(p.shape) for p in self.places}

    def parameter(self, w: Tensor, name: str) -> Tensor:
        """A tensor of every model, (models x its shape), as a view of the rows."""
        place = next(p for p in self.places if p.name == name)
        return w[:, place.first : place.last].view(len(w), *place.shape)

    def penalty(self, l2: float, free_bias: bool) -> Tensor:
        """The L2 coefficient of every trained column: `l2`, and 0 for biases (tensors of one axis) where free."""
        return torch.cat(
            [
                torch.full((p.last - p.first,), 0.0 if free_bias and len(p.shape) < 2 else l2, dtype=torch.float64)
                for p in self.places
                if p.first < self.trained
            ]
        )


class ModuleNet(Net):
    """Any module whose forward is functional, by torch.func: vmap over the models, vjp for the way back.

    `dropout` keeps dropout active while online (drawing from torch's own generator; each model its own mask), and
    `batch_norm="sample"` normalises by the sample's own statistics; by default dropout is off and BatchNorm uses the
    statistics it was trained with.
    """

    def __init__(
        self, module: nn.Module, probabilities: bool = False, *, dropout: bool = False, batch_norm: str = "evaluation"
    ) -> None:
        if batch_norm not in ("evaluation", "sample"):
            raise InputError(f"`batch_norm={batch_norm!r}`: give 'evaluation' or 'sample'.")
        self._drops = dropout
        for part in module.modules():
            is_norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
            is_drop = isinstance(part, nn.modules.dropout._DropoutNd)
            part.training = (is_norm and batch_norm == "sample") or (is_drop and dropout)
        if batch_norm == "sample":
            torch.func.replace_all_batch_norm_modules_(module)
        super().__init__(module, probabilities)

    def _scores(self, learns: Tensor, frozen: Tensor, x: Tensor) -> Tensor:
        tensors = {
            p.name: (learns[p.first : p.last] if p.first < self.trained else frozen[p.first - self.trained :])
            for p in self.places
        }
        shaped = {p.name: tensors[p.name][: p.last - p.first].reshape(p.shape) for p in self.places}
        out: Tensor = torch.func.functional_call(self.module, shaped, (x[None],))[0]
        if out.ndim != 1:
            raise InputError(
                f"`module`: one sample gave outputs of shape {tuple(out.shape)}; it must give a vector of class scores,"
                " or one score."
            )
        if len(out) > 1:
            return out
        self.binary = True
        return torch.cat([1.0 - out, out]) if self.probabilities else torch.cat([-0.5 * out, 0.5 * out])

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        learns, frozen = w[:, : self.trained], w[:, self.trained :]
        scores = torch.func.vmap(self._scores, randomness="different" if self._drops else "error")
        result: tuple[Tensor, Any] = torch.func.vjp(lambda learns: scores(learns, frozen, x), learns)  # type: ignore[assignment]
        return result

    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        return tape(q)[0]

    def subtract(self, w: Tensor, gradient: Any) -> None:
        w[:, : self.trained] -= gradient


def stack(net: Net, modules: Sequence[nn.Module], dtype: torch.dtype) -> Tensor:
    """The rows of several modules of one kind."""
    return torch.stack([net.row(module, dtype) for module in modules])


def load(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the tensors of a row into a module."""
    module.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, strict=False)
