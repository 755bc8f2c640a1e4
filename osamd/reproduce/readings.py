"""Readings of the appendix: what it leaves open about the networks, tried one against the other at its own settings.

    python -m osamd.reproduce.readings rotating-mnist --device cuda --data-dir data

The appendix gives step sizes, but neither the padding of the convolutions, nor how the weights begin, nor which
statistics BatchNorm uses while the network adapts, nor whether a student takes a step of eta in a round or in each of
its inner loops. A reading fixes all four. Each plays the six methods with the settings `paper`, and a cell of Table 1
is met if our mean differs from the paper's by no more than both half-widths.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import METHODS
from osamd.reporting.tables import Table
from osamd.reproduce.deep import ColumnOutcome, experiment
from osamd.reproduce.table_1 import TABLE_1
from osamd.reproduce.table_columns import COLUMNS, TableColumn, for_all


class AppendixReading(NamedTuple):
    """What the appendix leaves open."""

    padding: int
    """The padding of the convolutions: 2, as in the work that the paper follows, or 0, PyTorch's default."""
    initialisation: str
    batch_statistics: str
    steps: str = "round"
    """What eta is the step of: a "round", or a "loop", so that a round has as many of them as there are inner loops."""

    @property
    def title(self) -> str:
        """
        >>> AppendixReading(2, "Glorot", "training").title
        "padding 2, Glorot's weights, statistics of the training, eta per round"
        """
        network = f"padding {self.padding}, {self.initialisation}'s weights"
        return f"{network}, statistics of the {self.batch_statistics}, eta per {self.steps}"


READINGS = (
    AppendixReading(2, "Glorot", "training"),
    *(
        AppendixReading(padding, initialisation, "sample", steps)
        for padding, initialisation in ((2, "Glorot"), (0, "PyTorch"))
        for steps in ("round", "loop")
    ),
)
SIDES = {"rotating-mnist": (28, 10), "portraits": (32, 2)}
"""The side of the images and the number of classes: the columns with convolutions, which the readings are about."""


def read(name: str, reading: AppendixReading) -> TableColumn:
    """A column as the reading has it."""
    from osamd.reproduce.networks import convolutional

    column = COLUMNS[name]
    paper = column.settings["paper"]["osamd"]
    if reading.steps == "loop" and paper.adaptation is not None:
        paper = replace(paper, eta=paper.eta * paper.adaptation.number)
    return replace(
        column,
        network=partial(convolutional, *SIDES[name], padding=reading.padding),
        training=lambda: column.training()._replace(initialisation=reading.initialisation),
        settings={"paper": for_all(paper)},
        appendix_statistics=reading.batch_statistics,
    )


def cells(outcome: ColumnOutcome) -> dict[str, dict[str, Any]]:
    """Ours beside the paper's, for every method: accuracy and labels, and whether each is met."""
    found = {}
    for method, paper in TABLE_1[outcome.column.name].items():
        runs = [run for run in outcome.runs.get(method, []) if run is not None]
        if runs:
            accuracy, labels = mean_90([run.accuracy for run in runs]), mean_90([run.labels for run in runs])
            found[method] = {
                "accuracy": accuracy._asdict(),
                "labels": labels._asdict(),
                "finished": len(runs),
                "accuracy_met": met(accuracy, paper.accuracy),
                "labels_met": met(labels, paper.labels),
            }
    return found


def met(ours: Mean, theirs: Mean) -> bool:
    """Whether the means differ by no more than both half-widths.

    >>> met(Mean(0.86, 0.005), Mean(0.868, 0.008)), met(Mean(0.85, 0.005), Mean(0.868, 0.008))
    (True, False)
    """
    return abs(ours.mean - theirs.mean) <= (ours.half_width_90 or 0.0) + (theirs.half_width_90 or 0.0)


def shown(name: str, read_cells: Iterable[tuple[AppendixReading, dict[str, dict[str, Any]]]]) -> Table:
    """A row for every reading, a column for every method; a star marks the cells that are met."""
    rows = []
    for reading, found in read_cells:
        row = [reading.title]
        for method in METHODS:
            cell = found.get(method)
            star = " *" if cell and cell["accuracy_met"] else ""
            row.append(f"{100 * cell['accuracy']['mean']:.1f}{star}" if cell else "")
        asked = found.get("paa")
        star = " *" if asked and asked["labels_met"] else ""
        rows.append([*row, f"{100 * asked['labels']['mean']:.1f}{star}" if asked else ""])
    paper = TABLE_1[name]
    last = [f"{100 * paper[method].accuracy.mean:.1f}" for method in METHODS]
    rows.append(["the paper", *last, f"{100 * paper['paa'].labels.mean:.1f}"])
    heads = ("reading", *(METHODS[method].title for method in METHODS), "labels %")
    return Table(f"{COLUMNS[name].title} at the appendix's settings, accuracy %", heads, rows, [])


def main() -> None:
    parser = argparse.ArgumentParser(description="Try the readings of the appendix on a column.")
    parser.add_argument("column", choices=list(SIDES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--device")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    tried = []
    for reading in READINGS:
        outcome = experiment(
            read(given.column, reading),
            list(METHODS),
            given.seeds,
            "paper",
            device=given.device,
            data_dir=given.data_dir,
            rounds=given.rounds,
        )
        tried.append((reading, cells(outcome)))
        print(f"{reading.title}: {sum(cell['accuracy_met'] for cell in tried[-1][1].values())} of 6", flush=True)
    content = {
        "stream": given.column,
        "seeds": given.seeds,
        "rounds": outcome.rounds,
        "device": outcome.device,
        "readings": [{**reading._asdict(), "methods": found} for reading, found in tried],
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"readings-{given.column}.json").write_text(json.dumps(content, indent=1) + "\n")
    table = shown(given.column, tried)
    for row in (table.columns, *table.rows):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
