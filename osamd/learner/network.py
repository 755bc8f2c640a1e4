"""OSAMD around your own network: any `nn.Module` whose forward is functional, one sample at a time.

    learner = NetworkOSAMD(module, budget=0.05, source=(X, y))
    decision = learner.ask(x)            # draws whether to ask; the model stays as it is
    learner.tell(decision, y)            # a class, or None: then the pseudolabel stands in for the label
    module.load_state_dict(learner.state_dict())

It is a fleet of one (`osamd.fleet`). It plays the preset, which needs no step size (`osamd.fleet.preset_fleet`), or a
method of the paper, with inner loops that approach the implicit step. Budgets, late labels, accuracy estimates and
files work as in every learner (`osamd.learner.ask_tell`). The file is long because one constructor takes the settings
of both.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError("networks need PyTorch: pip install 'osamd[deep]'") from error

from osamd.accounting import budget as budgets
from osamd.checks import one_sentence
from osamd.errors import InputError, lookup, require_kind
from osamd.fleet.devices import device_named
from osamd.fleet.fleet import Fleet, Member, net_of
from osamd.fleet.net import ModuleNet, Net
from osamd.fleet.preset_fleet import PresetFleet, PresetMember, remembered
from osamd.learner import saving
from osamd.learner.ask_tell import AskTell
from osamd.learner.cores.network import NetworkCore, NetworkSamples, PresetNetworkCore, quietly
from osamd.learner.decision import known_classes, share_asked
from osamd.learner.network_inputs import check_outputs, kind_of, pairs_of, restored_module, row_of, takes_batches
from osamd.learner.recipes import PaperRecipe, network_recipe, settings_of
from osamd.learner.resuming import require_fitting
from osamd.paper.methods import KNOWN, InnerLoops, TeacherStep, meant
from osamd.preset.arbiter import NETWORK_AUDIT


class NetworkOSAMD(AskTell):
    """A network that keeps up with a drifting stream, by ask and tell.

    `module` gives class scores for a batch of samples (logits, or probabilities with outputs="probabilities"), or one
    score or probability for two classes. It is copied, and the copy runs in evaluation mode: no dropout, and BatchNorm
    with the statistics from training. `dropout=True` keeps its Dropout layers active (they draw from torch's own
    generator), and batch_norm="sample" normalises by the statistics of the sample itself. Parameters that require no
    gradient stay as they are. Half precision is computed in float32. `classes` names the outputs, 0, 1, ... by default.

    With nothing but a `budget` (5 % by default) it is the preset. `source` is a pair of samples and labels from the
    training data, as many as you have. The preset remembers a few hundred of them, and replays them until labels of the
    stream have taken their place. Without a source its memory starts empty, which costs it the first labels.

    Name a `method` of the paper, or give a setting of its rounds, to play that method instead. `eta` is then the
    student's step size and `sigma` sets how readily it asks (larger asks for more); both are required. `teacher` is the
    teacher's step, and `adaptation` the inner loops that approach the implicit step. The step sizes depend on the
    network and must be chosen for it: the teacher's `scale` and `cap` from the step that one labelled sample deserves
    (start from the learning rate of its training), and `eta` ten times smaller.

    Queries are drawn from `seed`, one draw per ask. Budget, floor, expiry and window are as in `osamd.OSAMD`.

    >>> _ = torch.manual_seed(0)
    >>> learner = NetworkOSAMD(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), budget=0.5)
    >>> decision = learner.ask([0.1, -0.4, 2.0, 0.3])
    >>> learner.tell(decision, 2 if decision.query else None)
    >>> learner
    <OSAMD preset for 0, 1, 2: 1 rounds, 0 labels asked for>
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        budget: float | None = None,
        source: tuple[Any, Any] | None = None,
        classes: Sequence[Any] | None = None,
        outputs: str = "logits",
        method: str | None = None,
        eta: float | None = None,
        sigma: float | None = None,
        teacher: TeacherStep | None = None,
        adaptation: InnerLoops | None = None,
        loss: str | None = None,
        l2: float | None = None,
        label_rate: float | None = None,
        dropout: bool = False,
        batch_norm: str = "evaluation",
        device: torch.device | str | None = None,
        budget_window: int | None = None,
        max_labels: int | None = None,
        floor: float | None = None,
        target_accuracy: float | None = None,
        expire_after: int | None = None,
        window: int = 1000,
        seed: int = 0,
    ) -> None:
        require_kind(
            "NetworkOSAMD", "module", module, nn.Module, "give a torch.nn.Module that takes batches of samples"
        )
        lookup("NetworkOSAMD", "outputs", outputs, {"logits": 0, "probabilities": 1})
        lookup("NetworkOSAMD", "batch_norm", batch_norm, {"evaluation": 0, "sample": 1})
        of_the_paper = {
            "eta": eta,
            "sigma": sigma,
            "teacher": teacher,
            "adaptation": adaptation,
            "loss": loss,
            "l2": l2,
            "label_rate": label_rate,
        }
        kind = lookup("NetworkOSAMD", "method", meant(method, of_the_paper), KNOWN)
        recipe = network_recipe(kind, of_the_paper, with_source=source is not None)
        asking = recipe.asking(share_asked(budget), floor, NETWORK_AUDIT)
        limits = budgets.budget(asking.budget, budget_window, max_labels, asking.floor, target_accuracy)
        names = [] if classes is None else known_classes(classes)
        super().__init__(recipe, limits, names, expire_after, window, seed)
        self._dtype, own_device = kind_of(module)
        self._device = own_device if device is None else device_named(device, f"NetworkOSAMD(device={device!r})")
        self._start = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        self._as_given = copy.deepcopy(module)
        self._module = copy.deepcopy(module).eval().to(self._device, self._dtype)
        self._probabilities = outputs == "probabilities"
        self._modes: dict[str, Any] = {"dropout": dropout, "batch_norm": batch_norm}
        self._embeds = False
        self._named = bool(names)
        if source is not None:
            self._remember(source, seed)

    @classmethod
    def load(cls, path: str | Path, module: nn.Module, *, device: torch.device | str | None = None) -> Self:
        """Load a saved learner around a module like the one it was made with; it continues bit for bit.

        Only the architecture of the module is used; its parameters come from the file.
        """
        return cls._network_only(saving.read(path), str(path), module, device)

    @classmethod
    def from_bytes(cls, data: bytes, module: nn.Module, *, device: torch.device | str | None = None) -> Self:
        """Load a learner from the bytes that `to_bytes` gave, around a module like its own."""
        return cls._network_only(saving.unpacked(data, "bytes"), "bytes", module, device)

    @classmethod
    def _network_only(cls, saved: saving.Saved, name: str, module: nn.Module, device: Any) -> Self:
        if saved.content.get("kind") != "network":
            raise InputError(f"`load({name!r})`: it holds a linear learner; use osamd.OSAMD.load(path).")
        with one_sentence():
            require_fitting(saved)
            return cls._revive(saved, module, device)

    def tell(self, decision: Any, y: Any = None) -> None:
        """As in `osamd.learner.ask_tell`; a label may also be a tensor that holds one whole number."""
        whole = isinstance(y, Tensor) and y.numel() == 1 and not y.is_floating_point() and y.dtype != torch.bool
        super().tell(decision, int(y) if whole else y)

    def state_dict(self) -> dict[str, Tensor]:
        """The network that decides, as the `state_dict` of the module: the student, or the teacher in PAA.

        In the preset the mixture of both decides (use `predict`); this is the network that its arbiter trusts more.
        """
        believed = isinstance(self._core, PresetNetworkCore) and self._core.believes_teacher
        return self._tensors(teacher=self._method.teacher_decides or believed)

    def teacher_state_dict(self) -> dict[str, Tensor]:
        """The teacher; in the paper's methods it gives the pseudolabels."""
        return self._tensors(teacher=True)

    def _tensors(self, teacher: bool) -> dict[str, Tensor]:
        """The module's tensors in their original types, with the adapted ones in place of the old ones."""
        whole = {name: tensor.clone() for name, tensor in self._start.items()}
        moved = self._core.fleet.tensors(0, teacher=teacher) if isinstance(self._core, NetworkSamples) else {}
        return whole | {name: moved[name].to(whole[name], copy=True) for name in whole if name in moved}

    def _meet(self, x: Any) -> Tensor:
        row = self._row(x)
        with quietly():
            if not row.is_floating_point():
                try:
                    self._begin(row)
                    self._embeds = True
                    return row
                except InputError:  # the module does not embed whole numbers: they are features
                    row = row.to(self._dtype)
            self._begin(row)
        return row

    def _begin(self, row: Tensor) -> None:
        """Make the fleet of one, now that a sample shows its shape, and try a forward and a backward pass."""
        net: Net = net_of(self._module, row, self._probabilities)
        if self._modes != {"dropout": False, "batch_norm": "evaluation"}:
            net = ModuleNet(self._module, self._probabilities, binary=net.binary, **self._modes)
        shape = tuple(row.shape[1:])
        kinds: dict[str, Any] = {"net": net, "device": self._device, "dtype": self._dtype, "example": row}
        fleet: Fleet | PresetFleet
        try:
            if not isinstance(self._recipe, PaperRecipe):
                fleet = PresetFleet([PresetMember(self._module)], shape, self._book[None], **kinds)
                start = fleet.state.rows[:1]
            else:
                fleet = Fleet([Member(self._module, self._method, self._recipe.settings)], shape, **kinds)
                start = fleet.state.teacher
            scores, tape = net.forward(start, row)
            net.backward(start, tape, torch.zeros_like(scores))
        except InputError:
            raise
        except Exception as error:  # whatever a user's module raises in the backward pass
            why = (str(error).splitlines() or [type(error).__name__])[0]
            rule = f"no gradient comes back through the module ({why})."
            raise InputError(f"`NetworkOSAMD(module=...)`: {rule}") from error
        check_outputs(self._module, scores[0], self._probabilities)
        if isinstance(net, ModuleNet) and isinstance(fleet, PresetFleet) and not takes_batches(net, start, row):
            net.one_by_one = True
        if not self._classes:
            self._name_classes(list(range(fleet.classes)))
        if len(self._classes) != fleet.classes:
            raise InputError(
                f"`NetworkOSAMD(classes=...)`: {len(self._classes)} are named, but the module tells {fleet.classes}"
                " apart."
            )
        if isinstance(fleet, PresetFleet):
            self._bind(PresetNetworkCore(fleet, self._meter), self._later)
        else:
            self._bind(NetworkCore(fleet, self._book, self._meter, self._probabilities, row.dtype), self._later)

    def _remember(self, source: Any, seed: int) -> None:
        """Let the preset remember some of the labelled samples that the network was trained on."""
        samples, labels = pairs_of(source)
        self._meet(samples[0])
        drawn = remembered(len(labels), seed)
        unknown = [labels[i] for i in drawn if not isinstance(labels[i], Hashable) or labels[i] not in self._index]
        if unknown:
            known = ", ".join(repr(name) for name in self._classes[:20])
            named = "" if self._named else " If y holds names, give classes=[...], in the order of the outputs."
            raise InputError(
                f"`NetworkOSAMD(source=(X, y))`: y holds {unknown[0]!r:.60}, which is not a class; the learner was"
                f" made for {known}.{named}"
            )
        rows = torch.cat([self._later(samples[i]) for i in drawn])
        indices = [self._index[labels[i]] for i in drawn]
        self._core.fleet.remember(0, rows, torch.tensor(indices))
        self._source_rows = np.bincount(indices, minlength=len(self._classes)).tolist()

    def _row(self, x: Any) -> Tensor:
        """A batch of one sample; whole numbers stay whole where the module embeds them, or may embed them."""
        return row_of(x, self._device, self._dtype, whole=self._core is None or self._embeds)

    def _later(self, x: Any) -> Tensor:
        """A sample after the first one, which must have the same shape and type."""
        row, like = self._row(x), self._core.fleet.sample
        if tuple(row.shape[1:]) != like:
            many = " Give one sample at a time." if tuple(row.shape[2:]) == like else ""
            raise InputError(f"`ask(x=...)`: x has shape {tuple(row.shape[1:])}; the samples before had {like}.{many}")
        if self._embeds and row.is_floating_point():
            raise InputError("`ask(x=...)`: x holds fractions; the samples before were whole numbers.")
        return row

    def _described(self) -> dict[str, Any]:
        return {
            "kind": "network",
            "sample": None if self._core is None else list(self._core.fleet.sample),
            "whole_numbers": self._embeds,
            "types": {name: str(tensor.dtype) for name, tensor in self._start.items()},
            "outputs": "probabilities" if self._probabilities else "logits",
            "modes": self._modes,
            "learning": [n for n, p in self._as_given.named_parameters(remove_duplicate=False) if p.requires_grad],
        }

    def _like(self) -> tuple[Any, ...]:
        return self._as_given, self._device

    def _saved(self) -> saving.Saved:
        saved = super()._saved()
        for name, tensor in self._start.items():
            wide = tensor.cpu().float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.cpu()
            saved.arrays[f"module.{name}"] = wide.numpy()
        return saved

    @classmethod
    def _revive(cls, saved: saving.Saved, *like: Any) -> Self:
        require_kind("load", "module", like[0], nn.Module, "give a module like the one that was saved")
        module, device = restored_module(like[0], saved), like[1]
        content = saved.content
        settings, own = settings_of(content), dict(content["modes"])
        if settings is not None:
            own |= {name: getattr(settings, name) for name in ("eta", "sigma", "teacher", "adaptation", "label_rate")}
            own |= {"loss": settings.loss.name, "l2": settings.loss.l2}
        learner = cls(
            module,
            classes=content["classes"] or None,
            outputs=content["outputs"],
            device=device,
            **cls._asking_of(content),
            **own,
        )
        if content["sample"] is not None:
            learner._embeds = content["whole_numbers"]
            kind = torch.int64 if learner._embeds else learner._dtype
            with quietly():
                learner._begin(torch.zeros(1, *content["sample"], dtype=kind, device=learner._device))
        learner._resume(saved)
        return learner
