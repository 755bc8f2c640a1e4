"""How the `tuned` settings were chosen: on seeds that are not reported, and on rows that are not, where possible.

Two steps, both as fleets:

1. On the held-out rows of the stream (`rows="held-out"`), seeds 100 and up: run OSAMD for every step size of the
   student, step of the teacher and sigma of the space, and PAA for every step of the teacher and sigma; then, with the
   best steps, OSAMD for every rate of the inner loops. The budget is the paper's label rate. The best steps have the
   highest accuracy at the budget, interpolated between the sigmas, among all steps with which OSAMD is ahead of its
   parts: of PAA, whose teacher decides alone, and of its student without self-adaptation. A student that copies its
   teacher, or that is better off without it, says nothing about the method. On Portraits OSAMD must also be near OMD
   (all), which has the same step size. On Portraits and Cover-Type only the seeds are held out, for the reasons in
   docs/deep.md.
2. On the rows of the stream itself, seeds 100 and up: run the teacher alone, which makes all queries, and choose the
   largest sigma whose label rate stays within 95 % of the budget. Accuracy plays no part here.

    python -m osamd.reproduce.search rotating-mnist --device cuda --out docs/search
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.paper.methods import Settings
from osamd.reproduce.column_fleets import load_samples, pretrain, silent
from osamd.reproduce.columns import COLUMNS, TableColumn, settings
from osamd.reproduce.paper import TABLE_1
from osamd.streams import RealStream

CAP = 2.2
"""The ratio of the cap of tau to its scale: about that of the appendix (2.2, 2.1 and 2)."""

MARGIN_OF_BUDGET = 0.95


class Space(NamedTuple):
    """What is tried: every eta with every scale and sigma; inner rates; and `fine` sigmas for the second step."""

    etas: Sequence[float]
    scales: Sequence[float]
    sigmas: Sequence[float]
    fine: Sequence[float]
    loops: int
    inner_rates: Sequence[float] = (0.1, 0.03, 0.3)
    """The grid uses the first of them."""
    rows: str = "held-out"
    seeds: Sequence[int] = (100, 101)
    gap: float = 1.0
    """How far behind OMD (all), which has every label and the same step size, OSAMD may be."""


SPACES = {
    "rotating-mnist": Space(
        etas=(3e-5, 1e-4, 2e-4, 5e-4),
        scales=(3e-4, 6e-4, 1e-3, 1.5e-3),
        sigmas=(0.02, 0.04, 0.08, 0.16),
        fine=tuple(float(s) for s in np.geomspace(0.01, 0.6, 40).round(4)),
        loops=10,
    ),
    "portraits": Space(
        etas=(2e-5, 2.5e-5, 3e-5, 4e-5),
        scales=(1.5e-5, 2e-5, 2.5e-5),
        sigmas=(0.165,),
        fine=tuple(float(s) for s in np.geomspace(0.1, 0.24, 32).round(4)),
        loops=20,
        inner_rates=(0.1,),
        rows="reported",
        seeds=tuple(range(100, 110)),
        gap=0.019,
    ),
    "cover-type": Space(
        etas=(1e-5, 3e-5, 1e-4),
        scales=(0.02, 0.03, 0.04, 0.06, 0.08),
        sigmas=(0.005, 0.008, 0.012, 0.02),
        fine=tuple(float(s) for s in np.geomspace(0.003, 0.03, 40).round(5)),
        loops=5,
        rows="reported",
    ),
}


class Tried(NamedTuple):
    """One point of the space and its results: means over the seeds."""

    eta: float
    scale: float
    inner_rate: float
    sigma: float
    accuracy: float
    labels: float
    paa: float = 0.0
    """The accuracy of PAA, with the same teacher."""
    omd_all: float = 0.0
    """The accuracy of OMD (all), with the same step size of the student."""
    without_self: float = 0.0
    """The accuracy of OSAMD without self-adaptation, with the same settings."""


AHEAD = 0.0006
"""The lead that OSAMD must have over PAA, and over itself without self-adaptation."""


def tried(
    column: TableColumn, stream: RealStream, method: str, points: Sequence[Settings], seeds: Sequence[int], device: Any
) -> list[Tried]:
    """Try every point on every seed, in one fleet; a point with a run whose scores were not finite has accuracy 0."""
    from osamd.fleet.fleet import Fleet, Member
    from osamd.fleet.play import play

    modules = pretrain(column, stream, seeds, device, silent())
    samples = load_samples(stream, seeds, stream.rounds)
    members = [
        Member(modules[s], method, point, s if len(samples.x) > 1 else 0, s)
        for point in points
        for s in range(len(seeds))
    ]
    fleet = Fleet(members, stream.shape, device=device, probabilities=column.probabilities)
    played = play(fleet, samples)
    stopped = {stop.member for stop in played.stopped}
    outcomes = []
    for i, point in enumerate(points):
        mine = range(i * len(seeds), (i + 1) * len(seeds))
        ledgers = [fleet.ledger(m, played.record, samples.y) for m in mine]
        assert point.adaptation is not None
        outcomes.append(
            Tried(
                point.eta,
                point.teacher.scale,
                point.adaptation.rate,
                point.sigma,
                0.0 if stopped & set(mine) else float(np.mean([one.accuracy for one in ledgers])),
                float(np.mean([one.label_rate for one in ledgers])),
            )
        )
    return outcomes


def best_steps(some: Sequence[Tried], budget: float, gap: float = 1.0) -> tuple[float, float, float]:
    """The (eta, scale, inner rate) with the highest accuracy at the budget, where OSAMD is ahead of its parts.

    Its parts are PAA and OSAMD without self-adaptation. It must also be less than the gap behind OMD (all).

    Accuracy is interpolated between the sigmas, in the logarithm of their label rates. Steps whose sigmas all ask for
    more than the budget are left out, and those whose sigmas all ask for less count as they are.

    >>> tried = [Tried(0.1, 1.0, 0.1, 0.5, 0.8, 0.01), Tried(0.1, 1.0, 0.1, 0.9, 0.9, 0.04)]
    >>> best_steps([*tried, Tried(0.2, 1.0, 0.1, 0.5, 0.84, 0.01)], budget=0.02)
    (0.1, 1.0, 0.1)
    """
    by_steps: dict[tuple[float, float, float], list[tuple[float, ...]]] = {}
    for one in some:
        steps = one.eta, one.scale, one.inner_rate
        by_steps.setdefault(steps, []).append((one.labels, one.accuracy, max(one.paa, one.without_self), one.omd_all))
    at_budget = {}
    for steps, points in by_steps.items():
        labels, *accuracies = np.array(sorted(points)).T
        osamd, parts, omd_all = (float(np.interp(np.log(budget), np.log(labels), some)) for some in accuracies)
        if labels[0] <= budget and osamd > parts + AHEAD and osamd > omd_all - gap:
            at_budget[steps] = osamd
    if not at_budget:
        raise InputError(
            "the search found no steps with which OSAMD is ahead of PAA and of itself without self-adaptation, and near"
            " enough to OMD (all), within the budget; widen its space."
        )
    return max(at_budget, key=lambda steps: at_budget[steps])


def search(name: str, device: str, data_dir: str | None, seeds: int | None = None) -> dict[str, Any]:
    """Run both steps; returns the space, everything that was tried, and the choice."""
    import torch

    column, space, on = COLUMNS[name], SPACES[name], torch.device(device)
    numbers = space.seeds[:seeds]
    budget = TABLE_1[name]["osamd"].labels.mean

    def point(eta: float, scale: float, inner_rate: float, sigma: float) -> Settings:
        return settings(eta, sigma, cap=CAP * scale, scale=scale, loops=space.loops, inner_rate=inner_rate)

    stream = column.stream(data_dir, rows=space.rows)
    usual = space.inner_rates[0]
    teachers = [point(space.etas[0], scale, usual, sigma) for scale in space.scales for sigma in space.sigmas]
    paa = {(one.scale, one.sigma): one.accuracy for one in tried(column, stream, "paa", teachers, numbers, on)}
    every_eta = [point(eta, space.scales[0], usual, space.sigmas[0]) for eta in space.etas]
    omd_all = {one.eta: one.accuracy for one in tried(column, stream, "omd-all", every_eta, numbers, on)}

    def students(points: Sequence[Settings]) -> list[Tried]:
        whole = tried(column, stream, "osamd", points, numbers, on)
        without = tried(column, stream, "osamd-no-self-adaptation", points, numbers, on)
        return [
            one._replace(paa=paa[one.scale, one.sigma], omd_all=omd_all[one.eta], without_self=other.accuracy)
            for one, other in zip(whole, without, strict=True)
        ]

    first = students(
        [point(eta, scale, usual, sigma) for eta in space.etas for scale in space.scales for sigma in space.sigmas]
    )
    eta, scale, inner_rate = best_steps(first, budget, space.gap)
    if others := [point(eta, scale, rate, sigma) for rate in space.inner_rates[1:] for sigma in space.sigmas]:
        first += students(others)
        eta, scale, inner_rate = best_steps(first, budget, space.gap)
    fine = [point(eta, scale, inner_rate, sigma) for sigma in space.fine]
    second = tried(column, column.stream(data_dir), "paa", fine, numbers, on)
    sigma = max(one.sigma for one in second if one.labels <= MARGIN_OF_BUDGET * budget)
    return {
        "stream": name,
        "budget": budget,
        "space": space._asdict(),
        "rows": dict(stream.facts),
        "step_sizes": [one._asdict() for one in sorted(first, key=lambda one: -one.accuracy)],
        "sigmas": [{"sigma": one.sigma, "labels": one.labels} for one in second],
        "chosen": {"eta": eta, "scale": scale, "inner_rate": inner_rate, "sigma": sigma},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose the tuned settings of a column.")
    parser.add_argument("column", choices=list(SPACES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path("docs/search"))
    given = parser.parse_args()
    found = search(given.column, given.device, given.data_dir)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{given.column}.json").write_text(json.dumps(found, indent=1) + "\n")
    for one in found["step_sizes"][:12]:
        print({k: round(v, 5) for k, v in one.items()})
    print("chosen:", found["chosen"])


if __name__ == "__main__":
    main()
