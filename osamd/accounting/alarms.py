"""What may be wrong with a learner: each alarm of `osamd.accounting.health`, with its reason and what to do about it.

Each takes what the meter holds and returns a `Finding`, or None. In one window each is raised with a nominal chance of
`FALSE_ALARM` for a learner that is on the edge of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from osamd.accounting.accuracy import LABELS_NEEDED, Accuracy, Window, accuracy, label_mix, more_errors
from osamd.accounting.gain import gain
from osamd.accounting.meter import DISAGREED, RECENT_WEIGHT, RECENT_WEIGHT_2, ROUNDS, UNANSWERED, WINDOW
from osamd.accounting.target import share_needed
from osamd.numerics import Array

FALSE_ALARM = 0.01
"""The nominal chance of each alarm, in one window, for a learner on the edge of it. Simulated, it is at most 2 %."""
ONE_CLASS = 0.99
"""The share of decisions from which on a learner is taken to decide one class alone."""
DESERVED = 0.8
"""Deciding one class alone is no collapse where that class may have this share of the labels: with classes of 4 : 1 and
more, it can be the best there is."""
SILENT = 10
"""Queries without an answer since a label came last, from which on nobody answers. Where labels come as often as they
are asked for, however late, there is one such query in the mean, and ten in one case of a thousand."""
MIX_CHANGE = 0.25
"""By how much the share of a class in the decisions may be off the known one. Learners that are right in 3 of 4 rounds
are never off by more, and one that decides a single class is, unless that class has 3/4 of the labels."""
MORE_DISAGREEMENT, LEAST_DISAGREEMENT = 1.5, 0.02
"""Disagreement has grown where it is more than so many times, and by so much above, what it was."""
BLOCKS = 10
"""Parts of the window whose means say how much its mean strays, since rounds on end are alike."""

ANEW = "Answer more of its queries or raise the budget; if that does not help, start anew from fresh labels."


class Finding(NamedTuple):
    """What was found: why, and what to do, each in a sentence."""

    why: str
    remedy: str


def percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def share(holds: Array, probability: Array) -> float:
    """The share of rounds for which something holds, from those told: weighted by 1 / p (Hájek's estimator)."""
    return float(np.sum(holds / probability) / np.sum(1.0 / probability)) if len(holds) else math.nan


def worse_than_constant(window: Window, names: Sequence[Any]) -> Finding | None:
    """Compares decisions and the commonest class on the same labels, so that what both get right cancels out."""
    from scipy.special import ndtri

    told, rounds = window.told, len(window.label)
    shares = [share((told.label == k).astype(np.float64), told.probability) for k in range(len(names))]
    commonest = int(np.argmax(shares))
    lead = (told.label == told.decision).astype(np.float64) - (told.label == commonest)
    weight = window.asked / len(told.label) / told.probability
    inverse = 1.0 / window.probability[window.probability > 0.0]
    # Rounds in which the decision alone was right may hide anywhere, so with the weight of a round drawn at random.
    hidden = float(np.sum(inverse**2) / np.sum(inverse))
    variance = float(np.sum(weight * (weight - 1.0) * lead**2))
    most = float(np.sum(weight * lead)) + more_errors(float(ndtri(1.0 - FALSE_ALARM)), variance, hidden)
    if most >= 0.0:
        return None
    return Finding(
        f"Deciding class {names[commonest]!r}, which has {percent(shares[commonest])} of the labels, in all of the"
        f" last {rounds} rounds would have been right more often, in at least {math.floor(-most)} rounds.",
        ANEW,
    )


def one_class(meter: Array, window: Window, names: Sequence[Any]) -> Finding | None:
    decided = np.bincount(window.decision.astype(np.int64), minlength=len(names)) / len(window.label)
    favourite = int(np.argmax(decided))
    # Of a learner that always decides one class, the accuracy is the share of that class.
    most = accuracy(meter, window=True, level=1.0 - 2.0 * FALSE_ALARM).high
    if decided[favourite] < ONE_CLASS or most >= DESERVED:
        return None
    return Finding(
        f"Class {names[favourite]!r} takes {percent(decided[favourite])} of the last {len(window.label)}"
        f" decisions, but at most {percent(most)} of the labels.",
        ANEW,
    )


def worse_than_source(meter: Array) -> Finding | None:
    found = gain(meter, window=True)
    if not found.known or gain(meter, window=True, level=1.0 - 2.0 * FALSE_ALARM).high >= 0.0:
        return None
    return Finding(
        f"The source model, left alone, would have been right more often in the last {found.rounds} rounds: by"
        f" {-100.0 * found.high:.1f} to {-100.0 * found.low:.1f} points.",
        "Go back to the source model, and start anew from it.",
    )


def below_target(found: Accuracy, target: float | None) -> Finding | None:
    if target is None or found.high >= target:
        return None
    return Finding(
        f"At most {percent(found.high)} of the last {found.rounds} decisions are right, fewer than the target of"
        f" {percent(target)}.",
        "Raise the budget, train the model anew, or lower the target.",
    )


def target_unclear(meter: Array, found: Accuracy, target: float | None) -> Finding | None:
    if target is None or found.low >= target:
        return None
    needed = share_needed(meter, target)
    return Finding(
        f"Between {percent(found.low)} and {percent(found.high)} of the last {found.rounds} decisions are right, so"
        f" it cannot be told whether the target of {percent(target)} is kept.",
        f"It takes the labels of about {100.0 * needed:.2g} % of the rounds, drawn evenly: raise budget or floor, or"
        " lower the target."
        if needed < 1.0
        else "Raise the budget, or lower the target.",
    )


def too_few_labels(meter: Array, window: Window) -> Finding:
    rounds, told = len(window.label), len(window.told.label)
    more = LABELS_NEEDED - told
    remedy = f"Give {more} more {'label' if more == 1 else 'labels'} that it asks for."
    if window.asked < LABELS_NEEDED and rounds == int(meter[WINDOW]):
        remedy = f"It asks for {window.asked} in {rounds} rounds: raise the budget, or take a longer window."
    return Finding(
        f"{told} labels of the last {rounds} rounds are known, too few to say how often it is right.", remedy
    )


def silent(meter: Array) -> Finding:
    return Finding(
        f"Nobody answers: the last {int(meter[UNANSWERED])} queries have no label.",
        "Answer the queries that are pending.",
    )


def mix_left(meter: Array, window: Window, names: Sequence[Any], reference: Sequence[float] | None) -> Finding | None:
    """Whether some class has another share of the decisions than of the labels told, or of the source's."""
    weight = float(meter[RECENT_WEIGHT])
    labels, known = weight * weight / max(float(meter[RECENT_WEIGHT_2]), 1e-300), "of the labels told"
    mix = label_mix(meter)
    if labels < LABELS_NEEDED:
        if reference is None:
            return None
        rows, known = np.asarray(reference, dtype=np.float64), "of the source's rows"
        labels, mix = float(rows.sum()), rows / rows.sum()
    for k, name in enumerate(names):
        decided, stray = mean_and_stray(window, window.decision == k, FALSE_ALARM / (2 * len(names)))
        stray = math.hypot(stray, 3.0 * math.sqrt(mix[k] * (1.0 - mix[k]) / labels))
        if abs(decided - mix[k]) - stray > MIX_CHANGE:
            return Finding(
                f"Class {name!r} takes {percent(decided)} of the last {len(window.label)} decisions, but"
                f" {percent(mix[k])} {known}, and nobody answers: the last {int(meter[UNANSWERED])} queries have no"
                " label.",
                "Answer the queries that are pending, or go back to the source model.",
            )
    return None


def disagreement_grew(meter: Array, window: Window) -> Finding | None:
    rounds = len(window.label)
    before = float(meter[ROUNDS]) - rounds
    if before < rounds:
        return None
    usual = (float(meter[DISAGREED]) - float(window.disagreement.sum())) / before
    now, stray = mean_and_stray(window, window.disagreement, FALSE_ALARM)
    if now - math.sqrt(2.0) * stray <= max(MORE_DISAGREEMENT * usual, usual + LEAST_DISAGREEMENT):
        return None
    return Finding(
        f"In the last {rounds} rounds {percent(now)} of the experts disagree with the decision, against"
        f" {percent(usual)} before, and nobody answers: the last {int(meter[UNANSWERED])} queries have no label.",
        "Answer the queries that are pending, or go back to the source model.",
    )


def mean_and_stray(window: Window, values: Array, chance: float) -> tuple[float, float]:
    """The mean of a number over the window, and by how much more it may be, with this chance, than in the long run.

    By Student's t of the means of BLOCKS parts of the window.
    """
    from scipy.special import stdtrit

    parts = np.array_split(values[np.argsort(window.round)].astype(np.float64), BLOCKS)
    means = np.array([part.mean() for part in parts if len(part)])
    if len(means) < BLOCKS:
        return float(means.mean()), math.inf
    return float(means.mean()), float(-stdtrit(BLOCKS - 1, chance) * means.std(ddof=1) / math.sqrt(BLOCKS))
