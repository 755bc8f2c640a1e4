"""Sweeps: every setting of a grid on every stream and seed, on this machine or on Ray, with the same results.

found = osamd.sweep({"budget": [0.01, 0.05]}, ["rotating-gaussian", "gaussian-flip"], seeds=5)
print(found)
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError, nearest, reject, require_finite, require_numbers, require_whole
from osamd.evaluation.intervals import Mean, mean_90
from osamd.evaluation.many import Runner, run_many
from osamd.learner.decision import plain
from osamd.prequential.label_runs import STREAMS, digest_of, read, score_on
from osamd.prequential.peers import RunScore
from osamd.streams import Stream

ROUNDS, WARMUP = 2000, 200
OWN = ("classes", "features", "start", "seed")
"""Settings of `osamd.OSAMD` that the streams and seeds determine."""

Setting = tuple[tuple[str, Any], ...]
"""Settings of `osamd.OSAMD` by name, in the order of the grid."""


class SweepCell(NamedTuple):
    """One run: settings of `osamd.OSAMD` on a stream and a seed."""

    stream: str
    setting: Setting
    seed: int
    place: str
    """The stream's own name, or the file that holds its rows."""
    rounds: int
    warmup: int
    rows: str = ""
    """A digest of the rows, where they come from a file."""

    def __str__(self) -> str:
        return f"{self.stream}, {shown(self.setting)}, seed {self.seed}"


class SweepRow(NamedTuple):
    """A setting on a stream, over all seeds; shares of the rounds."""

    stream: str
    setting: dict[str, Any]
    accuracy: Mean
    labels: Mean
    balanced_accuracy: Mean


class Sweep(NamedTuple):
    """The result of `sweep`: one score per cell, in the order of streams, settings and seeds."""

    cells: list[SweepCell]
    scores: list[RunScore]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One dictionary per cell, as data frames take them."""
        return [
            {"stream": cell.stream, **dict(cell.setting), "seed": cell.seed, **score._asdict()}
            for cell, score in zip(self.cells, self.scores, strict=True)
        ]

    @property
    def rows(self) -> list[SweepRow]:
        """Means over the seeds with their 90 % intervals, by stream and setting."""
        by: dict[tuple[str, Setting], list[RunScore]] = {}
        for cell, score in zip(self.cells, self.scores, strict=True):
            by.setdefault((cell.stream, cell.setting), []).append(score)
        return [
            SweepRow(
                stream,
                dict(setting),
                mean_90([one.accuracy for one in some]),
                mean_90([one.labels for one in some]),
                mean_90([one.balanced_accuracy for one in some]),
            )
            for (stream, setting), some in by.items()
        ]

    def best(self, stream: str) -> SweepRow:
        """The setting with the highest mean accuracy on a stream; of equals the first."""
        return max((row for row in self.rows if row.stream == stream), key=lambda row: row.accuracy.mean)

    def __str__(self) -> str:
        return "\n".join(
            f"{row.stream}, {shown(tuple(row.setting.items()))}: {100 * row.accuracy.mean:.2f} % right with"
            f" {100 * row.labels.mean:.2f} % of the labels"
            for row in self.rows
        )


def sweep(
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    streams: Sequence[str] | Mapping[str, Any],
    seeds: int | Sequence[int] = 5,
    *,
    rounds: int = ROUNDS,
    warmup: int = WARMUP,
    engine: str = "local",
    workers: int | None = None,
    kept: str | Path | None = None,
    progress: Callable[[], None] | None = None,
) -> Sweep:
    """Play every setting of the grid on every stream and seed: decide on each sample, then learn from asked labels.

    `grid` holds values by the name of a setting of `osamd.OSAMD`, of which all combinations are played; or it lists the
    settings themselves. `streams` are names of `osamd.prequential.label_runs.STREAMS`, or by name `osamd.streams`
    and pairs (X, y) of arrays. `rounds` is the length of the streams by name. All learners start from a model that is
    fitted to the first `warmup` labelled samples. A seed draws the queries, and the stream where it is drawn.

    `engine` is "local", over processes of this machine, or "ray"; results do not depend on it. `kept` is a folder that
    keeps finished cells: the same call goes on where it was interrupted. A cell that fails is tried again, and one
    that fails every time is named when the others are done. With Ray on several machines and streams of your own, the
    folder must be one that all machines see. `progress` is called after every cell.

    >>> found = sweep({"budget": [0.05, 0.2]}, ["rotating-gaussian"], seeds=1, rounds=300, workers=1)
    >>> [(row.setting, row.labels.mean <= row.setting["budget"]) for row in found.rows]
    [({'budget': 0.05}, True), ({'budget': 0.2}, True)]
    """
    settings = settings_of(grid)
    numbers = list(range(require_whole("sweep", "seeds", seeds))) if isinstance(seeds, int) else list(seeds)
    numbers = [require_whole("sweep", "seeds", seed, 0) for seed in numbers]
    rounds, warmup = require_whole("sweep", "rounds", rounds), require_whole("sweep", "warmup", warmup, 0)
    if isinstance(streams, str):
        raise reject("sweep", "streams", streams, "give a list of names, or a dictionary of streams by name.")
    given = streams if isinstance(streams, Mapping) else dict.fromkeys(streams)
    folder = None if kept is None else Path(kept)
    with tempfile.TemporaryDirectory(prefix="osamd-sweep-") as scratch:
        cells = [
            SweepCell(name, setting, seed, place, rounds, warmup, digest)
            for name, stream in given.items()
            for places in [_places(name, stream, numbers, warmup, folder or Path(scratch))]
            for setting in settings
            for seed, (place, digest) in zip(numbers, places, strict=True)
        ]
        scores = run_many(play_cell, cells, Runner(engine, workers, folder), key=identity, progress=progress)
    return Sweep(cells, scores)


def settings_of(grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> list[Setting]:
    """All settings of a grid.

    >>> settings_of({"budget": [0.1], "method": ["osamd", "paa"]})
    [(('budget', 0.1), ('method', 'osamd')), (('budget', 0.1), ('method', 'paa'))]
    """
    if isinstance(grid, Mapping):
        lists = [values if isinstance(values, list | tuple | range) else list(values) for values in grid.values()]
        found = [tuple(zip(grid, map(plain, values), strict=True)) for values in itertools.product(*lists)]
    else:
        found = [tuple((name, plain(value)) for name, value in one.items()) for one in grid]
    if not found:
        raise reject(
            "sweep", "grid", grid, "give at least one value for every setting, as in {'budget': [0.01, 0.05]}."
        )
    for name, value in itertools.chain.from_iterable(found):
        if name in OWN:
            raise reject(
                "sweep", "grid", {name: value}, f"{name} is determined by the streams and seeds; leave it out."
            )
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise reject("sweep", "grid", {name: value}, "values must be numbers, text or None.")
    return found


def _places(name: str, stream: Any, seeds: Sequence[int], warmup: int, folder: Path) -> list[tuple[str, str]]:
    """For every seed, where its rows are, and their digest: a name of `STREAMS`, or a file that is written now."""
    if stream is None:
        if name not in STREAMS:
            raise reject("sweep", "streams", name, f"no such stream. {nearest(name, STREAMS)}")
        if warmup < 20:  # a fit needs both classes
            raise reject("sweep", "warmup", warmup, "a stream by name starts from at least 20 labelled samples.")
        return [(name, "")] * len(seeds)
    if isinstance(stream, Stream):
        return [
            _stored(folder, stream.source(warmup, seed), stream.sample(seed), len(stream.classes)) for seed in seeds
        ]
    if not (isinstance(stream, tuple | list) and len(stream) == 2):
        raise InputError(f"`sweep(streams={{{name!r}: ...}})`: give a stream of osamd.streams, or a pair (X, y).")
    rows = require_numbers("sweep", "X", stream[0])
    require_finite("sweep", "X", rows)
    names, y = np.unique(np.asarray(stream[1]), return_inverse=True)
    if rows.ndim != 2 or len(rows) != len(y) or len(rows) <= warmup:
        raise InputError(
            f"`sweep(streams={{{name!r}: (X, y)}})`: X has the shape {rows.shape}, y {len(y)} labels; give a table with"
            f" one label a row and more than the {warmup} rows of the warm-up."
        )
    if len(np.unique(y[:warmup])) == 1:
        raise InputError(f"`sweep(warmup={warmup})`: the first rows of {name!r} are all of one class; give more.")
    return [_stored(folder, (rows[:warmup], y[:warmup]), (rows[warmup:], y[warmup:]), len(names))] * len(seeds)


def _stored(folder: Path, source: Any, stream: Any, classes: int) -> tuple[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".npz", dir=folder, delete=False) as file:
        np.savez(file, x=stream[0], y=stream[1], first=source[0], known=source[1], classes=classes)
    digest = digest_of(file.name)
    place = Path(file.name).replace(folder / f"rows-{digest[:32]}.npz")
    return str(place.resolve()), digest


def play_cell(cell: SweepCell) -> RunScore:
    """Play one cell."""
    rows = read(cell.place, cell.rounds, cell.warmup, 0 if cell.rows else cell.seed)
    return score_on(rows, {**dict(cell.setting), "seed": cell.seed})


def identity(cell: SweepCell) -> str:
    """What the score of a cell depends on, besides the sources of this package."""
    return repr((cell.place if not cell.rows else cell.rows, cell.setting, cell.seed, cell.rounds, cell.warmup))


def shown(setting: Setting) -> str:
    """A setting in words.

    >>> shown((("budget", 0.05), ("method", "osamd")))
    'budget=0.05, method=osamd'
    """
    return ", ".join(f"{name}={value}" for name, value in setting) or "the defaults"
