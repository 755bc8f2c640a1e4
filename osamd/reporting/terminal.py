"""What a command shows and writes: progress, tables, and its files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from osamd.reporting.tables import Report, Table


class Stages(NamedTuple):
    """The progress of an experiment: `start` takes the next stage and its size, `done` how much of it is done."""

    start: Callable[[str, int], None]
    done: Callable[[int], None]


@contextmanager
def files(folder: Path, json: str, stem: str | None = None) -> Iterator[Callable[[Report], None]]:
    """Check what can be checked before the work; then yield a function that writes and prints its report."""
    from osamd.evaluation import plots
    from osamd.files import together

    if stem:
        plots.require_matplotlib()
    taken: list[Report] = []
    try:
        with together(folder, [json, *(plots.file_names(stem) if stem else ())]) as files:

            def deliver(report: Report) -> None:
                taken.append(report)
                files.write_json(json, report.content)
                if stem and report.figure:
                    plots.save(report.figure, files, stem)

            yield deliver
    finally:
        # Print after the files are written, so that a reader that stops early (| head) cannot prevent them.
        for table in (table for report in taken for table in report.tables):
            show(table)
    print("Wrote:")
    for path in files.paths:
        print(f"  {path}")


@contextmanager
def resumable(folder: Path, name: str = ".runs") -> Iterator[Path]:
    """A folder in that of the command, for finished runs until all are there; after an interruption it is named."""
    kept = folder / name
    try:
        yield kept
    except KeyboardInterrupt:
        if kept.exists():
            print(f"osamd: the same command goes on from {kept}.", file=sys.stderr)
        raise
    shutil.rmtree(kept, ignore_errors=True)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar with the time left, if the output is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def stages() -> Iterator[Stages]:
    """A progress bar for one stage after the other, with speed and time left, if the output is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Task as Stage
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Stage) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        stages: list[Any] = []
        yield Stages(
            lambda stage, total: stages.append(bar.add_task(stage, total=total)),
            lambda done: bar.update(stages[-1], completed=done),
        )


def show(printed: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(printed.columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in printed.rows:
        table.add_row(*row)
    # Wider than any table: if the terminal is narrower, its own line breaks lose nothing.
    console = Console(width=max(Console().width, 200), highlight=False)
    console.print(printed.title, style="bold")
    console.print(table)
    for note in printed.notes:
        print(note)
