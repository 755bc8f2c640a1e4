"""Many runs at once over the cores, with the same results as one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_many(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Result]:
    """[function(task) for task in tasks], over `workers` processes (all cores by default).

    Results come in the order of the tasks, whichever finishes first; `progress` is called as each does. The function
    must be importable by name and the tasks picklable.
    """
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    told = progress or (lambda: None)
    if workers <= 1:
        results = []
        for task in tasks:
            results.append(function(task))
            told()
        return results
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Spawned, not forked: a progress bar runs a thread, and a fork of a threaded process may hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(function, task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
                told()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]
