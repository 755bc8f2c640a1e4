"""Classes whose centres rotate: the paper's Rotating Gaussian, and a separable sibling with bounded noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import (
    InputError,
    reject,
    require_finite,
    require_kind,
    require_number,
    require_numbers,
    require_positive,
    require_whole,
)
from osamd.numerics import Array
from osamd.paper.losses import Loss
from osamd.streams.base import Drift, ExactStream, Labels

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
ROWS = 2048
"""The number of rounds whose expectations are computed at a time, to bound memory."""


class Noise(NamedTuple):
    """Isotropic noise around a centre: how to draw it, and the law of its projection onto any unit vector.

    The projection is scale * place(v) with v in [-edge, edge] of density `density(v)`; expectations are
    Gauss-Legendre sums over v, on panels that are also split at the kinks and bends of the loss.
    """

    scale: float
    draw: Callable[[np.random.Generator, int, int], Array]
    edge: float
    place: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    density: Callable[[Array], Array]
    panels: int


def gaussian_noise(std: float) -> Noise:
    """N(0, std^2 I). Nine standard deviations hold all but 2e-19 of the mass."""
    std = require_positive("gaussian_noise", "std", std)
    return Noise(
        std,
        lambda generator, n, d: std * generator.standard_normal((n, d)),
        9.0,
        lambda v: v,
        lambda place: place,
        lambda v: np.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi),
        12,
    )


def ball_noise(radius: float, dimension: int) -> Noise:
    """Uniform in the ball of this radius. Its projection is radius sin(v) with a density proportional to cos^d v."""
    radius = require_positive("ball_noise", "radius", radius)
    dimension = require_whole("ball_noise", "dimension", dimension)

    def draw(generator: np.random.Generator, n: int, d: int) -> Array:
        direction = generator.standard_normal((n, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return radius * generator.random((n, 1)) ** (1.0 / d) * direction

    mass = math.sqrt(math.pi) * math.exp(math.lgamma(0.5 * (dimension + 1)) - math.lgamma(0.5 * dimension + 1.0))
    return Noise(
        radius,
        draw,
        0.5 * math.pi,
        np.sin,
        lambda place: np.arcsin(np.clip(place, -1.0, 1.0)),
        lambda v: np.cos(v) ** dimension / mass,
        4,
    )


class Rotating(ExactStream):
    """Class y is centre_y + noise; the centres rotate counterclockwise in the plane of the first two features.

    The angle in round t = 0, ..., rounds - 1 is `turn` * t / (rounds - 1), so the total rotation is the same for every
    horizon. Every class has the same probability. Expected losses are exact to rounding for two classes.
    """

    def __init__(
        self,
        name: str,
        centres: Sequence[Sequence[float]],
        noise: Noise,
        rounds: int,
        *,
        turn: float = math.pi,
        classes: tuple[int, ...] = (-1, 1),
    ) -> None:
        self.name = name
        self.rounds = require_whole("Rotating", "rounds", rounds)
        self.centres = require_numbers("Rotating", "centres", centres).copy()
        require_finite("Rotating", "centres", self.centres)
        if self.centres.ndim != 2 or self.centres.shape[1] < 2:
            rule = "each centre needs at least two coordinates, to rotate in their plane."
            raise reject("Rotating", "centres", centres, rule)
        if len(self.centres) < 2 or len(classes) != len(self.centres):
            raise reject("Rotating", "centres", centres, "give one centre per class, for at least two classes.")
        require_kind("Rotating", "noise", noise, Noise, "use gaussian_noise(std) or ball_noise(radius, dimension)")
        self.features = self.centres.shape[1]
        self.classes = classes
        self.noise = noise
        self.turn = require_number("Rotating", "turn", turn, math.isfinite, "turn must be a finite angle, in radians.")

    def angle(self, rounds: NDArray[np.int64]) -> Array:
        """The rotation in each round, in radians."""
        return self.turn * rounds / max(self.rounds - 1, 1)

    def rotation(self, rounds: NDArray[np.int64]) -> Array:
        turned = np.tile(np.eye(self.features), (len(rounds), 1, 1))
        cos, sin = np.cos(self.angle(rounds)), np.sin(self.angle(rounds))
        turned[:, 0, 0], turned[:, 0, 1], turned[:, 1, 0], turned[:, 1, 1] = cos, -sin, sin, cos
        return turned

    @property
    def drift(self) -> Drift:
        return Drift("rotation", self.angle(np.arange(self.rounds)))

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        y = generator.integers(len(self.classes), size=len(rounds))
        return self.draw_given(generator, rounds, y), y

    def draw_given(self, generator: np.random.Generator, rounds: NDArray[np.int64], y: Labels) -> Array:
        """One x for each round and class."""
        noise = self.noise.draw(generator, len(rounds), self.features)
        centres: Array = np.einsum("tij,tj->ti", self.rotation(rounds), self.centres[y])
        return centres + noise

    def expected_loss(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        total: Array = np.concatenate([part[0] for part in self._expectations(loss, rounds, weights, False)])
        return total

    def expected_gradient(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        return np.concatenate([part[1] for part in self._expectations(loss, rounds, weights, True)])

    def _expectations(
        self, loss: Loss, rounds: NDArray[np.int64], weights: Array, gradient: bool
    ) -> list[tuple[Array, Array]]:
        """(value, gradient) for ROWS rounds at a time.

        With u the noise along w, in units of its scale, the margin is m + s u with s = scale ||w||, and
        grad E phi = sum_y P(y) (sign c_y E phi' + scale (w / ||w||) E[phi' u]).
        """
        if len(self.classes) != 2:
            raise InputError(f"`{self.name}`: expected losses are exact for two classes, not {len(self.classes)}.")
        parts = []
        for start in range(0, len(rounds), ROWS):
            some, w = rounds[start : start + ROWS], weights[start : start + ROWS, : self.features]
            bias = (
                weights[start : start + ROWS, self.features] if weights.shape[1] > self.features else np.zeros(len(w))
            )
            length = np.linalg.norm(w, axis=1)
            spread = self.noise.scale * length
            value, pulled = np.zeros(len(some)), np.zeros((len(some), weights.shape[1]))
            for sign, centre in ((-1.0, self.centres[0]), (1.0, self.centres[1])):
                placed = self.rotation(some) @ centre
                mean = sign * (np.einsum("ti,ti->t", placed, w) + bias)
                u, mass = self._nodes(mean, spread, loss.kinks + loss.bends)
                margin = mean[:, None] + spread[:, None] * u
                value += 0.5 * (mass * loss.value(margin)).sum(axis=1)
                if gradient:
                    slope = mass * loss.slope(margin)
                    along = self.noise.scale * (slope * u).sum(axis=1) / np.where(length > 0.0, length, 1.0)
                    slope = sign * slope.sum(axis=1)
                    pulled[:, : self.features] += 0.5 * (slope[:, None] * placed + along[:, None] * w)
                    if weights.shape[1] > self.features:
                        pulled[:, self.features] += 0.5 * slope
            parts.append((value, pulled))
        return parts

    def _nodes(self, mean: Array, spread: Array, splits: tuple[float, ...]) -> tuple[Array, Array]:
        """Nodes u and weights for the expectation of a function of mean + spread u, split where that equals a
        margin."""
        noise = self.noise
        edges = np.tile(np.linspace(-noise.edge, noise.edge, noise.panels + 1), (len(mean), 1))
        for split in splits:
            # A split beyond 1e6 noise scales lies outside [-edge, edge], as one at infinity (no spread) does.
            place = (split - mean) / np.maximum(spread, 1e-6 * np.abs(split - mean) + 1e-300)
            at = np.clip(noise.inverse(place), -noise.edge, noise.edge)
            edges = np.concatenate([edges, at[:, None]], axis=1)
        edges.sort(axis=1)
        half = 0.5 * (edges[:, 1:] - edges[:, :-1])
        v = (edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES
        mass = half[:, :, None] * WEIGHTS * noise.density(v)
        return noise.place(v).reshape(len(mean), -1), mass.reshape(len(mean), -1)


def rotating_gaussian(rounds: int = 2000, features: int = 2) -> Rotating:
    """The paper's Rotating Gaussian: covariance 3 I, centres at distance 5 and 15 that rotate by 180 degrees.

    Differs from the paper: the class at (15, 0) is +1 and the one at (5, 0) is -1, because otherwise the
    starting point [0.4, 0, -4] would not classify the first domain. Features after the second are noise around zero.

    >>> stream = rotating_gaussian()
    >>> x, y = stream.sample(seed=0)
    >>> x.shape, stream.classes[y[0]] in (-1, 1)
    ((2000, 2), True)
    """
    rounds = require_whole("rotating_gaussian", "rounds", rounds)
    rest = [0.0] * (require_whole("rotating_gaussian", "features", features, 2) - 1)
    return Rotating("rotating-gaussian", [[5.0, *rest], [15.0, *rest]], gaussian_noise(math.sqrt(3.0)), rounds)


def rotating_balls(
    rounds: int = 2000, features: int = 2, *, distance: float = 0.55, radius: float = 0.45, turn: float = math.pi
) -> Rotating:
    """A separable rotating stream: two balls opposite each other, inside the unit ball, with a gap between them.

    x is uniform in the ball around +-`distance` e_1, rotated. The unit vector e_1 (rotated) separates the classes with
    margin `distance` - `radius`, without a bias. Also ||x|| <= 1, so every constant of the theory is known.
    """
    rounds = require_whole("rotating_balls", "rounds", rounds)
    features = require_whole("rotating_balls", "features", features, 2)
    distance = require_positive("rotating_balls", "distance", distance)
    rule = f"needs 0 < radius < distance and distance + radius <= 1, where distance is {distance}."
    radius = require_number("rotating_balls", "radius", radius, lambda v: 0 < v < distance and distance + v <= 1, rule)
    rest = [0.0] * (features - 1)
    noise = ball_noise(radius, features)
    return Rotating("rotating-balls", [[-distance, *rest], [distance, *rest]], noise, rounds, turn=turn)
