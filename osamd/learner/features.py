"""A module split at its last layer: a frozen body, whose features are computed once per sample, and a head that learns.

The features stand for the sample: a fleet of the head alone decides on them, remembers them and replays them. Its
student and teacher share the body, and samples may be of any shape and length that the body takes.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.checks import require_that
from osamd.errors import InputError
from osamd.fleet.calling import Inputs, called, tried
from osamd.fleet.dense import layers_of
from osamd.fleet.devices import FEW_PARAMETERS
from osamd.fleet.net import named_tensors
from osamd.learner.backbone import Learn
from osamd.learner.network_inputs import check_outputs, require_finite
from osamd.learner.rows import PLAIN_MODES, NetworkRows

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""What the last layer of a module may be."""
ENDINGS: dict[str, Callable[[], nn.Module]] = {
    "flatten": nn.Flatten,
    "softmax": lambda: nn.Softmax(1),
    "sigmoid": nn.Sigmoid,
}
"""What a module may do with the output of its last layer."""


class Head(NamedTuple):
    """The last layer of a module, by name, and what follows it: words of ENDINGS, with spaces between them."""

    name: str
    ending: str


class Caught(NamedTuple):
    """One call of a layer."""

    name: str
    given: Tensor
    gave: Tensor


class Features(NetworkRows):
    """The last layer alone learns, from the features that the body before it computes."""

    def __init__(
        self, body: nn.Module, head: Head, learning: Sequence[str] | None, device: torch.device, graphs: bool
    ) -> None:
        """`learning` names the parameters of the layer that learn; None means all of them.

        `graphs` says whether a GPU plays rounds of plain layers as CUDA graphs (`osamd.fleet.engines.halves`).
        """
        self.head, self._body = head, body
        self._layer = body.get_submodule(head.name)
        paths = [name for name, part in body.named_modules(remove_duplicate=False) if part is self._layer]
        self._prefixes = [f"{name}." if name else "" for name in paths]
        """Before the names of the layer's tensors in the whole module, which may know it by several names."""
        layer = copy.deepcopy(self._layer)
        for name, parameter in layer.named_parameters():
            whole = [prefix + name for prefix in self._prefixes]
            parameter.requires_grad_(learning is None or not set(learning).isdisjoint(whole))
        wide = any(parameter.dtype == torch.float64 for parameter in layer.parameters())
        few = sum(parameter.numel() for parameter in layer.parameters()) < FEW_PARAMETERS
        self.dtype = torch.float64 if wide else torch.float32
        endings = [(word, ENDINGS[word]()) for word in head.ending.split()]
        self.module = nn.Sequential(OrderedDict([("head", layer), *endings])).eval()
        plain = layers_of(self.module) is not None and getattr(layer, "out_features", 0) > 1
        there = not few or (graphs and plain and device.type == "cuda")  # else a GPU would wait for launches
        self.device = device if there else torch.device("cpu")
        layer.to(self.device, self.dtype)
        self.shared, self.probabilities = True, not {"softmax", "sigmoid"}.isdisjoint(head.ending.split())
        self.modes = PLAIN_MODES

    @property
    def changing(self) -> list[str]:
        """The names that the layer's tensors have in the whole module."""
        return [prefix + name for prefix in self._prefixes for name in self._layer.state_dict()]

    def adopt(self, source: Mapping[str, Tensor]) -> None:
        """Let the layer have its parameters where a fleet has the same numbers, for good, in place of its own copy."""
        for name, tensor in source.items():
            self.module.get_parameter(name).data = tensor

    def start(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The layer's tensors as they are in `tensors`, in memory that nobody else changes."""
        own = self.merged(dict(self.module.get_submodule("head").state_dict()))
        alike = {name: (t.dtype, t.device) == (tensors[name].dtype, tensors[name].device) for name, t in own.items()}
        return {name: tensor if alike[name] else tensors[name].clone() for name, tensor in own.items()}

    def row(self, inputs: Inputs) -> Tensor:
        rows: list[Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            rows.append(self.remembered(args[0] if args else named["input"]))

        handle = self._layer.register_forward_pre_hook(keep, with_kwargs=True)
        try:
            called(self._body, in_type_of(self._body, inputs))
        finally:
            handle.remove()
        if len(rows) != 1:
            raise InputError(f"`ask(x=...)`: the module calls its last layer {len(rows)} times for x, not once.")
        return rows[0]

    def remembered(self, features: Tensor) -> Tensor:
        """The features that went into the layer, as a row."""
        return features.detach().to(self.device, self.dtype, copy=True)

    def merged(self, moved: dict[str, Tensor]) -> dict[str, Tensor]:
        own = {name.removeprefix("head."): tensor for name, tensor in moved.items()}
        return {prefix + name: tensor for prefix in self._prefixes for name, tensor in own.items()}

    def described(self) -> dict[str, Any]:
        return {"head": list(self.head)}


class Split(NamedTuple):
    """How samples become rows, and the row of the first sample."""

    rows: NetworkRows
    row: Tensor


@contextmanager
def catching(layers: Iterable[tuple[str, nn.Module]]) -> Iterator[list[Caught]]:
    """Catch the calls of these layers, in their order."""
    caught: list[Caught] = []

    def catch(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], out: Tensor) -> None:
            given = args[0] if args else named["input"]
            caught.append(Caught(name, given.detach().clone(), out.detach().clone()))  # modules may work in place

        return hook

    handles = [layer.register_forward_hook(catch(name), with_kwargs=True) for name, layer in layers]
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()


def split(
    body: nn.Module, learn: Learn, inputs: Inputs, probabilities: bool, device: torch.device, graphs: bool
) -> Split | None:
    """Split the module at its head, if that alone learns; None where names of parameters go beyond it."""
    if learn != "head" and not isinstance(learn, list):
        return None
    try:
        head, features = found_head(body, in_type_of(body, inputs), probabilities)
    except InputError:
        if learn == "head":
            raise
        return None
    rows = Features(body, head, None if learn == "head" else learn, device, graphs)
    beyond = learn != "head" and not set(learn) <= set(rows.changing)
    if beyond:
        return None
    return Split(rows, rows.row(inputs) if features is None else rows.remembered(features))


def in_type_of(module: nn.Module, inputs: Inputs) -> Inputs:
    """The inputs with their fractions in the type of the module's own parameters."""
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)

    def cast(part: Tensor) -> Tensor:
        return part.to(kind) if part.is_floating_point() else part

    if isinstance(inputs, dict):
        return {name: cast(part) for name, part in inputs.items()}
    return tuple(cast(part) for part in inputs) if isinstance(inputs, tuple) else cast(inputs)


def found_head(module: nn.Module, inputs: Inputs, probabilities: bool) -> tuple[Head, Tensor | None]:
    """The module's last layer: the one whose output is the module's own, but for the shape and a softmax or sigmoid.

    Returned too are the features that it got for the sample, if they are those that it gets in every later call. Where
    every layer had to be watched, a module may have taken a slower way than usual, which rounds differently.
    """
    layers = [(name, part) for name, part in module.named_modules() if isinstance(part, LAYERS)]
    for watched in (layers[-1:], layers):
        with catching(watched) as caught:
            scores = tried(module, inputs)
        if not bool(torch.isfinite(scores).all()):
            require_finite(inputs)
            raise InputError("`ask(x=...)`: the module's scores of x are not finite; the sample may be too large.")
        _check_scores(module, scores, probabilities)
        found = next((call for call in reversed(caught) if _ending(call.gave, scores, probabilities) is not None), None)
        if found is not None:
            break
    name = (found or caught[-1]).name if caught else "last"
    instead = f"Name the parameters that learn instead, such as learn=['{name}.*'], or give learn='norm' or 'low-rank'."
    problem = "the module calls no linear or convolutional layer"
    if found is None and caught:
        shape = tuple(caught[-1].gave.shape)
        problem = f"no layer gives the module's own {len(scores)} scores; the last one, {name!r}, gives shape {shape},"
        problem += " and more is done to that"
        if not probabilities and any(_ending(call.gave, scores, True) is not None for call in caught):
            problem = "the module gives probabilities"
            instead = "Give outputs='probabilities'."
    elif found is not None:
        one = found.given.ndim > 1 and len(found.given) == 1
        what = "is called more than once" if one else f"takes shape {tuple(found.given.shape)}"
        problem = f"the last layer, {name!r}, {what} for one sample"
        if one and sum(call.name == name for call in caught) == 1:
            _refuse_tied(module, name)
            flat = "flatten " if found.gave.ndim > 2 else ""
            head = Head(name, (flat + (_ending(found.gave, scores, probabilities) or "")).strip())
            return head, found.given if len(watched) == 1 else None
    raise InputError(f"`NetworkOSAMD(learn='head')`: {problem}. {instead}")


def _check_scores(module: nn.Module, scores: Tensor, probabilities: bool) -> None:
    """`check_outputs`, for a module that may give one probability for two classes."""
    single = probabilities and len(scores) == 1
    check_outputs(module, torch.cat([1.0 - scores, scores]) if single else scores, probabilities)


def _ending(gave: Tensor, scores: Tensor, probabilities: bool) -> str | None:
    """What turns a layer's output into the module's scores; None if nothing known does."""
    if gave.numel() != len(scores):
        return None
    near = 1e-2 if scores.dtype in (torch.float16, torch.bfloat16) else 1e-4
    logits, scores = gave.reshape(-1).double(), scores.double()
    if probabilities:
        ending = "sigmoid" if len(scores) == 1 else "softmax"
        shares = torch.sigmoid(logits) if len(scores) == 1 else torch.softmax(logits, 0)
        return ending if torch.allclose(shares, scores, rtol=near, atol=near) else None
    same = torch.equal(logits, scores)  # logarithms of probabilities are logits too
    return "" if same or torch.allclose(torch.log_softmax(logits, 0), scores, rtol=near, atol=near) else None


def _refuse_tied(module: nn.Module, head: str) -> None:
    """Refuse a last layer whose tensors are used elsewhere in the module too."""
    layer, modules = module.get_submodule(head), dict(module.named_modules(remove_duplicate=False))
    own = {id(tensor) for tensor in layer.parameters()}
    for name, tensor in named_tensors(module).items():
        if id(tensor) in own and modules[name.rpartition(".")[0]] is not layer:
            raise InputError(
                f"`NetworkOSAMD(learn='head')`: the last layer, {head!r}, shares a tensor with {name!r}, which would"
                " change with it; give the layer a parameter of its own."
            )


def saved_head(module: nn.Module, content: Any) -> Head:
    """The head that a file describes, checked against the module."""
    fits = isinstance(content, list) and len(content) == 2 and all(isinstance(part, str) for part in content)
    require_that(fits, "head is not the name of a layer and its ending")
    head = Head(*content)
    layer = dict(module.named_modules()).get(head.name)
    require_that(isinstance(layer, LAYERS), f"its head, {head.name!r}, is not a layer of the module")
    require_that(all(word in ENDINGS for word in head.ending.split()), "the ending of its head is not known")
    return head


def features_vary(augment: bool | None) -> bool:
    """Whether remembered features are augmented: never, since they are no images."""
    if augment:
        raise InputError(
            "`NetworkOSAMD(augment=True)`: the body is frozen, so features are remembered in place of images; leave"
            " augment out, or let more of the module learn, with learn='norm' or learn='low-rank'."
        )
    return False
