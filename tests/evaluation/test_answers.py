"""Answers to queries: when they come, which are lost or wrong, and what a learner hears of them."""

import numpy as np
import pytest
from scipy.stats import chisquare

from osamd import OSAMD
from osamd.errors import InputError
from osamd.evaluation.answers import Answers, Delay, Desk, arrivals, delay_generator
from osamd.streams import rotating_gaussian

DELAYS = [
    Delay(fixed=30),
    Delay(random=40.0),
    Delay(bursty=50),
    Delay(lost=0.3),
    Delay(random=20.0, bursty=64, lost=0.1),
    Delay(fixed=5, random=3.0),
]


@pytest.mark.parametrize("delay", DELAYS)
def test_no_label_comes_before_it_was_asked_for_and_groups_do_not_matter(delay):
    whole = arrivals(delay, delay_generator(7), 0, 1000)
    assert (whole.when >= np.arange(1000)).all()
    generator = delay_generator(7)
    parts = [arrivals(delay, generator, first, 250) for first in range(0, 1000, 250)]
    assert np.array_equal(np.concatenate([part.when for part in parts]), whole.when)
    assert np.array_equal(np.concatenate([part.lost for part in parts]), whole.lost)
    other = arrivals(delay, delay_generator(8), 0, 1000)
    drawn = delay.random > 0.0 or delay.lost > 0.0
    assert (np.array_equal(other.when, whole.when) and np.array_equal(other.lost, whole.lost)) is not drawn


def test_delays_have_the_law_they_are_called_by():
    rounds = 20_000
    asked = np.arange(rounds)
    late = arrivals(Delay(random=100.0), delay_generator(0), 0, rounds).when - asked
    # A geometric law of mean 100 has deviation 100.5: seven standard errors of the mean, and of the share at 0.
    assert abs(late.mean() - 100.0) < 7 * 100.5 / np.sqrt(rounds)
    assert abs((late == 0).mean() - 1 / 101) < 7 * np.sqrt(0.01 / rounds)
    assert abs((late > 200).mean() - (100 / 101) ** 201) < 7 * np.sqrt(0.14 / rounds)
    batches = arrivals(Delay(bursty=500), delay_generator(0), 0, rounds).when
    assert set(batches % 500) == {499}
    assert (batches - asked).max() == 499
    assert (arrivals(Delay(fixed=30), delay_generator(0), 10, 5).when == np.arange(10, 15) + 30).all()
    lost = arrivals(Delay(lost=0.2), delay_generator(0), 0, rounds).lost
    assert abs(lost.mean() - 0.2) < 7 * np.sqrt(0.16 / rounds)
    assert not arrivals(Delay(), delay_generator(0), 0, rounds).lost.any()
    assert arrivals(Delay(lost=1.0), delay_generator(0), 0, rounds).lost.all()


class Asked:
    """A decision of `Scripted`."""

    def __init__(self, number, query):
        self.number, self.query = number, query


class Scripted:
    """A learner that asks in chosen rounds, and writes down what it hears, and in which round."""

    def __init__(self, asks):
        self.asks, self.rounds, self.heard = asks, 0, []

    def ask(self, x):
        self.rounds += 1
        return Asked(self.rounds - 1, self.asks(self.rounds - 1))

    def tell(self, decision, y=None):
        self.heard.append(("told", decision.number, y, self.rounds - 1))

    def expire(self, decision):
        self.heard.append(("expired", decision.number, None, self.rounds - 1))

    def of(self, what):
        return [one[1:] for one in self.heard if one[0] == what]


def played(answers, truth, asks=lambda t: True, classes="abc", seed=0):
    learner = Scripted(asks)
    desk = Desk(learner, classes, answers, seed)
    for index in truth:
        desk.take(learner.ask(None), index)
    return learner, desk


def test_a_query_is_answered_rightly_and_at_once_by_default_and_the_rest_is_told_without_a_label():
    learner, desk = played(Answers(), [0, 1, 2, 1], asks=lambda t: t % 2 == 1)
    assert learner.of("told") == [(0, None, 0), (1, "b", 1), (2, None, 2), (3, "b", 3)]
    assert desk.came == [1, 3]
    assert desk.rounds == 4


def test_an_answer_that_is_late_comes_at_the_end_of_its_round_or_after_the_last_one():
    learner, desk = played(Answers(Delay(fixed=2)), [0, 1, 2, 0, 1])
    assert learner.of("told") == [(0, "a", 2), (1, "b", 3), (2, "c", 4)]
    assert desk.came == [2, 3, 4]


def test_where_nobody_answers_queries_hear_nothing_and_do_not_expire():
    learner, desk = played(Answers(nobody=True), [0, 1] * 50, asks=lambda t: t % 2 == 0)
    assert [number for number, _, _ in learner.of("told")] == list(range(1, 100, 2))
    assert learner.of("expired") == []
    assert desk.came == []


def test_the_share_that_is_lost_expires_and_the_rest_is_told():
    rounds = 4000
    learner, desk = played(Answers(Delay(fixed=3, lost=0.5)), [1] * rounds)
    expired, told = learner.of("expired"), learner.of("told")
    assert len(expired) + len(told) == rounds - 3
    assert abs(len(expired) / rounds - 0.5) < 4 * 0.5 / np.sqrt(rounds)
    assert all(at == number + 3 for number, _, at in expired + told)
    assert len(desk.came) == len(told)


def test_wrong_answers_name_another_class_each_as_often():
    truth = np.random.default_rng(0).integers(0, 3, 30_000).tolist()
    learner, _ = played(Answers(wrong=0.2), truth)
    off = np.array([("abc".index(y) - truth[number]) % 3 for number, y, _ in learner.of("told")])
    assert abs((off != 0).mean() - 0.2) < 4 * 0.4 / np.sqrt(30_000)
    assert chisquare(np.bincount(off)[1:]).pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    everyone, _ = played(Answers(wrong=1.0), [0, 1] * 100, classes=("no", "yes"))
    assert [y for _, y, _ in everyone.of("told")] == ["yes", "no"] * 100


def test_two_learners_on_one_seed_hear_the_same_of_the_rounds_in_which_both_ask():
    answers = Answers(Delay(random=20.0, lost=0.3), wrong=0.3)
    truth = [t % 3 for t in range(5000)]
    often, _ = played(answers, truth, seed=5)
    rarely, _ = played(answers, truth, asks=lambda t: t % 7 == 0, seed=5)
    other, _ = played(answers, truth, seed=6)
    labelled = [one for one in rarely.of("told") if one[1] is not None]
    assert labelled
    assert set(labelled) <= set(often.of("told"))
    assert set(rarely.of("expired")) <= set(often.of("expired"))
    assert often.heard != other.heard


def test_a_desk_without_delay_is_ask_and_tell():
    stream = rotating_gaussian(1500)
    x, y = stream.sample(0)
    ours, plain = (OSAMD.from_source(*stream.source(100, 0), budget=0.1) for _ in range(2))
    desk = Desk(ours, ours.classes, Answers(), seed=0)
    for row, truth in zip(x, y.tolist(), strict=True):
        decision, other = ours.ask(row), plain.ask(row)
        assert (decision.label, decision.query) == (other.label, other.query)
        desk.take(decision, truth)
        plain.tell(other, plain.classes[truth] if other.query else None)
    assert (ours.told, ours.expired) == (plain.told, 0)
    assert ours.told == len(desk.came) > 0


def test_a_share_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"`Answers\(wrong=20\)`: wrong is the share of wrong answers"):
        Desk(Scripted(bool), "ab", Answers(wrong=20), 0)
    with pytest.raises(InputError, match=r"`Desk\(seed=-1\)`"):
        Desk(Scripted(bool), "ab", Answers(), -1)
