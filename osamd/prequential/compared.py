"""The preset beside scikit-activeml and River on streams that come with packages, each started from nothing.

    python -m osamd.prequential.compared --strict --out results/tables

It needs both: pip install 'osamd[river,skactiveml]'. Writes tables.json and prints a table: accuracy by stream and
learner, and of how many streams the preset is ahead. With --strict there is a second one, in which a peer's query that
would break the promise that the preset keeps, asked <= budget t after every round t, is not answered and not counted.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError, require_number, require_whole
from osamd.evaluation.intervals import mean_90
from osamd.evaluation.many import run_many
from osamd.methods import PRESET
from osamd.numerics import Array
from osamd.prequential.label_runs import Task, played
from osamd.prequential.labels import point
from osamd.prequential.peers import PEERS, Score
from osamd.prequential.shipped import SHIPPED
from osamd.reproduce.results import Report, Table, in_seeds, in_words
from osamd.streams.base import Labels
from osamd.terminal import files, progress

LEARNERS = {PRESET.name: PRESET.title} | {name: peer.title for name, peer in PEERS.items()}
BEST = "the best of them on each stream, looking back"
Found = dict[str, dict[str, list[Score]]]
"""By stream and learner: a score for every seed."""


class Tally(NamedTuple):
    """On how many streams the preset's mean is ahead of a peer's, and on how many it clearly is, or clearly is not.

    Clearly: the 90 % interval of the difference over the seeds, each on the same rows, leaves out 0.
    """

    ahead: int
    clearly_ahead: int
    clearly_behind: int
    streams: int
    difference: float
    """The mean over the streams, a share of the rounds."""


def compare(
    streams: Sequence[str] = tuple(SHIPPED),
    *,
    budget: float = 0.05,
    seeds: int = 3,
    rounds: int = 3000,
    strict: bool = False,
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Found:
    """Play all learners on the same rows; a seed draws the rows and the queries."""
    require_peers()
    with tempfile.TemporaryDirectory(prefix="osamd-compared-") as folder:
        tasks = {}
        for number, stream in enumerate(streams):
            for seed in range(seeds):
                x, y = SHIPPED[stream](seed, rounds)
                place = str(Path(folder) / f"{number}-{seed}.npz")
                np.savez(place, x=x, y=y, first=x[:0], known=y[:0], classes=int(y.max()) + 1)
                for name in LEARNERS:
                    tasks[stream, name, seed] = Task(place, len(y), 0, name, budget, seed, strict)
        scores = run_many(played, list(tasks.values()), workers=workers, progress=progress)
    found: Found = {}
    for (stream, name, _), score in zip(tasks, scores, strict=True):
        found.setdefault(stream, {}).setdefault(name, []).append(score)
    return found


def require_peers() -> None:
    for peer in PEERS.values():
        if not peer.installed:
            raise InputError(f"`compare`: {peer.package} is not installed; pip install 'osamd[river,skactiveml]'.")


def tally(found: Found, peer: str | None) -> Tally:
    """The preset against one peer; None: against the one with the highest mean on each stream, looking back."""
    gaps = []
    for learners in found.values():
        accuracies = {name: np.array([one.accuracy for one in scores]) for name, scores in learners.items()}
        best = max(PEERS, key=lambda name: float(accuracies[name].mean()))
        gaps.append(mean_90(accuracies[PRESET.name] - accuracies[peer or best]))
    sure = [gap.mean for gap in gaps if gap.half_width_90 is not None and abs(gap.mean) > gap.half_width_90]
    return Tally(
        sum(gap.mean > 0 for gap in gaps),
        sum(one > 0 for one in sure),
        sum(one < 0 for one in sure),
        len(gaps),
        float(np.mean([gap.mean for gap in gaps])),
    )


def tallies(found: Found) -> dict[str, Tally]:
    """By title, the best of them last."""
    return {peer.title: tally(found, name) for name, peer in PEERS.items()} | {BEST: tally(found, None)}


def content(found: Found, budget: float) -> dict[str, Any]:
    """The content of tables.json for one way to play; accuracies and labels are shares of the rounds."""
    return {
        "streams": {
            stream: {
                name: {
                    **{key: mean._asdict() for key, mean in point(budget, scores)._asdict().items() if key != "budget"},
                    "seeds": [one._asdict() for one in scores],
                }
                for name, scores in learners.items()
            }
            for stream, learners in found.items()
        },
        "preset_against": {title: one._asdict() for title, one in tallies(found).items()},
    }


def size(x: Array, y: Labels) -> dict[str, int]:
    return {"rounds": len(y), "features": int(x.shape[1]), "classes": int(y.max()) + 1}


def table(found: Found, title: str) -> Table:
    """Accuracy % (labels %) by stream and learner, and below it who is ahead."""
    rows = []
    for stream, learners in found.items():
        points = [point(None, scores) for scores in learners.values()]
        rows.append([stream, *(f"{in_words(one.accuracy, 1, 0.01)} ({100 * one.labels.mean:.1f})" for one in points)])
    notes = [
        f"Ahead of {peer} on {one.ahead} of {one.streams} streams (clearly on {one.clearly_ahead}, clearly behind on"
        f" {one.clearly_behind}); on average by {100 * one.difference:+.1f} points."
        for peer, one in tallies(found).items()
    ]
    narrow = ["\n".join(name.split()) for name in LEARNERS.values()]
    return Table(title, ["stream", *narrow], rows, notes)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m osamd.prequential.compared", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="also with every peer held to the budget at every round")
    parser.add_argument("--budget", type=float, default=0.05, help="share of the rounds (0.05)")
    parser.add_argument("--rounds", type=int, default=3000, help="at most, of each stream (3000)")
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ... (3)")
    parser.add_argument("--streams", nargs="+", choices=SHIPPED, default=list(SHIPPED), metavar="NAME")
    parser.add_argument("--workers", type=int, help="processes, all cores by default")
    parser.add_argument("--out", type=Path, default=Path("results/tables"), help="folder for tables.json")
    given = parser.parse_args(arguments)
    try:
        require_peers()
        require_number("compare", "--budget", given.budget, lambda v: 0.0 < v <= 1.0, "a share of the rounds, as 0.05.")
        for option in ("rounds", "seeds"):
            require_whole("compare", f"--{option}", getattr(given, option))
    except InputError as error:
        parser.error(str(error))
    settings = {"budget": given.budget, "seeds": given.seeds, "rounds": given.rounds}
    ways = {"as_they_are": False} | ({"strict": True} if given.strict else {})
    said: dict[str, Any] = {**settings, "versions": {peer.package: peer.version for peer in PEERS.values()}}
    said["streams"] = {stream: size(*SHIPPED[stream](0, given.rounds)) for stream in given.streams}
    tables = []
    with files(given.out, "tables.json") as deliver:
        for way, strict in ways.items():
            with progress(way, len(given.streams) * given.seeds * len(LEARNERS)) as told:
                found = compare(given.streams, **settings, strict=strict, workers=given.workers, progress=told)
            held = ", every peer held to the budget at every round" if strict else ""
            interval = in_seeds(given.seeds, ", mean ± half-width of the 90 % interval")
            tables.append(table(found, f"Accuracy % (labels %) from nothing{held}, {interval}"))
            said[way] = content(found, given.budget)
        deliver(Report(tables, said))


if __name__ == "__main__":
    main()
