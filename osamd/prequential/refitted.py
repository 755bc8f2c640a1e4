"""Simple peers that are strong with few labels: models refitted at every label, nearest neighbour, and River's forest.

All start from nothing, ask by the same rule (random variable uncertainty), and keep the same promise as our learner:
asked <= budget t after every round t. Until two classes have been seen, they ask whenever the budget allows.

    score = REFITTED["logistic-all"].play(rows, budget=0.05, seed=0)
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from osamd.numerics import Array
from osamd.prequential.peers import Peer, PeerRows, Play, RunScore, scaled, scored

TREES = 30
"""Trees of scikit-learn's random forest. Its default of 100 takes three times as long, and forests take most time."""

RIVER_TREES = 10
"""Trees of River's adaptive random forest: its default."""

WINDOWS: dict[str, int | None] = {"150": 150, "500": 500, "all": None}
"""How many of the last labels a model is refitted to; None for all."""

NEIGHBOURS = 1000
"""How many of the last labels nearest neighbour remembers."""

AHEAD = 8
"""How many rows are decided in one call from the first that may be asked for. A label makes the rest void, and about
every second row that may be asked for is, so more would be wasted work."""


class Threshold:
    """Random variable uncertainty (Zliobaite et al. 2014): ask where the largest probability is below a threshold.

    The threshold adapts: it falls by a hundredth with each label asked for, and rises by a hundredth otherwise. It is
    multiplied by a normal draw with mean and deviation 1, so that rows with high confidence are sometimes asked for
    too. Rounds in which the budget allows no label do not change it.
    """

    START, STEP, DEVIATION = 1.0, 0.01, 1.0

    def __init__(self) -> None:
        self.level = self.START

    def asks(self, confidence: float, normal: float) -> bool:
        """Whether to ask for a row's label, by its largest probability and a standard normal draw."""
        below = confidence < self.level * (1.0 + self.DEVIATION * normal)
        self.level *= 1.0 - self.STEP if below else 1.0 + self.STEP
        return below


class Model(Protocol):
    """A model that learns labels one at a time and gives the probabilities of the classes 0, 1, ... for many rows."""

    @property
    def seen(self) -> int:
        """The number of classes among the labels that it remembers."""

    def learn(self, x: Array, label: int) -> None: ...

    def probabilities(self, block: Array) -> Array: ...


class LabelMemory:
    """The last labelled rows, or all of them: the base of the peers below."""

    def __init__(self, classes: int, size: int | None) -> None:
        self.rows: deque[Array] = deque(maxlen=size)
        self.labels: deque[int] = deque(maxlen=size)
        self.classes = classes

    @property
    def seen(self) -> int:
        return len(set(self.labels))

    def learn(self, x: Array, label: int) -> None:
        self.rows.append(x)
        self.labels.append(label)


class Refitted(LabelMemory):
    """A scikit-learn model, refitted to the memory after every label."""

    def __init__(self, make: Callable[[], Any], classes: int, size: int | None) -> None:
        super().__init__(classes, size)
        self.make = make
        self.fitted: Any = None

    def learn(self, x: Array, label: int) -> None:
        super().learn(x, label)
        self.fitted = None

    def probabilities(self, block: Array) -> Array:
        found = np.zeros((len(block), self.classes))
        if self.seen < 2:
            found[:, self.labels[-1] if self.labels else 0] = 1.0
            return found
        if self.fitted is None:
            self.fitted = self.make().fit(np.array(self.rows), np.array(self.labels))
        found[:, self.fitted.classes_] = self.fitted.predict_proba(block)
        return found


class Nearest(LabelMemory):
    """The class of the nearest remembered row; the first of several equally near ones."""

    def probabilities(self, block: Array) -> Array:
        from scipy.spatial.distance import cdist

        found = np.zeros((len(block), self.classes))
        nearest = cdist(block, np.array(self.rows)).argmin(axis=1) if self.labels else np.zeros(len(block), np.int64)
        found[np.arange(len(block)), np.array(self.labels or [0])[nearest]] = 1.0
        return found


class AdaptiveForest:
    """River's adaptive random forest."""

    def __init__(self, classes: int, seed: int) -> None:
        from river import forest

        self.forest = forest.ARFClassifier(n_models=RIVER_TREES, seed=seed)
        self.classes, self.labels = classes, set[int]()

    @property
    def seen(self) -> int:
        return len(self.labels)

    def learn(self, x: Array, label: int) -> None:
        self.labels.add(label)
        self.forest.learn_one(dict(enumerate(x.tolist())), label)

    def probabilities(self, block: Array) -> Array:
        found = np.zeros((len(block), self.classes))
        for row, x in zip(found, block.tolist(), strict=True):
            for label, probability in self.forest.predict_proba_one(dict(enumerate(x))).items():
                row[int(label)] = probability
        return found


def first_allowed(asked: int, budget: float) -> int:
    """The first row, counted from 0, after which asked + 1 <= budget t.

    >>> first_allowed(0, 0.05), first_allowed(2, 0.1), first_allowed(0, 1.0)
    (19, 29, 0)
    """
    row = max(0, math.floor((asked + 1) / budget) - 2)  # not beyond the row sought, whatever the rounding
    while asked + 1 > budget * (row + 1):
        row += 1
    return row


def played(model: Model, x: Array, y: Any, budget: float, seed: int) -> RunScore:
    """Test, then train; the rows up to the next one that may be asked for are decided in one call."""
    normal, threshold = np.random.default_rng(seed), Threshold()
    decided, asked, t = np.zeros(len(y), np.int64), 0, 0
    while t < len(y):
        allowed = max(t, first_allowed(asked, budget))
        end = min(len(y), allowed + AHEAD)
        probabilities = model.probabilities(x[t:end])
        decided[t:end] = probabilities.argmax(axis=1)
        largest = probabilities.max(axis=1)
        for row in range(allowed, end):
            if model.seen < 2 or threshold.asks(float(largest[row - t]), float(normal.standard_normal())):
                model.learn(x[row], int(y[row]))
                asked, end = asked + 1, row + 1
                break
        t = end
    return scored(decided, y, asked)


class PeerStart(NamedTuple):
    """What a model is made from, before it has seen a row."""

    classes: int
    seed: int


def from_nothing(make: Callable[[PeerStart], Model], standardised: bool) -> Play:
    """A peer that plays a stream without a source; `strict` or not, it keeps the budget at every round."""

    def play(rows: PeerRows, budget: float, seed: int, strict: bool = True) -> RunScore:
        x, y = (scaled(rows) if standardised else rows).stream
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit to few labels may not converge
            return played(make(PeerStart(rows.classes, seed)), x, y, budget, seed)

    return play


def logistic(size: int | None) -> Play:
    def make(start: PeerStart) -> Model:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        return Refitted(LogisticRegression, start.classes, size)

    return from_nothing(make, standardised=True)


def forest(size: int | None) -> Play:
    def make(start: PeerStart) -> Model:
        from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

        return Refitted(lambda: RandomForestClassifier(TREES, random_state=start.seed), start.classes, size)

    return from_nothing(make, standardised=False)


def stand_in(name: str, labels: int) -> str:
    """The peer that plays in this one's place if at most this many labels can be asked for.

    A window that holds all of them is the same as no window.

    >>> stand_in("forest-150", labels=150), stand_in("forest-150", labels=151), stand_in("nearest", labels=10)
    ('forest-all', 'forest-150', 'nearest')
    """
    family, _, window = name.rpartition("-")
    size = WINDOWS.get(window)
    return f"{family}-all" if size is not None and labels <= size else name


def _in_words(window: int | None) -> str:
    return "all labels" if window is None else f"last {window} labels"


REFITTED: dict[str, Peer] = {
    f"{name}-{key}": Peer(f"{title}, {_in_words(size)}", "scikit-learn", "sklearn", name == "forest", play(size))
    for name, title, play in (
        ("logistic", "logistic regression", logistic),
        ("forest", f"random forest of {TREES} trees", forest),
    )
    for key, size in WINDOWS.items()
} | {
    "nearest": Peer(
        f"nearest neighbour, {_in_words(NEIGHBOURS)}",
        "scipy",
        "scipy",
        False,
        from_nothing(lambda start: Nearest(start.classes, NEIGHBOURS), standardised=True),
    ),
    "river-arf": Peer(
        f"River's adaptive random forest of {RIVER_TREES} trees",
        "river",
        "river",
        False,
        from_nothing(lambda start: AdaptiveForest(start.classes, start.seed), standardised=False),
    ),
}
