"""What every worker does: load the stream, warm up, then one timed pass from a fresh model for each line 'run'.

A worker is `python script.py FOLDER VARIANT SAMPLES PASSES`. It answers in lines of JSON on its standard output: once
{"ready": {library: version}} or {"missing": why}, then {"seconds", "wall_seconds", "samples", "accuracy", "labels"}
for every 'run' on its standard input. Seconds are those of the processor (`time.process_time`): everything runs on one
thread, and so the load of other programs does not count.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

THREADS = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR", "BLIS")
}
"""One thread for everybody; the orchestrator starts every worker with these."""

Run = Callable[[], tuple[int, int]]
"""The timed part: a pass through the stream, giving how many decisions were right and how many labels it took."""
Fresh = Callable[[], Run]
"""The part that is not timed: a new model."""
Prepare = Callable[[Any, Any, int], Fresh]
"""From x (samples x features), y (class indices) and the number of classes: what a user would have at hand already."""


def serve(variants: Mapping[str, Prepare], libraries: tuple[str, ...]) -> None:
    """Answer the orchestrator until it closes the pipe."""
    folder, variant, samples, passes = sys.argv[1:5]
    answers = _own_answers()
    try:
        run_of = _prepared(variants[variant], Path(folder), int(samples))
    except ImportError as error:
        _say(answers, {"missing": f"{type(error).__name__}: {error}"})
        return
    run_of()()
    _say(answers, {"ready": {name: version(name) for name in libraries}})
    for _ in sys.stdin:
        _say(answers, timed(run_of, int(samples), int(passes)))


def timed(fresh: Fresh, samples: int, passes: int) -> dict[str, float]:
    """The mean over `passes` passes, each from a fresh model, without Python's collector of cycles."""
    gc.collect()
    gc.disable()
    seconds = wall_seconds = 0.0
    right = labels = 0
    for _ in range(passes):
        run = fresh()
        wall, processor = time.perf_counter(), time.process_time()
        right, labels = run()
        seconds += time.process_time() - processor
        wall_seconds += time.perf_counter() - wall
    gc.enable()
    return {
        "seconds": seconds / passes,
        "wall_seconds": wall_seconds / passes,
        "samples": samples,
        "accuracy": right / samples,
        "labels": labels / samples,
    }


def _prepared(prepare: Prepare, folder: Path, samples: int) -> Fresh:
    import numpy as np

    x = np.array(np.load(folder / "x.npy", mmap_mode="r")[:samples])
    whole = np.load(folder / "y.npy")
    return prepare(x, whole[:samples], int(whole.max()) + 1)


def _own_answers() -> TextIO:
    """A private copy of standard output; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _say(answers: TextIO, content: Mapping[str, Any]) -> None:
    print(json.dumps(content), file=answers, flush=True)
