"""Health on simulated streams: three words, each alarm with its false-alarm rate, and what is said to do about it."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from simulated import NEVER, WINDOW, Rounds, drawn, metered, steady

from osamd.accounting.accuracy import LABELS_NEEDED
from osamd.accounting.alarms import DESERVED, FALSE_ALARM, LEAST_FALL, MIX_CHANGE, SILENT
from osamd.accounting.gain import gain
from osamd.accounting.health import health
from osamd.accounting.meter import confirm, expect, open_meter
from osamd.errors import InputError


def self_trained(seed, rate, common, start=0.0, rounds=4000, query=(0.2, 0.04)):
    """A threshold between N(-1, 1) and N(1, 1) that every decision confirms: it moves away from the sample's side."""
    generator = np.random.default_rng(seed)
    label = (generator.random(rounds) < common).astype(np.int64)
    x, threshold = generator.standard_normal(rounds) + 2.0 * label - 1.0, np.empty(rounds)
    at = start
    for t in range(rounds):
        threshold[t] = at
        at += rate if x[t] < at else -rate
    decision, margin, (sigma, floor) = (x >= threshold).astype(np.int64), np.abs(x - threshold), query
    probability = np.maximum(floor, sigma / (sigma + margin))
    return Rounds(decision, decision, margin, probability, generator.random(rounds) < probability, label)


def alarms(streams):
    """How many of these streams raise the alarm, and what is seen of their last rounds."""
    found = [health(metered(rounds)) for rounds in streams]
    assert all(one.collapsed == (one.state == "alarm") and one.why for one in found)
    return np.mean([one.collapsed for one in found]), found


@pytest.mark.parametrize(("common", "start", "says"), [(0.5, 0.0, "Class"), (0.25, -3.0, "Always deciding on class 0")])
def test_collapsed_self_training_raises_the_alarm(common, start, says):
    """The threshold runs away to one side, for the second to that of the rarer class, and pseudolabels always agree."""
    share, found = alarms(self_trained(seed, 0.01, common, start) for seed in range(200))
    assert share >= 0.95
    assert sum(one.why.startswith(says) for one in found) >= 100
    for one in found:
        assert (one.disagreement, one.margin_change > 1.2) == (0.0, True)
        assert one.pseudolabel_error >= 0.2


HEALTHY = {
    "95 : 5": lambda seed: drawn(seed, steady(1500, 2.05), (0.1, 0.03), common=0.95),
    "hard, balanced": lambda seed: drawn(seed, steady(1500, 0.25), (0.1, 0.03)),
    "not self-trained": lambda seed: self_trained(seed, 0.0, 0.5, rounds=1500),
}


@pytest.mark.parametrize("stream", HEALTHY.values(), ids=HEALTHY)
def test_healthy_learners_raise_no_alarm(stream):
    assert alarms(stream(seed) for seed in range(500))[0] == 0.0


def on_the_edge(seed, alternating):
    """Just as good as always deciding class 1: by deciding 0 in every other round, or with that class alone at 80 %."""
    rounds, generator = drawn(seed, steady(1000, 0.0), (0.1, 0.03)), np.random.default_rng([seed, 2])
    other = (np.arange(1000) % 2 == 0) & alternating
    share = np.where(other, 0.5, 0.9) if alternating else DESERVED
    decision, label = np.where(other, 0, 1), (generator.random(1000) < share).astype(np.int64)
    return rounds._replace(decision=decision, pseudolabel=decision, label=label)


@pytest.mark.parametrize(("alternating", "most"), [(True, FALSE_ALARM), (False, 2 * FALSE_ALARM)])
def test_a_learner_on_the_edge_raises_the_alarm_in_1_or_2_percent_of_windows_at_most(alternating, most):
    """Over 2,000 windows a rate of 2 % is measured to 0.3 %: 1 % more has a probability of 0.1 %."""
    assert alarms(on_the_edge(seed, alternating) for seed in range(2000))[0] <= most + 0.01


def test_few_labels_raise_no_alarm_and_are_never_fine():
    meter = open_meter(2, 100)
    for t in range(LABELS_NEEDED):
        found = health(meter)
        assert (found.state, found.collapsed) == ("unknown", False)
        if t:
            assert found.why.startswith(f"Only {t} labels of the last {t} rounds are known, too few")
            more = LABELS_NEEDED - t
            assert found.remedy == f"Give {more} more of the labels that it asks for."
        confirm(meter, t, 1.0, expect(meter, 1.0, 1.0, True, 0, 1), 0, 1, 1)
    assert health(meter).collapsed
    found = health(meter)
    assert (found.disagreement, found.pseudolabel_error, found.margin, found.labels) == (1.0, 0.0, 1.0, LABELS_NEEDED)


def test_health_compares_the_window_with_all_rounds():
    meter = open_meter(3, 10)
    assert math.isnan(health(meter).margin)
    for t in range(30):
        expect(meter, 1.0 if t < 20 else 3.0, 0.5, t % 3 == 0, 2, 2 if t % 2 else 1)
    found = health(meter)
    assert (found.margin, found.margin_change, found.disagreement) == (3.0, 3.0, 0.5)
    assert (found.label_spend, found.window_spend) == (1 / 3, 0.3)
    assert math.isnan(found.pseudolabel_error)


def test_a_window_that_holds_too_few_queries_is_told_of():
    meter = open_meter(2, 100)
    for t in range(300):
        where = expect(meter, 1.0, 0.1, t % 10 == 0, 0, 0)
        if t % 10 == 0:
            confirm(meter, t, 0.1, where, 0, 0, 0)
    found = health(meter)
    assert (found.state, found.labels) == ("unknown", 10)
    assert found.remedy == "It asks for 10 labels in 100 rounds: raise the budget, or use a longer window."


def unanswered(rounds, since=0):
    """No label comes any more from this round on."""
    many = np.arange(len(rounds.label))
    return np.where(many < since, many, len(many))


def test_where_nobody_answers_nothing_is_known():
    rounds = drawn(0, steady(1500, 1.28), (0.1, 0.03))
    for since in (0, 1300):
        found = health(metered(rounds, comes=unanswered(rounds, since)), reference_mix=[100, 100])
        assert found.state == "unknown"
        assert found.why.startswith("Nobody answers: the last ")
        assert found.pending == rounds.asked[since:].sum() >= SILENT
        assert found.oldest_pending == 1499 - np.flatnonzero(rounds.asked & (np.arange(1500) >= max(since, 500)))[0]


def test_labels_that_come_late_are_answers_all_the_same():
    rounds = drawn(1, steady(3000, 1.28), (0.1, 0.03))
    assert health(metered(rounds, comes=np.arange(3000) + 400)).state == "fine"


def one_class_at_last(seed, classes=2, share=1.0):
    """Class 0 takes this share of the last 1,200 of 3,000 decisions; before that all have the same."""
    generator = np.random.default_rng(seed)
    rounds = drawn(seed, steady(3000, 1.28), (0.1, 0.03))
    label = generator.integers(0, classes, 3000)
    taken = (np.arange(3000) >= 1800) & (generator.random(3000) < (share - 1 / classes) / (1 - 1 / classes))
    decision = np.where(taken, 0, label)
    return rounds._replace(label=label, decision=decision, pseudolabel=decision)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("known", ["labels", "source"])
def test_decisions_that_leave_the_known_mix_raise_the_alarm_where_nobody_answers(classes, known):
    raised = 0
    for seed in range(50):
        rounds = one_class_at_last(seed, classes)
        meter = metered(rounds, comes=unanswered(rounds, 1800 if known == "labels" else 0), classes=classes)
        found = health(meter, reference_mix=[50] * classes if known == "source" else None)
        if found.state == "alarm":
            raised += 1
            assert "Class 0 takes 100 % of the last 1000 decisions" in found.why
            assert ("of the source's rows" in found.why) == (known == "source")
            assert "pending" in found.remedy
    assert raised >= 45  # the mix of the labels is known to some ten points alone


def test_a_mix_that_is_off_by_just_what_is_allowed_raises_the_alarm_in_1_percent_of_windows_at_most():
    """Over 1,000 windows a rate of 1 % is measured to 0.3 %: 1 % more has a probability of 0.1 %."""
    rounds = (one_class_at_last(seed, share=0.5 + MIX_CHANGE) for seed in range(1000))
    found = [health(metered(one, comes=unanswered(one, 1800))).state for one in rounds]
    assert found.count("alarm") <= 1000 * (FALSE_ALARM + 0.01)
    assert found.count("fine") == 0


def disagreeing(seed, grown):
    """A disagreement that wanders slowly, and in the last 1,000 of 4,000 rounds is so many times as large."""
    generator = np.random.default_rng([seed, 3])
    wandering = np.repeat(generator.beta(2.0, 18.0, 200), 20)
    return np.minimum(1.0, np.where(np.arange(4000) < 3000, wandering, grown * wandering))


def test_growing_disagreement_raises_the_alarm_where_nobody_answers():
    states = {1.0: [], 3.0: []}
    for grown, found in states.items():
        for seed in range(300):
            rounds = drawn(seed, steady(4000, 1.28), (0.1, 0.03))
            meter = metered(rounds, comes=unanswered(rounds, 3000), disagreement=disagreeing(seed, grown))
            found.append(health(meter).state)
    assert states[1.0].count("alarm") <= 300 * (FALSE_ALARM + 0.015)
    assert states[3.0].count("alarm") >= 0.8 * 300


def beside_source(seed, ours, source, query=(0.1, 0.03), rounds=4000):
    """A learner and its source, which are right in these shares of the rounds, independently; and the true gain."""
    generator = np.random.default_rng([seed, 4])
    label = generator.integers(0, 2, rounds)
    decision, frozen = (np.where(generator.random(rounds) < share, label, 1 - label) for share in (ours, source))
    base = drawn(seed, steady(rounds, 1.28), query)
    played = base._replace(decision=decision, pseudolabel=decision, label=label)
    return played, frozen, np.mean(decision == label) - np.mean(frozen == label)


@pytest.mark.parametrize(("ours", "source"), [(0.9, 0.6), (0.9, 0.9), (0.7, 0.85), (0.97, 0.95)])
def test_the_gain_over_the_source_is_unbiased_and_its_interval_covers_88_to_96_percent(ours, source):
    """It allows for gains and losses unseen on both sides, so it covers more than it says."""
    rows = []
    for seed in range(1000):
        rounds, frozen, truth = beside_source(seed, ours, source)
        found = gain(metered(rounds, source=frozen))
        rows.append((truth, found.value, found.low, found.high))
        assert found.apart == pytest.approx(np.mean(frozen != rounds.decision))
    truth, value, low, high = np.array(rows).T
    error = value - truth
    assert abs(error.mean() / (error.std() / math.sqrt(len(error)))) <= 3.0
    assert 0.88 <= np.mean((low <= truth) & (truth <= high)) <= 0.96


def test_the_gain_of_a_window_that_holds_all_rounds_is_that_of_all_rounds():
    rounds, frozen, _ = beside_source(0, 0.9, 0.7, rounds=900)
    comes = np.where(np.arange(900) % 7 == 3, NEVER, np.arange(900) + 5)
    meter = metered(rounds, 900, comes, source=frozen)
    assert gain(meter, window=True) == pytest.approx(gain(meter), rel=1e-12)


def test_a_learner_that_decides_as_its_source_has_gained_nothing_for_sure():
    rounds, _, _ = beside_source(1, 0.8, 0.8)
    found = gain(metered(rounds, source=rounds.decision))
    assert (found.value, found.low, found.high, found.apart) == (0.0, 0.0, 0.0, 0.0)
    assert str(found) == "+0.0 points (+0.0 to +0.0)"


def test_without_a_source_or_labels_the_gain_is_not_known():
    rounds, frozen, _ = beside_source(2, 0.8, 0.7, rounds=200)
    for found in (gain(metered(rounds)), gain(metered(rounds, comes=np.full(200, NEVER), source=frozen))):
        assert not found.known
        assert math.isnan(found.value)
        assert str(found) == "too few labels (0 of 20)"


def test_a_learner_worse_than_its_source_raises_the_alarm_in_points_and_one_as_good_hardly_ever():
    worse = [
        health(metered(rounds, source=frozen)) for rounds, frozen, _ in (beside_source(s, 0.6, 0.9) for s in range(200))
    ]
    alike = [
        health(metered(rounds, source=frozen)) for rounds, frozen, _ in (beside_source(s, 0.8, 0.8) for s in range(500))
    ]
    assert (
        sum(one.why.startswith("The unchanged source model would have been right more often") for one in worse) >= 180
    )
    assert sum(one.state == "alarm" for one in alike) <= 500 * (FALSE_ALARM + 0.01)


def fallen(seed, now, rounds=6000):
    """Rounds that are right in 90 % of the cases, and in the last WINDOW rounds in a share of `now`."""
    skill = np.full(rounds, ndtri(0.9))
    skill[-WINDOW:] = ndtri(now)
    return drawn(seed, skill, (0.1, 0.03))


def test_a_learner_that_falls_far_below_what_it_was_raises_the_alarm_and_one_that_falls_a_little_hardly_ever():
    share, found = alarms(fallen(seed, 0.6) for seed in range(200))
    assert share >= 0.9
    assert sum("a fall by at least" in one.why for one in found) >= 0.9 * share * len(found)
    assert all(one.remedy for one in found if one.collapsed)
    assert alarms(fallen(seed, 0.9 - LEAST_FALL) for seed in range(500))[0] <= 2.0 * FALSE_ALARM


def test_a_target_is_missed_kept_or_cannot_be_told():
    rounds = drawn(0, steady(1500, 1.28), (0.1, 0.03))
    meter = metered(rounds)
    missed, kept, unclear = (health(meter, target=target) for target in (0.99, 0.7, 0.84))
    assert (missed.state, kept.state, unclear.state) == ("alarm", "fine", "unknown")
    assert "below the target of 99 %" in missed.why
    assert "it is not clear whether the target of 84 % is met" in unclear.why
    assert "of the rounds, drawn evenly" in unclear.remedy


def test_a_reference_mix_of_other_classes_is_refused():
    with pytest.raises(
        InputError, match=r"`health\(reference_mix=...\)`: it has 3 numbers; give one for each of the 2"
    ):
        health(open_meter(2, 10), reference_mix=[1, 2, 3])
