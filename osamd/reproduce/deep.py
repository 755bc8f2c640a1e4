"""The other three columns of Table 1, on real data: all runs of a column, as fleets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from osamd.errors import InputError, lookup
from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import KNOWN, METHODS, PRESET
from osamd.preset import arbiter
from osamd.reporting.terminal import Stages
from osamd.reproduce.column_fleets import (
    NetworkRun,
    load_samples,
    paper_fleet,
    play_fleet,
    preset_fleet,
    pretrain,
    silent,
)
from osamd.reproduce.table_columns import TableColumn, described

if TYPE_CHECKING:
    from torch import nn

    from osamd.fleet.fleet import Playing


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
    """The most memory that the GPU held, or the process where no GPU was used."""
    budget: float | None = None
    """The preset's budget, where it played."""


def require_torch() -> None:
    """Refuse where torch is missing, and say what to install."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError("networks need PyTorch: pip install 'osamd[deep]'.") from error


def experiment(
    column: TableColumn,
    methods: Sequence[str],
    seeds: int,
    which: str = "tuned",
    *,
    device: str | None = None,
    data_dir: str | Path | None = None,
    rounds: int | None = None,
    budget: float | None = None,
    checkpoint: Path | None = None,
    stages: Stages | None = None,
) -> ColumnOutcome:
    """Run a column: every method on seeds 0, ..., seeds - 1, in up to three phases of one fleet each.

    The methods that ask uniformly need OSAMD's label rate on the same seed. PAA's teacher asks for exactly the same
    labels as OSAMD's, so PAA plays first, and the paper's other methods play together after it. The preset plays last,
    with a memory that begins with source samples; `budget` is its budget, 5 % if None. The function is long because
    each phase needs what the phases before it gave.
    """
    import torch

    from osamd.fleet.devices import device_named, peak_memory_mib

    chosen = lookup("experiment", "settings", which, column.settings)
    on = device_named(device or ("cuda" if torch.cuda.is_available() else "cpu"), f"experiment(device={device!r})")
    stages = stages or silent()
    stream = column.stream(data_dir)
    rounds = stream.rounds if rounds is None else min(rounds, stream.rounds)
    numbers = list(range(seeds))
    modules = pretrain(column, stream, numbers, on, stages)
    stages.start(f"{column.title}: preparing the stream", 1)
    samples = load_samples(stream, numbers, rounds)
    stages.done(1)
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
            f"{METHODS[m].title}, seed {s}: not run, because PAA, which gives its label rate, stopped."
            for m, s in wanted
            if (m, s) not in tasks
        ]
        about = [
            column.name,
            column.batch_statistics(which),
            described(chosen),
            stream.facts,
            tasks,
            rates,
            rounds,
            on.type,
            budget,
        ]
        folder = None if checkpoint is None else checkpoint / f"{column.name}-{number}"
        if phase == [PRESET.name]:
            fleet: Playing = preset_fleet(column, stream, [(s, budget) for s in numbers], modules, on)
        else:
            fleet = paper_fleet(column, stream, which, tasks, rates, modules, on)
        done = play_fleet(column, fleet, tasks, samples, stages, folder, _identity(about, modules))
        runs |= done.runs
        stopped += done.stopped
        seconds, played, engine = seconds + done.seconds, played + done.rounds, done.engine
        rates |= {s: run.labels for (m, s), run in done.runs.items() if m == "paa"}
    machine = torch.cuda.get_device_name(on) if on.type == "cuda" else "CPU"
    speed = played / len(phases) / max(seconds, 1e-9)
    kept = {m: [runs.get((m, s)) for s in numbers] for m in methods}
    return ColumnOutcome(
        column=column,
        settings=which,
        rounds=rounds,
        facts=stream.facts,
        runs=kept,
        stopped=stopped,
        device=machine,
        engine=engine,
        rounds_per_second=speed,
        peak_memory_mib=peak_memory_mib(on),
        budget=arbiter.limits(budget, None)[0] if PRESET.name in methods else None,
    )


def _identity(about: Sequence[Any], modules: Sequence[nn.Module]) -> str:
    """A digest of everything that the run depends on, this version included; a checkpoint must have the same."""
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
