"""The paper's bound for the default learner: its guard, its member OSAMD, and Theorem 4, one after the other.

The member (`osamd.preset.mirror_descent`) is the paper's OSAMD with known constants. Its labels are asked for with a
probability of at least the floor c in every round in which the budget allows a query, so with at least c times the
paper's sigma / (sigma + |H|). The proof of Lemma 3 then gives 1 / c times its errors, and one for every round that the
budget withheld. The guard loses little more than the member. Over T rounds with losses in nats, and w_t* the best
parameters of the ball for the distribution of round t,

    E sum_t (loss of the guard - l_t(w_t*)) <= general bound with (Lemma 3) / c + W errors
                                               + the guard's bound for staying with the member
                                               + T ln 1 / (1 - GUARD_DOUBT) + W ln(K / GUARD_DOUBT)

where W is the expected number of withheld rounds. The general bound is a sum over epochs: whenever the learner renews
the scale in which it sees samples, the member starts anew from where it is. The page on guarantees has the proof and
what it needs.

>>> stream = member_constants(classes=2, T=20_000, C_T=2.0, V_T=1.0, R=1.0)
>>> found = member_bound([stream], classes=2, rate=0.05, floor=0.025)
>>> found.holds, sorted(found.terms)
(True, ['doubt', 'drift', 'guard', 'pseudolabel errors', 'start', 'step', 'withheld'])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from osamd.errors import InputError, require_not_negative, require_whole
from osamd.evaluation import arbiter_guarantee
from osamd.evaluation.theory import Bound, Constants, general_bound, lemma3
from osamd.preset.arbiter import GUARD_DOUBT
from osamd.preset.mirror_descent import MARGIN, RADIUS, SEVERAL_CLASSES, TWO_CLASSES, rows_for, step_of


def member_constants(
    classes: int,
    *,
    T: int,
    C_T: float,
    V_T: float,
    R: float,
    alpha: float = 0.0,
    eps_v: float | None = None,
    eps_w: float | None = None,
) -> Constants:
    """The constants of the paper's assumptions for the member: only what the stream decides is given.

    The parameters v_t lie in the ball of radius RADIUS and see unit vectors (z, 1) / ||(z, 1)||. The starts default to
    the largest possible: half of the squared diameter.
    """
    require_whole("member_constants", "classes", classes, 2)
    steep = TWO_CLASSES if rows_for(classes) == 1 else SEVERAL_CLASSES
    diameter = 2.0 * RADIUS
    farthest = 0.5 * diameter * diameter
    highest = RADIUS if rows_for(classes) == 1 else math.sqrt(2.0) * RADIUS  # the largest difference of two scores
    return Constants(
        G=steep.lipschitz,
        D=diameter,
        L=steep.smoothness,
        F=math.log1p((classes - 1) * math.exp(highest)),
        gamma=diameter,
        C_T=C_T,
        V_T=V_T,
        R=R,
        eps_v=farthest if eps_v is None else eps_v,
        eps_w=farthest if eps_w is None else eps_w,
        T=T,
        alpha=alpha,
    )


def pseudolabel_errors(constants: Constants, *, floor: float, withheld: float = 0.0) -> Bound:
    """Expected wrong pseudolabels of the member's teacher: Lemma 3 at sigma = MARGIN, divided by the floor, and one for
    each of the `withheld` rounds."""
    require_not_negative("pseudolabel_errors", "withheld", withheld)
    asked = lemma3(constants, sigma=MARGIN)
    if not floor > 0.0:
        return Bound(math.inf, {}, (*asked.failed, "The least probability of a query is 0; give the budget a floor."))
    terms = {name: term / floor for name, term in asked.terms.items()} | {"withheld": float(withheld)}
    return Bound(sum(terms.values()), terms, asked.failed)


def member_bound(
    epochs: Sequence[Constants],
    *,
    classes: int,
    rate: float,
    floor: float,
    withheld: float = 0.0,
    with_source: bool = True,
) -> Bound:
    """The most by which the expected loss of the learner exceeds that of the best parameters of every round.

    `epochs` holds the constants of `member_constants` for each stretch of rounds in which samples are seen in one
    scale, `rate` and `floor` are those of the budget, and `withheld` is the expected number of rounds in which the
    budget withheld the query.
    """
    if not epochs:
        raise InputError("`member_bound(epochs=[])`: give the constants of one epoch at least.")
    rounds = sum(epoch.T for epoch in epochs)
    stay = arbiter_guarantee.constant("osamd", rounds)
    guard = arbiter_guarantee.bound(stay, rate=rate, floor=floor, with_source=with_source)
    terms = {
        "guard": guard.value,
        "doubt": rounds * math.log(1.0 / (1.0 - GUARD_DOUBT)),
        "withheld": withheld * math.log(classes / GUARD_DOUBT),
    }
    failed = list(guard.failed)
    for i, epoch in enumerate(epochs):
        errors = pseudolabel_errors(epoch, floor=floor, withheld=withheld if i == 0 else 0.0)
        member = general_bound(epoch, errors, step_of(rows_for(classes)))
        failed += member.failed
        for name, term in member.terms.items():
            terms[name] = terms.get(name, 0.0) + term
    return Bound(sum(terms.values()), terms, tuple(dict.fromkeys(failed)))
