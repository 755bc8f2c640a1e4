"""Noisy tables without drift: the classes overlap, and the best possible accuracy is known."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from osamd.errors import reject, require_finite, require_number, require_numbers, require_whole
from osamd.numerics import Array
from osamd.streams.base import DrawnStream, Labels


class NoisyTable(DrawnStream):
    """A stream of two classes with the same law in every round, whose P(Y = 1 | x) is known."""

    classes = (0, 1)

    @abstractmethod
    def draw_features(self, generator: np.random.Generator, count: int) -> Array:
        """The features of `count` samples, one row for each."""

    @abstractmethod
    def probability(self, x: Array) -> Array:
        """P(Y = 1 | x) for each row of x."""

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        x = self.draw_features(generator, len(rounds))
        return x, (generator.random(len(rounds)) < self.probability(x)).astype(np.int64)

    def best_accuracy(self, count: int = 100_000, seed: int = 0) -> float:
        """The Bayes accuracy E max_y P(y | x), from `count` samples (standard error: at most 0.25 / sqrt(count))."""
        probability = self.probability(self.draw_features(np.random.default_rng(seed), count))
        return float(np.maximum(probability, 1.0 - probability).mean())


class LogisticTable(NoisyTable):
    """Standard normal features, with labels drawn from a logistic model: P(Y = 1 | x) = expit(w.x + bias).

    >>> stream = LogisticTable(2000, weights=[3.0, -1.0])
    >>> x, y = stream.sample(seed=0)
    >>> x.shape, round(float(y[x[:, 0] > 1.0].mean()), 1)
    ((2000, 2), 1.0)
    """

    def __init__(self, rounds: int, weights: ArrayLike, bias: float = 0.0) -> None:
        self.name = "logistic-table"
        self.rounds = require_whole("LogisticTable", "rounds", rounds)
        self.weights = require_numbers("LogisticTable", "weights", weights).copy()
        require_finite("LogisticTable", "weights", self.weights)
        if self.weights.ndim != 1 or not len(self.weights):
            raise reject("LogisticTable", "weights", weights, "give one number for each feature, and at least one.")
        finite = "bias must be a finite number."
        self.bias = require_number("LogisticTable", "bias", bias, lambda v: abs(v) < float("inf"), finite)
        self.features = len(self.weights)

    def draw_features(self, generator: np.random.Generator, count: int) -> Array:
        return generator.standard_normal((count, self.features))

    def probability(self, x: Array) -> Array:
        found: Array = expit(x @ self.weights + self.bias)
        return found


def logistic_table(rounds: int = 2000, features: int = 5, strength: float = 2.3) -> LogisticTable:
    """A `LogisticTable` whose weights alternate in sign and fall from feature to feature, to about a quarter.

    The score w.x has the standard deviation `strength`, which alone decides how noisy the labels are: the Bayes
    accuracy is E expit(|s|) with s from N(0, strength^2), which is 80 % for 2.3 and 90 % for 5.3.

    >>> round(logistic_table().best_accuracy(), 2)
    0.8
    """
    features = require_whole("logistic_table", "features", features)
    rule = "strength is the standard deviation of the score: a positive and finite number."
    strength = require_number("logistic_table", "strength", strength, lambda v: 0.0 < v < float("inf"), rule)
    place = np.arange(features)
    weights = 0.5 ** (2.0 * place / features) * np.where(place % 2, -1.0, 1.0)
    return LogisticTable(rounds, strength * weights / np.linalg.norm(weights))


class MachineTable(NoisyTable):
    """Readings of a pump, each in its own unit, and whether an inspection calls it faulty; the best accuracy is 82 %.

    Faults go along with hot bearings, vibration and hours since the last service. Current, speed, motor temperature and
    bearing temperature follow the load and each other; voltage, humidity, shift and asset number are irrelevant. The
    inspection is wrong in a share `noise` of the cases, whatever the readings are.

    >>> stream = MachineTable(2000)
    >>> stream.features, round(stream.best_accuracy(), 2)
    (13, 0.82)
    """

    columns = (
        "load_percent",
        "hours_since_service",
        "ambient_celsius",
        "current_ampere",
        "speed_rpm",
        "motor_celsius",
        "bearing_celsius",
        "vibration_mm_per_s",
        "oil_pressure_bar",
        "voltage_volt",
        "humidity_percent",
        "night_shift",
        "asset_number",
    )

    def __init__(self, rounds: int = 2000, noise: float = 0.08) -> None:
        self.name = "machine-table"
        self.rounds = require_whole("MachineTable", "rounds", rounds)
        rule = "noise is the share of wrong inspections: a number from 0 to 0.5."
        self.noise = require_number("MachineTable", "noise", noise, lambda v: 0.0 <= v <= 0.5, rule)
        self.features = len(self.columns)

    def draw_features(self, generator: np.random.Generator, count: int) -> Array:
        normal = generator.standard_normal((count, 8)).T
        load, hours = generator.beta(2.0, 2.0, count), generator.gamma(2.0, 400.0, count)
        ambient = 20.0 + 6.0 * normal[0]
        motor = ambient + 35.0 * load + 2.0 * normal[3]
        readings = {
            "load_percent": 100.0 * load,
            "hours_since_service": hours,
            "ambient_celsius": ambient,
            "current_ampere": 4.0 + 18.0 * load + 0.8 * normal[1],
            "speed_rpm": 3000.0 - 150.0 * load + 20.0 * normal[2],
            "motor_celsius": motor,
            "bearing_celsius": 5.0 + 0.9 * motor + 3.0 * normal[4],
            "vibration_mm_per_s": np.exp(0.3 + hours / 2000.0 + 0.4 * normal[5]),
            "oil_pressure_bar": 5.0 - 0.0005 * hours + 0.2 * normal[6],
            "voltage_volt": 400.0 + 4.0 * normal[7],
            "humidity_percent": generator.uniform(30.0, 80.0, count),
            "night_shift": generator.integers(0, 2, count).astype(np.float64),
            "asset_number": generator.integers(1, 61, count).astype(np.float64),
        }
        return np.column_stack([readings[name] for name in self.columns])

    def probability(self, x: Array) -> Array:
        hours, bearing, vibration = (
            x[:, self.columns.index(name)] for name in ("hours_since_service", "bearing_celsius", "vibration_mm_per_s")
        )
        # Each of the three terms has a standard deviation near 1; the constant at the end makes 38 % faulty.
        score = 2.0 * ((bearing - 40.0) / 9.0 + (np.log(vibration) - 0.7) / 0.5 + (hours - 800.0) / 570.0) - 1.0
        found: Array = self.noise + (1.0 - 2.0 * self.noise) * expit(score)
        return found
