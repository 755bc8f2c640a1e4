"""The arbiter: whom to believe, from the labels that were asked for. It has three steps, each a mixture.

*Blend.* The experts that adapt are weighed by their discounted log losses on the labels, looking back some twenty of
them, so that it is quick to follow a change. The student has a head start where there is a source; where there is none
it is left out. The blend gives the pseudolabels.

*Trust.* The source model, frozen, against the blend. This memory is long, and each side is heard at several levels of
doubt, so that wrong labels count for little where there are many. Without labels nothing speaks for the blend: its
weight is multiplied by V / (V + EVIDENCE), where V counts the labels told of late. V and the weights fall back to where
they began, by SHARE per label that the budget would pay for, whether it comes or not. So trust is earned by labels, and
lost when they stop.

*Guard.* What is trusted, the source, and every expert again, this time with losses weighted by c / p, with p the
probability with which the label was asked for and c the least that it can be. These weights make the losses of the
labels stand for those of all rounds, whichever rounds the query prefers. It is an expert algorithm with a proof: see
`osamd.evaluation.arbiter` and the page on guarantees. The guard decides.

Plain enough to be compiled; `shares` holds the experts' probabilities, one expert after the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.accounting.budget import audit
from osamd.preset.views import cut

DISCOUNT = 0.95
"""What the blend's losses are multiplied by at each label: it looks back some twenty labels."""
DOUBT = 0.05
"""No expert's loss on one label is above -log of this, in the blend."""
POWER = 8.0
"""The query's confidence is the margin to this power: labels go to where the mixture is truly undecided."""
HEAD_START = 2.0
"""By so many nats an expert must be ahead of the student, which has learned from a source."""
LEFT_OUT = -1e6
"""The head start of a student that has no source: it weighs nothing."""

DOUBTS = (0.02, 0.15, 0.6)
"""Levels of doubt at which trust hears both sides: a clean stream, a noisy one, and one that is wrong in a third."""
SOURCE_PRIOR = 0.5
"""What the source weighs at first, and falls back to."""
EVIDENCE = 4.0
"""Labels told of late that make the blend weigh half of what its record is worth."""
SHARE = 0.005
"""What returns to where it began, per label that the budget would pay for."""
FADING = 0.05
"""How fast the count of labels told falls, likewise: it reaches back some twenty of them."""

TRUSTED_PRIOR = 0.99
"""What the guard gives to what is trusted at first; the others share the rest evenly."""
GUARD_SHARE = 0.002
"""What returns to those priors, per label that the budget would pay for."""
GUARD_DOUBT = 0.02
"""How much of the even distribution every expert of the guard is mixed with, so that its losses are bounded."""

NETWORK_AUDIT = 0.1
"""The least probability of a query, over the budget's rate, for networks, whose preset was chosen with it."""
RATE = 0.05
"""The budget where none is given."""


def limits(budget: float | None, floor: float | None, share: float | None = None) -> tuple[float, float]:
    """The preset's budget and floor, where they are not given. It always has a rate, to steer by.

    The floor is the audit of linear models (`osamd.accounting.budget.audit`), or `share` of the rate.
    """
    rate = RATE if budget is None else budget
    if floor is None:
        floor = audit(rate) if share is None else share * rate
    return rate, floor


class Arbiter(NamedTuple):
    """Views of the state."""

    losses: Any
    """The blend's discounted losses, one per expert."""
    trust: Any
    """Weights of the source at every doubt, then of the blend."""
    guard: Any
    """Weights of what is trusted, of the source, then of every expert."""


def cut_arbiter(vector: Any, at: int, experts: int) -> Any:
    losses, at = cut(vector, at, experts)
    trust, at = cut(vector, at, 2 * len(DOUBTS))
    guard, at = cut(vector, at, 2 + experts)
    return Arbiter(losses, trust, guard), at


def mix(losses: Any, shares: Any, head_start: float, mixture: Any) -> tuple[int, float]:
    """Fill in the mixture; its most likely class, and by how much it is ahead of the second (nan if any share is).

    By `head_start` nats an expert must be ahead of the first to weigh as much.
    """
    classes = mixture.shape[0]
    least = losses[0]
    for e in range(1, losses.shape[0]):
        least = min(least, losses[e] + head_start)
    for c in range(classes):
        mixture[c] = 0.0
    total = 0.0
    for e in range(losses.shape[0]):
        weight = math.exp(least - losses[e] - (head_start if e > 0 else 0.0))
        total += weight
        for c in range(classes):
            mixture[c] += weight * shares[e * classes + c]
    for c in range(classes):
        mixture[c] /= total
    return likeliest(mixture)


def likeliest(mixture: Any) -> tuple[int, float]:
    """The most likely class, and by how much it is ahead of the second."""
    best = 0
    for c in range(1, mixture.shape[0]):
        if mixture[c] > mixture[best]:
            best = c
    second = -1.0
    for c in range(mixture.shape[0]):
        if c != best:
            second = max(second, mixture[c])
    return best, mixture[best] - second


def dissent(losses: Any, shares: Any, head_start: float, decision: int) -> float:
    """The weight, from 0 to 1, of the blend's experts that hold another class than the decision."""
    classes = shares.shape[0] // losses.shape[0]
    least = losses[0]
    for e in range(1, losses.shape[0]):
        least = min(least, losses[e] + head_start)
    apart = total = 0.0
    for e in range(losses.shape[0]):
        weight = math.exp(least - losses[e] - (head_start if e > 0 else 0.0))
        total += weight
        for c in range(classes):
            if shares[e * classes + c] > shares[e * classes + decision]:
                apart += weight
                break
    return apart / total


def weigh(losses: Any, shares: Any, y: int) -> None:
    """Each expert's loss takes in the label."""
    classes = shares.shape[0] // losses.shape[0]
    for e in range(losses.shape[0]):
        share = shares[e * classes + y]
        losses[e] = DISCOUNT * losses[e] - math.log(DOUBT + (1.0 - DOUBT) * share)


def doubted(share: float, doubt: float, classes: int) -> float:
    """A probability, mixed with the even distribution."""
    return doubt / classes + (1.0 - doubt) * share


def open_trust(trust: Any) -> None:
    levels = trust.shape[0] // 2
    for j in range(levels):
        trust[j] = SOURCE_PRIOR / levels
        trust[levels + j] = (1.0 - SOURCE_PRIOR) / levels


def open_guard(guard: Any, with_source: bool) -> None:
    """Begin at the priors; without a source its part goes to the experts."""
    for e in range(guard.shape[0]):
        guard[e] = guard_prior(e, guard.shape[0], with_source)


def guard_prior(member: int, members: int, with_source: bool) -> float:
    if member == 0:
        return TRUSTED_PRIOR
    if member == 1 and not with_source:
        return 0.0
    return (1.0 - TRUSTED_PRIOR) / (members - 1 if with_source else members - 2)


def trusted_into(trust: Any, verified: float, source: Any, blend: Any, trusted: Any) -> None:
    """The mixture of source and blend; `verified` counts the labels told of late."""
    classes, levels = trusted.shape[0], trust.shape[0] // 2
    earned = verified / (verified + EVIDENCE)
    total = 0.0
    for c in range(classes):
        trusted[c] = 0.0
    for j in range(levels):
        ours, theirs = trust[j], earned * trust[levels + j]
        total += ours + theirs
        for c in range(classes):
            trusted[c] += ours * doubted(source[c], DOUBTS[j], classes)
            trusted[c] += theirs * doubted(blend[c], DOUBTS[j], classes)
    for c in range(classes):
        trusted[c] /= total


def verify(trust: Any, source: float, blend: float, classes: int) -> None:
    """Weigh source and blend by the probability that each gave to the label."""
    levels = trust.shape[0] // 2
    total = 0.0
    for j in range(levels):
        trust[j] *= doubted(source, DOUBTS[j], classes)
        trust[levels + j] *= doubted(blend, DOUBTS[j], classes)
        total += trust[j] + trust[levels + j]
    for j in range(2 * levels):
        trust[j] /= total


def guarded_into(guard: Any, trusted: Any, source: Any, shares: Any, mixture: Any) -> None:
    """The mixture that decides."""
    classes = mixture.shape[0]
    for c in range(classes):
        mixture[c] = guard[0] * doubted(trusted[c], GUARD_DOUBT, classes)
        mixture[c] += guard[1] * doubted(source[c], GUARD_DOUBT, classes)
    for e in range(guard.shape[0] - 2):
        for c in range(classes):
            mixture[c] += guard[2 + e] * doubted(shares[e * classes + c], GUARD_DOUBT, classes)


def keep_guard(guard: Any, trusted: Any, source: Any, shares: Any, y: int, weight: float) -> None:
    """Weigh the guard's members by the label, whose loss counts `weight` = c / p, at most 1."""
    classes = trusted.shape[0]
    guard[0] *= doubted(trusted[y], GUARD_DOUBT, classes) ** weight
    guard[1] *= doubted(source[y], GUARD_DOUBT, classes) ** weight
    total = guard[0] + guard[1]
    for e in range(guard.shape[0] - 2):
        guard[2 + e] *= doubted(shares[e * classes + y], GUARD_DOUBT, classes) ** weight
        total += guard[2 + e]
    for e in range(guard.shape[0]):
        guard[e] /= total


def fall_back(arbiter: Arbiter, rate: float, with_source: bool) -> None:
    """A round passes: what was earned falls back a little, `rate` of a label's worth."""
    levels, members = arbiter.trust.shape[0] // 2, arbiter.guard.shape[0]
    for j in range(levels):
        arbiter.trust[j] += SHARE * rate * (SOURCE_PRIOR / levels - arbiter.trust[j])
        at = levels + j
        arbiter.trust[at] += SHARE * rate * ((1.0 - SOURCE_PRIOR) / levels - arbiter.trust[at])
    for e in range(members):
        arbiter.guard[e] += GUARD_SHARE * rate * (guard_prior(e, members, with_source) - arbiter.guard[e])
