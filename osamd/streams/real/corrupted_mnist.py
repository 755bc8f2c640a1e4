"""Corrupted MNIST: handwritten digits under fifteen corruptions, which come abruptly, gradually, and again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.errors import require_whole
from osamd.numerics import Array
from osamd.streams.base import Labels
from osamd.streams.real.corruptions import CORRUPTIONS, STRENGTHS, corrupted
from osamd.streams.real.mnist import ROUNDS, RotatingMnist, rotating_mnist
from osamd.streams.real.recorded import RealStream

_CORRUPTION, _SEQUENCE = 10, 11  # mark generators apart from those of other streams and draws

PARTS = ("abrupt", "gradual", "recurring")
"""The thirds of the stream."""
_UP_AND_DOWN = (1, 2, 3, 4, 5, 4, 3, 2, 1)


def corrupted_mnist(data_dir: str | Path | None = None, *, rounds: int = ROUNDS) -> CorruptedMnist:
    """Digits under fifteen corruptions in three parts: 10,000 clean images as source, then one image per round.

    The source and the images are those of `rotating_mnist` for the same seed. The seed draws the order of the kinds
    too. In the first third each kind comes abruptly, at its greatest strength; in the second each grows from strength 1
    to 5 and shrinks again, in nine steps of equal length; in the last third the first comes again, with other images.

    >>> stream = corrupted_mnist("data")  # doctest: +SKIP
    >>> stream.rounds, stream.shape  # doctest: +SKIP
    (25000, (1, 28, 28))
    """
    rounds = require_whole("corrupted_mnist", "rounds", rounds)
    digits = rotating_mnist(data_dir, rounds=rounds)
    facts = {name: digits.facts[name] for name in ("data_set", "data_set_rows", "rows", "drawn", "sha256")}
    facts |= {"corruptions": list(CORRUPTIONS), "parts": list(PARTS)}
    return CorruptedMnist(digits, facts)


class CorruptedMnist(RealStream):
    """The digits of a `RotatingMnist`, upright and corrupted. Build one with `corrupted_mnist`."""

    drawn_by_seed = True

    def __init__(self, digits: RotatingMnist, facts: Mapping[str, Any]) -> None:
        super().__init__("corrupted-mnist", digits.shape, digits.classes, digits.source_size, digits.rounds, facts)
        self._digits = digits

    def sequence(self, seed: int) -> tuple[list[str], NDArray[np.int64]]:
        """The kind and the strength of the corruption in every round."""
        order = np.random.default_rng([_SEQUENCE, seed]).permutation(list(CORRUPTIONS)).tolist()
        place = np.arange(self.rounds) * (len(PARTS) * len(order)) / self.rounds
        part, within = np.floor(place / len(order)).astype(np.int64), place % 1.0
        steps = np.array(_UP_AND_DOWN)[np.floor(within * len(_UP_AND_DOWN)).astype(np.int64)]
        kinds = [order[int(p) % len(order)] for p in place]
        return kinds, np.where(part == PARTS.index("gradual"), steps, STRENGTHS)

    def take(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        x, y = self._digits.upright(seed, start, stop)
        kinds, strengths = self.sequence(seed)
        for image, number in zip(x, range(start - self.source_size, stop - self.source_size), strict=True):
            if number >= 0:
                rng = np.random.default_rng([_CORRUPTION, seed, number])
                image[:] = corrupted(image, kinds[number], int(strengths[number]), rng)
        return x.reshape(len(x), -1), y
