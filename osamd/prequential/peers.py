"""Strategies of scikit-activeml and River beside ours: the same rows, the same source, the same budget.

Each has a linear model, on rows standardised by their running mean and deviation. It learns by one gradient step a
label; of those called refitted it is fitted to all labels so far at every label, which is stronger where little drifts.
What is not installed is left out.
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
"""Their gradient step times features + 1. Of eight steps between 0.01 and 10 the first, 2 for two features, serves
them best on the Rotating Gaussian, looking back; tables are noisier and drift less."""

PASSES = 5
"""Over the source, before the first round."""

FIRST = 5
"""Times the classes: the labels that River's sampler is made to ask for where there is no source."""

AHEAD = 32
"""Rows that are decided in one call."""


class RunScore(NamedTuple):
    """What one run reports: the accuracy and the labels as shares of its rounds, and the mean recall of the classes."""

    accuracy: float
    labels: float
    balanced_accuracy: float


def scored(decided: Sequence[int] | Labels, truth: Labels, asked: int) -> RunScore:
    """The score of the decisions; balanced accuracy is the mean recall of the classes that occur.

    >>> scored([0, 0, 0, 0], np.array([0, 0, 0, 1]), asked=2)
    RunScore(accuracy=0.75, labels=0.5, balanced_accuracy=0.5)
    """
    right = np.asarray(decided) == truth
    recalls = [float(right[truth == one].mean()) for one in np.unique(truth)]
    return RunScore(float(right.mean()), asked / len(truth), float(np.mean(recalls)))


class Play(Protocol):
    """Play the rows once; if `strict`, a query that would break asked <= budget t after a round t is not answered."""

    def __call__(self, rows: PeerRows, budget: float, seed: int, strict: bool = False) -> RunScore: ...


class Peer(NamedTuple):
    """A strategy of another project; `module` is what it imports, `package` what is installed."""

    title: str
    package: str
    module: str
    slow: bool
    """Some milliseconds a round, so that fewer seeds are played."""
    play: Play
    tables_only: bool = False
    """Left out on streams by name, which drift, so that they take no longer."""

    @property
    def installed(self) -> bool:
        return util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        return metadata.version(self.package)


class PeerRows(NamedTuple):
    """A source and a stream, with classes 0, 1, ..., and the peers' gradient step times features + 1."""

    source: tuple[Array, Labels]
    stream: tuple[Array, Labels]
    classes: int
    reach: float

    @property
    def step(self) -> float:
        return self.reach / (int(self.stream[0].shape[1]) + 1)


def scaled(rows: PeerRows) -> PeerRows:
    """Each row less the mean and over the deviation of all rows up to it; the source by those of all its rows."""
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
            warnings.simplefilter("ignore")  # of a model that has met no label or one class
            if refitted or not labels:
                clf.fit(first if labels else x[:1], labels or [np.nan])
            else:
                for _ in range(PASSES):  # not `fit`, which a class that comes later would undo
                    clf.partial_fit(first, known)
            decided: list[Any] = []
            for t, label in enumerate(y.tolist()):
                one = x[t : t + 1]
                if not decided:  # many at once, for a call is slow; a label makes them void
                    decided = clf.predict(x[t : t + AHEAD])[::-1].tolist()
                outcome.append(int(decided.pop()))
                given = {} if uniform else {"clf": clf}
                queried, utilities = strategy.query(candidates=one, return_utilities=True, **given)
                if strict and asked + 1 > budget * (t + 1):
                    queried = queried[:0]  # nor does the strategy count it as spent
                told = {} if uniform else {"budget_manager_param_dict": {"utilities": utilities}}
                strategy.update(candidates=one, queried_indices=queried, **told)
                if len(queried):
                    asked += 1
                    decided = []
                    if refitted:
                        labelled.append(x[t])
                        labels.append(label)
                        clf.fit(np.array(labelled), labels)
                    else:
                        clf.partial_fit(one, [label])
        return scored(outcome, y, asked)

    return play


def river(rows: PeerRows, budget: float, seed: int, strict: bool = False) -> RunScore:
    """River's EntropySampler; it knows no budget, so a query that would exceed it is withheld, `strict` or not.

    A model that has met one class, or none, is never unsure: without a source it is made to ask for its first labels,
    FIRST times as many as there are classes.
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
