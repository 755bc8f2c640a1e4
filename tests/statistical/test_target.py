"""A target of the accuracy on simulated streams: few labels where it is easily kept, else the whole budget."""

import math

import numba
import numpy as np
import pytest
from simulated import Case, at_odds, of_default

from osamd.accounting.accuracy import accuracy
from osamd.accounting.book import asked, terms
from osamd.accounting.budget import audit, budget
from osamd.accounting.meter import confirm, expect, open_meter
from osamd.accounting.steering import enter, open_book
from osamd.accounting.target import CHECK_EVERY, share_needed, steer_to_target
from osamd.compiled.lowering import lower
from osamd.paper.queries import query_probability
from osamd.preset.arbiter import POWER

RATE, WINDOW, MANY = 0.05, 4000, 20_000

for function in (terms, enter, query_probability, expect, confirm):
    lower(function)


@numba.njit(error_model="numpy")
def play(book, meter, start, stop, margin, decision, label, uniform, power):
    least = 1.0
    for t in range(start, stop):
        sigma, floor, reason = terms(book)
        confidence = margin[t] ** power
        probability = query_probability(confidence, sigma, floor)
        if reason == 0:
            least = min(least, probability)
        query = uniform[t] < probability
        enter(book, confidence, probability, query)
        where = expect(meter, margin[t], probability, query, decision[t], decision[t])
        if query:
            confirm(meter, t, probability, where, decision[t], decision[t], label[t])
    return least


def steered(seed, target, share, window=WINDOW, *, watched=False):
    """Play rounds that are right with these probabilities; book, meter, which were right, labels and lower ends.

    The lower end of the accuracy takes as long as all the rest, and is found only where it is watched.
    """
    generator = np.random.default_rng([seed, 5])
    margin, many = 1.0 - generator.beta(0.5, 3.0, len(share)), len(share)
    label = generator.integers(0, 2, many)
    right = generator.random(many) < share
    decision, uniform = np.where(right, label, 1 - label), generator.random(many)
    book, meter = open_book(budget(RATE, floor=audit(RATE), target=target), 1.0, "margin"), open_meter(2, window)
    labels, lows = [], []
    for stop in range(CHECK_EVERY, many + 1, CHECK_EVERY):
        least = play(book, meter, stop - CHECK_EVERY, stop, margin, decision, label, uniform, POWER)
        assert least >= 0.4 * 60.0 / window  # known, and never near 0
        assert asked(book) <= RATE * stop
        steer_to_target(book, meter)
        labels.append(asked(book))
        if watched:
            lows.append(accuracy(meter, window=True).low)
    return book, meter, right, np.array(labels), np.array(lows)


@pytest.mark.parametrize(("right", "target", "most", "below"), [(0.99, 0.9, 0.5, 0.05), (0.97, 0.85, 0.5, 0.05)])
def test_an_easy_target_takes_half_of_the_budget_at_most_and_is_kept(right, target, most, below):
    spent, missed = [], []
    for seed in range(10):
        _, _, _, labels, lows = steered(seed, target, np.full(MANY, right), watched=True)
        spent.append(labels[-1] / (RATE * MANY))
        missed.append(np.mean(lows[2 * WINDOW // CHECK_EVERY :] < target))
    assert np.mean(spent) <= most
    assert np.mean(missed) <= below


def test_a_target_that_cannot_be_kept_takes_the_whole_budget():
    for seed in range(3):
        labels = steered(seed, 0.95, np.full(10_000, 0.9))[3]
        assert labels[-1] >= 0.95 * RATE * 10_000


def test_after_a_drift_the_whole_budget_is_spent_again():
    share = np.where(np.arange(MANY) < MANY // 2, 0.99, 0.7)
    before, after = [], []
    for seed in range(10):
        labels = steered(seed, 0.9, share)[3]
        half = MANY // 2 // CHECK_EVERY
        before.append(labels[half - 1] - labels[half - 41])
        after.append(labels[half + 59] - labels[half + 19])  # from 1,000 rounds after it on, for 2,000 rounds
        assert after[-1] >= 0.85 * RATE * 2000
    assert np.mean(before) <= 0.5 * RATE * 2000


def test_the_estimate_stays_unbiased_and_covers():
    rows = []
    for seed in range(200):
        _, meter, right, _, _ = steered(seed, 0.9, np.full(6000, 0.97), window=1500)
        found = accuracy(meter)
        rows.append((found.value - right.mean(), found.low <= right.mean() <= found.high))
    error, covers = np.array(rows).T
    assert abs(error.mean() / (error.std() / math.sqrt(len(error)))) <= 3.0
    assert covers.mean() >= 0.84  # 200 streams: a standard error of 2 %


def test_the_share_needed_is_what_puts_the_lower_end_at_the_target():
    """Rounds with labels drawn evenly: with the share found in one stream, the lower end of others is at the target."""
    needed, lows = [], []
    for seed in range(40):
        meter = even(seed, 0.05)
        needed.append(share_needed(meter, 0.9))
    for seed in range(40, 80):
        lows.append(accuracy(even(seed, float(np.mean(needed))), window=True).low)
    assert np.mean(lows) == pytest.approx(0.9, abs=0.01)


def even(seed, probability):
    generator, meter = np.random.default_rng([seed, 6]), open_meter(2, WINDOW)
    for t in range(WINDOW):
        query, right = generator.random() < probability, generator.random() < 0.96
        where = expect(meter, 1.0, probability, query, 0, 0)
        if query:
            confirm(meter, t, probability, where, 0, 0, 0 if right else 1)
    return meter


def test_without_a_target_nothing_is_steered():
    rounds = of_default(0, Case(0.95), RATE, 2000)
    book, meter = open_book(budget(RATE), 1.0, "margin"), open_meter(2, 1000)
    play(
        book, meter, 0, 2000, rounds.margin, rounds.decision, rounds.label, np.random.default_rng(0).random(2000), POWER
    )
    before = book.copy()
    steer_to_target(book, meter)
    assert np.array_equal(book, before)


def test_odds_have_the_mean_wanted():
    assert at_odds(np.linspace(0.5, 1.0, 1000), 0.9).mean() == pytest.approx(0.9, abs=1e-3)
