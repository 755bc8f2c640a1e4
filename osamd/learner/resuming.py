"""Checks that the header of a saved learner, its draws and its pending queries can belong to a learner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.accounting import book as books
from osamd.accounting import meter
from osamd.checks import listed, product, require_that, require_within, unsound, whole_number
from osamd.learner.decision import Observation
from osamd.learner.saving import Saved
from osamd.numerics import Array

MOST_LOOPS = 100_000
"""The most inner loops that a loaded learner may have: with so many a round takes a second; the paper has 10 or 20."""
LARGEST_SAMPLE = 2**26
"""The most numbers that a network's sample may have: 256 MiB in single precision."""
_STATE_BITS, _INTEGER_BITS = 128, 32
"""The sizes of numbers in the state of PCG64, numpy's default generator."""


def require_fitting(saved: Saved) -> None:
    """Refuse a file whose header asks for more memory than its arrays have, before any of it is allocated."""
    arrays, content = saved
    for name in ("book", "meter", "uniforms"):
        found = arrays.get(name)
        if found is None or found.ndim != 1 or found.dtype != np.float64:
            raise unsound(f"{name} is not a vector of numbers")
    whole_number(content, "window", 1, len(arrays["meter"]))
    limits: Mapping[str, Any] = content["budget"]
    if limits["window"] is not None:
        whole_number(limits, "window", 1, len(arrays["book"]))
    classes = len(listed(content, "classes", len(arrays["meter"])))
    settings = content.get("settings")
    if settings is not None and settings["adaptation"] is not None:
        whole_number({"inner loops": settings["adaptation"][0]}, "inner loops", 1, MOST_LOOPS)
    if content["kind"] == "linear":
        _require_linear(arrays, content, classes)
    elif content["sample"] is not None:
        sizes = listed(content, "sample", 32)
        for size in sizes:
            whole_number({"sample": size}, "sample", 1, LARGEST_SAMPLE)
        require_within("the size of sample", product(sizes), 1, LARGEST_SAMPLE)
        require_that(type(content["whole_numbers"]) is bool, "whole_numbers is neither true nor false")


def _require_linear(arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any], classes: int) -> None:
    """Compare the header of a linear model with the weights of its student: one row per class, or one row for two."""
    features = content["features"]
    if features is None:
        return
    width = len(features) if type(features) is list else whole_number(content, "features", 1)
    student = arrays.get("student")
    if student is not None:  # an earlier default learner has none, and gets its own error later
        columns = (width + 1, 2 * (width + 1))  # twice as many where weights are pairs of positive ones
        fits = student.ndim == 2 and student.shape[0] in (classes, 1) and student.shape[1] in columns
        require_that(fits, f"it names {width} features and {classes} classes, but its student has other sizes")
    require_within("the number of features", width, 1, sum(array.size for array in arrays.values()))


def check_counts(content: Mapping[str, Any], book: Array, found: Array) -> None:
    """Check that header, book and meter count the same rounds and labels; a newer book counts only the later ones."""
    rounds, told, expired = (whole_number(content, name, 0) for name in ("rounds", "told", "expired"))
    pending = len(listed(content, "pending", rounds))
    asked = told + expired + pending
    for name, counted, place in (("rounds", rounds, meter.ROUNDS), ("told", told, meter.TOLD)):
        require_that(found[place] == counted, f"the header counts {counted} {name}, but the meter {found[place]}")
    require_that(found[meter.ASKED] == asked, f"{asked} labels were asked for, but the meter has {found[meter.ASKED]}")
    before, earlier = rounds - book[books.ROUNDS], asked - book[books.ASKED]
    require_that(0 <= earlier <= before, f"the book has {book[books.ASKED]} labels of {asked} that were asked for")


def check_generator(state: Any) -> None:
    """Check the state of numpy's default generator."""
    require_that(type(state) is dict and state.get("bit_generator") == "PCG64", "generator is not a state of PCG64")
    numbers = state["state"]
    for name, bits in (("state", _STATE_BITS), ("inc", _STATE_BITS)):
        whole_number(numbers, name, 0, 2**bits - 1)
    require_that(numbers["inc"] % 2 == 1, "the increment of generator is even")
    whole_number(state, "has_uint32", 0, 1)
    whole_number(state, "uinteger", 0, 2**_INTEGER_BITS - 1)


def checked_uniforms(uniforms: Array, most: int) -> list[float]:
    """The draws in hand: at most `most`, each at least 0 and below 1."""
    require_within("the number of uniforms", len(uniforms), 0, most)
    require_within("uniforms", uniforms, 0.0, math.nextafter(1.0, 0.0))
    drawn: list[float] = uniforms.tolist()
    return drawn


def checked_source_rows(content: Mapping[str, Any], classes: int) -> list[int] | None:
    """How many labelled rows of each class a learner started from; older files do not say."""
    if not content.get("source_rows"):
        return None
    rows = listed(content, "source_rows", classes)
    require_that(len(rows) == classes, f"source_rows has {len(rows)} numbers, but there are {classes} classes")
    for count in rows:
        whole_number({"source_rows": count}, "source_rows", 0)
    require_that(sum(rows) > 0, "source_rows are all 0")
    return rows


class Awaited:
    """The pending queries of a file, each checked when it is read."""

    def __init__(self, saved: Saved, samples: NDArray[Any], classes: int) -> None:
        """`samples` is an empty stack of samples with the shape and type that the model takes."""
        arrays, content = saved
        self._rows = listed(content, "pending", content["rounds"])
        self._rounds, self._classes = int(content["rounds"]), classes
        if not self._rows:
            return
        count = len(self._rows)
        stack, scores = arrays["pending.samples"], arrays["pending.scores"]
        self._scores = scores[:, None] if scores.ndim == 1 else scores  # as in older files
        require_that(
            stack.shape == (count, *samples.shape[1:]) and stack.dtype == samples.dtype,
            f"pending.samples is {stack.dtype} of shape {stack.shape}, but the model takes others",
        )
        require_that(np.isfinite(stack), "pending.samples holds numbers that are not finite")
        require_that(
            self._scores.shape[0] == count and self._scores.dtype == np.float64 and self._scores.ndim == 2,
            "pending.scores has another shape than pending",
        )
        width = self._scores.shape[1]
        require_within("the width of pending.scores", width, 1, classes)
        known = width - np.isnan(self._scores).sum(axis=1)  # nan pads scores of fewer classes
        finite = np.isfinite(self._scores) == (np.arange(width) < known[:, None])
        require_that((known > 0).all() and finite.all(), "pending.scores holds numbers that are not finite")
        self._known: list[int] = known.tolist()
        self._draws = arrays.get("pending.draws", np.full(count, np.nan))  # older files have none
        require_that(self._draws.shape == (count,), "pending.draws has another length than pending")

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, i: int) -> int:
        """The id of the i-th query; ids increase."""
        row = self._rows[i]
        require_that(
            type(row) is list and len(row) == len(Observation._fields), f"pending query {i} is not a list of 8"
        )
        least = 0 if i == 0 else self._rows[i - 1][0] + 1
        return whole_number({"pending.id": row[0]}, "pending.id", least, self._rounds - 1)

    def seen(self, i: int) -> Observation:
        """What was observed when the i-th query was asked."""
        score = self._score(i)
        label, query, pseudolabel, margin, probability, withheld, expected = self._rows[i][1:]
        for name, value in (("label", label), ("pseudolabel", pseudolabel)):
            whole_number({f"pending.{name}": value}, f"pending.{name}", 0, self._classes - 1)
        require_that(query is True, f"pending query {i} was not asked")
        require_within("pending.margin", margin, 0.0, 1e300)
        require_within("pending.probability", probability, 1e-300, 1.0)
        require_that(withheld == books.ALLOWED, f"pending query {i} was withheld")
        require_within("pending.expected", expected, 0, meter.BINS - 1, whole=True)
        return Observation(label, True, pseudolabel, float(margin), float(probability), 0, float(expected), score)

    def draw(self, i: int) -> float:
        """The uniform that decided on the i-th query."""
        draw = float(self._draws[i])
        require_that(math.isnan(draw) or 0.0 <= draw < self._rows[i][5], f"pending.draws holds {draw}")
        return draw

    def _score(self, i: int) -> Any:
        """The score of the i-th query: one number for two classes, else a vector."""
        known = self._known[i]
        return float(self._scores[i, 0]) if known == 1 else self._scores[i, :known].copy()
