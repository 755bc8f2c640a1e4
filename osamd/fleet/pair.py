"""The numbers of the network preset's round: what is decided and asked, and which samples a pair of networks replays.

`decide` stands between the two halves that the networks play (`osamd.fleet.preset_fleet`). Everything here is a plain
function of a few numbers per pair, so it is compiled for the CPU, and for a GPU from the same source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from osamd.accounting.book import FULL_FLOOR, RATE, terms
from osamd.accounting.budget import LAST_AUDIT
from osamd.accounting.steering import enter
from osamd.compiled.lowering import jit, lower
from osamd.numerics import Array
from osamd.paper.queries import query_probability
from osamd.paper.scores import UNLABELLED
from osamd.preset.arbiter import (
    FADING,
    POWER,
    Arbiter,
    arbitrate,
    consult,
    cut_arbiter,
    dissent,
    fall_back,
    likeliest,
    open_guard,
    open_trust,
)
from osamd.preset.grounds import Grounds, standing
from osamd.preset.round import Opinion
from osamd.preset.views import cut

LEAST_PLACES, MOST_PLACES = 512, 4096
"""The number of labelled samples that are remembered lies between these; a new one replaces the oldest."""
NUMBERS = LEAST_PLACES * 768
"""The size of a memory in numbers, within those limits: 4096 rows of a table with up to 96 columns, or 512 images of
768 pixels or more, which are large and gain nothing from a longer memory."""
BATCH = 16
"""The number of remembered samples that the student replays per round. Of a memory larger than LEAST_PLACES it replays
new samples more often: half of the draws fall into the newest eighth, so that the past does not weigh on a changed
world."""
RECENT = 256
"""The number of recent samples on whose pseudolabels the student trains itself."""
SOME, SELF = 8, 0.5
"""The number of recent samples that the student replays per round, and their weight together, relative to a label."""
NEWEST, FEW = 16, 8
"""The number of labels that the teacher learns from, and of those that it replays per round. Three times as many cost
twice as much and teach no more."""
OUTLIER = 10.0
"""A sample this many times larger than usual is decided on, but not learned from."""
FOLLOW = 0.01
"""How fast the usual size of a sample, and how sure the source is, follow the stream, per round."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0

EXPERTS = 2
"""Student and teacher; the source, which never changes, is not among them."""
LABELS, STEPS, TAUGHT, VERIFIED, USUAL, PLACES, SURE, KNOWN = range(8)
"""What is counted for every pair: the labels, the student's steps, the teacher's (which begin once something is
remembered), the recent labels (`osamd.preset.arbiter`), the usual size of a sample, 0 before the first, the places of
its memory, which never change, how sure the source was of recent samples, and how sure it is of its own, which is 0
where those are not known."""
COUNTS = 8
FITS, LABELLED, TARGET, PLACE, LAST, ROUND, LESSON, REPLAYS = range(8)
"""The first columns of the orders for a pair's second half: whether the sample may be learned from, whether it has a
label, the class (NO_TARGET where student and decision disagree), the sample's places in the memory and among the recent
samples, the number of steps of student and teacher (at least 1), and whether anything is remembered. The places to
replay follow: first the student's, then the teacher's."""
HEAD = 8
REPLAYED = BATCH + SOME + FEW
ORDERS = HEAD + REPLAYED
NO_TARGET = -1


class Seen(NamedTuple):
    """Views of the vector that a round of one pair works in."""

    shares: Any
    """The probabilities of the student, then those of the teacher."""
    source: Any
    blend: Any
    trusted: Any
    mixture: Any
    scores: Any


def seen_in(work: Any, classes: int) -> Any:
    shares, at = cut(work, 0, EXPERTS * classes)
    source, at = cut(work, at, classes)
    blend, at = cut(work, at, classes)
    trusted, at = cut(work, at, classes)
    mixture, at = cut(work, at, classes)
    scores, at = cut(work, at, classes)
    return Seen(shares, source, blend, trusted, mixture, scores)


WORK = EXPERTS + 5
"""The length of that vector, per class."""


def arbiter_in(numbers: Any) -> Arbiter:
    return cut_arbiter(numbers, 0, EXPERTS)[0]  # type: ignore[no-any-return]


def places_for(sample: tuple[int, ...]) -> int:
    """How many labelled samples of this shape are remembered.

    >>> places_for((54,)), places_for((384,)), places_for((1, 28, 28))
    (4096, 1024, 512)
    """
    return min(MOST_PLACES, max(LEAST_PLACES, NUMBERS // max(1, math.prod(sample))))


def open_counts(pairs: int, places: int) -> Array:
    """The counts of several pairs before the first round, one row each."""
    rows = np.zeros((pairs, COUNTS))
    rows[:, PLACES] = places
    return rows


def open_arbiters(pairs: int) -> Array:
    """The arbiters of several pairs before the first round, one row each."""
    length = cut_arbiter(np.zeros(0), 0, EXPERTS)[1]
    rows = np.zeros((pairs, length))
    for row in rows:
        part = arbiter_in(row)
        open_trust(part.trust)
        open_guard(part.guard, True)
    return rows


def opine(arbiter: Any, counts: Any, work: Any, u: float, sigma: float, floor: float) -> Opinion:
    """The decision on the sample whose probabilities are in `work`, and whether to ask."""
    seen = seen_in(work, work.shape[0] // WORK)
    credit = standing(counts[KNOWN] - counts[SURE])  # a network's own samples are known by how sure it is of them
    label, pseudolabel, margin = consult(arbiter_in(arbiter), Grounds(True, counts[VERIFIED], credit, 1.0), seen)
    probability = query_probability(margin**POWER, sigma, floor)
    return Opinion(label, pseudolabel, margin, u < probability, probability)


def opine_apart(
    arbiter: Any, counts: Any, work: Any, u: float, sigma: float, floor: float
) -> tuple[Opinion, int, float]:
    """`opine`, the class that the source prefers, and how much of the blend prefers another one than the decision."""
    said = opine(arbiter, counts, work, u, sigma, floor)
    seen = seen_in(work, work.shape[0] // WORK)
    source, _ = likeliest(seen.source)
    opinions = seen.shares.reshape((EXPERTS, seen.source.shape[0]))
    return said, source, dissent(arbiter_in(arbiter).losses, opinions, True, 1.0, said.label)


def order(
    arbiter: Any, counts: Any, work: Any, said: Any, y: int, weight: float, rate: float, size: float, orders: Any
) -> None:
    """Write the orders for the second half, with the label y or UNLABELLED, and update arbiter and counts.

    `said` is the decision and the pseudolabel, `weight` that of the label in the guard, and `size` that of the sample.
    """
    direct(counts, said, y, size, orders)
    replay(counts, orders, 0, 1)
    judge(arbiter, counts, work, y, weight, rate)


def judge(arbiter: Any, counts: Any, work: Any, y: int, weight: float, rate: float) -> None:
    """Update the arbiter, and count the recent labels and how sure the source is."""
    part, seen = arbiter_in(arbiter), seen_in(work, work.shape[0] // WORK)
    counts[VERIFIED] *= 1.0 - FADING * rate
    counts[SURE] += FOLLOW * (seen.source[likeliest(seen.source)[0]] - counts[SURE])
    if y != UNLABELLED:
        arbitrate(part, True, seen, y, weight, 1.0)
        counts[VERIFIED] += 1.0
    fall_back(part, rate, True)  # last: the guarantee is about the weights that decided


def direct(counts: Any, said: Any, y: int, size: float, orders: Any) -> None:
    """Write the orders up to the places to replay."""
    labelled, fits = y != UNLABELLED, usual(counts, size)
    decision, pseudolabel = said
    # The student trains itself only where the decision agrees with the blend: labels must settle a disagreement.
    target = y if labelled else pseudolabel if decision == pseudolabel else NO_TARGET
    orders[FITS], orders[LABELLED] = fits, fits and labelled
    orders[TARGET] = target if fits else NO_TARGET
    places = int(counts[PLACES])
    orders[PLACE] = int(counts[LABELS]) % places
    orders[LAST] = places + int(counts[STEPS]) % RECENT
    if fits and labelled:
        counts[LABELS] += 1.0
    counts[STEPS] += 1.0
    replays = counts[LABELS] > 0.0
    counts[TAUGHT] += replays
    orders[ROUND], orders[LESSON], orders[REPLAYS] = int(counts[STEPS]), max(1, int(counts[TAUGHT])), replays


def usual(counts: Any, size: float) -> bool:
    """Whether the sample is of a usual size; the usual size then follows it."""
    before = counts[USUAL]
    counts[USUAL] = size if before == 0.0 else before + FOLLOW * (min(size, OUTLIER * before) - before)
    return bool(before == 0.0 or size <= OUTLIER * before)


def replay(counts: Any, orders: Any, first: int, step: int) -> None:
    """Write the places to replay, each by itself: first, first + step, ... of them."""
    held = min(counts[LABELS], counts[PLACES])
    for j in range(first, REPLAYED, step):
        orders[HEAD + j] = replayed(counts, held, j)


def replayed(counts: Any, held: float, j: int) -> int:
    """The place to replay as number j: spread by the golden ratio, without random draws."""
    places, steps = int(counts[PLACES]), counts[STEPS]
    if j < BATCH:
        share = golden(steps * BATCH + j)
        if held > LEAST_PLACES:
            return int(counts[LABELS] - 1.0 - int(share * share * share * held)) % places
        return int(share * held)
    if j < BATCH + SOME:
        return places + int(golden(steps * SOME + (j - BATCH)) * min(steps, 1.0 * RECENT))
    age = 1.0 + int(golden(steps * FEW + (j - BATCH - SOME)) * min(held, 1.0 * NEWEST))
    return int(counts[LABELS] - age) % places if held > 0.0 else 0


def golden(number: float) -> float:
    """A number of the golden-ratio sequence, which fills [0, 1) evenly at any length."""
    turn = number * GOLDEN
    return turn - math.floor(turn)


def account(arbiter: Any, counts: Any, book: Any, work: Any, said: Opinion, y: int, record: Any) -> None:
    """Write a round into its record, the book and the arbiter; nothing of it matters before the next decision."""
    enter(book, said.margin**POWER, said.probability, said.query)
    told = seen_in(work, work.shape[0] // WORK).mixture[y]
    record[0], record[1], record[2] = said.label, said.pseudolabel, said.margin
    record[3], record[4], record[5] = said.probability, said.query, -math.log(max(told, 1e-300))
    rate = book[RATE]
    weight = min(1.0, min(book[FULL_FLOOR], LAST_AUDIT * rate) / said.probability) if said.query else 0.0
    judge(arbiter, counts, work, y if said.query else UNLABELLED, weight, rate)


def decide_pair(
    i: int,
    shares: Any,
    sizes: Any,
    u: Any,
    y: Any,
    arbiters: Any,
    counts: Any,
    books: Any,
    work: Any,
    orders: Any,
    record: Any,
) -> None:
    """One round of pair i, between the two halves of its networks: opinion, query, record and orders."""
    pairs, classes = u.shape[0], shares.shape[1]
    for c in range(classes):
        for e in range(EXPERTS + 1):
            work[i, e * classes + c] = shares[e * pairs + i, c]
    sigma, floor, _ = terms(books[i])
    said = opine(arbiters[i], counts[i], work[i], u[i], sigma, floor)
    direct(counts[i], (said.label, said.pseudolabel), y[i] if said.query else UNLABELLED, sizes[i], orders[i])
    replay(counts[i], orders[i], 0, 1)
    account(arbiters[i], counts[i], books[i], work[i], said, y[i], record[i])


def decide(
    shares: Any, sizes: Any, u: Any, y: Any, arbiters: Any, counts: Any, books: Any, work: Any,
    orders: Any, record: Any,
) -> None:  # fmt: skip
    """One round of every pair."""
    for i in range(u.shape[0]):
        decide_pair(i, shares, sizes, u, y, arbiters, counts, books, work, orders, record)


class Compiled(NamedTuple):
    """The functions of a round, compiled for the CPU."""

    decide: Callable[..., None]
    opine_apart: Callable[..., Any]
    order: Callable[..., None]


@lru_cache
def compiled() -> Compiled:
    for helper in (decide_pair, opine_apart, order):
        lower(helper)

    def opine_one(arbiter: Any, counts: Any, work: Any, u: Any, sigma: Any, floor: Any) -> Any:
        return opine_apart(arbiter, counts, work, u, sigma, floor)

    def order_one(
        arbiter: Any, counts: Any, work: Any, said: Any, y: Any, weight: Any, rate: Any, size: Any, orders: Any
    ) -> None:
        order(arbiter, counts, work, said, y, weight, rate, size, orders)

    return Compiled(jit(decide), jit(opine_one), jit(order_one))
