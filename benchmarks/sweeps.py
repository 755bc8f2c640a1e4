"""How much faster Ray plays a sweep at two runs at a time than at one: 200 runs each, in blocks that take turns.

    python -m benchmarks.sweeps

It needs the extra ray and two idle cores. It prints the load, since a ratio on a busy machine says nothing.
"""

from __future__ import annotations

import os
import time

from osamd.evaluation.task_engines import started_ray
from osamd.prequential.sweeps import sweep

GRID = {"budget": [0.02, 0.05, 0.1, 0.2, 0.3]}
STREAMS = ["rotating-gaussian", "gaussian-flip", "gaussian-recurring", "gaussian-priors"]
BLOCKS, SEEDS, ROUNDS = 5, 2, 10_000


def main() -> None:
    started_ray(2)
    sweep(GRID, STREAMS, SEEDS, rounds=200, engine="ray", workers=2)  # workers start and compile
    seconds = {1: 0.0, 2: 0.0}
    for block in range(BLOCKS):
        seeds = range(SEEDS * block, SEEDS * (block + 1))
        for workers in (1, 2) if block % 2 else (2, 1):
            start = time.perf_counter()
            found = sweep(GRID, STREAMS, seeds, rounds=ROUNDS, engine="ray", workers=workers)
            seconds[workers] += time.perf_counter() - start
            print(f"{len(found.cells)} runs, {workers} at a time; load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"one at a time {seconds[1]:.1f} s, two {seconds[2]:.1f} s: {seconds[1] / seconds[2]:.2f} times the speed")


if __name__ == "__main__":
    main()
