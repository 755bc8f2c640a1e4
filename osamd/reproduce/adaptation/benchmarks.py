"""The streams of the comparison, thinned evenly to a number of rounds, with the networks that start on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from osamd.numerics import Array
from osamd.reporting.terminal import Stages
from osamd.reproduce.column_fleets import first_memory, load_samples, pretrain
from osamd.reproduce.table_columns import COLUMNS, TableColumn
from osamd.streams import RealStream, corrupted_mnist, cover_type, portraits, rotating_mnist
from osamd.streams.base import Labels
from osamd.streams.real.mnist import ROUNDS as DRAWN_ROUNDS

if TYPE_CHECKING:
    import torch
    from torch import nn

    from osamd.fleet.fleet import Samples


class Benchmark(NamedTuple):
    """A stream, and the column of Table 1 whose network and source it shares."""

    title: str
    column: str
    stream: Callable[..., RealStream]


BENCHMARKS = {
    "rotating-mnist": Benchmark("Rotating MNIST", "rotating-mnist", rotating_mnist),
    "portraits": Benchmark("Portraits", "portraits", portraits),
    "cover-type": Benchmark("Cover-Type", "cover-type", cover_type),
    "corrupted-mnist": Benchmark("Corrupted MNIST", "rotating-mnist", corrupted_mnist),
}


class Thinned(RealStream):
    """Rounds of a recorded stream at equal distances, after its whole source."""

    def __init__(self, stream: RealStream, rounds: int) -> None:
        super().__init__(stream.name, stream.shape, stream.classes, stream.source_size, rounds, stream.facts)
        self.facts["thinned_from_rows"] = stream.rounds
        self._stream = stream
        self._places = np.arange(rounds) * stream.rounds // rounds + stream.source_size

    def take(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        source = self._stream.take(seed, start, min(stop, self.source_size)) if start < self.source_size else None
        places = self._places[max(0, start - self.source_size) : max(0, stop - self.source_size)]
        first, last = (int(places[0]), int(places[-1]) + 1) if len(places) else (self.source_size, self.source_size)
        x, y = self._stream.take(seed, first, last)
        thin = x[places - first], y[places - first]
        if source is None:
            return thin
        return np.concatenate([source[0], thin[0]]), np.concatenate([source[1], thin[1]])


def thinned(benchmark: Benchmark, rounds: int, data_dir: str | Path | None) -> RealStream:
    """The stream with this many rounds, from its beginning to its end.

    Streams of drawn images draw fewer of them for the same drift; recorded streams keep rounds at equal distances.
    """
    if benchmark.column == "rotating-mnist":
        drawn = benchmark.stream(data_dir, rounds=rounds)
        drawn.facts["thinned_from_rows"] = DRAWN_ROUNDS
        return drawn
    return Thinned(benchmark.stream(data_dir), rounds)


class Prepared(NamedTuple):
    """A thinned stream with its samples, networks and first memories for some seeds, in their order."""

    column: TableColumn
    stream: RealStream
    seeds: Sequence[int]
    samples: Samples
    modules: list[nn.Module]
    memories: list[tuple[torch.Tensor, torch.Tensor]]

    def row(self, number: int) -> int:
        """The row of samples of seed number `number`."""
        return number if self.stream.drawn_by_seed else 0


def prepare(
    benchmark: Benchmark, rounds: int, seeds: Sequence[int], device: Any, data_dir: str | Path | None, stages: Stages
) -> Prepared:
    """Train the networks, or find them in the cache, where `osamd reproduce` keeps those of the whole streams."""
    column = COLUMNS[benchmark.column]
    modules = pretrain(column, column.stream(data_dir), seeds, device, stages)
    stages.start(f"{benchmark.title}: preparing the stream", 1)
    stream = thinned(benchmark, rounds, data_dir)
    samples = load_samples(stream, seeds, stream.rounds)
    memories = [first_memory(stream, seed) for seed in seeds]
    stages.done(1)
    return Prepared(column, stream, seeds, samples, modules, memories)
