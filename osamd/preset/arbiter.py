"""The arbiter: how much weight each expert gets, judged by the labels that were asked for. It mixes in three steps.

*Blend.* The experts that adapt are weighed by their discounted log losses on the labels. The discount looks back about
twenty labels, so the blend follows a change quickly. The student has a head start if there is a source, and is left out
if there is none. Without a source, losses count less while there are few labels: nothing is known about the experts
yet, and an even mixture is better than a lucky one. The blend gives the pseudolabels.

*Trust.* The frozen source model against the blend. This step has a long memory, and each side is mixed with the uniform
distribution at several levels of doubt, so that wrong labels count for little where there are many. Without labels
there is no evidence for the blend: its weight is multiplied by V / (V + EVIDENCE), where V counts the recent labels. V
and the weights return to their start by a fixed share per label that the budget would pay for, whether it comes or not.
So trust is earned by labels, and lost when they stop. While samples look like those of the source, its weight counts
several times, since there is no reason to doubt it but the labels, and a few of these may be wrong or mislead.

*Guard.* The trusted mixture, the source, every expert again, and for linear models the paper's OSAMD, this time with
losses weighted by c / p, where p is the probability with which the label was asked for and c the least that p can be.
With these weights the losses on the labels stand for those of all rounds, whichever rounds the query prefers. It is an
expert algorithm with a proof: see `osamd.evaluation.arbiter_guarantee` and the page on guarantees. The guard decides.

Plain enough to be compiled; `shares` holds the experts' probabilities, one expert after the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.accounting.budget import audit
from osamd.preset.grounds import Grounds
from osamd.preset.views import cut

DISCOUNT = 0.95
"""The blend's losses are multiplied by this at each label: it looks back about twenty labels."""
DOUBT = 0.05
"""In the blend, no expert's loss on one label exceeds -log of this."""
POWER = 8.0
"""The query's confidence is the margin to this power: labels go where the mixture is truly undecided."""
HEAD_START = 2.0
"""How many nats an expert must be ahead of the student, which has learned from a source, to weigh as much."""

DOUBTS = (0.02, 0.15, 0.6)
"""The levels of doubt of the trust step: for a clean stream, a noisy one, and one with a third of the labels wrong."""
SOURCE_PRIOR = 0.5
"""The weight of the source at the start, to which it returns."""
EVIDENCE = 4.0
"""With this many recent labels, the blend has half of the weight that its record deserves."""
SHARE = 0.005
"""The share of the trust that returns to its start, per label that the budget would pay for."""
FADING = 0.05
"""How fast the count of recent labels falls, per label that the budget would pay for: it looks back about twenty."""

TRUSTED_PRIOR = 0.99
"""The guard's weight of the trusted mixture at the start; the other members share the rest evenly."""
GUARD_SHARE = 0.002
"""The share of the guard that returns to its start, per label that the budget would pay for."""
GUARD_DOUBT = 0.02
"""The share of the uniform distribution in every member of the guard, so that its losses are bounded."""

NETWORK_AUDIT = 0.1
"""For networks, the least probability of a query as a share of the rate; their preset was tuned with it."""
RATE = 0.05
"""The default budget."""


def limits(budget: float | None, floor: float | None, share: float | None = None) -> tuple[float, float]:
    """The preset's budget and floor, with defaults where they are not given. There is always a rate to steer to.

    The default floor is the audit of linear models (`osamd.accounting.budget.audit`), or `share` times the rate.
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
    """Weights of the source at every level of doubt, then those of the blend."""
    guard: Any
    """Weights of the trusted mixture, of the source, of every expert, then of others that speak to it alone."""


def cut_arbiter(vector: Any, at: int, experts: int, others: int = 0) -> Any:
    """The parts, for the experts of the blend and for others that speak to the guard alone."""
    losses, at = cut(vector, at, experts)
    trust, at = cut(vector, at, 2 * len(DOUBTS))
    guard, at = cut(vector, at, 2 + experts + others)
    return Arbiter(losses, trust, guard), at


def handicapped(losses: Any, e: int, sourced: bool) -> float:
    """The loss of an expert, which must be HEAD_START ahead of the student if there is a source."""
    return float(losses[e] + (HEAD_START if sourced and e > 0 else 0.0))


def least_loss(losses: Any, sourced: bool) -> float:
    """The least of these losses; without a source, the student does not count."""
    least = math.inf
    for e in range(0 if sourced else 1, losses.shape[0]):
        least = min(least, handicapped(losses, e, sourced))
    return least


def mix(losses: Any, shares: Any, sourced: bool, boldness: float, mixture: Any) -> tuple[int, float]:
    """Compute the blend; returns its most likely class, and its lead over the second (nan if any share is nan)."""
    classes, least = mixture.shape[0], least_loss(losses, sourced)
    for c in range(classes):
        mixture[c] = 0.0
    total = 0.0
    for e in range(0 if sourced else 1, losses.shape[0]):
        weight = math.exp(boldness * (least - handicapped(losses, e, sourced)))
        total += weight
        for c in range(classes):
            mixture[c] += weight * shares[e * classes + c]
    for c in range(classes):
        mixture[c] /= total
    return likeliest(mixture)


def likeliest(mixture: Any) -> tuple[int, float]:
    """The most likely class, and its lead over the second."""
    best = 0
    for c in range(1, mixture.shape[0]):
        if mixture[c] > mixture[best]:
            best = c
    second = -1.0
    for c in range(mixture.shape[0]):
        if c != best:
            second = max(second, mixture[c])
    return best, mixture[best] - second


def dissent(losses: Any, opinions: Any, sourced: bool, boldness: float, decision: int) -> float:
    """The weight, from 0 to 1, of the blend's experts that prefer another class than the decision.

    `opinions` holds their probabilities, one row per expert.
    """
    least = least_loss(losses, sourced)
    apart = total = 0.0
    for e in range(0 if sourced else 1, losses.shape[0]):
        weight = math.exp(boldness * (least - handicapped(losses, e, sourced)))
        total += weight
        for c in range(opinions.shape[1]):
            if opinions[e, c] > opinions[e, decision]:
                apart += weight
                break
    return apart / total


def weigh(losses: Any, shares: Any, classes: int, y: int) -> None:
    """Update each expert's loss by the label."""
    for e in range(losses.shape[0]):
        share = shares[e * classes + y]
        losses[e] = DISCOUNT * losses[e] - math.log(DOUBT + (1.0 - DOUBT) * share)


def doubted(share: float, doubt: float, classes: int) -> float:
    """A probability, mixed with the uniform distribution."""
    return doubt / classes + (1.0 - doubt) * share


def open_trust(trust: Any) -> None:
    levels = trust.shape[0] // 2
    for j in range(levels):
        trust[j] = SOURCE_PRIOR / levels
        trust[levels + j] = (1.0 - SOURCE_PRIOR) / levels


def open_guard(guard: Any, with_source: bool) -> None:
    """Start at the priors; without a source, its part goes to the experts."""
    for e in range(guard.shape[0]):
        guard[e] = guard_prior(e, guard.shape[0], with_source)


def guard_prior(member: int, members: int, with_source: bool) -> float:
    if member == 0:
        return TRUSTED_PRIOR
    if member == 1 and not with_source:
        return 0.0
    return (1.0 - TRUSTED_PRIOR) / (members - 1 if with_source else members - 2)


def trusted_into(trust: Any, grounds: Grounds, source: Any, blend: Any, trusted: Any) -> None:
    """Compute the mixture of source and blend."""
    classes, levels = trusted.shape[0], trust.shape[0] // 2
    earned = grounds.verified / (grounds.verified + EVIDENCE)
    total = 0.0
    for c in range(classes):
        trusted[c] = 0.0
    for j in range(levels):
        ours, theirs = grounds.credit * trust[j], earned * trust[levels + j]
        total += ours + theirs
        for c in range(classes):
            trusted[c] += ours * doubted(source[c], DOUBTS[j], classes)
            trusted[c] += theirs * doubted(blend[c], DOUBTS[j], classes)
    for c in range(classes):
        trusted[c] /= total


def verify(trust: Any, source: float, blend: float, classes: int, counts: float) -> None:
    """Weigh source and blend by the probability that each gave to the label, which counts so much."""
    levels = trust.shape[0] // 2
    total = 0.0
    for j in range(levels):
        trust[j] *= doubted(source, DOUBTS[j], classes) ** counts
        trust[levels + j] *= doubted(blend, DOUBTS[j], classes) ** counts
        total += trust[j] + trust[levels + j]
    for j in range(2 * levels):
        trust[j] /= total


def guarded_into(guard: Any, trusted: Any, source: Any, shares: Any, mixture: Any) -> None:
    """Compute the mixture that decides."""
    classes = mixture.shape[0]
    for c in range(classes):
        mixture[c] = guard[0] * doubted(trusted[c], GUARD_DOUBT, classes)
        mixture[c] += guard[1] * doubted(source[c], GUARD_DOUBT, classes)
    for e in range(guard.shape[0] - 2):
        for c in range(classes):
            mixture[c] += guard[2 + e] * doubted(shares[e * classes + c], GUARD_DOUBT, classes)


def keep_guard(guard: Any, trusted: Any, source: Any, shares: Any, y: int, weight: float) -> None:
    """Weigh the guard's members by the label, whose loss has the weight c / p, at most 1."""
    classes = trusted.shape[0]
    guard[0] *= doubted(trusted[y], GUARD_DOUBT, classes) ** weight
    guard[1] *= doubted(source[y], GUARD_DOUBT, classes) ** weight
    total = guard[0] + guard[1]
    for e in range(guard.shape[0] - 2):
        guard[2 + e] *= doubted(shares[e * classes + y], GUARD_DOUBT, classes) ** weight
        total += guard[2 + e]
    for e in range(guard.shape[0]):
        guard[e] /= total


def consult(arbiter: Arbiter, grounds: Grounds, seen: Any) -> tuple[int, int, float]:
    """Mix in three steps; returns the decision, the pseudolabel, and the margin of decision and blend, half and half.

    `seen` holds the probabilities of the `source` and the `shares` of the experts, and takes `blend`, `trusted`,
    `mixture` and `scores`. The margin is nan if any probability is.
    """
    pseudolabel, _ = mix(arbiter.losses, seen.shares, grounds.sourced, grounds.boldness, seen.blend)
    if grounds.sourced:
        trusted_into(arbiter.trust, grounds, seen.source, seen.blend, seen.trusted)
    else:
        for c in range(seen.blend.shape[0]):  # numba takes a second longer to compile an assignment of whole arrays
            seen.trusted[c] = seen.blend[c]
    guarded_into(arbiter.guard, seen.trusted, seen.source, seen.shares, seen.mixture)
    label, _ = likeliest(seen.mixture)
    for c in range(seen.mixture.shape[0]):
        seen.scores[c] = 0.5 * (seen.mixture[c] + seen.blend[c])
    _, margin = likeliest(seen.scores)
    return label, pseudolabel, margin


def arbitrate(arbiter: Arbiter, sourced: bool, seen: Any, y: int, weight: float, counts: float) -> None:
    """Update all three steps by the label; `seen` is that of `consult`.

    Its loss has this `weight` in the guard, and the label `counts` so much in the trust.
    """
    keep_guard(arbiter.guard, seen.trusted, seen.source, seen.shares, y, weight)
    if sourced:
        verify(arbiter.trust, seen.source[y], seen.blend[y], seen.blend.shape[0], counts)
    weigh(arbiter.losses, seen.shares, seen.blend.shape[0], y)


def fall_back(arbiter: Arbiter, rate: float, with_source: bool) -> None:
    """After a round, move trust and guard back towards their start, by `rate` times the share per label."""
    levels, members = arbiter.trust.shape[0] // 2, arbiter.guard.shape[0]
    for j in range(levels):
        arbiter.trust[j] += SHARE * rate * (SOURCE_PRIOR / levels - arbiter.trust[j])
        at = levels + j
        arbiter.trust[at] += SHARE * rate * ((1.0 - SOURCE_PRIOR) / levels - arbiter.trust[at])
    for e in range(members):
        arbiter.guard[e] += GUARD_SHARE * rate * (guard_prior(e, members, with_source) - arbiter.guard[e])
