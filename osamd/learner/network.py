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

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError("networks need PyTorch: pip install 'osamd[deep]'") from error

from osamd.accounting import budget as budgets
from osamd.checks import one_sentence, require_shaped, require_that
from osamd.errors import InputError, lookup, require_kind
from osamd.fleet.calling import Inputs, tried
from osamd.fleet.devices import device_named
from osamd.fleet.fleet import Fleet, Member, net_of
from osamd.fleet.net import ModuleNet, Net, set_modes
from osamd.fleet.pair import LEAST_PLACES
from osamd.fleet.preset_fleet import PresetFleet, PresetMember, remembered
from osamd.learner import saving
from osamd.learner.ask_tell import AskTell
from osamd.learner.backbone import changing, duplicate, learning_of, wanted
from osamd.learner.cores.network import NetworkCore, NetworkSamples, PresetNetworkCore, quietly, taking
from osamd.learner.decision import known_classes, share_asked
from osamd.learner.features import Features, Split, features_vary, in_type_of, saved_head, split
from osamd.learner.network_inputs import (
    check_outputs,
    inputs_of,
    kind_of,
    no_gradient,
    pairs_of,
    parts_of_state,
    require_finite,
    restored_module,
    sample_of_source,
    takes_batches,
    takes_varied,
)
from osamd.learner.recipes import PaperRecipe, network_recipe, settings_of
from osamd.learner.resuming import require_fitting
from osamd.learner.rows import PLAIN_MODES, NetworkRows, Whole
from osamd.learner.several_parts import Packing
from osamd.paper.methods import KNOWN, InnerLoops, TeacherStep, method_name
from osamd.preset.arbiter import NETWORK_AUDIT


class NetworkOSAMD(AskTell):
    """A network that keeps up with a drifting stream, by ask and tell.

    `module` gives class scores for a batch of samples (logits, or probabilities with outputs="probabilities"), or one
    score or probability for two classes. It is copied, and the copy runs in evaluation mode, without dropout.
    `dropout=True` keeps its Dropout layers active (they draw from torch's own generator). Parameters that require no
    gradient stay as they are. Half precision is computed in float32. `classes` names the outputs, 0, 1, ... by default.

    `batch_statistics` says what BatchNorm normalises by: "training", the statistics that it was trained with, or
    "sample", those of the sample itself. By default it is the former, with one exception: in the preset, a plain
    sequence of convolutions with ReLU, one BatchNorm, Flatten and a linear layer learns with those of the sample, which
    survive a change of light or contrast; the source model, which never changes, keeps those of the training.

    `augment` says whether the preset moves, turns and scales the images that it replays, and changes their light, a
    little and each time anew (`osamd.fleet.augmentation`). By default it does so if the module has convolutions, and a
    sample is an image, channels x height x width, whose longer side is at most twice the other. Give augment=False
    where such changes could change the class, as in spectrograms.

    `learn` says what learns instead, for large networks: "head" (the last layer), "norm" (the parameters of the norm
    layers), "low-rank" (small factors added to the weights of linear layers), "all", or a list of names of parameters,
    where * stands for any text. With "head", and with names that all belong to the last layer, the body before it
    computes its features once per sample, in its own precision. Whatever does not learn is then shared with your module
    rather than copied: give a copy if you go on training it.

    A sample is what the module takes, without the batch axis: an array, or a tuple or dictionary of arrays for a module
    with several arguments. Those may have any length.

    With nothing but a `budget` (5 % by default) it is the preset. `source` is a pair of samples and labels from the
    training data, as many as you have. The preset remembers 512 of them, or up to 4,096 small ones, and replays them
    until labels of the stream have taken their place. Without a source its memory starts empty, which costs it the
    first labels.

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
        learn: str | Sequence[str] | None = None,
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
        batch_statistics: str | None = None,
        augment: bool | None = None,
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
        if batch_statistics is not None:
            lookup("NetworkOSAMD", "batch_statistics", batch_statistics, {"training": 0, "sample": 1})
        of_the_paper = {
            "eta": eta,
            "sigma": sigma,
            "teacher": teacher,
            "adaptation": adaptation,
            "loss": loss,
            "l2": l2,
            "label_rate": label_rate,
        }
        kind = lookup("NetworkOSAMD", "method", method_name(method, of_the_paper), KNOWN)
        recipe = network_recipe(kind, of_the_paper, with_source=source is not None)
        if augment is not None:
            require_kind("NetworkOSAMD", "augment", augment, bool, "give True or False")
            if isinstance(recipe, PaperRecipe):
                raise InputError("`NetworkOSAMD(augment=...)`: the paper's methods replay nothing; leave augment out.")
        asking = recipe.asking(share_asked("NetworkOSAMD", budget), floor, NETWORK_AUDIT)
        limits = budgets.budget(asking.budget, budget_window, max_labels, asking.floor, target_accuracy)
        names = [] if classes is None else known_classes(classes, "NetworkOSAMD")
        super().__init__(recipe, limits, names, expire_after, window, seed)
        with quietly():
            self._choice = wanted(module, learn)
            self._dtype, own_device = kind_of(module, learning_of(module, self._choice))
            self._device = own_device if device is None else device_named(device, f"NetworkOSAMD(device={device!r})")
            self._as_given = duplicate(module, changing(module, self._choice))
            self._start, self._others = parts_of_state(self._as_given)
            self._module = duplicate(self._as_given, None if learn is None else []).eval().to(self._device)
            self._probabilities, self._augment = outputs == "probabilities", augment
            self._modes: dict[str, Any] = {"dropout": dropout, "batch_statistics": batch_statistics}
            if self._choice is not None:
                set_modes(self._module, dropout, batch_statistics or "training")
        self._rows: NetworkRows
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
        """As in `osamd.learner.ask_tell`; a label may also be a tensor that holds one number."""
        number = isinstance(y, Tensor) and y.numel() == 1 and y.dtype != torch.bool
        super().tell(decision, y.item() if number else y)

    def _no_class(self, y: object) -> InputError:
        """As in `osamd.learner.ask_tell`, with a remedy for the classes of a network."""
        remedy = "" if self._named else " To name the module's outputs, give classes=[...] in their order."
        if isinstance(y, list | tuple | np.ndarray | Tensor):
            remedy = " Give the class, not one number for each (y.argmax())."
        return InputError(f"{super()._no_class(y)}{remedy}")

    def state_dict(self) -> dict[str, Tensor]:
        """The network that decides, as the `state_dict` of the module: the student, or the teacher in PAA.

        In the preset a mixture of student, teacher and the module as it was given decides (use `predict`); this is the
        one of student (as its average) and teacher that its arbiter trusts more. If it learned by the sample's own
        statistics (`batch_statistics`), its BatchNorm must normalise by those as well.
        """
        believed = isinstance(self._core, PresetNetworkCore) and self._core.believes_teacher
        return self._tensors(teacher=self._method.teacher_decides or believed)

    def teacher_state_dict(self) -> dict[str, Tensor]:
        """The teacher; in the paper's methods it gives the pseudolabels."""
        return self._tensors(teacher=True)

    def _tensors(self, teacher: bool) -> dict[str, Tensor]:
        """The module's tensors in their original types, with the adapted ones in place of the old ones."""
        whole = {name: tensor.clone() for name, tensor in self._start.items()}
        if not isinstance(self._core, NetworkSamples):
            return whole | self._others
        moved = self._rows.merged(self._core.fleet.tensors(0, teacher=teacher))
        return whole | {n: moved[n].to(whole[n], copy=True) for n in whole if n in moved} | self._others

    def _meet(self, x: Any) -> Tensor:
        with quietly():
            inputs = inputs_of(x, self._device, self._dtype, whole=True)
            if not isinstance(inputs, Tensor) or inputs.is_floating_point():
                return self._begin_on(inputs)
            fractions = inputs.to(self._dtype)
            refusal = self._refuses_whole(inputs, fractions)
            if refusal is None:
                row = self._begin_on(inputs)
                self._embeds = True
                return row
            try:
                return self._begin_on(fractions)
            except InputError:
                if any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in self._module.modules()):
                    raise InputError(refusal) from None
                raise

    def _refuses_whole(self, inputs: Tensor, fractions: Tensor) -> str | None:
        """Why the module wants fractions in place of whole numbers; None if it embeds them."""
        try:
            scores = tried(self._module, inputs)
        except InputError as error:
            return str(error)
        try:
            same = torch.equal(scores, tried(self._module, in_type_of(self._module, fractions)))
        except InputError:
            return None
        return "it converts them itself" if same else None

    def _begin_on(self, inputs: Inputs) -> Tensor:
        """Make the fleet, now that a sample shows what the module takes; returns the sample as a row."""
        found = split(self._module, self._choice, inputs, self._probabilities, self._device, self._graphs)
        if found is None:
            whole = self._whole(None if isinstance(inputs, Tensor) else Packing.of(inputs, self._dtype))
            if whole.packing is not None:  # an error names the parts, not the row that they become
                tried(self._module, inputs)
            found = Split(whole, whole.row(inputs))
        self._begin(*found)
        return found.row

    @property
    def _graphs(self) -> bool:
        """Whether a GPU plays the rounds as CUDA graphs, which those of the default learner become."""
        return not isinstance(self._recipe, PaperRecipe)

    def _whole(self, packing: Packing | None) -> Whole:
        """The module as one that learns as a whole."""
        modes = self._modes | {"batch_statistics": self._modes["batch_statistics"] or "training"}
        kinds: dict[str, Any] = {"modes": modes, "device": self._device, "dtype": self._dtype, "packing": packing}
        return Whole(self._module, self._choice, probabilities=self._probabilities, **kinds)

    def _begin(self, rows: NetworkRows, row: Tensor, saved: Mapping[str, Any] | None = None) -> None:
        """Make the fleet of one for rows like this one, and try a forward and a backward pass.

        `saved` is the content of the file that the learner comes from. It says whether the module gets the samples of a
        batch one at a time, and that varied images need no trial: the learner has seen images, and `row` holds zeros.
        """
        net: Net = net_of(rows.module, row, rows.probabilities)
        if rows.modes != PLAIN_MODES or (rows.shared and isinstance(net, ModuleNet)):
            net = ModuleNet(rows.module, rows.probabilities, binary=net.binary, shared=rows.shared, **rows.modes)
        shape = tuple(row.shape[1:])
        kinds: dict[str, Any] = {"net": net, "device": rows.device, "dtype": rows.dtype, "example": row}
        fleet: Fleet | PresetFleet
        fixed = isinstance(rows, Whole) and rows.packing is None  # rows that never grow, and cost no pass of a body
        try:
            if not isinstance(self._recipe, PaperRecipe):
                statistics = self._modes["batch_statistics"]
                fleet = PresetFleet(
                    [PresetMember(rows.module)],
                    shape,
                    self._book[None],
                    batch_statistics=statistics,
                    places=None if fixed else LEAST_PLACES,
                    augment=self._augment if isinstance(rows, Whole) else features_vary(self._augment),
                    **kinds,
                )
                net, start = fleet.net, fleet.state.rows[:1]
            else:
                fleet = Fleet([Member(rows.module, self._method, self._recipe.settings)], shape, **kinds)
                start = fleet.state.teacher
            scores, tape = net.forward(start, row)
            net.backward(start, tape, torch.zeros_like(scores))
            if isinstance(fleet, PresetFleet):
                none = torch.zeros(1, 1, dtype=torch.long, device=rows.device)
                net.loss_gradient(start, row[:, None], none, none.to(rows.dtype))
        except InputError:
            raise
        except Exception as error:  # whatever a user's module raises in the backward pass
            raise InputError(f"`NetworkOSAMD(module=...)`: {no_gradient(self._module, error)}") from error
        check_outputs(rows.module, scores[0], rows.probabilities)
        if isinstance(net, ModuleNet) and isinstance(fleet, PresetFleet) and not net.one_by_one:
            known = (saved or {}).get("one_by_one")  # earlier files do not say
            require_that(known is None or type(known) is bool, "one_by_one is neither true nor false")
            net.one_by_one = not takes_batches(net, start, row, rows.other(row)) if known is None else known
        if isinstance(fleet, PresetFleet) and saved is None:
            self._try_varied(fleet, start, row)
        if not self._classes:
            self._name_classes(list(range(fleet.classes)))
        if len(self._classes) != fleet.classes:
            raise InputError(
                f"`NetworkOSAMD(classes=...)`: {len(self._classes)} are named, but the module tells {fleet.classes}"
                " apart."
            )
        self._rows = rows
        self._example = row if isinstance(rows, Whole) and rows.packing is not None else None
        if isinstance(rows, Features):  # the rest stays shared with the user's module
            if isinstance(fleet, PresetFleet):
                rows.adopt(net.tensors(fleet.networks[2]))
            self._start |= rows.start(self._start)
        if isinstance(fleet, PresetFleet):
            if isinstance(rows, Whole) and rows.packing is not None:
                fleet.state.samples[:] = row  # empty places count nothing, but must be samples
            self._bind(PresetNetworkCore(fleet, self._meter), self._later)
        else:
            self._bind(NetworkCore(fleet, self._book, self._meter, rows.probabilities, row.dtype), self._later)

    def _try_varied(self, fleet: PresetFleet, start: Tensor, row: Tensor) -> None:
        """Let images be replayed as they are if the module takes no varied ones."""
        if fleet.augmented is not None and not takes_varied(fleet.net, start, row, fleet.augmented):
            if self._augment:
                raise InputError(
                    "`NetworkOSAMD(augment=True)`: the module fails, or its gradient is not finite, for images in"
                    " another light or with noise, whose pixels may lie beyond their usual range; leave augment out."
                )
            fleet.augmented = None

    def _remember(self, source: Any, seed: int) -> None:
        """Let the preset remember some of the labelled samples that the network was trained on."""
        samples, labels = pairs_of(source)
        with sample_of_source(0):
            self._meet(samples[0])
        drawn = remembered(len(labels), self._core.fleet.places, seed)
        unknown = [labels[i] for i in drawn if not isinstance(labels[i], Hashable) or labels[i] not in self._index]
        if unknown:
            known = ", ".join(repr(name) for name in self._classes[:20])
            named = "" if self._named else " If y holds names, give classes=[...], in the order of the outputs."
            raise InputError(
                f"`NetworkOSAMD(source=(X, y))`: y holds {unknown[0]!r:.60}, which is not a class; the learner was"
                f" made for {known}.{named}"
            )
        found = []
        for i in drawn:
            with sample_of_source(i):
                found.append(self._later(samples[i]))
                self._require_features(samples[i], found[-1])
        self._core.lengthen(max(row.shape[-1] for row in found))
        rows = torch.cat([self._core.fitted(row) for row in found])
        indices = [self._index[labels[i]] for i in drawn]
        fault = "`NetworkOSAMD(source=(X, y))`: the module cannot take these samples ({}); give those of its training."
        with quietly(), taking(fault):
            self._core.fleet.remember(0, rows, torch.tensor(indices))
        self._source_rows = np.bincount(indices, minlength=len(self._classes)).tolist()

    def _later(self, x: Any) -> Tensor:
        """A sample after the first one, which must have the same type, and as a row the same shape."""
        of_body, like = isinstance(self._rows, Features), self._core.fleet.sample
        inputs = inputs_of(x, self._device, self._dtype, whole=self._embeds, finite=not of_body)
        if self._embeds and isinstance(inputs, Tensor) and inputs.is_floating_point():
            raise InputError("`ask(x=...)`: x holds fractions; the samples before were whole numbers.")
        with quietly(), taking():
            row = self._rows.row(inputs)
        if isinstance(self._rows, Whole) and self._rows.packing is not None:
            return row
        shape = tuple(row.shape[1:])
        if shape != like:
            many = " Give one sample at a time." if shape[1:] == like else ""
            many = many if many or of_body else " With learn='head' they may have any shape that the module takes."
            what = "the module's features of x have" if of_body else "x has"
            raise InputError(f"`ask(x=...)`: {what} shape {shape}; the samples before had {like}.{many}")
        return row

    def _refusal(self, x: Any, sample: Tensor) -> InputError:
        self._require_features(x, sample)
        return super()._refusal(x, sample)

    def _require_features(self, x: Any, row: Tensor) -> None:
        """Refuse features of x that are not finite, as no core decides on them."""
        if isinstance(self._rows, Features) and not bool(torch.isfinite(row).all()):
            require_finite(inputs_of(x, self._device, self._dtype, whole=self._embeds, finite=False))
            raise InputError("`ask(x=...)`: the module's features of x are not finite; the sample may be too large.")

    def _described(self) -> dict[str, Any]:
        return {
            "kind": "network",
            "sample": None if self._core is None else list(self._core.fleet.sample),
            "whole_numbers": self._embeds,
            "types": {name: str(tensor.dtype) for name, tensor in self._start.items()},
            "outputs": "probabilities" if self._probabilities else "logits",
            "modes": self._modes,
            "augment": self._augments(),
            "learning": [n for n, p in self._as_given.named_parameters(remove_duplicate=False) if p.requires_grad],
            **({} if self._choice is None else {"learn": self._choice}),
            **({} if self._core is None else self._rows.described()),
            **({} if self._core is None else {"one_by_one": self._one_by_one()}),
        }

    def _augments(self) -> bool | None:
        """Whether replayed samples are varied, as far as it is known."""
        fleet = None if self._core is None else self._core.fleet
        return fleet.augmented is not None if isinstance(fleet, PresetFleet) else self._augment

    def _one_by_one(self) -> bool:
        """Whether the module gets the samples of a batch one at a time."""
        net = self._core.fleet.net
        return isinstance(net, ModuleNet) and net.one_by_one

    def _begin_again(self, saved: saving.Saved) -> None:
        """Make the fleet that a file describes."""
        arrays, content = saved
        if "parts" in content:
            packing = Packing.saved(content, self._dtype)
            like = torch.zeros(1, *content["sample"], dtype=packing.kind).numpy()
            example = torch.from_numpy(require_shaped(arrays, "example", like)).to(self._device)
            self._begin(self._whole(packing), example, content)
            return
        if "head" not in content:
            kind = torch.int64 if self._embeds else self._dtype
            row = torch.zeros(1, *content["sample"], dtype=kind, device=self._device)
            self._begin(self._whole(None), row, content)
            return
        head = saved_head(self._module, content["head"])
        learning = None if self._choice == "head" else self._choice
        rows = Features(self._module, head, learning, self._device, self._graphs)
        self._begin(rows, torch.zeros(1, *content["sample"], dtype=rows.dtype, device=rows.device), content)

    def _like(self) -> tuple[Any, ...]:
        return self._as_given, self._device

    def _saved(self) -> saving.Saved:
        saved = super()._saved()
        if isinstance(self._core, NetworkSamples) and self._example is not None:
            saved.arrays["example"] = self._core.fitted(self._example).cpu().numpy()
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
        own["augment"] = content.get("augment", None if settings else False)  # earlier versions varied nothing
        require_that(own["augment"] is None or type(own["augment"]) is bool, "augment is neither true nor false")
        require_that(type(own.get("dropout", False)) is bool, "dropout is neither true nor false")
        if "batch_norm" in own:  # its name in earlier files
            own["batch_statistics"] = "sample" if own.pop("batch_norm") == "sample" else "training"
        if settings is not None:
            own |= {name: getattr(settings, name) for name in ("eta", "sigma", "teacher", "adaptation", "label_rate")}
            own |= {"loss": settings.loss.name, "l2": settings.loss.l2}
        learner = cls(
            module,
            classes=content["classes"] or None,
            learn=content.get("learn"),
            outputs=content["outputs"],
            device=device,
            **cls._asking_of(content),
            **own,
        )
        if content["sample"] is not None:
            learner._embeds = content["whole_numbers"]
            with quietly():
                learner._begin_again(saved)
        learner._resume(saved)
        return learner
