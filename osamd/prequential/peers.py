"""Strategies of scikit-activeml and River to compare with ours: the same rows, the same source, the same budget.

Each has a linear model, on rows standardised by their running mean and deviation. It takes one gradient step per label;
the ones called refitted are fitted to all labels so far at every label, which is stronger where there is little drift.
Strategies that are not installed are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import metadata, util
from typing import Any, NamedTuple, Protocol

import numpy as np

from osamd.numerics import Array
from osamd.streams.base import Labels

STREAM_STEP, TABLE_STEP = 6.0, 0.6
"""The peers' gradient step times (features + 1). The first, a step of 2 for two features, is the best for them of eight
steps between 0.01 and 10 on the Rotating Gaussian, in hindsight; tables are noisier and drift less."""

PASSES = 5
"""Passes over the source before the first round."""

FIRST = 5
"""Without a source, River's sampler is made to ask for this many labels per class."""

AHEAD = 32
"""The number of rows decided in one call."""


class RunScore(NamedTuple):
    """The result of one run: accuracy and labels as shares of its rounds, and the mean recall of the classes."""

    accuracy: float
    labels: float
    balanced_accuracy: float


def scored(decided: Sequence[int] | Labels, truth: Labels, asked: int) -> RunScore:
    """The score of the decisions; balanced accuracy is the mean recall of the classes that occur.

    >>> scored([0, 0, 0, 0], np.array([0, 0, 0, 1]), asked=2)
    RunScore(accuracy=0.75, labels=0.5, balanced_accuracy=0.5)
    """
    right = np.asarray(decided) == truth
    recalls = [float(right[truth == label].mean()) for label in np.unique(truth)]
    return RunScore(float(right.mean()), asked / len(truth), float(np.mean(recalls)))


class Play(Protocol):
    """Play the rows once; if `strict`, a query that would break asked <= budget t after a round t is not answered."""

    def __call__(self, rows: PeerRows, budget: float, seed: int, strict: bool = False) -> RunScore: ...


class Peer(NamedTuple):
    """A strategy of another project; `module` is the import name, `package` the name to install."""

    title: str
    package: str
    module: str
    slow: bool
    """It takes some milliseconds per round, so fewer seeds are played."""
    play: Play
    tables_only: bool = False
    """It is left out on named streams, which drift, to save time."""

    @property
    def installed(self) -> bool:
        return util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        return metadata.version(self.package)


class PeerRows(NamedTuple):
    """A source and a stream, with classes 0, 1, ..., and the peers' gradient step times (features + 1)."""

    source: tuple[Array, Labels]
    stream: tuple[Array, Labels]
    classes: int
    reach: float

    @property
    def step(self) -> float:
        return self.reach / (int(self.stream[0].shape[1]) + 1)


def scaled(rows: PeerRows) -> PeerRows:
    """Each row standardised by all rows up to it; the source by all of its rows."""
    (first, y), (x, truth), classes, reach = rows
    whole = np.concatenate([first, x])
    count = np.arange(1, len(whole) + 1)[:, None]
    shift = whole[: max(1, len(first))].mean(axis=0)  # near the mean, so that squares lose no digits
    mean = np.cumsum(whole - shift, axis=0) / count
    variance = np.maximum(np.cumsum((whole - shift) ** 2, axis=0) / count - mean**2, 0.0)
    start = len(first)
    if start:
        mean[:start], variance[:start] = mean[start - 1], variance[start - 1]
    even = (whole - shift - mean) / np.where(variance > 1e-18, np.sqrt(variance), 1.0)
    return PeerRows((even[:start], y), (even[start:], truth), classes, reach)


def skactiveml(name: str, refitted: bool = False) -> Play:
    """A strategy of `skactiveml.stream` around a logistic regression: by gradient steps, or refitted at every label."""

    def play(rows: PeerRows, budget: float, seed: int, strict: bool = False) -> RunScore:
        from skactiveml import stream as strategies  # type: ignore[import-untyped]
        from skactiveml.classifier import SklearnClassifier  # type: ignore[import-untyped]
        from sklearn.linear_model import LogisticRegression, SGDClassifier  # type: ignore[import-untyped]

        (first, known), (x, y), classes, _ = scaled(rows)
        by_steps = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rows.step, random_state=seed)
        model = LogisticRegression() if refitted else by_steps
        clf = SklearnClassifier(model, classes=list(range(classes)), random_state=seed)
        uniform = name == "StreamRandomSampling"
        strategy = getattr(strategies, name)(budget=budget, random_state=seed)
        labelled, labels = list(first), known.tolist()
        asked, outcome = 0, []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model may have seen no label, or one class
            if refitted or not labels:
                clf.fit(first if labels else x[:1], labels or [np.nan])
            else:
                for _ in range(PASSES):  # not `fit`, whose result a class that comes later would discard
                    clf.partial_fit(first, known)
            decided: list[Any] = []
            for t, label in enumerate(y.tolist()):
                candidate = x[t : t + 1]
                if not decided:  # many at once, since a call is slow; a label makes them void
                    decided = clf.predict(x[t : t + AHEAD])[::-1].tolist()
                outcome.append(int(decided.pop()))
                given = {} if uniform else {"clf": clf}
                queried, utilities = strategy.query(candidates=candidate, return_utilities=True, **given)
                if strict and asked + 1 > budget * (t + 1):
                    queried = queried[:0]  # the strategy does not count it as spent either
                counted = {} if uniform else {"budget_manager_param_dict": {"utilities": utilities}}
                strategy.update(candidates=candidate, queried_indices=queried, **counted)
                if len(queried):
                    asked += 1
                    decided = []
                    if refitted:
                        labelled.append(x[t])
                        labels.append(label)
                        clf.fit(np.array(labelled), labels)
                    else:
                        clf.partial_fit(candidate, [label])
        return scored(outcome, y, asked)

    return play


def river(rows: PeerRows, budget: float, seed: int, strict: bool = False) -> RunScore:
    """River's EntropySampler; it has no budget, so a query that would exceed it is withheld, `strict` or not.

    A model that has seen at most one class is never unsure. Without a source it is therefore made to ask for its first
    labels, FIRST times as many as there are classes.
    """
    from river import active, linear_model, optim

    (first, known), (x, y), classes, _ = scaled(rows)
    kind = linear_model.LogisticRegression if classes == 2 else linear_model.SoftmaxRegression
    sampler: Any = active.EntropySampler(kind(optimizer=optim.SGD(rows.step)), seed=seed)
    name: Callable[[int], Any] = bool if classes == 2 else int
    for _ in range(PASSES):
        for row, label in zip(first.tolist(), known.tolist(), strict=True):
            sampler.learn_one(dict(enumerate(row)), name(label))
    first_labels = 0 if len(known) else FIRST * classes
    asked, outcome = 0, []
    for t, (row, label) in enumerate(zip(x.tolist(), y.tolist(), strict=True), start=1):
        sample = dict(enumerate(row))
        decided, ask = sampler.predict_one(sample)
        outcome.append(int(decided) if isinstance(decided, int) else -1)  # no class before the first label
        if (ask or asked < first_labels) and asked + 1 <= budget * t:
            asked += 1
            sampler.learn_one(sample, name(label))
    return scored(outcome, y, asked)


def _skactiveml(title: str, strategy: str, refitted: bool = False) -> Peer:
    title = f"scikit-activeml {title}{', refitted' if refitted else ''}"
    return Peer(title, "scikit-activeml", "skactiveml", True, skactiveml(strategy, refitted), refitted)


STRATEGIES = {"random": "StreamRandomSampling", "variable uncertainty": "VariableUncertainty", "split": "Split"}
PEERS = {
    f"skactiveml-{title.replace(' ', '-')}{'-refitted' if refitted else ''}": _skactiveml(title, strategy, refitted)
    for refitted in (False, True)
    for title, strategy in STRATEGIES.items()
} | {"river-entropy": Peer("River entropy sampler", "river", "river", False, river)}
