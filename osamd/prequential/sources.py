"""One learner after the other over the same rows of a table, which may come from a stream that is read but once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError
from osamd.evaluation.answers import Delay
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.methods import KNOWN, OF_THE_PAPER, PRESET
from osamd.prequential.playing import PlayedRun, play
from osamd.streams.base import Labels
from osamd.tables import Rows

Start = Callable[[str, Any], None]
"""Told which stage begins and of how many rounds it is, None where that is not known."""

Watch = Callable[[Any], Iterator[tuple[Array, Labels]]]


class Player:
    """Plays one learner after the other over the same rows."""

    def __init__(
        self, data: Rows, blocks: Any, settings: dict[str, Any], start: Start | None, done: Callable[[int], None] | None
    ) -> None:
        self._data, self._blocks, self._settings, self._start, self._done = data, blocks, settings, start, done
        self._rounds: int | None = data.expected

    def play(
        self, method: str, late: Delay | None, seed: int, what: str = "", watch: Watch | None = None, **limits: Any
    ) -> PlayedRun:
        """Play a method on one seed; `watch` sees the blocks as they pass."""
        learner = started(self._data, self._settings | limits | {"method": method, "seed": seed})
        if self._start is not None:
            self._start(KNOWN[method].title + what, self._rounds)
        blocks = self._blocks if watch is None else watch(self._blocks)
        played = play(learner, blocks, seed, late, self._done, self._data.classes)
        self._rounds = len(played.ledger)
        return played


def started(data: Rows, settings: dict[str, Any]) -> OSAMD:
    """A learner that was fitted to the warm-up rows, where there are any."""
    x, y = data.source
    if settings["method"] == PRESET.name:  # it scales and steps by itself, and takes in new classes
        settings = {name: value for name, value in settings.items() if name not in OF_THE_PAPER}
        classes = data.declared
    else:
        settings = settings | {"standardise": True}
        classes = data.classes
    if not len(y):
        return OSAMD(features=data.features, classes=classes, **settings)
    labels = [data.classes[i] for i in y.tolist()]
    return OSAMD.from_source(_Named(data.features, x), labels, classes=classes, **settings)


class Alone:
    """What is right without any label after the warm-up: its model left alone, and always its commonest class."""

    def __init__(self, data: Rows, settings: dict[str, Any]) -> None:
        self._data, self._parts = data, [(np.zeros(0, np.bool_), np.zeros(0, np.bool_))]
        self._margins: list[Array] = [np.zeros(0)]
        if len(data.source[1]):
            # PAA decides by its weights alone, without adapting to the sample that is decided.
            self._model = started(data, settings | {"method": "paa"})
            self._commonest = int(np.bincount(data.source[1]).argmax())

    def watch(self, blocks: Any) -> Iterator[tuple[Array, Labels]]:
        """The blocks as they are; each is decided first."""
        index = {name: i for i, name in enumerate(self._data.classes)}
        for x, y in blocks:
            if len(self._data.source[1]):
                seen = [self._model.peek(row) for row in np.ascontiguousarray(x)]
                decided = np.fromiter((index[one.label] for one in seen), np.int64, len(y))
                self._parts.append((decided == y, self._commonest == y))
                self._margins.append(np.fromiter((one.margin for one in seen), np.float64, len(y)))
            yield x, y

    def found(self) -> dict[str, tuple[str, NDArray[np.bool_]]]:
        """By name, a title and the rounds decided rightly."""
        if not len(self._data.source[1]):
            return {}
        alone, commonest = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        always = f"always {str(self._data.classes[self._commonest])!r}, the commonest class"
        return {"left-alone": ("left alone after the warm-up", alone), "commonest-class": (always, commonest)}

    def margins(self) -> Array:
        """How sure the model left alone is, round by round; this moves with the samples and with nothing else."""
        return np.concatenate(self._margins)


class _Named(NamedTuple):
    """Rows with the names of their features, as a data frame has them."""

    columns: list[str]
    rows: Array

    def to_numpy(self) -> Array:
        return self.rows


class Kept:
    """The blocks of a table, written to a temporary file as they are read, so that they can be read again."""

    def __init__(self, data: Rows) -> None:
        self._data, self._read, self._blocks = data, False, 0

    def __enter__(self) -> Kept:
        self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._data.close()

    def __iter__(self) -> Iterator[tuple[Array, Labels]]:
        if self._read:
            self._file.seek(0)
            for _ in range(self._blocks):
                yield np.load(self._file), np.load(self._file)
            return
        self._read = True
        for x, y in self._data.blocks():
            try:
                np.save(self._file, x)
                np.save(self._file, y)
            except OSError as error:
                raise InputError(
                    f"no room in {tempfile.gettempdir()} to keep the rows for another pass ({error.strerror or error});"
                    " make some there, or name another folder by the variable TMPDIR."
                ) from error
            self._blocks += 1
            yield x, y
