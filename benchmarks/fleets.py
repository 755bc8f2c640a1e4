"""Fleets of the paper's networks against plain eager loops, one model after another: the same work, one run."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from benchmarks.eager import Eager
from osamd.fleet.devices import device_named, peak_memory_mib
from osamd.fleet.engines import engine
from osamd.fleet.fleet import Fleet, Member, Samples
from osamd.paper.methods import METHODS, Settings
from osamd.reporting.tables import Report, Table
from osamd.reproduce.table_columns import COLUMNS

SEEDS = 10
SECONDS = 8.0
"""How long each of the two sides steps, for each network."""


class Case(NamedTuple):
    """A column whose network and settings are measured, on random samples of this shape."""

    title: str
    column: str
    shape: tuple[int, ...]
    classes: int


CASES = (
    Case("Cover-Type (MLP, 5 inner loops)", "cover-type", (54,), 2),
    Case("Rotating MNIST (CNN, 10 inner loops)", "rotating-mnist", (1, 28, 28), 10),
)


class Measured(NamedTuple):
    """Rounds of all models together in a second, eager and as a fleet, and what the fleet took."""

    case: str
    engine: str
    fleet_rounds_per_s: float
    eager_rounds_per_s: float
    fleet_us_per_model: float
    eager_us_per_model: float
    ratio: float
    peak_memory_mib: float


def measure(case: Case, device: torch.device, seconds: float = SECONDS) -> Measured:
    """Six methods on ten seeds: as one fleet, and as 60 eager loops, of which one of each method is run."""
    column = COLUMNS[case.column]
    chosen = column.settings["shared"]["osamd"]
    torch.manual_seed(0)
    modules = [column.network().eval() for _ in range(SEEDS)]
    rounds = 200_000 if len(case.shape) == 1 else 20_000
    samples = Samples(
        torch.randn(1, rounds, *case.shape),
        torch.randint(0, case.classes, (1, rounds)),
        torch.rand(SEEDS, rounds, dtype=torch.float64),
    ).to(device)
    members = [Member(modules[s], m, _with_rate(chosen), 0, s) for m in METHODS for s in range(SEEDS)]
    fleet = Fleet(members, case.shape, device=device, probabilities=column.probabilities)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    name, advance = engine(fleet, samples, fleet.record(rounds))
    together = _speed(advance, rounds, seconds)
    loops = [Eager(modules[0], fleet.numbers[i * SEEDS], column.probabilities, device) for i in range(len(METHODS))]

    def one_by_one(first: int, last: int) -> None:
        for t in range(first, last):
            x, y, u = samples.x[0, t], int(samples.y[0, t]), float(samples.u[0, t])
            for loop in loops:
                loop.step(x, y, u)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    alone = _speed(one_by_one, rounds, seconds) / SEEDS
    models = len(members)
    return Measured(
        case.title,
        name,
        together,
        alone,
        1e6 / together / models,
        1e6 / alone / models,
        together / alone,
        peak_memory_mib(device),
    )


def _with_rate(chosen: Settings) -> Settings:
    return replace(chosen, label_rate=0.03)


def _speed(advance: Callable[[int, int], None], rounds: int, seconds: float) -> float:
    """Rounds a second, after a warm-up, over about so many seconds."""
    advance(0, 8)
    t, count, spent = 8, 8, 0.0
    started = time.perf_counter()
    while spent < seconds and t + count <= rounds:
        advance(t, t + count)
        t += count
        spent = time.perf_counter() - started
        count = min(4 * count, 65_536)
    return (t - 8) / spent


def report(device: str) -> Report:
    """Both networks on a device."""
    on = device_named(device, f"measure(device={device!r})")
    measured = [measure(case, on) for case in CASES]
    name = torch.cuda.get_device_name(on) if on.type == "cuda" else f"{platform.processor() or platform.machine()} CPU"
    content: dict[str, Any] = {"device": name, "models": len(METHODS) * SEEDS, "rows": [m._asdict() for m in measured]}
    rows = [
        [
            m.case,
            m.engine,
            f"{m.fleet_us_per_model:,.1f}",
            f"{m.eager_us_per_model:,.0f}",
            f"{m.ratio:,.1f}",
            f"{m.fleet_rounds_per_s:,.0f}",
            f"{m.peak_memory_mib:,.0f}",
        ]
        for m in measured
    ]
    columns = ("network", "fleet by", "fleet us", "eager us", "ratio", "rounds/s of the fleet", "peak MiB")
    title = f"A model and round, {content['models']} models (6 methods x {SEEDS} seeds), {name}"
    return Report([Table(title, columns, rows)], content)
