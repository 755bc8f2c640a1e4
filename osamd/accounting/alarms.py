"""What may be wrong with a learner: each alarm of `osamd.accounting.health`, with its reason and what to do about it.

Each function reads the meter and returns a `Finding` or None. For a learner on the edge of an alarm, the nominal
probability of raising it in one window is `FALSE_ALARM`.
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
"""The nominal probability of each alarm in one window, for a learner on the edge of it; in simulations at most 2 %."""
ONE_CLASS = 0.99
"""A learner with at least this share of decisions for one class counts as deciding on one class only."""
DESERVED = 0.8
"""Deciding on one class only is no collapse if that class may have this share of the labels: with classes of 4 : 1 or
more, it can be the best possible decision."""
SILENT = 10
"""With this many unanswered queries since the last label, nobody answers. Where labels arrive as often as they are
asked for, however late, there is one such query on average, and ten in one case out of a thousand."""
MIX_CHANGE = 0.25
"""How far the share of a class in the decisions may be from its known share. A learner that is right in 3 of 4 rounds
is never farther off. One that decides on a single class is, unless that class has 3/4 of the labels."""
MORE_DISAGREEMENT, LEAST_DISAGREEMENT = 1.5, 0.02
"""Disagreement has grown if it exceeds both this multiple of its earlier value, and that value plus this much."""
LEAST_FALL = 0.1
"""A fall of the accuracy by less than this is no alarm: samples may have become a little harder."""
BLOCKS = 10
"""The window is cut into this many parts, whose means show how much its mean varies, since rounds are correlated."""

ANEW = "Answer more of its queries or raise the budget; if that does not help, start again from fresh labels."


class Finding(NamedTuple):
    """The reason for a state, and what to do, each in a sentence."""

    why: str
    remedy: str


def percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def share(holds: Array, probability: Array) -> float:
    """The share of rounds for which something holds, from the rounds with a label, weighted by 1 / p (Hájek)."""
    return float(np.sum(holds / probability) / np.sum(1.0 / probability)) if len(holds) else math.nan


def worse_than_constant(window: Window, names: Sequence[Any]) -> Finding | None:
    """Compare the decisions with the commonest class on the same labels, so that what both get right cancels out."""
    from scipy.special import ndtri

    told, rounds = window.told, len(window.label)
    shares = [share((told.label == k).astype(np.float64), told.probability) for k in range(len(names))]
    commonest = int(np.argmax(shares))
    lead = (told.label == told.decision).astype(np.float64) - (told.label == commonest)
    weight = window.asked / len(told.label) / told.probability
    inverse = 1.0 / window.probability[window.probability > 0.0]
    # Unobserved rounds in which only the decision was right may be anywhere: each has the weight of a random round.
    hidden = float(np.sum(inverse**2) / np.sum(inverse))
    variance = float(np.sum(weight * (weight - 1.0) * lead**2))
    most = float(np.sum(weight * lead)) + more_errors(float(ndtri(1.0 - FALSE_ALARM)), variance, hidden)
    if most >= 0.0:
        return None
    return Finding(
        f"Always deciding on class {names[commonest]!r}, which has {percent(shares[commonest])} of the labels, would"
        f" have been right in at least {math.floor(-most)} more of the last {rounds} rounds.",
        ANEW,
    )


def one_class(meter: Array, window: Window, names: Sequence[Any]) -> Finding | None:
    decided = np.bincount(window.decision.astype(np.int64), minlength=len(names)) / len(window.label)
    favourite = int(np.argmax(decided))
    # The accuracy of a learner that always decides on one class is the share of that class.
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
        f"The unchanged source model would have been right more often in the last {found.rounds} rounds: by"
        f" {-100.0 * found.high:.1f} to {-100.0 * found.low:.1f} points.",
        "Go back to the source model, and start again from it.",
    )


def fell(meter: Array) -> Finding | None:
    """Whether the decisions of the window are right far less often than those of all rounds."""
    level = 1.0 - 2.0 * FALSE_ALARM
    ever, now = accuracy(meter, level=level), accuracy(meter, window=True, level=level)
    if not ever.known or not now.known:
        return None
    fall, stray = ever.value - now.value, math.hypot(ever.value - ever.low, now.high - now.value)
    if fall - stray <= LEAST_FALL:
        return None
    return Finding(
        f"About {percent(max(0.0, now.value))} of the last {now.rounds} decisions are right, against"
        f" {percent(min(1.0, ever.value))} of all {ever.rounds}: a fall by at least"
        f" {100.0 * (fall - stray):.0f} points.",
        "Something has changed: answer its queries, or raise the budget until it has learned the new state of things.",
    )


def below_target(found: Accuracy, target: float | None) -> Finding | None:
    if target is None or found.high >= target:
        return None
    return Finding(
        f"At most {percent(found.high)} of the last {found.rounds} decisions are right, below the target of"
        f" {percent(target)}.",
        "Raise the budget, retrain the model, or lower the target.",
    )


def target_unclear(meter: Array, found: Accuracy, target: float | None) -> Finding | None:
    if target is None or found.low >= target:
        return None
    needed = share_needed(meter, target)
    return Finding(
        f"Between {percent(found.low)} and {percent(found.high)} of the last {found.rounds} decisions are right, so"
        f" it is not clear whether the target of {percent(target)} is met.",
        f"It takes the labels of about {100.0 * needed:.2g} % of the rounds, drawn evenly: raise the budget or the"
        " floor, or lower the target."
        if needed < 1.0
        else "Raise the budget, or lower the target.",
    )


def too_few_labels(meter: Array, window: Window) -> Finding:
    rounds, told = len(window.label), len(window.told.label)
    more = LABELS_NEEDED - told
    remedy = f"Give {more} more of the labels that it asks for."
    if window.asked < LABELS_NEEDED and rounds == int(meter[WINDOW]):
        remedy = f"It asks for {window.asked} labels in {rounds} rounds: raise the budget, or use a longer window."
    return Finding(
        f"Only {told} labels of the last {rounds} rounds are known, too few to say how often it is right.", remedy
    )


def silent(meter: Array) -> Finding:
    return Finding(
        f"Nobody answers: the last {int(meter[UNANSWERED])} queries have no label.",
        "Answer the pending queries.",
    )


def mix_left(meter: Array, window: Window, names: Sequence[Any], reference: Sequence[float] | None) -> Finding | None:
    """Whether the share of some class in the decisions is far from its share in the labels, or in the source."""
    weight = float(meter[RECENT_WEIGHT])
    labels, known = weight * weight / max(float(meter[RECENT_WEIGHT_2]), 1e-300), "of the labels"
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
                "Answer the pending queries, or go back to the source model.",
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
        "Answer the pending queries, or go back to the source model.",
    )


def mean_and_stray(window: Window, values: Array, chance: float) -> tuple[float, float]:
    """The mean of a number over the window, and a bound on its excess over the long-run mean.

    The excess is larger with this chance only, by Student's t on the means of BLOCKS parts of the window.
    """
    from scipy.special import stdtrit

    parts = np.array_split(values[np.argsort(window.round)].astype(np.float64), BLOCKS)
    means = np.array([part.mean() for part in parts if len(part)])
    if len(means) < BLOCKS:
        return float(means.mean()), math.inf
    return float(means.mean()), float(-stdtrit(BLOCKS - 1, chance) * means.std(ddof=1) / math.sqrt(BLOCKS))
