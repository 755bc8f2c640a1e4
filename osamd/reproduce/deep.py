"""The other three columns of Table 1, on real data: all runs of a column as fleets."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.accounting.budget import budget, open_book
from osamd.errors import InputError, lookup
from osamd.evaluation.intervals import Mean, mean_90
from osamd.numerics import Array
from osamd.paper.methods import KNOWN, METHODS, PRESET, Settings
from osamd.preset import arbiter
from osamd.reporting.terminal import Stages
from osamd.reproduce.columns import COLUMNS, TableColumn, described
from osamd.streams import RealStream
from osamd.streams.base import query_generator

if TYPE_CHECKING:
    import torch
    from torch import nn

    from osamd.fleet.fleet import Fleet, Playing, Samples
    from osamd.fleet.preset_fleet import PresetFleet

CURVE_POINTS = 1000
"""Of the accumulated loss, for the figure."""


def curve_rounds(rounds: int) -> NDArray[np.int64]:
    """The rounds, counted from 1, at which the accumulated loss is kept; the last is one of them."""
    return np.unique(np.linspace(1, rounds, min(rounds, CURVE_POINTS)).astype(np.int64))


class NetworkRun(NamedTuple):
    """What one run reports: fractions of the rounds, and the accumulated loss at `curve_rounds`."""

    accuracy: float
    labels: float
    pseudolabel_error_rate: float
    loss: Array


class ColumnOutcome(NamedTuple):
    """All runs of a column, by method and seed; None in place of a run whose scores were not finite."""

    column: TableColumn
    settings: str
    rounds: int
    facts: Mapping[str, Any]
    runs: Mapping[str, Sequence[NetworkRun | None]]
    stopped: Sequence[str]
    """A sentence for each run that stopped."""
    device: str
    engine: str
    rounds_per_second: float
    peak_memory_mib: float
    """Of the GPU where one was used, else of the process."""
    budget: float | None = None
    """The preset's, where it played."""


def require_torch() -> None:
    """Say what to install where torch is missing."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError("networks need PyTorch: pip install 'osamd[deep]'.") from error


def forget(checkpoint: Path) -> None:
    """Delete the checkpoints of a run that is over."""
    shutil.rmtree(checkpoint, ignore_errors=True)


def silent() -> Stages:
    return Stages(lambda stage, total: None, lambda done: None)


def load_samples(stream: RealStream, seeds: Sequence[int], rounds: int) -> Samples:
    """The first rounds for every seed; streams that are the same for all seeds are held once."""
    import torch

    from osamd.fleet.fleet import Samples

    drawn = seeds if stream.drawn_by_seed else seeds[:1]
    blocks = [stream.take(seed, stream.source_size, stream.source_size + rounds) for seed in drawn]
    x = torch.stack([torch.from_numpy(x).float() for x, _ in blocks])
    y = torch.stack([torch.from_numpy(y) for _, y in blocks])
    u = torch.stack([torch.from_numpy(query_generator(seed).random(stream.rounds)[:rounds]) for seed in seeds])
    return Samples(x.unflatten(2, stream.shape), y, u)


def pretrain(
    column: TableColumn, stream: RealStream, seeds: Sequence[int], device: torch.device, told: Stages
) -> list[nn.Module]:
    """The network trained on the source, one for every seed."""
    from osamd.reproduce.networks import pretrained

    training = column.training()
    told.start(f"{column.title}: training on the source", len(seeds) * training.epochs)
    epochs = 0

    def epoch() -> None:
        nonlocal epochs
        epochs += 1
        told.done(epochs)

    return [
        pretrained(column.network, training, partial(source_of, stream, seed), seed, device, stream.facts, epoch)
        for seed in seeds
    ]


def source_of(stream: RealStream, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The labelled source samples of a seed, in the shape the network takes."""
    import torch

    x, y = stream.source(seed=seed)
    return torch.from_numpy(x).float().unflatten(1, stream.shape), torch.from_numpy(y)


class Phase(NamedTuple):
    """What one fleet of an experiment brought: runs by (method, seed), a sentence for each that stopped, its speed."""

    runs: dict[tuple[str, int], NetworkRun]
    stopped: list[str]
    engine: str
    rounds: int
    seconds: float


def experiment(
    name: str,
    methods: Sequence[str],
    seeds: int,
    which: str = "tuned",
    *,
    device: str | None = None,
    data_dir: str | Path | None = None,
    rounds: int | None = None,
    budget: float | None = None,
    checkpoint: Path | None = None,
    told: Stages | None = None,
) -> ColumnOutcome:
    """Run a column: every method on seeds 0, ..., seeds - 1, each phase one fleet.

    The methods that ask uniformly need OSAMD's label rate on the same seed. PAA's teacher asks for exactly the same
    labels as OSAMD's, so PAA plays first, and the paper's others together after it. `budget` is the preset's, 5 %
    where it is None; it plays last, and begins with a memory of source samples.
    """
    import torch

    from osamd.fleet.devices import device_named, peak_memory_mib

    column = COLUMNS[name]
    chosen = lookup("experiment", "settings", which, column.settings)
    on = device_named(device or ("cuda" if torch.cuda.is_available() else "cpu"), f"--device {device}")
    told = told or silent()
    stream = column.stream(data_dir)
    rounds = stream.rounds if rounds is None else min(rounds, stream.rounds)
    numbers = list(range(seeds))
    modules = pretrain(column, stream, numbers, on, told)
    told.start(f"{column.title}: preparing the stream", 1)
    samples = load_samples(stream, numbers, rounds)
    told.done(1)
    paper = [m for m in methods if m != PRESET.name]
    uniform = any(METHODS[m].query == "uniform" for m in paper)
    rates: dict[int, float] = {}
    runs: dict[tuple[str, int], NetworkRun] = {}
    stopped: list[str] = []
    seconds, played, engine = 0.0, 0, ""
    phases = [["paa"], [m for m in paper if m != "paa"]] if uniform else [paper]
    phases = [phase for phase in (*phases, [PRESET.name] if PRESET.name in methods else []) if phase]
    for number, phase in enumerate(phases):
        wanted = [(m, s) for m in phase for s in numbers]
        tasks = [(m, s) for m, s in wanted if KNOWN[m].query != "uniform" or s in rates]
        stopped += [
            f"{METHODS[m].title}, seed {s}: not run, for PAA, which gives its label rate, stopped."
            for m, s in wanted
            if (m, s) not in tasks
        ]
        about = [column.name, described(chosen), stream.facts, tasks, rates, rounds, on.type, budget]
        folder = None if checkpoint is None else checkpoint / f"{name}-{number}"
        if phase == [PRESET.name]:
            fleet: Playing = _preset_fleet(column, stream, numbers, modules, budget, on)
        else:
            fleet = _fleet(column, stream, chosen, tasks, rates, modules, on)
        done = _play(column, fleet, tasks, samples, told, folder, _identity(about, modules))
        runs |= done.runs
        stopped += done.stopped
        seconds, played, engine = seconds + done.seconds, played + done.rounds, done.engine
        rates |= {s: run.labels for (m, s), run in done.runs.items() if m == "paa"}
    machine = torch.cuda.get_device_name(on) if on.type == "cuda" else "CPU"
    speed = played / len(phases) / max(seconds, 1e-9)
    kept = {m: [runs.get((m, s)) for s in numbers] for m in methods}
    facts = (
        machine,
        engine,
        speed,
        peak_memory_mib(on),
        arbiter.limits(budget, None)[0] if PRESET.name in methods else None,
    )
    return ColumnOutcome(column, which, rounds, stream.facts, kept, stopped, *facts)


def _rows(stream: RealStream, seed: int) -> tuple[int, int]:
    """A member's rows of samples and of uniforms."""
    return seed if stream.drawn_by_seed else 0, seed


def _fleet(
    column: TableColumn,
    stream: RealStream,
    chosen: Settings,
    tasks: Sequence[tuple[str, int]],
    rates: Mapping[int, float],
    modules: Sequence[nn.Module],
    device: torch.device,
) -> Fleet:
    """A member for every (method, seed) of `tasks`."""
    from osamd.fleet.fleet import Fleet, Member

    members = [Member(modules[s], m, settings_of(chosen, m, rates.get(s)), *_rows(stream, s)) for m, s in tasks]
    return Fleet(members, stream.shape, device=device, probabilities=column.probabilities)


def _preset_fleet(
    column: TableColumn,
    stream: RealStream,
    seeds: Sequence[int],
    modules: Sequence[nn.Module],
    share: float | None,
    device: torch.device,
) -> PresetFleet:
    """The preset for every seed, with a memory of its source."""
    from osamd.fleet.preset_fleet import PresetFleet, PresetMember, remembered

    members = []
    for seed in seeds:
        x, y = source_of(stream, seed)
        drawn = remembered(len(y), seed)
        members.append(PresetMember(modules[seed], *_rows(stream, seed), (x[drawn], y[drawn])))
    rate, floor = arbiter.limits(share, None, arbiter.NETWORK_AUDIT)
    books = np.stack([open_book(budget(rate, floor=floor), 1.0, PRESET.query) for _ in seeds])
    return PresetFleet(members, stream.shape, books, device=device, probabilities=column.probabilities)


def _play(
    column: TableColumn,
    fleet: Playing,
    tasks: Sequence[tuple[str, int]],
    samples: Samples,
    told: Stages,
    checkpoint: Path | None,
    identity: str,
) -> Phase:
    """One fleet, with a member for every (method, seed) of `tasks`."""
    from osamd.fleet.play import play

    rounds = samples.y.shape[1]
    told.start(f"{column.title}: {len(fleet)} models", rounds)
    played = play(fleet, samples, checkpoint=checkpoint, identity=identity, progress=told.done)
    ended = {stop.member: stop.round for stop in played.stopped}
    stopped = [
        f"{KNOWN[m].title}, seed {s}: its scores were not finite in round {ended[i]}."
        for i, (m, s) in enumerate(tasks)
        if i in ended
    ]
    runs = {}
    for i, task in enumerate(tasks):
        if i not in ended:
            ledger = fleet.ledger(i, played.record, samples.y)
            errors = ledger.pseudolabel_errors / rounds
            loss = ledger.accumulated_loss[curve_rounds(rounds) - 1]
            runs[task] = NetworkRun(ledger.accuracy, ledger.label_rate, errors, loss)
    return Phase(runs, stopped, played.engine, played.rounds, played.seconds)


def settings_of(chosen: Settings, method: str, label_rate: float | None) -> Settings:
    """The settings for one method and seed: the uniform ones get the label rate of the margin rule."""
    return replace(chosen, label_rate=label_rate) if METHODS[method].query == "uniform" else chosen


def _identity(about: Sequence[Any], modules: Sequence[nn.Module]) -> str:
    """What a checkpoint must have been made from: all that the run depends on, and this version."""
    from osamd import __version__

    digest = hashlib.sha256(json.dumps([__version__, *about], sort_keys=True, default=str).encode())
    for module in modules:
        for tensor in module.state_dict().values():
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def differences(runs: Mapping[str, Sequence[NetworkRun | None]]) -> dict[str, Mean]:
    """OSAMD's accuracy minus each other method's, seed by seed, where both finished."""
    if "osamd" not in runs:
        return {}
    pairs = {
        name: [a.accuracy - b.accuracy for a, b in zip(runs["osamd"], some, strict=True) if a and b]
        for name, some in runs.items()
        if name != "osamd"
    }
    return {name: mean_90(some) for name, some in pairs.items() if some}
