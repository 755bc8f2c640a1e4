"""One learner after the other over the same rows of a table, which may come from a stream that is read but once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.learner import OSAMD
from osamd.methods import METHODS
from osamd.numerics import Array
from osamd.prequential.delays import Delay
from osamd.prequential.playing import Played, play
from osamd.streams.base import Labels
from osamd.tables import Rows

Start = Callable[[str, Any], None]
"""Told which stage begins and of how many rounds it is, None where that is not known."""


class Player:
    """Plays one learner after the other over the same rows."""

    def __init__(
        self, data: Rows, blocks: Any, settings: dict[str, Any], start: Start | None, done: Callable[[int], None] | None
    ) -> None:
        self._data, self._blocks, self._settings, self._start, self._done = data, blocks, settings, start, done
        self._rounds: int | None = data.expected

    def play(self, method: str, late: Delay | None, what: str = "", **limits: Any) -> Played:
        learner = self._learner(method, limits)
        if self._start is not None:
            self._start(METHODS[method].title + what, self._rounds)
        played = play(learner, self._blocks, self._settings["seed"], late, self._done)
        self._rounds = len(played.ledger)
        return played

    def _learner(self, method: str, limits: dict[str, Any]) -> OSAMD:
        data, (x, y) = self._data, self._data.source
        settings = self._settings | limits | {"method": method, "standardise": True}
        if not len(y):
            return OSAMD(features=data.features, classes=data.classes, **settings)
        labels = [data.classes[i] for i in y.tolist()]
        return OSAMD.from_source(_Named(data.features, x), labels, classes=data.classes, **settings)


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
