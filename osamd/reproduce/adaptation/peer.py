"""What the adaptation methods share: how they are set, their optimisers, and the frame of their round.

Many models play in lockstep, one per seed, budget and setting; every tensor has the models as its first axis. Nothing
in a round waits for the host or branches on data, so that a round can be a CUDA graph. Randomness is read from a bank
of uniform numbers per seed, so a model plays the same alone and among others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from osamd.reproduce.adaptation.stacked_network import StackedNetwork

BANK = 1 << 18
"""Uniform numbers per seed; a round reads them from a place that moves with its number, and around the end."""
_BANK, _STRIDE, _PURPOSE = 12, 7919, 60_013


class Choice(NamedTuple):
    """What is tuned of a method: the factor on its learning rate, the statistics, and what learns."""

    factor: float
    batch_statistics: bool
    """Whether BatchNorm normalises by the statistics of the batch, or by those of the training."""
    all_parameters: bool = False
    """Whether all parameters learn, or those of the norms alone, in methods that adapt norms."""


class Setting(NamedTuple):
    """The models that play in lockstep, and what each may do."""

    network: StackedNetwork
    rows: Tensor
    """The source networks, (models x size)."""
    choices: Sequence[Choice]
    budget: Tensor
    """The share of the labels that each may use, (models,)."""
    bank: Tensor
    """(models x BANK) uniform numbers."""
    source: tuple[Tensor, Tensor]
    """Samples of the source, (models x samples x shape), and their classes: the preset's first memory."""
    batch: int


class Played(NamedTuple):
    """One batch: the decisions, and which labels were used, both (models x samples)."""

    decision: Tensor
    asked: Tensor


def bank_of(seeds: Sequence[int]) -> Tensor:
    """The bank of every seed."""
    rows = [np.random.default_rng([_BANK, seed]).random(BANK, dtype=np.float32) for seed in seeds]
    return torch.from_numpy(np.stack(rows))


class Peer(ABC):
    """A method on the models of a setting; `play` decides on a batch first, then learns from it."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    rate: ClassVar[float]
    """The learning rate of the paper, where it has one that fits; ours otherwise."""
    labelled: ClassVar[bool] = False
    """Whether it uses labels."""
    norms_only: ClassVar[bool] = False
    """Whether its paper adapts the parameters of norms alone."""
    batch_statistics: ClassVar[bool] = True
    """Whether its paper normalises by the statistics of the batch."""
    images_only: ClassVar[bool] = False
    """Whether it plays streams of images alone."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.network = setting, setting.network
        self.rows = setting.rows.clone()
        device, dtype = self.rows.device, self.rows.dtype
        factors = [[choice.factor * self.rate] for choice in setting.choices]
        self.rates = torch.tensor(factors, device=device, dtype=dtype)
        self.own = torch.tensor([[float(c.batch_statistics)] for c in setting.choices], device=device, dtype=dtype)
        some, every = (self.network.columns(only).to(self.rows) for only in (self.norms_only, False))
        self.columns = torch.stack([every if choice.all_parameters else some for choice in setting.choices])
        self.changing: list[Tensor] = [self.rows]
        """Every tensor that a round changes."""

    @abstractmethod
    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        """Batch number t (a tensor of one number) of samples (models x batch x shape), with their true classes."""

    def uniform(self, t: Tensor, purpose: int, *shape: int) -> Tensor:
        """Uniform numbers (models x shape) for batch t; another purpose reads elsewhere in the bank."""
        count = math.prod(shape)
        place = torch.arange(count, device=t.device) + t * _STRIDE + purpose * _PURPOSE
        return self.setting.bank[:, place % BANK].view(-1, *shape)

    def normal(self, t: Tensor, purpose: int, *shape: int) -> Tensor:
        """Normal numbers (models x shape)."""
        return math.sqrt(2.0) * torch.erfinv(2.0 * self.uniform(t, purpose, *shape).clamp(1e-6, 1.0 - 1e-6) - 1.0)

    def descend(self, direction: Tensor, columns: Tensor) -> None:
        """A step against the direction in these columns."""
        self.rows[:, : self.network.trained] -= self.rates * columns * direction

    def slope(self, loss: Callable[[Tensor], Tensor], rows: Tensor | None = None) -> Tensor:
        """The gradient (models x trained) of the models' losses at their rows; 0 where it is not finite."""
        rows, trained = self.rows if rows is None else rows, self.network.trained
        learns = rows[:, :trained].detach().clone().requires_grad_()
        with torch.enable_grad():
            total = loss(torch.cat([learns, rows[:, trained:].detach()], 1)).sum()
            (gradient,) = torch.autograd.grad(total, learns)
        return torch.where(torch.isfinite(gradient.square()), gradient, 0.0)


class Adam:
    """Adam (Kingma and Ba, 2015) on rows, with a learning rate per model; models that are not `taken` stay."""

    def __init__(self, rows: Tensor, trained: int, keep: tuple[float, float] = (0.9, 0.999)) -> None:
        self.keep = keep
        self.mean, self.square = torch.zeros_like(rows[:, :trained]), torch.zeros_like(rows[:, :trained])
        self.steps = torch.zeros_like(rows[:, :1])
        self.changing = [self.mean, self.square, self.steps]

    def direction(self, gradient: Tensor, taken: Tensor) -> Tensor:
        """What a learning rate multiplies; it is 0 for the models that are not taken, whose moments stay too."""
        self.steps.add_(taken)
        first, second = self.keep
        self.mean.lerp_(gradient, (1.0 - first) * taken)
        self.square.lerp_(gradient.square(), (1.0 - second) * taken)
        steps = self.steps.clamp(min=1.0)
        return taken * (self.mean / (1.0 - first**steps)) / ((self.square / (1.0 - second**steps)).sqrt() + 1e-8)

    def reset(self, where: Tensor) -> None:
        """Forget everything in these models, (models x 1) of 0 and 1."""
        for tensor in self.changing:
            tensor.mul_(1.0 - where)


class Momentum:
    """Gradient descent with momentum on rows."""

    def __init__(self, rows: Tensor, trained: int, keep: float = 0.9) -> None:
        self.keep, self.velocity = keep, torch.zeros_like(rows[:, :trained])
        self.changing = [self.velocity]

    def direction(self, gradient: Tensor, taken: Tensor) -> Tensor:
        moved = self.keep * self.velocity + gradient
        self.velocity.lerp_(moved, taken)
        return taken * self.velocity

    def reset(self, where: Tensor) -> None:
        self.velocity.mul_(1.0 - where)


def entropy(logits: Tensor) -> Tensor:
    """-sum p log p over the last axis."""
    logs = torch.log_softmax(logits, -1)
    return -(logs.exp() * logs).sum(-1)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """-log p(y), (models x samples)."""
    return -torch.log_softmax(logits, -1).gather(2, y[:, :, None])[:, :, 0]


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values of every model, (models,); 0 where none is chosen."""
    weights = chosen.to(values)
    return (values * weights).sum(1) / weights.sum(1).clamp(min=1.0)
