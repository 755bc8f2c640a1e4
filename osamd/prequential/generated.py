"""Streams on which no constant of the project was chosen: more of River's generators, and difficulties of real tables.

    x, y = MADE["500 features"](seed=0, rounds=1000)

The seed determines everything: the rule, the rows and their order. Nothing is downloaded; Cover-Type is read from the
folder that OSAMD_DATA_DIR names, as by `osamd.streams.cover_type`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.numerics import Array
from osamd.prequential.shipped import Shipped, numbers, shuffled
from osamd.streams.base import Labels
from osamd.streams.real.cover_type import FEATURES, whole_table

MINUTE = 60.0
FIRST_DATE = 1.7e9
"""Seconds since 1970: a date as in a log, with one row per minute."""

WILD_SHARE, WILD_FACTOR = 0.02, 1e4
"""The share of values that are outliers, and the factor they are multiplied by, as if their unit were wrong."""


def random_tree(seed: int, rounds: int) -> tuple[Array, Labels]:
    return numbers(tree(seed, seed).take(rounds))


def tree(rule: int, seed: int) -> Any:
    """Three classes, given by the leaves of a random tree over five numbers and three categories."""
    from river.datasets import synth

    return synth.RandomTree(rule, seed, n_classes=3, n_cat_features=3, n_categories_per_feature=4)


def random_rbf(seed: int, rounds: int) -> tuple[Array, Labels]:
    """Fifty fixed balls of five classes."""
    from river.datasets import synth

    return numbers(synth.RandomRBF(seed, seed + 1, n_classes=5, n_features=20).take(rounds))


def anomalies(seed: int, rounds: int) -> tuple[Array, Labels]:
    """A noisy circle; 6 % of its rows are shifted off it."""
    from river.datasets import synth

    return numbers(synth.AnomalySine(n_samples=rounds, n_anomalies=round(0.06 * rounds), noise=0.3, seed=seed))


def gradual(name: str, first: int, second: int) -> Shipped:
    """One rule of a River generator gradually replaces another around the middle, over a fifth of the rounds."""

    def draw(seed: int, rounds: int) -> tuple[Array, Labels]:
        from river.datasets import synth

        kind = tree if name == "RandomTree" else getattr(synth, name)
        early, late = kind(first, seed=seed), kind(second, seed=seed + 1)
        changing = synth.ConceptDriftStream(early, late, position=rounds // 2, width=rounds // 5, seed=seed)
        return numbers(changing.take(rounds))

    return draw


def table(features: int, **settings: Any) -> Shipped:
    """A table from scikit-learn's make_classification; a tenth of the features, at least five, are informative."""

    def draw(seed: int, rounds: int) -> tuple[Array, Labels]:
        from sklearn.datasets import make_classification  # type: ignore[import-untyped]

        informative = max(5, features // 10)
        given = {"n_informative": informative, "n_redundant": informative, "flip_y": 0.02} | settings
        x, y = make_classification(rounds, features, random_state=seed, **given)
        return x, np.unique(y, return_inverse=True)[1]

    return draw


def tight_classes(seed: int, rounds: int) -> tuple[Array, Labels]:
    """Forty small balls in ten features, one class each."""
    from sklearn.datasets import make_blobs

    x, y = make_blobs(rounds, n_features=10, centers=40, cluster_std=1.0, random_state=seed)
    return x, np.unique(y, return_inverse=True)[1]


def with_date(draw: Shipped) -> Shipped:
    """Add a first column that increases with the rows and says nothing about their class."""

    def dated(seed: int, rounds: int) -> tuple[Array, Labels]:
        x, y = draw(seed, rounds)
        return np.column_stack([FIRST_DATE + MINUTE * np.arange(len(y)), x]), y

    return dated


def with_outliers(draw: Shipped) -> Shipped:
    """Make some values of every column outliers."""

    def wild(seed: int, rounds: int) -> tuple[Array, Labels]:
        x, y = draw(seed, rounds)
        return np.where(np.random.default_rng(seed).random(x.shape) < WILD_SHARE, WILD_FACTOR * x, x), y

    return wild


def cover_type_7(seed: int, rounds: int) -> tuple[Array, Labels]:
    """All seven classes: the seed draws rows from the whole file, and keeps their order."""
    rows = whole_table()
    drawn = np.random.default_rng(seed).choice(len(rows), min(rounds, len(rows)), replace=False)
    some = rows[np.sort(drawn)]
    return some[:, :FEATURES].astype(np.float64), np.unique(some[:, FEATURES], return_inverse=True)[1]


def diabetes() -> tuple[Array, Labels]:
    """scikit-learn's diabetes: is the progression above its median?"""
    from sklearn.datasets import load_diabetes

    x, progression = load_diabetes(return_X_y=True, scaled=False)
    return x, (progression > np.median(progression)).astype(np.int64)


MADE: dict[str, Shipped] = {
    "Cover-Type, 7 classes": cover_type_7,
    "diabetes": shuffled(diabetes),
    "RandomTree": random_tree,
    "RandomTree, gradual drift": gradual("RandomTree", 1, 2),
    "Agrawal, gradual drift": gradual("Agrawal", 5, 8),
    "Sine, gradual drift": gradual("Sine", 2, 3),
    "AnomalySine": anomalies,
    "RandomRBF": random_rbf,
    "100 features": table(100, n_classes=3),
    "500 features": table(500),
    "40 tight classes": tight_classes,
    "trending column": with_date(table(20)),
    "outliers": with_outliers(table(20)),
    "6 % positives": table(20, weights=[0.94], n_clusters_per_class=1),
}
