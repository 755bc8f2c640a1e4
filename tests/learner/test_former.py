"""Books and meters of the former layout are taken up; damaged ones are refused in a sentence."""

import numpy as np
import pytest

from osamd.accounting import book as books
from osamd.accounting import budget, meter, steering
from osamd.accounting.accuracy import accuracy, label_mix
from osamd.accounting.health import health
from osamd.accounting.meter import BINS
from osamd.errors import InputError
from osamd.learner import former


def played(window=400, rounds=3000):
    """A meter with labels of a learner that errs where the margin is small."""
    generator, found = np.random.default_rng(0), meter.open_meter(3, window)
    for t in range(rounds):
        margin = generator.random()
        probability = max(0.05, 0.05 / (0.05 + margin))
        decision, query = int(generator.integers(0, 3)), generator.random() < probability
        y = decision if generator.random() < 0.7 + 0.3 * margin else (decision + 1) % 3
        where = meter.expect(found, margin, probability, query, decision, decision if t % 5 else (decision + 1) % 3)
        if query and t % 11:
            meter.confirm(found, t, probability, where, decision, decision, y)
        elif query:
            meter.lost(found, t)
    return found


def as_formerly(found):
    """The same rounds as a former meter held them."""
    window = int(found[meter.WINDOW])
    held = np.zeros(former.METER_RINGS + former.METER_RING_COUNT * window)
    held[:2] = found[:2]
    for new, old in former.PLAIN.items():
        held[old] = found[new]
    held[former.SEEN : former.WRONG + BINS] = found[meter.SEEN : meter.RIGHT_WEIGHTS]
    rings = found[meter.RINGS : meter.RINGS + meter.RING_COUNT * window].reshape(meter.RING_COUNT, window)
    places = held[former.METER_RINGS :].reshape(former.METER_RING_COUNT, window)
    for new, old in former.RINGS.items():
        places[old] = rings[new]
    places[former.MISTAUGHT] = rings[meter.MISTAUGHT]
    return held


def test_a_former_meter_says_the_same_of_its_window_and_about_the_same_of_all_rounds():
    found, again = played(), meter.open_meter(3, 400)
    former.take_up_meter(again, as_formerly(found))
    assert accuracy(again, window=True)[:3] == pytest.approx(accuracy(found, window=True)[:3], abs=0.01)
    assert accuracy(again)[:3] == pytest.approx(accuracy(found)[:3], abs=0.02)
    assert accuracy(again)[3:] == accuracy(found)[3:]
    assert label_mix(again) == pytest.approx(label_mix(found), abs=0.1)
    one, other = health(again), health(found)
    assert (one.state, one.labels, one.disagreement) == (other.state, other.labels, other.disagreement)


def test_a_former_meter_goes_on():
    again = meter.open_meter(3, 400)
    former.take_up_meter(again, as_formerly(played()))
    before = accuracy(again).labels
    meter.confirm(again, 3000, 0.5, meter.expect(again, 0.5, 0.5, True, 1, 1), 1, 1, 1)
    assert accuracy(again).labels == before + 1


@pytest.mark.parametrize("hasty", [True, False])
@pytest.mark.parametrize("window", [None, 50])
def test_a_former_book_goes_on(hasty, window):
    limits = budget.budget(0.1, window)
    book, again = (steering.open_book(limits, 1.0, "margin") for _ in range(2))
    for t in range(30):
        steering.enter(book, 1.0, 0.1, t % 15 == 14)
    held = np.concatenate([book[: former.BOOK_RING], book[books.RING :]])
    if hasty and window is None:
        held[books.EARNED] = 0.0
    former.take_up_book(again, held)
    assert books.asked(again) == 2
    assert again[books.HASTE] == (steering.HASTY if hasty and window is None else 0.0)
    steering.hasten(book, on=hasty and window is None)
    assert np.array_equal(book, again)


def test_what_is_no_book_or_meter_is_refused_in_a_sentence():
    book, found = steering.open_book(budget.budget(0.1), 1.0, "margin"), meter.open_meter(2, 100)
    with pytest.raises(InputError, match="it is not a book of this budget; the file is damaged"):
        former.take_up_book(book, np.zeros(7))
    for saved in (np.zeros(7), meter.open_meter(2, 99), meter.open_meter(3, 100)):
        with pytest.raises(InputError, match="it is not a meter of 2 classes and 100 rounds; the file is damaged"):
            former.take_up_meter(found, saved)
    wrong = found.copy()
    wrong[meter.WINDOW] = 2e8
    with pytest.raises(InputError, match="the file is damaged"):
        former.take_up_meter(found, wrong)
