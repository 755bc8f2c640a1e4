"""Simulated learners, played into a meter, with queries by a fixed sigma or by the book of a budget."""

import math
from typing import NamedTuple

import numba
import numpy as np

from osamd.accounting import budget as budgets
from osamd.accounting import steering
from osamd.accounting.accuracy import accuracy
from osamd.accounting.book import terms
from osamd.accounting.meter import NO_SOURCE, NOT_GIVEN, confirm, expect, lost, open_meter
from osamd.accounting.steering import enter, open_book
from osamd.compiled.lowering import lower
from osamd.paper.queries import query_probability
from osamd.preset.arbiter import POWER

WINDOW, NEVER = 1000, -1


class Rounds(NamedTuple):
    """What a learner did in every round, and the truth."""

    decision: np.ndarray
    pseudolabel: np.ndarray
    margin: np.ndarray
    probability: np.ndarray
    asked: np.ndarray
    label: np.ndarray

    @property
    def right(self):
        return self.decision == self.label

    @property
    def truth(self):
        """The accuracy of all rounds, and that of the last ones."""
        return self.right.mean(), self.right[-WINDOW:].mean()


def fill(meter, decision, pseudolabel, margin, probability, asked, label, comes, order, source, disagreement):
    """Play rounds into a meter; the label of round i comes after the ask of round comes[i], or is given up at once."""
    where, done = np.empty(len(label)), 0
    for t in range(len(label)):
        where[t] = expect(
            meter, margin[t], probability[t], asked[t], decision[t], pseudolabel[t], source[t], disagreement[t]
        )
        if asked[t] and comes[t] == NEVER:
            lost(meter, t)
        while done < len(order) and comes[order[done]] <= t:
            i = order[done]
            if comes[i] != NEVER:
                confirm(meter, i, probability[i], where[i], decision[i], pseudolabel[i], label[i])
            done += 1


def steer(book, margin, uniform, power, probability, asked):
    """What a book asks for, margin after margin."""
    for t in range(margin.shape[0]):
        sigma, floor, _ = terms(book)
        confidence = margin[t] ** power
        probability[t] = query_probability(confidence, sigma, floor)
        asked[t] = uniform[t] < probability[t]
        enter(book, confidence, probability[t], asked[t])


for function in (expect, confirm, lost, terms, enter, query_probability):
    lower(function)
fast_fill = numba.njit(error_model="numpy")(fill)
fast_steer = numba.njit(error_model="numpy")(steer)


def metered(rounds, window=WINDOW, comes=None, by=fast_fill, classes=2, source=None, disagreement=None):
    """The meter after these rounds, by default with labels that come at once."""
    meter, many = open_meter(classes, window), len(rounds.label)
    comes = np.arange(many) if comes is None else comes
    source = np.full(many, NO_SOURCE) if source is None else source
    disagreement = np.full(many, NOT_GIVEN) if disagreement is None else disagreement
    asked = np.flatnonzero(rounds.asked)
    by(meter, *rounds, comes, asked[np.argsort(comes[asked], kind="stable")], source, disagreement)
    return meter


def drawn(seed, skill, query, noise=0.0, common=0.5):
    """Rounds of a classifier with score N(skill_t, 1) for the truth: right where positive, and its size the margin.

    Errors become rarer as the margin grows, unless a share `noise` of confident mistakes is put on top. `query` is
    (sigma, floor) of `osamd.paper.queries`, and `common` the share of class 1.
    """
    generator = np.random.default_rng(seed)
    score, other, third = generator.standard_normal((3, len(skill)))
    score += skill
    right = (score > 0.0) & (generator.random(len(skill)) >= noise)
    label = (generator.random(len(skill)) < common).astype(np.int64)
    decision = np.where(right, label, 1 - label)
    pseudolabel = np.where((score > 0.0) == (score + 0.3 * other > 0.0), decision, 1 - decision)
    margin, (sigma, floor) = np.abs(score + 0.3 * third), query
    probability = np.maximum(floor, sigma / (sigma + margin))
    return Rounds(decision, pseudolabel, margin, probability, generator.random(len(skill)) < probability, label)


def steady(rounds, skill):
    return np.full(rounds, skill)


class Case(NamedTuple):
    """A learner whose query is that of the default one: margins from 0 to 1, and how they go with errors."""

    accuracy: float
    margins: str = "sure"
    skill: str = "calibrated"
    drift: str = "still"
    classes: int = 2


MARGINS = {
    "sure": lambda generator, many: 1.0 - generator.beta(0.5, 3.0, many),
    "even": lambda generator, many: generator.random(many),
    "low": lambda generator, many: generator.beta(1.5, 3.0, many),
    "two kinds": lambda generator, many: np.where(
        generator.random(many) < 0.1, generator.random(many), 1.0 - 1e-3 * generator.random(many)
    ),
}
SKILLS = {
    "uninformative": lambda margin, calibrated: np.full_like(margin, 0.5),
    "calibrated": lambda margin, calibrated: calibrated,
    "overconfident": lambda margin, calibrated: 0.5 * calibrated + 0.3 * (margin > 0.5),
}
"""The probability of being right, up to its odds, which are set to the accuracy wanted."""
DRIFTS = {
    "still": lambda many: np.zeros(many),
    "falls": lambda many: np.where(np.arange(many) < many // 2, 0.0, 1.5),
    "dips": lambda many: np.where(np.arange(many) // (many // 20) == 12, 3.0, 0.0),
    "learns": lambda many: 3.0 * np.exp(-20.0 * np.arange(many) / many),
}
"""By how much the log odds of an error are raised."""


def at_odds(probability, wanted, raised=0.0):
    """Probabilities of being right with this mean, all odds multiplied alike; then the odds of errors are raised."""
    odds = np.log(np.clip(probability, 1e-6, 1.0 - 1e-9)) - np.log1p(-np.clip(probability, 1e-6, 1.0 - 1e-9))
    low, high = -50.0, 50.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.mean(1.0 / (1.0 + np.exp(-odds - middle))) < wanted else (low, middle)
    return 1.0 / (1.0 + np.exp(-odds - high + raised))


def of_default(seed, case, rate, many=5000, hasty=False, floor=None):
    """Rounds of such a learner under a budget, with the floor of the default learner."""
    generator = np.random.default_rng([seed, 7])
    margin = MARGINS[case.margins](generator, many)
    calibrated = (1.0 + (case.classes - 1.0) * margin) / case.classes
    share = at_odds(SKILLS[case.skill](margin, calibrated), case.accuracy, DRIFTS[case.drift](many))
    right = generator.random(many) < share
    label = generator.integers(0, case.classes, many)
    other = (label + 1 + generator.integers(0, case.classes - 1, many)) % case.classes
    decision = np.where(right, label, other)
    book = open_book(budgets.budget(rate, floor=budgets.audit(rate) if floor is None else floor), 1.0, "margin")
    steering.hasten(book, on=hasty)
    probability, asked = np.zeros(many), np.zeros(many, dtype=bool)
    fast_steer(book, margin, generator.random(many), POWER, probability, asked)
    return Rounds(decision, decision, margin, probability, asked, label)


def estimates(streams, classes=2, window=WINDOW, **how):
    """(truth, value, low, high) for all rounds and for the window, of every stream; shape (streams, 2, 4)."""
    rows = []
    for i, rounds in enumerate(streams):
        meter = metered(rounds, window, classes=classes, **{name: make(i, rounds) for name, make in how.items()})
        truth = rounds.right.mean(), rounds.right[-window:].mean()
        rows.append([(true, *accuracy(meter, w)[:3]) for true, w in zip(truth, (False, True), strict=True)])
    return np.array(rows)


def covered(rows):
    return np.mean((rows[:, 2] <= rows[:, 0]) & (rows[:, 0] <= rows[:, 3]))


def z_score(rows):
    error = rows[:, 1] - rows[:, 0]
    return error.mean() / (error.std() / math.sqrt(len(error)))


def width(rows):
    return np.mean(rows[:, 3] - rows[:, 2])
