"""OSAMD around one's own network: any `nn.Module` whose forward is functional, one sample at a time.

    learner = OSAMD(module, eta=1e-3, sigma=0.1)
    decision = learner.ask(x)            # changes nothing
    learner.tell(decision, y)            # a class index, or None: the pseudolabel stands in for the label
    module.load_state_dict(learner.state_dict())

It is a fleet of one (`osamd.fleet`), so the round is the paper's, with the implicit step approached by inner loops.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError, lookup, reject, require_kind, require_whole
from osamd.fleet.fleet import Fleet, Member, net_of
from osamd.fleet.net import ModuleNet
from osamd.fleet.round import Decision as Said
from osamd.losses import loss as named_loss
from osamd.methods import METHODS, InnerLoops, Settings, TeacherStep
from osamd.scores import UNLABELLED


@dataclass(frozen=True)
class Decision:
    """What the learner says of one x, before any label."""

    label: int
    """The decision, a class index, made by the student after it adapted to x."""
    probabilities: tuple[float, ...]
    """Of the classes, by the parameters that decide."""
    pseudolabel: int
    """The teacher's opinion."""
    margin: float
    """The teacher's confidence: its best score minus its second best."""
    probability: float
    """Of asking for the label."""
    query: bool
    """Whether the label is asked for."""
    x: Tensor = field(repr=False)
    said: Said = field(repr=False)


class OSAMD:
    """A network that keeps up with a drifting stream: ask, and tell.

    `module` gives class scores (logits, or probabilities with outputs="probabilities") for a batch of samples, or one
    score or probability for two classes; it is copied, and the copy is used in evaluation mode: no dropout, BatchNorm
    by the statistics it was trained with. `dropout=True` keeps dropout active, and batch_norm="sample" normalises by
    the statistics of the sample itself.

    `eta` is the student's step size, `sigma` the query's (larger asks for more), `teacher` its step, and `adaptation`
    the inner loops that approach the implicit step. `method` is one of the paper's six. The step sizes depend on the
    network and must be chosen for it: the teacher's `scale` and `cap` from the step that one labelled sample deserves
    (its learning rate in training is a start), `eta` ten times smaller. Draws come from `seed` alone.

    >>> _ = torch.manual_seed(0)
    >>> learner = OSAMD(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), eta=0.01, sigma=0.5)
    >>> decision = learner.ask([0.1, -0.4, 2.0, 0.3])
    >>> learner.tell(decision, 2 if decision.query else None)
    >>> learner.rounds
    1
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        eta: float,
        sigma: float,
        teacher: TeacherStep | None = None,
        adaptation: InnerLoops | None = None,
        loss: str = "softmax",
        l2: float = 0.0,
        outputs: str = "logits",
        method: str = "osamd",
        label_rate: float | None = None,
        dropout: bool = False,
        batch_norm: str = "evaluation",
        device: torch.device | str | None = None,
        seed: int = 0,
    ) -> None:
        require_kind("OSAMD", "module", module, nn.Module, "give a torch.nn.Module that takes a batch of samples")
        lookup("OSAMD", "outputs", outputs, {"logits": 0, "probabilities": 1})
        lookup("OSAMD", "method", method, METHODS)
        self._settings = Settings(
            eta=eta,
            sigma=sigma,
            loss=named_loss(loss, l2=l2),
            teacher=teacher or TeacherStep(cap=10.0 * float(eta), scale=5.0 * float(eta)),
            adaptation=adaptation or InnerLoops(number=10, rate=0.1),
            label_rate=label_rate,
        )
        first = next(module.parameters(), None)
        if first is None:
            raise InputError("`OSAMD(module=...)`: the module has no parameters, so there is nothing to adapt.")
        self._device = torch.device(device) if device is not None else first.device
        self._module = copy.deepcopy(module).eval().to(self._device)
        self._probabilities = outputs == "probabilities"
        self._special = dropout or batch_norm != "evaluation"
        self._modes: Any = {"dropout": dropout, "batch_norm": batch_norm}
        self._member = Member(self._module, method, self._settings)
        self._dtype = first.dtype
        self._uniforms = np.random.default_rng(require_whole("OSAMD", "seed", seed, 0))
        self._fleet: Fleet | None = None
        self.rounds = 0

    def ask(self, x: Any) -> Decision:
        """Decide on one sample (without a batch axis) and say whether its label is wanted; the model stays as it is."""
        row = self._row(x)
        fleet = self._bound(row)
        u = torch.tensor([self._uniforms.random()], dtype=torch.float64, device=self._device)
        with torch.no_grad():
            said = fleet.round.observe(fleet.state, row, u)
            scores = said.scores[0]
            probabilities = scores if self._probabilities else torch.softmax(scores, 0)
        if not bool(torch.isfinite(scores).all() & torch.isfinite(said.margin).all()):
            raise InputError(
                f"`ask`: the scores are not finite after {self.rounds} rounds; make eta and the teacher's step smaller."
            )
        return Decision(
            label=int(said.label),
            probabilities=tuple(probabilities.tolist()),
            pseudolabel=int(said.pseudolabel),
            margin=float(said.margin),
            probability=float(said.probability),
            query=bool(said.query),
            x=row,
            said=said._replace(heard=None),
        )

    def tell(self, decision: Decision, y: int | None) -> None:
        """Learn from a decision of `ask`, with the class index of its label, or None where no label will come."""
        require_kind("tell", "decision", decision, Decision, "give what `ask` returned")
        classes = len(decision.probabilities)
        if y is not None and require_whole("tell", "y", y, 0) >= classes:
            raise reject("tell", "y", y, f"the module has {classes} classes; give an index from 0 to {classes - 1}.")
        label = torch.tensor([UNLABELLED if y is None else y], device=self._device)
        fleet = self._bound(decision.x)
        with torch.no_grad():
            fleet.round.learn(fleet.state, decision.x, decision.said, label)
        self.rounds += 1

    def state_dict(self) -> dict[str, Tensor]:
        """The student, which decides, as the `state_dict` of the module."""
        return self._tensors(teacher=self._member.method == "paa")

    def teacher_state_dict(self) -> dict[str, Tensor]:
        """The teacher, which gives the pseudolabels."""
        return self._tensors(teacher=True)

    def _tensors(self, teacher: bool) -> dict[str, Tensor]:
        whole = {name: tensor.detach().clone() for name, tensor in self._module.state_dict().items()}
        if self._fleet is not None:
            whole |= {n: t.to(self._device) for n, t in self._fleet.tensors(0, teacher=teacher).items()}
        return whole

    def _bound(self, row: Tensor) -> Fleet:
        """The fleet of one, made when the first sample shows its shape."""
        shape = tuple(row.shape[1:])
        if self._fleet is None:
            if self._special:
                net: Any = ModuleNet(self._module, self._probabilities, **self._modes)
            else:
                net = net_of(self._module, shape, self._probabilities)
            self._fleet = Fleet([self._member], shape, net=net, device=self._device, dtype=self._dtype)
            self._tried(self._fleet, row)
        elif shape != self._fleet.sample:
            raise InputError(f"`ask(x=...)`: x has shape {shape}; the samples before had {self._fleet.sample}.")
        return self._fleet

    def _tried(self, fleet: Fleet, row: Tensor) -> None:
        try:
            with torch.no_grad():
                fleet.net.forward(fleet.state.teacher, row)
        except RuntimeError as error:
            self._fleet = None
            why = str(error).splitlines()[0]
            raise InputError(
                f"`ask(x=...)`: the module does not take a sample of shape {tuple(row.shape[1:])} ({why}); give one"
                " sample without a batch axis."
            ) from error

    def _row(self, x: Any) -> Tensor:
        try:
            row = torch.as_tensor(x, dtype=self._dtype, device=self._device)[None]
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"`ask(x=...)`: x must be numbers, an array or a tensor ({error}).") from error
        if not bool(torch.isfinite(row).all()):
            raise InputError("`ask(x=...)`: x holds numbers that are not finite; fill or drop missing values first.")
        return row
