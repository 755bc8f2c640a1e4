"""What a round costs on a large network: ask and tell beside the forward pass alone, and the memory that it takes.

    python -m benchmarks.backbones --device cuda

Forward passes and rounds take turns, sample by sample, so that both meet the same machine; medians are reported. With
one thread on the CPU, time is that of the processor, which other work on the machine does not count into.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
import types
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.backbone_modules import TextEncoder, ViTSmall, resnet18
from osamd import NetworkOSAMD
from osamd.fleet.calling import called
from osamd.fleet.devices import device_named
from osamd.reporting.tables import Report, Table
from osamd.reporting.terminal import show

ROUNDS, WARM = 60, 8
MIB = 2**20


class Case(NamedTuple):
    """A network, what learns of it, and a sample drawn by a generator."""

    title: str
    make: Callable[[], nn.Module]
    learn: str
    draw: Callable[[torch.Generator], Any]
    classes: int


def image(generator: torch.Generator) -> Tensor:
    return torch.randn(3, 224, 224, generator=generator)


def text(generator: torch.Generator) -> dict[str, Tensor]:
    length = int(torch.randint(20, 200, (1,), generator=generator))
    ids = torch.randint(0, 8000, (length,), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


CASES = (
    Case("ViT-S", ViTSmall, "head", image, 10),
    Case("ViT-S, 1,000 classes", lambda: ViTSmall(1000), "head", image, 1000),
    Case("ResNet-18", resnet18, "head", image, 10),
    Case("text encoder", TextEncoder, "head", text, 4),
    Case("ViT-S", ViTSmall, "norm", image, 10),
    Case("ViT-S", ViTSmall, "low-rank", image, 10),
)


class Measured(NamedTuple):
    """Milliseconds, and memory in MiB."""

    case: str
    learn: str
    forward_ms: float
    round_ms: float
    ratio: float
    module_mib: float
    learns_mib: float
    remembered_mib: float
    """The samples or features in the learner's memory."""
    besides_mib: float
    """Everything else that the learner holds, beside the module that it was given."""


def measure(case: Case, device: torch.device, rounds: int) -> Measured:
    """Play rounds of noise, of which all want a label, and time the forward pass of the same samples beside them."""
    torch.manual_seed(0)
    module = case.make().eval().to(device)
    learner = NetworkOSAMD(module, learn=case.learn, budget=1.0, device=device)
    generator = torch.Generator().manual_seed(0)
    alone, together = [], []
    warm, timed = (WARM, rounds) if case.learn == "head" else (1, max(2, rounds // 30))  # a hundred times as slow
    for t in range(warm + timed):
        x = case.draw(generator)
        here = {k: v[None].to(device) for k, v in x.items()} if isinstance(x, dict) else x[None].to(device)
        x = {k: v.to(device) for k, v in x.items()} if isinstance(x, dict) else x.to(device)
        with torch.no_grad():
            alone.append(_seconds(device, called, module, here))
        together.append(_seconds(device, _round, learner, x, t % case.classes))
    forward, whole = median(alone[warm:]), median(together[warm:])
    fleet = learner._core.fleet
    size = _bytes(_storages([fleet.state.samples]))
    module_storages = _storages(list(module.state_dict().values()))
    held = _storages(_tensors(learner))
    besides = {place: size for place, size in held.items() if place not in module_storages}
    return Measured(
        case.title,
        case.learn,
        1e3 * forward,
        1e3 * whole,
        whole / forward,
        _bytes(module_storages) / MIB,
        fleet.net.trained * torch.finfo(fleet.dtype).bits / 8 / MIB,
        size / MIB,
        (_bytes(besides) - size) / MIB,
    )


def _round(learner: NetworkOSAMD, x: Any, label: int) -> None:
    learner.tell(learner.ask(x), label)


def _seconds(device: torch.device, function: Callable[..., Any], *given: Any) -> float:
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = clock()
    function(*given)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - started


def _tensors(learner: NetworkOSAMD) -> list[Tensor]:
    """Every tensor that the learner reaches."""
    found: list[Tensor] = []
    todo: list[Any] = [learner.__dict__]
    seen: set[int] = set()
    leave = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, int, float)
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, leave):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found.append(one)
        else:
            todo += gc.get_referents(one)
    return found


def _storages(tensors: Sequence[Tensor]) -> dict[int, int]:
    """The memory behind tensors, each piece once: where it lies, and its bytes."""
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def _bytes(storages: dict[int, int]) -> int:
    return sum(storages.values())


def report(device: str, rounds: int = ROUNDS, cases: Sequence[Case] = CASES) -> Report:
    on = device_named(device, f"--device {device}")
    measured = [measure(case, on, rounds) for case in cases]
    name = torch.cuda.get_device_name(on) if on.type == "cuda" else f"{platform.processor() or platform.machine()} CPU"
    rows = [
        [
            m.case,
            m.learn,
            f"{m.forward_ms:.2f}",
            f"{m.round_ms:.2f}",
            f"{m.ratio:.2f}",
            f"{m.module_mib:.1f}",
            f"{m.learns_mib:.3f}",
            f"{m.remembered_mib:.2f}",
            f"{m.besides_mib:.3f}",
            f"{m.besides_mib / m.learns_mib:.1f}",
        ]
        for m in measured
    ]
    costs = ("forward ms", "round ms", "ratio")
    sizes = ("module MiB", "learns MiB", "remembered MiB", "besides MiB", "times what learns")
    columns = ("network", "learn", *costs, *sizes)
    notes = (
        "Round: ask and tell, every round with a label. Remembered: the features or samples of the memory.",
        "Besides: all other memory that the learner holds, beside the module that it was given.",
    )
    title = f"A round beside the forward pass alone, {name}, {torch.get_num_threads()} threads, {rounds} rounds"
    return Report([Table(title, columns, rows, notes)], {"device": name, "rows": [m._asdict() for m in measured]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A round of large networks beside their forward pass alone.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds that are timed, for each network")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of torch on the CPU")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for table in report(given.device, given.rounds).tables:
        show(table)
