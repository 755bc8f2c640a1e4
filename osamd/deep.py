"""OSAMD around one's own network: any `nn.Module` whose forward is functional, one sample at a time.

    learner = OSAMD(module, eta=1e-3, sigma=0.1)
    decision = learner.ask(x)            # draws whether to ask; the model stays as it is
    learner.tell(decision, y)            # a class index, or None: the pseudolabel stands in for the label
    module.load_state_dict(learner.state_dict())

It is a fleet of one (`osamd.fleet`), so the round is the paper's, with the implicit step approached by inner loops.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError, lookup, reject, require_kind, require_positive, require_whole
from osamd.fleet.devices import device_named
from osamd.fleet.fleet import Fleet, Member, net_of
from osamd.fleet.net import ModuleNet, Net
from osamd.fleet.round import Decision as RoundDecision
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
    x: Tensor = field(repr=False, compare=False)
    of_round: RoundDecision = field(repr=False, compare=False)


class OSAMD:
    """A network that keeps up with a drifting stream: ask, and tell.

    `module` gives class scores (logits, or probabilities with outputs="probabilities") for a batch of samples, or one
    score or probability for two classes. It is copied, and the copy is used in evaluation mode: no dropout, BatchNorm
    by the statistics it was trained with. `dropout=True` keeps its Dropout layers active (they draw from torch's own
    generator), and batch_norm="sample" normalises by the statistics of the sample itself. Parameters that require no
    gradient stay as they are. Half precision is computed in float32.

    `eta` is the student's step size, `sigma` the query's (larger asks for more), `teacher` its step, and `adaptation`
    the inner loops that approach the implicit step. `method` is one of the paper's six. The step sizes depend on the
    network and must be chosen for it: the teacher's `scale` and `cap` from the step that one labelled sample deserves
    (its learning rate in training is a start), `eta` ten times smaller. Queries are drawn from `seed`, one an ask.

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
        lookup("OSAMD", "batch_norm", batch_norm, {"evaluation": 0, "sample": 1})
        eta = require_positive("OSAMD", "eta", eta)
        settings = Settings(
            eta=eta,
            sigma=sigma,
            loss=named_loss(loss, l2=l2),
            teacher=teacher or TeacherStep(cap=10.0 * eta, scale=5.0 * eta),
            adaptation=adaptation or InnerLoops(number=10, rate=0.1),
            label_rate=label_rate,
        )
        self._dtype, own_device = _kind_of(module)
        self._device = own_device if device is None else device_named(device, f"OSAMD(device={device!r})")
        self._start = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        self._module = copy.deepcopy(module).eval().to(self._device, self._dtype)
        self._member = Member(self._module, method, settings)
        self._probabilities = outputs == "probabilities"
        self._modes: dict[str, Any] = {"dropout": dropout, "batch_norm": batch_norm}
        self._uniforms = np.random.default_rng(require_whole("OSAMD", "seed", seed, 0))
        self._fleet: Fleet | None = None
        self._embeds = False
        self.rounds = 0

    def ask(self, x: Any) -> Decision:
        """Decide on one sample (without a batch axis) and draw whether to ask for its label; the model stays."""
        with _quietly():
            row = self._row(x)
            if self._fleet is None and not row.is_floating_point():
                try:
                    self._bound(row)
                    self._embeds = True
                except InputError:  # it is no module that embeds whole numbers: they are features
                    row = row.to(self._dtype)
            fleet = self._fleet or self._bound(row)
            if tuple(row.shape[1:]) != fleet.sample:
                raise InputError(
                    f"`ask(x=...)`: x has shape {tuple(row.shape[1:])}; the samples before had {fleet.sample}."
                )
            u = torch.tensor([self._uniforms.random()], dtype=torch.float64, device=self._device)
            said = fleet.round.observe(fleet.state, row, u)
            scores = said.scores[0]
            probabilities = scores if self._probabilities else torch.softmax(scores, 0)
            if not bool(torch.isfinite(scores).all() & torch.isfinite(said.margin).all()):
                raise InputError(
                    f"`ask`: the scores are not finite after {self.rounds} rounds; make eta and the teacher's step"
                    " smaller."
                )
            return Decision(
                label=int(said.label),
                probabilities=tuple(probabilities.tolist()),
                pseudolabel=int(said.pseudolabel),
                margin=float(said.margin),
                probability=float(said.probability),
                query=bool(said.query),
                x=row,
                of_round=said._replace(heard=None),
            )

    def tell(self, decision: Decision, y: int | None) -> None:
        """Learn from a decision of `ask`, with the class index of its label, or None where no label will come."""
        require_kind("tell", "decision", decision, Decision, "give what `ask` returned")
        fleet, students = self._fleet, decision.of_round.adapted
        if fleet is None or tuple(decision.x.shape[1:]) != fleet.sample or students.shape[1] != fleet.net.size:
            raise InputError("`tell(decision=...)`: it is a decision of another learner; give one of this one's.")
        if isinstance(y, Tensor) and y.numel() == 1 and not y.is_floating_point() and y.dtype != torch.bool:
            y = int(y)
        classes = len(decision.probabilities)
        if y is not None and require_whole("tell", "y", y, 0) >= classes:
            raise reject("tell", "y", y, f"the module has {classes} classes; give an index from 0 to {classes - 1}.")
        with _quietly():
            label = torch.tensor([UNLABELLED if y is None else y], device=self._device)
            fleet.round.learn(fleet.state, decision.x, decision.of_round, label)
        self.rounds += 1

    def state_dict(self) -> dict[str, Tensor]:
        """What decides, the student (PAA's teacher), as the `state_dict` of the module."""
        return self._tensors(teacher=METHODS[str(self._member.method)].teacher_decides)

    def teacher_state_dict(self) -> dict[str, Tensor]:
        """The teacher, which gives the pseudolabels."""
        return self._tensors(teacher=True)

    def _tensors(self, teacher: bool) -> dict[str, Tensor]:
        """The module's tensors as they came, in their types, with those that a row holds in place of the old."""
        whole = {name: tensor.clone() for name, tensor in self._start.items()}
        moved = {} if self._fleet is None else self._fleet.tensors(0, teacher=teacher)
        return whole | {name: moved[name].to(whole[name]) for name in whole if name in moved}

    def _bound(self, row: Tensor) -> Fleet:
        """The fleet of one, made when the first sample shows its shape, and tried forth and back."""
        net: Net = net_of(self._module, row, self._probabilities)
        if self._modes != {"dropout": False, "batch_norm": "evaluation"}:
            net = ModuleNet(self._module, self._probabilities, binary=net.binary, **self._modes)
        fleet = Fleet(
            [self._member], tuple(row.shape[1:]), net=net, device=self._device, dtype=self._dtype, example=row
        )
        try:
            scores, tape = net.forward(fleet.state.teacher, row)
            net.backward(fleet.state.teacher, tape, torch.zeros_like(scores))
        except Exception as error:  # whatever a user's module raises on the way back
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"`OSAMD(module=...)`: no gradient comes back through the module ({why}).") from error
        self._check_outputs(scores[0])
        self._fleet = fleet
        return fleet

    def _check_outputs(self, scores: Tensor) -> None:
        """Refuse probabilities that are none, and logits that went through a softmax."""
        last = list(self._module.modules())[-1]
        if self._probabilities and (bool((scores < 0).any()) or abs(float(scores.sum()) - 1.0) > 1e-2):
            raise InputError(
                f"`OSAMD(outputs='probabilities')`: the module gave {[round(s, 3) for s in scores.tolist()]}, which are"
                " none; use outputs='logits'."
            )
        if not self._probabilities and isinstance(last, nn.Softmax | nn.LogSoftmax | nn.Sigmoid):
            raise InputError(
                f"`OSAMD(outputs='logits')`: the module ends in {type(last).__name__}; take that layer off, or use"
                " outputs='probabilities' where it gives those."
            )

    def _row(self, x: Any) -> Tensor:
        """A batch of the one sample, in memory of its own; whole numbers stay whole, for modules that embed them."""
        try:
            given = torch.as_tensor(x, device=self._device)
            whole = not given.is_floating_point() and (self._fleet is None or self._embeds)
            kind = given.dtype if whole else self._dtype
            row = given.to(kind, copy=True)[None]
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"`ask(x=...)`: x must be numbers, an array or a tensor ({error}).") from error
        if row.is_complex() or row.ndim < 2:
            raise InputError(f"`ask(x=...)`: x must be an array of real numbers; this is {x!r:.100}.")
        if not bool(torch.isfinite(row).all()):
            raise InputError("`ask(x=...)`: x holds numbers that are not finite; fill or drop missing values first.")
        return row


@contextmanager
def _quietly() -> Iterator[None]:
    """Without recording gradients, and outside of inference mode, whose tensors cannot be used later."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _kind_of(module: nn.Module) -> tuple[torch.dtype, torch.device]:
    """The type that the module is computed in, float64 if it has that and float32 else, and where it is."""
    uninitialised = [p for p in module.parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    learning = [p for p in module.parameters() if p.requires_grad]
    if uninitialised or not learning:
        what = "layers that have seen no sample yet" if uninitialised else "no parameters that require a gradient"
        raise InputError(f"`OSAMD(module=...)`: the module has {what}, so there is nothing to adapt.")
    if any(p.is_complex() for p in module.parameters()):
        raise InputError("`OSAMD(module=...)`: the module has complex parameters; real ones are needed.")
    wide = any(p.dtype == torch.float64 for p in learning)
    return torch.float64 if wide else torch.float32, learning[0].device
