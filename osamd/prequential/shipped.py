"""Streams that are shipped with River and scikit-learn, or that River generates; nothing is downloaded.

    x, y = SHIPPED["Phishing"](seed=0, rounds=2000)

The rows of a data set come once each, in an order drawn from the seed; a generator draws its rows from the seed. If
"drift" is part of the name, the second half of the rounds has another rule than the first, or the rule moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Protocol

import numpy as np

from osamd.numerics import Array
from osamd.streams.base import Labels


class Shipped(Protocol):
    """Rows of floats, and classes 0, 1, ...: at most `rounds` of them."""

    def __call__(self, seed: int, rounds: int) -> tuple[Array, Labels]: ...


def numbers(samples: Iterable[tuple[Mapping[str, Any], Any]]) -> tuple[Array, Labels]:
    """River's dictionaries as an array, with the columns of the first one; classes are in the order of their names."""
    held = list(samples)
    columns = list(held[0][0])
    x = np.array([[float(row[name]) for name in columns] for row, _ in held])
    return x, np.unique([label for _, label in held], return_inverse=True)[1]


def shuffled(read: Callable[[], tuple[Array, Labels]]) -> Shipped:
    """A data set in an order drawn from the seed."""

    def draw(seed: int, rounds: int) -> tuple[Array, Labels]:
        x, y = read()
        order = np.random.default_rng(seed).permutation(len(y))[:rounds]
        return np.asarray(x, dtype=np.float64)[order], np.unique(y[order], return_inverse=True)[1]

    return draw


def river_data(name: str) -> Shipped:
    def read() -> tuple[Array, Labels]:
        from river import datasets

        return numbers(getattr(datasets, name)())

    return shuffled(read)


def sklearn_data(name: str) -> Shipped:
    def read() -> tuple[Array, Labels]:
        from sklearn import datasets  # type: ignore[import-untyped]

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return x, y

    return shuffled(read)


def generated(name: str, *rules: Any, **settings: Any) -> Shipped:
    """A River generator; if there are two rules, its first argument, each has half of the rounds; the second takes
    seed + 1."""

    def draw(seed: int, rounds: int) -> tuple[Array, Labels]:
        from river.datasets import synth

        kind = getattr(synth, name)
        if not rules:
            return numbers(kind(seed=seed, **settings).take(rounds))
        half = rounds // 2
        parts = [
            kind(rule, seed=seed + i, **settings).take(n)
            for i, (rule, n) in enumerate(zip(rules, (half, rounds - half), strict=True))
        ]
        return numbers(sample for part in parts for sample in part)

    return draw


def rbf(seed: int, rounds: int) -> tuple[Array, Labels]:
    """Twelve moving balls of three classes."""
    from river.datasets import synth

    moving = synth.RandomRBFDrift(
        seed, seed + 1, n_classes=3, n_features=10, n_centroids=12, change_speed=0.001, n_drift_centroids=12
    )
    return numbers(islice(moving, rounds))


SHIPPED: dict[str, Shipped] = {
    "Phishing": river_data("Phishing"),
    "Bananas": river_data("Bananas"),
    "ImageSegments": river_data("ImageSegments"),
    "Shuttle": river_data("Shuttle"),
    "digits": sklearn_data("digits"),
    "breast cancer": sklearn_data("breast_cancer"),
    "wine": sklearn_data("wine"),
    "Waveform": generated("Waveform"),
    "LED": generated("LEDDrift", noise_percentage=0.1, irrelevant_features=True, n_drift_features=4),
    "Hyperplane, drift": generated(
        "Hyperplane", n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05
    ),
    "RandomRBF, drift": rbf,
    "SEA, drift": generated("SEA", 0, 3, noise=0.1),
    "Agrawal, drift": generated("Agrawal", 0, 2),
    "Sine, drift": generated("Sine", 0, 1),
    "Mixed, drift": generated("Mixed", 0, 1),
    "STAGGER, drift": generated("STAGGER", 0, 1),
}
"""The parameters of River's LEDDrift choose once which features are swapped; its rule does not move."""
