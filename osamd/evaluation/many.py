"""Many runs in parallel over the cores, with the same results as one after another."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")


def run_many(
    function: Callable[[Given], Result],
    tasks: Sequence[Given],
    *,
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Result]:
    """[function(task) for task in tasks], over `workers` processes (all cores by default).

    Results come in the order of the tasks, whichever finishes first; `progress` is called when one finishes. The
    function must be importable by name, and the tasks must be picklable.
    """
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    report = progress or (lambda: None)
    if workers <= 1:
        results = []
        for task in tasks:
            results.append(function(task))
            report()
        return results
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    others = active_children()
    # Spawned, not forked: a progress bar runs a thread, and a fork of a threaded process may hang.
    with ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            with _interrupt_waits():
                futures = [pool.submit(function, task) for task in tasks]
            for future in as_completed(futures):
                future.result()
                report()
        except BaseException:
            # Nobody needs the rest: do not wait for it.
            for worker in set(active_children()) - set(others):
                worker.terminate()
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


@contextmanager
def _interrupt_waits() -> Iterator[None]:
    """Start workers with Ctrl-C blocked, which they inherit; a Ctrl-C in the meantime reaches us right afterwards.

    The workers ignore Ctrl-C once they run, but while they import, each would answer it with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # on its own start it would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
