"""What is measured of us alone: cost against features and classes, time to start, memory against rounds."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers.common import THREADS

FEATURES = (2, 8, 32, 128, 512, 1024, 2048, 4096, 8192, 16384)
"""From 2,048 on the parameters outgrow the first cache, a step of its own; the exponent is taken beyond it."""
CLASSES = (2, 4, 8, 16, 32, 64)
NUMBERS = 2**21
"""How many numbers every stream of the scaling holds (16 MiB), so that none of them fits the second cache."""
HORIZONS = (100_000, 10_000_000)


def scaling(repeats: int = 5) -> dict[str, list[dict[str, float]]]:
    """Nanoseconds of the processor a sample: against d with two classes, and against the classes with d = 32."""
    return {
        "features": [{"features": d, "ns_per_sample": cost(d, 2, NUMBERS // d, repeats)} for d in FEATURES],
        "classes": [
            {"classes": k, "ns_per_sample": cost(32, k, NUMBERS // (32 * max(1, k // 4)), repeats)} for k in CLASSES
        ],
    }


def cost(features: int, classes: int, rounds: int, repeats: int) -> float:
    """The median over repeats, on a stream of noise: every round has a pseudolabel to learn from, many a label."""
    from osamd.compiled import play
    from osamd.paper.losses import loss
    from osamd.paper.methods import Settings, learner
    from osamd.paper.models import linear
    from osamd.streams import Arrays

    generator = np.random.default_rng(features)
    x = generator.normal(size=(rounds, features)) / np.sqrt(features)
    stream = Arrays(x, generator.integers(classes, size=rounds).tolist(), classes=range(classes))
    settings = Settings(eta=0.1, sigma=0.1, loss=loss("hinge" if classes == 2 else "softmax"))
    ours = learner("osamd", linear(features=features, classes=classes), settings)
    taken = []
    for _ in range(repeats + 1):
        before = time.process_time()
        play(ours, stream, seed=0, columns=())
        taken.append(time.process_time() - before)
    return 1e9 * median(taken[1:]) / rounds


def exponent(points: Sequence[Mapping[str, float]], along: str, last: int = 3) -> float:
    """The slope of log cost against the log of what grows, over the last points, where fixed costs matter least.

    >>> round(exponent([{"features": d, "ns_per_sample": 0.2 * d} for d in (512, 1024, 2048)], "features"), 6)
    1.0
    """
    grown = np.log([[point[along], point["ns_per_sample"]] for point in points[-last:]])
    return float(np.polyfit(grown[:, 0], grown[:, 1], 1)[0])


def peak_memory(rounds: int) -> dict[str, float]:
    """Play a drawn stream of so many rounds with no column kept; the peak of this process's resident memory."""
    from osamd.compiled import play
    from osamd.paper.methods import Settings, learner
    from osamd.paper.models import linear
    from osamd.streams import rotating_gaussian

    ours = learner("osamd", linear(features=2), Settings(eta=0.01, sigma=0.35), start=[0.4, 0.0, -4.0])
    played = play(ours, rotating_gaussian(rounds), seed=0, columns=())
    return {"rounds": played.totals.rounds, "peak_mib": _peak_mib()}


def memory() -> list[dict[str, float]]:
    """The peak for each horizon, each in its own process; a short run before them fills the cache of compiled code."""
    in_process("memory", "1000")
    return [in_process("memory", str(rounds)) for rounds in HORIZONS]


def _peak_mib() -> float:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):  # not Linux; the number is in bytes on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def start(peers_python: Path, repeats: int = 5) -> dict[str, dict[str, float]]:
    """Seconds to start, warm: imports beside scikit-learn's, and `osamd --help`; medians, interleaved."""
    ours = sys.executable
    commands = {
        "python": [ours, "-c", "pass"],
        "import osamd": [ours, "-c", "import osamd"],
        "import osamd.compiled": [ours, "-c", "import osamd.compiled"],
        "import sklearn": [str(peers_python), "-c", "import sklearn"],
        "osamd --help": [ours, "-m", "osamd", "--help"],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            before, wall = _children(), time.perf_counter()
            done = subprocess.run(command, capture_output=True, env={**os.environ, **THREADS})
            if done.returncode == 0:
                taken[name].append((_children() - before, time.perf_counter() - wall))
    return {
        name: {"seconds": median(cpu for cpu, _ in some[1:]), "wall_seconds": median(wall for _, wall in some[1:])}
        for name, some in taken.items()
        if len(some) > 1
    }


def _children() -> float:
    """Seconds of the processor that ended children have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_process(*arguments: str) -> Any:
    """Run a part of this module in a process of its own, on one thread."""
    command = [sys.executable, "-m", "benchmarks.extras", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **THREADS})
    return json.loads(done.stdout)


if __name__ == "__main__":
    what, number = sys.argv[1], int(sys.argv[2])
    print(json.dumps(scaling(number) if what == "scaling" else peak_memory(number)))
