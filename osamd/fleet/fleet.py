"""A fleet: models of one network architecture that play their streams in step."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError, lookup
from osamd.fleet.calling import tried
from osamd.fleet.conv import ConvNet, parts_of
from osamd.fleet.dense import DenseNet, layers_of
from osamd.fleet.devices import aside
from osamd.fleet.kernels import conv_cuda
from osamd.fleet.kernels.conv_cuda import TritonConvNet
from osamd.fleet.net import ModuleNet, Net, stack
from osamd.fleet.round import FleetState, bind, plan, stack_rates
from osamd.paper import algorithm
from osamd.paper.ledger import Ledger
from osamd.paper.losses import Loss, loss
from osamd.paper.methods import METHODS, Method, Settings, rates_of
from osamd.paper.scores import UNLABELLED

COLUMNS = ("decision", "pseudolabel", "margin", "probability", "asked", "loss")
"""What is recorded for every model in every round, as numbers of the fleet's dtype."""


Advance = Callable[[int, int], None]
"""advance(first, last) plays the rounds first, ..., last - 1: it changes the state in place and fills the record."""


class Member(NamedTuple):
    """One model of a fleet: its initial module, its method and settings, and its rows of samples and uniforms."""

    module: nn.Module
    method: str | Method
    settings: Settings
    stream: int = 0
    seed: int = 0
    name: str = ""


class Samples(NamedTuple):
    """What the members see: x (streams x rounds x shape), y (streams x rounds), and u (seeds x rounds) in float64."""

    x: Tensor
    y: Tensor
    u: Tensor

    def to(self, device: torch.device) -> Samples:
        return Samples(*(tensor.to(device) for tensor in self))


class Stopped(NamedTuple):
    """A member whose scores were not finite, and the first round in which they were not."""

    member: int
    round: int


def net_of(module: nn.Module, example: Tensor, probabilities: bool = False, batch_statistics: str = "training") -> Net:
    """The fast path for the module if there is one, otherwise the general path; `example` is a batch of one sample.

    The module must be in evaluation mode. A fast path is used only if it gives the module's own scores for the example.
    With batch_statistics="sample", BatchNorm normalises every sample by its own statistics.
    """
    lookup("net_of", "batch_statistics", batch_statistics, {"training": 0, "sample": 1})
    scores = tried(module, example)
    fast = _fast(module, tuple(example.shape[1:]), probabilities) if len(scores) > 1 else None
    own = batch_statistics == "sample"
    if fast is not None and example.is_floating_point():
        row = fast.row(module, example.dtype)[None].to(example.device)
        with torch.no_grad():
            close = torch.allclose(
                fast.forward(row, example)[0][0], scores, rtol=1e-3, atol=1e-3 * float(scores.abs().max())
            )
        if close and own and isinstance(fast, ConvNet):
            return type(fast)(module, fast.parts, tuple(example.shape[1:]), "sample")
        if close:
            return fast
    return ModuleNet(module, probabilities, binary=len(scores) == 1, batch_statistics=batch_statistics)


def _fast(module: nn.Module, sample: tuple[int, ...], probabilities: bool) -> Net | None:
    dense, parts = layers_of(module), parts_of(module)
    if (
        dense is not None
        and dense[1] == probabilities
        and math.prod(sample) == getattr(module, dense[0][0]).in_features
    ):
        return DenseNet(module, *dense)
    if parts is not None and parts.softmax == probabilities and len(sample) == 3:
        made = TritonConvNet if conv_cuda.supports(module, sample) else ConvNet
        return made(module, parts, sample)
    return None


class Playing:
    """What `osamd.fleet.play` needs from a fleet of either kind: how its rounds are recorded, and how records are
    read."""

    members: Sequence[Any]
    net: Net
    sample: tuple[int, ...]
    device: torch.device
    dtype: torch.dtype
    classes: int
    state: Any
    """A NamedTuple of tensors that change in place."""
    _place: Tensor
    """The place of every member in the record."""

    def __len__(self) -> int:
        return len(self.members)

    def record(self, rounds: int) -> Tensor:
        """An empty record: (rounds x models x COLUMNS)."""
        return torch.zeros(rounds, len(self), len(COLUMNS), dtype=self.dtype, device=self.device)

    def kept(self) -> dict[str, Tensor]:
        """The tensors a checkpoint holds."""
        tensors: dict[str, Tensor] = self.state._asdict()
        return tensors

    def ledger(self, member: int, record: Tensor, y: Tensor) -> Ledger:
        """The ledger of one member, from the record and the labels y (streams x rounds)."""
        rows = record[:, self._place[member]].cpu().numpy()
        column = dict(zip(COLUMNS, rows.T, strict=True))
        return Ledger(
            label=y[self.members[member].stream, : len(rows)].cpu().numpy(),
            decision=column["decision"].astype(np.int64),
            pseudolabel=column["pseudolabel"].astype(np.int64),
            margin=column["margin"].astype(np.float64),
            probability=column["probability"].astype(np.float64),
            asked=column["asked"].astype(np.bool_),
            loss=column["loss"].astype(np.float64),
        )

    def stopped(self, record: Tensor) -> list[Stopped]:
        """The members with a recorded loss that is not finite, or a margin or probability where the teacher matters."""
        finite = torch.isfinite(record)
        loss = finite[:, :, COLUMNS.index("loss")]
        bad = ~torch.where(self._heard().to(record.device), finite.all(2), loss)[:, self._place].cpu()
        return [Stopped(i, int(bad[:, i].int().argmax())) for i in range(len(self)) if bool(bad[:, i].any())]

    def _heard(self) -> Tensor:
        """Whether each model's teacher has any effect, in the order of the record."""
        return torch.ones(len(self), dtype=torch.bool)


class Fleet(Playing):
    """Models in step. Rows of `state` are in the order of the plan; everything else is in the order of the members.

    All members share the network architecture and the loss; each has its own parameters, samples, method and rates. The
    geometry is Euclidean on the whole space, and inner loops approximate the implicit step.
    """

    def __init__(
        self,
        members: Sequence[Member],
        sample: tuple[int, ...],
        *,
        net: Net | None = None,
        probabilities: bool = False,
        batch_statistics: str = "training",
        example: Tensor | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not members:
            raise InputError("`Fleet(members=[])`: give at least one member.")
        self.members = list(members)
        self.net = net or net_of(*example_of(members[0].module, sample), probabilities, batch_statistics)
        self.device, self.dtype, self.sample = torch.device(device), dtype, sample
        self.loss = _loss_of(members)
        self.numbers = [_numbers(member) for member in members]
        self.order, self.plan = plan(self.numbers)
        inside = [self.numbers[i] for i in self.order]
        rows = stack(self.net, [members[i].module for i in self.order], dtype).to(self.device)
        self.state = FleetState(rows, rows.clone())
        penalty = self.net.penalty(self.loss.l2, self.loss.free_bias)
        self.rates = stack_rates(inside, penalty, rows)
        self.round = bind(self.net, self.loss, self.rates, self.plan)
        self.stream = torch.tensor([members[i].stream for i in self.order], device=self.device)
        self.seed = torch.tensor([members[i].seed for i in self.order], device=self.device)
        self._place = torch.tensor(np.argsort(self.order))
        with torch.no_grad():
            tried = torch.zeros(1, *sample).to(rows) if example is None else example
            self.classes = self.net.forward(rows[:1], tried)[0].shape[1]

    def step(self, samples: Samples, t: Tensor, record: Tensor) -> None:
        """Play round t (a tensor of one number): decide on its samples, ask, learn and record."""
        now = t.expand(len(self)).contiguous()  # otherwise each line below makes a copy
        with aside(self.device, 1) as drawn:
            y, u = samples.y[self.stream, now], samples.u[self.seed, now]
        x = samples.x[self.stream, now]
        drawn()
        decision = self.round.observe(self.state, x, u)
        penalty: Tensor | float = 0.0
        if self.loss.l2:
            deciding = torch.cat([decision.adapted, self.state.teacher[self.plan.students :]])
            penalty = (self.rates.penalty * deciding[:, : self.net.trained].square()).sum(1)
        with aside(self.device, 1) as recorded:  # `learn` works beside itself too, as number 0
            loss = self.round.value(decision.scores, y) + penalty
            said = (decision.label, decision.pseudolabel, decision.margin, decision.probability, decision.query)
            record.index_copy_(0, t, torch.stack([n.to(self.dtype) for n in (*said, loss)], 1)[None])
        self.round.learn(self.state, x, decision, torch.where(decision.query, y, UNLABELLED))
        recorded()

    def part(self, first: int, every: int) -> Fleet:
        """Every so many-th model as a fleet that plays in the rows of this one; its members come in their order."""
        part, rows = copy.copy(self), slice(first, None, every)
        part.members, part.numbers = ([own[i] for i in self.order[rows]] for own in (self.members, self.numbers))
        part.order, part.plan = plan(part.numbers)
        part.state = FleetState(*(tensor[rows] for tensor in self.state))
        part.rates = stack_rates(part.numbers, self.rates.penalty, part.state.teacher)
        part.round = bind(self.net, self.loss, part.rates, part.plan)
        part.stream, part.seed = self.stream[rows], self.seed[rows]
        part._place = torch.arange(len(part.members))
        return part

    def tensors(self, member: int, *, teacher: bool = False) -> dict[str, Tensor]:
        """A member's student (or teacher), as the `state_dict` of its module."""
        rows = self.state.teacher if teacher else self.state.student
        return self.net.tensors(rows[self._place[member]].detach().cpu())

    def _heard(self) -> Tensor:
        numbers = [self.numbers[i] for i in self.order]
        return torch.tensor([number.sigma > 0.0 or number.self_training for number in numbers])


def example_of(module: nn.Module, sample: tuple[int, ...]) -> tuple[nn.Module, Tensor]:
    """A copy of the module in evaluation mode, and a batch of one sample to try it on."""
    kind = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    generator = torch.Generator().manual_seed(0)
    return copy.deepcopy(module).cpu().eval(), torch.randn(1, *sample, generator=generator, dtype=kind)


def _numbers(member: Member) -> algorithm.Rates:
    named = member.method
    method = lookup("Member", "method", named, METHODS) if isinstance(named, str) else named
    if method.self_training and member.settings.adaptation is None:
        raise InputError(
            "`Settings(adaptation=None)`: a network has no exact implicit step; give InnerLoops(number=10, rate=0.1)."
        )
    if member.settings.geometry.name != "euclidean":
        raise InputError(
            f"`Settings(geometry={member.settings.geometry.name!r})`: a fleet steps in the Euclidean geometry on the"
            " whole space; use geometry=euclidean()."
        )
    return rates_of(method, member.settings, np.zeros(0))


def _loss_of(members: Sequence[Member]) -> Loss:
    losses = {(m.settings.loss.name, m.settings.loss.l2, m.settings.loss.free_bias) for m in members}
    if len(losses) > 1:
        raise InputError(f"`Fleet(members=...)`: the members have the losses {sorted(losses)}; all must share one.")
    name, l2, free_bias = losses.pop()
    return loss(name, l2=l2, free_bias=free_bias)
