"""The orchestrator: one process for every peer, interleaved, medians over repeats."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import extras
from benchmarks.peers.common import THREADS
from benchmarks.reference import WHO as C_REFERENCE
from benchmarks.settings import CASES, SEED, Case, write
from osamd.errors import InputError, require_positive
from osamd.numerics import Array

PEERS_FOLDER = Path(__file__).parent / "peers"
PATIENCE = 180.0
"""Seconds of silence after which a worker is given up."""
OURS = "osamd"
LEARNER = "osamd.OSAMD, ask and tell"
DEFAULT = "osamd default learner, ask and tell"
RIVER_FOREST = "River ARF, 10 trees, 5 % labels"


@dataclass(frozen=True)
class Peer:
    """Who runs what. `samples` is by stream, 0 for none: a slow peer gets a prefix that takes about a second.

    `script` is a file in the folder of peers; None is our own worker. `modes` are the comparisons it enters.
    """

    who: str
    script: Path | None
    variant: str
    samples: tuple[int, ...]
    modes: tuple[str, ...] = ("stream", "one")
    passes: tuple[int, ...] = (1, 1, 1)


def _peer(who: str, script: str, variant: str, *samples: int, modes: tuple[str, ...] = ("stream", "one")) -> Peer:
    return Peer(who, PEERS_FOLDER / script, variant, samples, modes)


ALL = tuple(case.rounds for case in CASES.values())
PEERS = (
    Peer(DEFAULT, None, "default", (40_000, 40_000, 4_000), ("one",)),
    Peer(OURS, None, "stream", ALL, ("stream",), (10, 10, 1)),
    Peer(OURS, None, "one", ALL, ("one",)),
    Peer(LEARNER, None, "ask", ALL, ("one",)),
    Peer(C_REFERENCE, None, "c", (*ALL[:2], 0), ("stream",), (20, 10, 1)),
    _peer("Vowpal Wabbit, own driver, cache file", "peer_vw.py", "driver", 200_000, 100_000, 2_000, modes=("stream",)),
    _peer("Vowpal Wabbit, parsed examples", "peer_vw.py", "parsed", 50_000, 30_000, 2_000),
    _peer("Vowpal Wabbit --active, parsed examples", "peer_vw.py", "active", 20_000, 20_000, 0),
    _peer("Vowpal Wabbit, from text", "peer_vw.py", "text", 50_000, 20_000, 1_000),
    _peer("River EntropySampler(regression)", "peer_river.py", "active", 100_000, 50_000, 500),
    _peer(RIVER_FOREST, "peer_river.py", "forest", 3_000, 2_000, 300),
    _peer("River logistic/softmax regression", "peer_river.py", "regression", 100_000, 50_000, 300),
    _peer("River PAClassifier", "peer_river.py", "pa", 100_000, 30_000, 300),
    _peer("PyTorch eager, Linear + SGD", "peer_torch.py", "eager", 3_000, 3_000, 3_000),
    _peer("scikit-learn SGDClassifier, pa1", "peer_sklearn.py", "pa", 1_000, 1_000, 300),
    _peer("scikit-learn SGDClassifier, log_loss", "peer_sklearn.py", "logistic", 1_000, 1_000, 300),
    _peer("scikit-activeml Split + GaussianNB", "peer_skactiveml.py", "split", 400, 400, 300),
    _peer("scikit-activeml ProbabilisticAL + Parzen", "peer_skactiveml.py", "probabilistic", 200, 200, 150),
)


class Silent(Exception):
    """A worker that cannot be measured, and why."""


class Worker:
    """A process that answers 'run' with a line of JSON; see benchmarks/peers/common.py."""

    def __init__(self, peer: Peer, python: Path, stream: Path, samples: int, passes: int) -> None:
        program = [str(python), str(peer.script)] if peer.script else [sys.executable, "-m", "benchmarks.ours"]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            [*program, str(stream), peer.variant, str(samples), str(passes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **THREADS},
        )

    def answer(self) -> dict[str, Any]:
        """The next line of JSON."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise Silent(f"no answer within {PATIENCE:g} seconds")
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines()
            raise Silent(f"it ended early: {said[-1] if said else 'without a word'}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise Silent(str(answer["missing"]))
        return answer

    def run(self) -> dict[str, Any]:
        """One timed pass."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("run\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; `answer` tells why
        return self.answer()

    def close(self) -> None:
        """Let it end; it has nothing to lose."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def bench(
    python: Path,
    repeats: int = 5,
    *,
    peers: Sequence[Peer] = PEERS,
    cases: Sequence[Case] = tuple(CASES.values()),
    alone: bool = True,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Measure everybody, and give the content of bench.json; `python` is that of the peers' environment.

    `progress` is told every pass of every peer, `number_of_runs` in all. With `alone` the sections on us alone are
    measured too: scaling, start and memory.
    """
    require_positive("bench", "repeats", repeats)
    if not python.exists():
        raise InputError(f"`--python {python}`: no such program; run `make bench`, which installs the peers there.")
    load = os.getloadavg()[0]
    content: dict[str, Any] = {"machine": machine(), "repeats": repeats, "rows": [], "missing": {}}
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for index, case in enumerate(cases):
            folder = write(case, Path(scratch))
            passes = _interleaved(index, folder, python, repeats, peers, versions, content["missing"], progress)
            content["rows"] += rows(case, passes, quality(folder, case))
    content["machine"] |= {"load_before": load, "libraries": dict(sorted(versions.items()))}
    if alone:
        content["scaling"] = extras.in_process("scaling", str(repeats))
        content["start"] = extras.start(python, repeats)
        content["memory"] = extras.memory()
    return content


def number_of_runs(repeats: int, peers: Sequence[Peer] = PEERS) -> int:
    """How many passes `bench` makes where nobody is missing."""
    return repeats * sum(samples > 0 for peer in peers for samples in peer.samples)


def _interleaved(
    index: int,
    folder: Path,
    python: Path,
    repeats: int,
    peers: Sequence[Peer],
    versions: dict[str, str],
    missing: dict[str, str],
    progress: Callable[[], None],
) -> dict[Peer, list[dict[str, Any]]]:
    """Every peer once, then every peer again, so that a slow minute of the machine meets all of them."""
    workers: dict[Peer, Worker] = {}
    passes: dict[Peer, list[dict[str, Any]]] = {}
    try:
        for peer in peers:
            if peer.samples[index] == 0:
                continue
            workers[peer] = Worker(peer, python, folder, peer.samples[index], peer.passes[index])
            try:
                versions |= workers[peer].answer()["ready"]
            except Silent as why:
                missing[peer.who] = str(why)
                workers.pop(peer).close()
        for _ in range(repeats):
            for peer, worker in list(workers.items()):
                try:
                    passes.setdefault(peer, []).append(worker.run())
                except Silent as why:
                    missing[peer.who] = str(why)
                    passes.pop(peer, None)
                    workers.pop(peer).close()
                progress()
    finally:
        for worker in workers.values():
            worker.close()
    return passes


def quality(folder: Path, case: Case) -> Callable[[int], tuple[float, float]]:
    """Our accuracy and label rate over the first n rounds, for the same samples that a peer saw."""
    from osamd.compiled import play
    from osamd.streams import Arrays

    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    ledger = play(case.learner(), Arrays(x, y.tolist()), SEED, columns=("decision", "asked")).ledger

    def over(samples: int) -> tuple[float, float]:
        right: Array = ledger.decision[:samples] == ledger.label[:samples]
        return float(right.mean()), float(ledger.asked[:samples].mean())

    return over


def rows(
    case: Case, passes: Mapping[Peer, list[dict[str, Any]]], ours_over: Callable[[int], tuple[float, float]]
) -> list[dict[str, Any]]:
    """The rows of one stream: medians, and how many times faster we are in the same mode (above 1: we are faster)."""
    speeds = {peer: median(one["samples"] / one["seconds"] for one in some) for peer, some in passes.items()}
    ours = {mode: speed for peer, speed in speeds.items() if peer.who == OURS for mode in peer.modes}
    made = []
    for peer, speed in speeds.items():
        last = passes[peer][-1]
        our_accuracy, our_labels = ours_over(last["samples"])
        for mode in peer.modes:
            made.append(
                {
                    "stream": case.name,
                    "who": peer.who,
                    "mode": mode,
                    "samples_per_s": speed,
                    "ratio_to_us": ours[mode] / speed if mode in ours else None,
                    "accuracy": last["accuracy"],
                    "labels": last["labels"],
                    "samples": last["samples"],
                    "our_accuracy": our_accuracy,
                    "our_labels": our_labels,
                    "wall_samples_per_s": median(one["samples"] / one["wall_seconds"] for one in passes[peer]),
                }
            )
    return made


def machine() -> dict[str, Any]:
    """The processor, its cores, and the Python that runs us."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
