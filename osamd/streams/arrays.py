"""A stream from arrays the user holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.streams.base import BLOCK, Labels, Stream


class Arrays(Stream):
    """Rows of x (rounds x features) with labels y of any kind, in the order given; `warmup` rows are its source.

    >>> stream = Arrays([[0.0], [1.0], [2.0]], ["no", "yes", "yes"])
    >>> stream.rounds, stream.classes
    (3, ('no', 'yes'))
    """

    def __init__(
        self,
        x: ArrayLike,
        y: Sequence[Hashable],
        *,
        classes: Sequence[Hashable] | None = None,
        warmup: int = 0,
        name: str = "arrays",
    ) -> None:
        rows = np.asarray(x, dtype=np.float64)
        if rows.ndim != 2:
            raise InputError(f"`Arrays(x=...)`: x has shape {rows.shape}; give one row a round, one column a feature.")
        if len(rows) != len(y):
            raise InputError(
                f"`Arrays(x=..., y=...)`: {len(rows)} rows of x but {len(y)} labels; give as many of each."
            )
        if not 0 <= warmup < len(rows):
            raise InputError(
                f"`Arrays(warmup={warmup})`: the stream is empty, {len(rows)} rows with {warmup} of them as warm-up;"
                " give more rows than warmup."
            )
        known = tuple(sorted(set(y), key=lambda label: (str(type(label)), str(label))) if classes is None else classes)
        if len(known) < 2:
            raise InputError(f"`Arrays(y=...)`: one class only ({known[0]!r}); a stream needs at least two classes.")
        index = {c: i for i, c in enumerate(known)}
        for t, label in enumerate(y):
            if label not in index:
                raise InputError(f"`Arrays(y=...)`: label {label!r} of row {t} is not in the classes {known}.")
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            bad = int(np.argmin(finite))
            raise InputError(
                f"`Arrays(x=...)`: row {bad} holds {rows[bad].tolist()}; features must be finite,"
                " so fill or drop missing values first."
            )
        self.name = name
        self.features = rows.shape[1]
        self.classes = known
        self.rounds = len(rows) - warmup
        self._x, self._y = rows, np.array([index[label] for label in y], dtype=np.int64)
        self._warmup = warmup

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        for start in range(self._warmup, len(self._x), BLOCK):
            yield self._x[start : start + BLOCK], self._y[start : start + BLOCK]

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        if count > self._warmup:
            raise InputError(f"`source(count={count})`: the stream keeps {self._warmup} warm-up rows; ask for no more.")
        return self._x[:count], self._y[:count]
