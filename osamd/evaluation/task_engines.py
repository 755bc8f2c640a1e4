"""Where independent tasks are played: one by one, over processes of this machine, or by Ray.

An engine takes a function and tasks, and yields the number of a task with its result, or with a `Failed`, as tasks end
in any order. The results do not depend on the engine. `osamd.evaluation.many` keeps, retries and orders them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from osamd.errors import InputError

RETRIES = 2
"""How many more times a task is tried after a failure: a killed worker, a full disk, a lost machine."""


class Failed(NamedTuple):
    """A task that has no result, and why."""

    error: BaseException


Ended = Generator[tuple[int, Any], None, None]
"""The numbers of tasks, each with its result or a `Failed`."""


def local(function: Callable[[Any], Any], tasks: Sequence[Any], workers: int | None) -> Ended:
    """Over processes of this machine, all cores by default; with one worker, in this process."""
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    return _processes(function, tasks, workers) if workers > 1 else _one_by_one(function, tasks)


def _one_by_one(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Ended:
    for number, task in enumerate(tasks):
        try:
            result = function(task)
        except Exception as error:
            result = Failed(error)
        yield number, result


def _processes(function: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Ended:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    others = active_children()
    # Spawned, not forked: a progress bar runs a thread, and a fork of a threaded process may hang.
    with ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            with _interrupt_waits():
                futures = {pool.submit(function, task): number for number, task in enumerate(tasks)}
            for future in as_completed(futures):
                error = future.exception()
                yield futures[future], future.result() if error is None else Failed(error)
        except BaseException:
            # Nobody needs the rest: do not wait for it.
            for worker in set(active_children()) - set(others):
                worker.terminate()
            pool.shutdown(cancel_futures=True)
            raise


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


def ray(function: Callable[[Any], Any], tasks: Sequence[Any], workers: int | None) -> Ended:
    """As tasks of Ray, which tries a task again if its worker or its machine is lost.

    It uses the Ray that this process is connected to. Otherwise it connects to the cluster that RAY_ADDRESS names, or
    starts Ray on this machine with `workers` cores; that Ray ends with this process. At most `workers` tasks run at a
    time, on a cluster as many as it has room for by default.
    """
    ray = started_ray(workers)
    play = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(function)
    ahead = workers or max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))
    waiting: dict[Any, int] = {}
    left = iter(enumerate(tasks))
    try:
        while True:
            while len(waiting) < ahead and (following := next(left, None)) is not None:
                waiting[play.remote(following[1])] = following[0]
            if not waiting:
                return
            for one in ray.wait(list(waiting), num_returns=1)[0]:
                number = waiting.pop(one)
                try:
                    result = ray.get(one)
                except Exception as error:
                    result = Failed(getattr(error, "cause", None) or error)
                yield number, result
    finally:
        for one in waiting:
            ray.cancel(one, force=True)


def started_ray(workers: int | None) -> Any:
    """The module `ray`, connected."""
    try:
        import ray
    except ImportError as error:
        raise InputError("`engine='ray'`: Ray is not installed; run pip install \"osamd[ray]\".") from error
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to its makers unless one wants to
        cores = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers or os.cpu_count(), "address": "local"}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **cores)
    return ray


ENGINES: dict[str, Callable[[Callable[[Any], Any], Sequence[Any], int | None], Ended]] = {"local": local, "ray": ray}
"""The engines by name."""
