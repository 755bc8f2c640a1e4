"""How the settings `tuned` and `shared` were chosen: on seeds that are not reported, by one rule for every method.

1. For every scale of the teacher's step: the largest sigma with which the teacher, playing alone on the stream itself,
   asks for no more than 95 % of the paper's label rate. Accuracy plays no part here.
2. Every method plays with every combination of the step sizes that it has (and, if it adapts itself, of the rates of
   its inner loops), on the held-out rows of the stream where there are some. Its own best are those with the highest
   mean accuracy. Nothing is asked about who wins.

`tuned` gives every method its own best. `shared`, the protocol of the paper, gives OSAMD's best to all. Rows are held
out on Rotating MNIST; on the other two streams only the seeds are, for the reasons in docs/deep.md.

    python -m osamd.reproduce.search rotating-mnist --device cuda --out docs/search
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.paper.methods import METHODS, Settings
from osamd.reproduce.column_fleets import load_samples, pretrain, silent
from osamd.reproduce.table_1 import TABLE_1
from osamd.reproduce.table_columns import CAP, COLUMNS, TableColumn, settings
from osamd.streams import RealStream

MARGIN_OF_BUDGET = 0.95
SEEDS = (100, 101)


class Space(NamedTuple):
    """What is tried."""

    etas: Sequence[float]
    scales: Sequence[float]
    sigmas: Sequence[float]
    loops: int
    inner_rates: Sequence[float] = (0.1, 0.3)
    rows: str = "reported"


def _sigmas(least: float, most: float) -> tuple[float, ...]:
    return tuple(float(f"{sigma:.3g}") for sigma in np.geomspace(least, most, 24))


SPACES = {
    "rotating-mnist": Space(
        etas=(5e-5, 1.5e-4, 5e-4, 1.5e-3, 5e-3),
        scales=(3e-4, 1e-3, 2e-3),
        sigmas=_sigmas(0.005, 0.6),
        loops=10,
        rows="held-out",
    ),
    "portraits": Space(
        etas=(1e-5, 5e-5, 2e-4, 1e-3, 5e-3),
        scales=(1e-5, 3e-5, 1e-4),
        sigmas=_sigmas(0.01, 0.6),
        loops=20,
    ),
    "cover-type": Space(
        etas=(1e-5, 1e-4, 1e-3, 1e-2, 3e-2),
        scales=(0.003, 0.01, 0.03, 0.06),
        sigmas=_sigmas(0.0005, 0.05),
        loops=5,
    ),
}


class Tried(NamedTuple):
    """A method with one combination of settings, and its means over the seeds."""

    method: str
    eta: float
    scale: float
    inner_rate: float
    sigma: float
    accuracy: float
    labels: float


def points_of(method: str, space: Space, sigmas: Mapping[float, float], label_rate: float) -> list[Settings]:
    """The combinations of a method: it varies what it uses, and has the first value of what it does not."""
    kind = METHODS[method]
    etas = space.etas[:1] if kind.teacher_decides else space.etas
    asks_or_trains = kind.query == "margin" or kind.self_training
    scales = list(sigmas) if asks_or_trains else list(sigmas)[:1]
    rates = space.inner_rates if kind.self_training else space.inner_rates[:1]
    return [
        settings(eta, sigmas[scale], CAP * scale, scale, space.loops, rate, label_rate)
        for eta, scale, rate in product(etas, scales, rates)
    ]


def play_all(
    column: TableColumn, stream: RealStream, some: Sequence[tuple[str, Settings]], seeds: Sequence[int], device: Any
) -> list[Tried]:
    """Play every method with its settings on every seed, in one fleet; a run that stopped counts as never right."""
    from osamd.fleet.fleet import Fleet, Member
    from osamd.fleet.play import play

    modules = pretrain(column, stream, seeds, device, silent())
    samples = load_samples(stream, seeds, stream.rounds)
    members = [
        Member(modules[s], method, point, s if len(samples.x) > 1 else 0, s)
        for method, point in some
        for s in range(len(seeds))
    ]
    fleet = Fleet(members, stream.shape, device=device, probabilities=column.probabilities)
    played = play(fleet, samples)
    stopped = {stop.member for stop in played.stopped}
    outcomes = []
    for i, (method, point) in enumerate(some):
        mine = range(i * len(seeds), (i + 1) * len(seeds))
        ledgers = [fleet.ledger(m, played.record, samples.y) for m in mine]
        right = [0.0 if m in stopped else one.accuracy for m, one in zip(mine, ledgers, strict=True)]
        rate = float(np.mean([one.label_rate for one in ledgers]))
        assert point.adaptation is not None
        steps = point.eta, point.teacher.scale, point.adaptation.rate, point.sigma
        outcomes.append(Tried(method, *steps, float(np.mean(right)), rate))
    return outcomes


def within_budget(alone: Sequence[Tried], budget: float) -> dict[float, float]:
    """The largest sigma for every scale whose labels are within the budget; scales without one are left out.

    >>> alone = [Tried("paa", 0.1, 2.0, 0.1, sigma, 0.9, labels) for sigma, labels in ((0.1, 0.02), (0.2, 0.04))]
    >>> within_budget(alone, budget=0.03)
    {2.0: 0.1}
    """
    found: dict[float, float] = {}
    for one in alone:
        if one.labels <= MARGIN_OF_BUDGET * budget:
            found[one.scale] = max(one.sigma, found.get(one.scale, 0.0))
    if not found:
        raise InputError("no sigma of the search keeps the teacher within the label rate; widen the search space.")
    return found


def best(some: Sequence[Tried], method: str) -> Tried:
    """The combination of the method with the highest accuracy; the first one where they are equal."""
    return max((one for one in some if one.method == method), key=lambda one: one.accuracy)


def search(name: str, device: str, data_dir: str | None) -> dict[str, Any]:
    """Run both steps; returns the space, everything that was tried, and the choice of every method."""
    import torch

    column, space, on = COLUMNS[name], SPACES[name], torch.device(device)
    budget = TABLE_1[name]["osamd"].labels.mean
    alone = [
        settings(space.etas[0], sigma, CAP * scale, scale, space.loops, space.inner_rates[0])
        for scale, sigma in product(space.scales, space.sigmas)
    ]
    teachers = play_all(column, column.stream(data_dir), [("paa", one) for one in alone], SEEDS, on)
    sigmas = within_budget(teachers, budget)
    stream = column.stream(data_dir, rows=space.rows)
    points = [
        (method, point) for method in METHODS for point in points_of(method, space, sigmas, MARGIN_OF_BUDGET * budget)
    ]
    tried = play_all(column, stream, points, SEEDS, on)
    return {
        "stream": name,
        "budget": budget,
        "seeds": list(SEEDS),
        "space": space._asdict(),
        "rows": dict(stream.facts),
        "teachers": [one._asdict() for one in teachers],
        "tried": [one._asdict() for one in sorted(tried, key=lambda one: (one.method, -one.accuracy))],
        "chosen": {method: best(tried, method)._asdict() for method in METHODS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose the settings of a column.")
    parser.add_argument("column", choices=list(SPACES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path("docs/search"))
    given = parser.parse_args()
    found = search(given.column, given.device, given.data_dir)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{given.column}.json").write_text(json.dumps(found, indent=1) + "\n")
    for one in found["chosen"].values():
        print(one)


if __name__ == "__main__":
    main()
