"""Many independent runs on an engine, with the same results as one after another.

Finished runs may be kept in a folder, so that an interrupted sweep goes on where it ended. A run that fails is tried
again; one that fails every time does not stop the others, and is named at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from osamd.errors import InputError, lookup
from osamd.evaluation.kept_results import KeptResults
from osamd.evaluation.task_engines import ENGINES, RETRIES, Failed

Given = TypeVar("Given")
Result = TypeVar("Result")

NAMED = 5
"""How many of the failed runs an error names."""


class Runner(NamedTuple):
    """How many runs are played; their results do not depend on it."""

    engine: str = "local"
    """A name of `osamd.evaluation.task_engines.ENGINES`: processes of this machine, or Ray."""
    workers: int | None = None
    """How many runs are played at a time; all cores by default."""
    kept: Path | None = None
    """The folder that keeps finished runs; none by default."""


class RunsFailed(RuntimeError):
    """Runs that failed every time they were tried; the message names them."""


def run_many(
    function: Callable[[Given], Result],
    tasks: Sequence[Given],
    runner: Runner | None = None,
    *,
    key: Callable[[Given], object] = repr,
    ended: Callable[[Given, Result], object] | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Result]:
    """[function(task) for task in tasks], in the order of the tasks, whichever finishes first.

    The function must be importable by name, and the tasks must be picklable. `key` says what identifies a task among
    those of the function, if it is not how the task prints; its result is kept under that key. `ended` is called here
    with each task that is played and its result; `progress` after each run, played or kept.
    """
    runner = runner or Runner()
    engine = lookup("Runner", "engine", runner.engine, ENGINES)
    kept = None if runner.kept is None else KeptResults(runner.kept, function)
    report = progress or (lambda: None)
    found: dict[int, Any] = {}
    if kept is not None:
        for number, task in enumerate(tasks):
            try:
                found[number] = kept.read(str(key(task)))
            except FileNotFoundError:
                continue
            report()
    errors: dict[int, BaseException] = {}
    for _ in range(1 + RETRIES):
        left = [number for number in range(len(tasks)) if number not in found]
        if not left:
            break
        with closing(engine(function, [tasks[number] for number in left], runner.workers)) as outcomes:
            for place, outcome in outcomes:
                number = left[place]
                if isinstance(outcome, Failed):
                    if isinstance(outcome.error, InputError):  # the caller's, and the same every time
                        raise outcome.error
                    errors[number] = outcome.error
                    continue
                found[number] = outcome if kept is None else kept.write(str(key(tasks[number])), outcome)
                if ended is not None:
                    ended(tasks[number], found[number])
                report()
    failed = {number: error for number, error in errors.items() if number not in found}
    if failed:
        raise _named([tasks[number] for number in failed], len(tasks), kept) from next(iter(failed.values()))
    return [found[number] for number in range(len(tasks))]


def _named(failed: Sequence[object], total: int, kept: KeptResults | None) -> RunsFailed:
    shown = "; ".join(map(str, failed[:NAMED])) + (f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else "")
    others = "" if kept is None else f" The results of the others are in {kept.folder}."
    return RunsFailed(f"{len(failed)} of {total} runs failed, each {1 + RETRIES} times: {shown}.{others}")
