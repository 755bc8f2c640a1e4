"""What a fleet needs from a network: the scores of many models at once, and the backward pass.

The parameters of a model are one row: first those that learn, in the order of `module.parameters()`, then those that
are frozen: parameters that require no gradient, and buffers such as BatchNorm's statistics. A fleet is a matrix of such
rows, so its first models are a slice and a step is one operation. Where all models have the same frozen tensors, the
module itself may hold those (`ModuleNet(shared=True)`), and a row holds what learns and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.errors import InputError
from osamd.fleet.calling import outputs_of, scores_of
from osamd.fleet.reading import on_scores
from osamd.paper.losses import Loss


class Place(NamedTuple):
    """Where a tensor of the module lies in a row, and all its names; tied weights have more than one."""

    name: str
    first: int
    last: int
    shape: torch.Size
    names: tuple[str, ...]


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and floating-point buffer under each of its names."""
    buffers = {n: b for n, b in module.named_buffers(remove_duplicate=False) if b.is_floating_point()}
    return dict(module.named_parameters(remove_duplicate=False)) | buffers


def places_of(module: nn.Module) -> tuple[list[Place], int]:
    """Where each tensor lies in a row, those that learn first, and the number of columns that learn."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in named_tensors(module).items():
        by_tensor.setdefault(id(tensor), []).append(name)
    tensors = {id(tensor): tensor for tensor in named_tensors(module).values()}
    order = sorted(tensors, key=lambda key: not tensors[key].requires_grad)  # stable: keeps the module's order
    places, first = [], 0
    for key in order:
        tensor, names = tensors[key], tuple(by_tensor[key])
        places.append(Place(names[0], first, first + tensor.numel(), tensor.shape, names))
        first += tensor.numel()
    return places, sum(tensor.numel() for tensor in tensors.values() if tensor.requires_grad)


class Net(ABC):
    """Scores for rows of parameters; `binary` if the module has one output, `probabilities` if it gives those.

    `size` is the length of a row, and the first `trained` of its columns learn; `held` is the number of all parameters
    and buffers of the module. If `shared`, a row holds what learns alone.
    """

    def __init__(self, module: nn.Module, probabilities: bool, binary: bool = False, shared: bool = False) -> None:
        self.module = module
        self.probabilities = probabilities
        self.binary = binary
        self.places, self.trained = places_of(module)
        self.held = self.places[-1].last if self.places else 0
        if shared:
            self.places = [place for place in self.places if place.first < self.trained]
        self.size = self.places[-1].last if self.places else 0
        self._by_name = {place.name: place for place in self.places}

    @abstractmethod
    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        """Scores (models x classes) for rows w (models x size) and one sample each, and a tape for the backward
        pass."""

    @abstractmethod
    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        """The gradient of <q, scores> in the parameters, in the form that `subtract` takes; `w` is that of
        `forward`."""

    @abstractmethod
    def subtract(self, w: Tensor, gradient: Any) -> None:
        """w -= gradient, in place; frozen columns do not change."""

    @abstractmethod
    def many(self, w: Tensor, x: Tensor) -> Tensor:
        """Logits (models x samples x classes) for samples (models x samples x shape), differentiable by autograd.

        They are the input of a softmax at the end of the network, whose probabilities have no slope where they are 0.
        """

    def loss_gradient(self, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The gradient of sum_j weights_j -log p(y_j), for samples (models x samples x shape), in what learns."""
        learns = w[:, : self.trained].detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = self.many(torch.cat([learns, w[:, self.trained :]], 1), x)
            logs = torch.log_softmax(logits, 2).gather(2, y[:, :, None])[:, :, 0]
            loss = -(weights * logs).sum()
        (gradient,) = torch.autograd.grad(loss, learns)
        return gradient

    def gradient_at(self, w: Tensor, x: Tensor, own: Tensor, lengths: Tensor, loss: Loss) -> Any:
        """`lengths` times the gradient of the loss at the one-hot labels `own`, without its L2 term, in the form of
        `backward`."""
        h, tape = self.forward(w, x)
        return self.backward(w, tape, on_scores(loss, self.probabilities).slope(h, own) * lengths[:, None])

    def descend(self, w: Tensor, gradient: Any, anchor: Tensor, rate: Tensor) -> None:
        """w += rate (anchor - w) - gradient, in place; rate is (models x 1), and the gradient is that at the old w."""
        w.lerp_(anchor, rate)
        self.subtract(w, gradient)

    def dense(self, w: Tensor, gradient: Any) -> Tensor:
        """The gradient as rows (models x trained)."""
        rows = torch.zeros_like(w)
        self.subtract(rows, gradient)
        return -rows[:, : self.trained]

    def row(self, module: nn.Module, dtype: torch.dtype) -> Tensor:
        """The parameters and buffers of a module of this kind, as one row."""
        tensors = named_tensors(module)
        shapes = {place.name: place.shape for place in self.places}
        if {name: tensors[name].shape for name in shapes if name in tensors} != shapes:
            raise InputError("`Fleet(members=...)`: the modules differ in their layers; all must be of one kind.")
        return torch.cat([tensors[place.name].detach().reshape(-1).to("cpu", dtype) for place in self.places])

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """A row as tensors, each under all its names."""
        return {name: row[p.first : p.last].reshape(p.shape) for p in self.places for name in p.names}

    def parameter(self, w: Tensor, name: str) -> Tensor:
        """A tensor of every model, (models x its shape), as a view of the rows."""
        place = self._by_name[name]
        return w[:, place.first : place.last].view(len(w), *place.shape)

    def penalty(self, l2: float, free_bias: bool) -> Tensor:
        """The L2 coefficient of every trained column: `l2`, or 0 for biases and norms (with one axis) if they are
        free."""
        coefficients = [
            torch.full((p.last - p.first,), 0.0 if free_bias and len(p.shape) < 2 else l2, dtype=torch.float64)
            for p in self.places
            if p.first < self.trained
        ]
        return torch.cat(coefficients) if coefficients else torch.zeros(0, dtype=torch.float64)


class ModuleNet(Net):
    """Any module whose forward is functional, by torch.func: vmap over the models, vjp for the backward pass.

    Up to three models, as many as decide in a round of one pair, are run without vmap, so that modules that vmap does
    not support (recurrent ones, branches on data) work too. `dropout` keeps the module's Dropout layers active online,
    drawing from torch's own generator, and `batch_statistics="sample"` normalises by the sample's own statistics. By
    default dropout is off and BatchNorm uses the statistics it was trained with. The module is changed accordingly:
    give a copy. If `shared`, all models have the frozen tensors of the module, and rows hold what learns alone.
    """

    def __init__(
        self,
        module: nn.Module,
        probabilities: bool = False,
        *,
        binary: bool = False,
        dropout: bool = False,
        batch_statistics: str = "training",
        shared: bool = False,
    ) -> None:
        self._drops = dropout
        self.one_by_one = batch_statistics == "sample"
        """Whether the module gets the samples of a batch one at a time."""
        set_modes(module, dropout, batch_statistics)
        super().__init__(module, probabilities, binary, shared)

    def _called(self, module: nn.Module, learns: Tensor, frozen: Tensor, batch: Tensor) -> Any:
        tensors = {}
        for place in self.places:
            part, shift = (learns, 0) if place.first < self.trained else (frozen, self.trained)
            tensors[place.name] = part[place.first - shift : place.last - shift].reshape(place.shape)
        return torch.func.functional_call(module, tensors, (batch.clone(),))  # modules may work in place

    def _scores(self, learns: Tensor, frozen: Tensor, x: Tensor) -> Tensor:
        return self._as_classes(outputs_of(self._called(self.module, learns, frozen, x[None])), self.probabilities)

    def _logits(self, learns: Tensor, frozen: Tensor, batch: Tensor) -> Tensor:
        if self.one_by_one and len(batch) > 1:
            return torch.cat([self._logits(learns, frozen, x[None]) for x in batch])
        before = without_softmax(self.module) if self.probabilities else self.module
        out = self._called(self.module if before is None else before, learns, frozen, batch)
        out = scores_of(out).reshape(len(batch), -1)
        if before is not None:
            return self._as_classes(out, probabilities=False)
        return self._as_classes(out, probabilities=True).clamp(min=torch.finfo(out.dtype).tiny).log()

    def _as_classes(self, out: Tensor, probabilities: bool) -> Tensor:
        """One score per class on the last axis, even if the module gives one score for two classes."""
        if not self.binary:
            return out
        return torch.cat([1.0 - out, out], -1) if probabilities else torch.cat([-0.5 * out, 0.5 * out], -1)

    def _of_models(self, one: Any, learns: Tensor, frozen: Tensor, x: Tensor) -> Tensor:
        """`one` applied to every model."""
        if len(learns) <= 3:
            return torch.stack([one(*model) for model in zip(learns, frozen, x, strict=True)])
        randomness = "different" if self._drops else "error"
        together: Tensor = torch.func.vmap(one, randomness=randomness)(learns, frozen, x)
        return together

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        learns, frozen = w[:, : self.trained], w[:, self.trained :]
        with torch.enable_grad():  # without it some modules take shortcuts that have no backward pass
            result: tuple[Tensor, Any] = torch.func.vjp(  # type: ignore[assignment]
                lambda learns: self._of_models(self._scores, learns, frozen, x), learns
            )
        return result[0].detach(), result[1]

    def many(self, w: Tensor, x: Tensor) -> Tensor:
        return self._of_models(self._logits, w[:, : self.trained], w[:, self.trained :].detach(), x)

    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        return tape(q)[0]

    def subtract(self, w: Tensor, gradient: Any) -> None:
        w[:, : self.trained] -= gradient


def without_softmax(module: nn.Module) -> nn.Module | None:
    """The module without its final softmax or sigmoid; None if it does not visibly end in one."""
    parts = list(module) if type(module) is nn.Sequential else []
    last = parts[-1] if len(parts) > 1 else None
    ends = type(last) is nn.Sigmoid or (type(last) is nn.Softmax and last.dim in (1, -1))
    return module[:-1] if ends and not module._forward_hooks and not module._forward_pre_hooks else None  # type: ignore[index]


def set_modes(module: nn.Module, dropout: bool, batch_statistics: str) -> None:
    """Set the modes that `ModuleNet` describes, in place; all other layers are in evaluation mode."""
    if batch_statistics not in ("training", "sample"):
        raise InputError(f"`batch_statistics={batch_statistics!r}`: give 'training' or 'sample'.")
    for part in module.modules():
        is_norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
        is_drop = isinstance(part, nn.modules.dropout._DropoutNd)
        part.training = (is_norm and batch_statistics == "sample") or (is_drop and dropout)
    if batch_statistics == "sample":
        torch.func.replace_all_batch_norm_modules_(module)


def stack(net: Net, modules: Sequence[nn.Module], dtype: torch.dtype) -> Tensor:
    """The rows of several modules of one kind."""
    return torch.stack([net.row(module, dtype) for module in modules])
