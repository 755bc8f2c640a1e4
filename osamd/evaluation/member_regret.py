"""The paper's bound for the default learner: its guard, its member OSAMD, and Theorem 4, one after the other.

The member (`osamd.preset.mirror_descent`) is the paper's OSAMD with known constants. Its labels are asked for with a
probability of at least c in every round in which the budget allows a query, so with at least c times the paper's
sigma / (sigma + |H|). The proof of Lemma 3 then gives 1 / c times its errors, and one for every round that the budget
withheld. The guard loses little more than the member. Over all rounds after the member has begun, with losses in nats,
and w_t* the best parameters of the ball for the distribution of round t,

    E sum_t (loss of the guard - l_t(w_t*)) <= sum over epochs of (2 eta G^2 + 2 G D) (Lemma 3) / c
                                               + (eps_w + gamma D) / eta + 4 sqrt(gamma D T F V_T / eta)
                                               + the guard's bound for staying with the member
                                               + T ln 1 / (1 - GUARD_DOUBT) + before ln K
                                               + W (ln(K / GUARD_DOUBT) + 2 eta G^2 + 2 G D)

where W is the expected number of withheld rounds, and `before` that of the rounds before the member has begun. An epoch
is a stretch of rounds in which the learner sees samples in one scale; whenever the scale is renewed, the member starts
anew from where it is. The page on guarantees has the proof and what it needs.

>>> epochs = [member_constants(classes=2, T=T, C_T=0.5, V_T=0.1, R=1.0) for T in (5_000, 7_500, 11_250)]
>>> found = member_bound(epochs, classes=2, rate=0.05, least=0.025)
>>> found.holds, sorted(found.terms)
(True, ['before', 'doubt', 'drift', 'guard', 'pseudolabel errors', 'start', 'withheld'])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from osamd.errors import InputError, require_not_negative, require_whole
from osamd.evaluation import arbiter_guarantee
from osamd.evaluation.theory import Bound, Constants, general_bound, lemma3
from osamd.preset.arbiter import GUARD_DOUBT
from osamd.preset.mirror_descent import MARGIN, RADIUS, SEVERAL_CLASSES, TWO_CLASSES, Steepness, rows_for, step_of


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
    steep = steepness(classes)
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


def pseudolabel_errors(constants: Constants, *, least: float, withheld: float = 0.0) -> Bound:
    """Expected wrong pseudolabels of the member's teacher: Lemma 3 at sigma = MARGIN, divided by c, the `least`
    probability of a query, and one for each of the `withheld` rounds."""
    require_not_negative("pseudolabel_errors", "withheld", withheld)
    asked = lemma3(constants, sigma=MARGIN)
    if not least > 0.0:
        return Bound(math.inf, {}, (*asked.failed, "The least probability of a query is 0; give the budget a floor."))
    terms = {name: term / least for name, term in asked.terms.items()} | {"withheld": float(withheld)}
    return Bound(sum(terms.values()), terms, asked.failed)


def epoch_bound(constants: Constants, *, classes: int, least: float) -> Bound:
    """The member's regret over one epoch, without the rounds that the budget withheld.

    The general bound of the paper has a further term, 2 (L D + G)^2 eta T, for the difference between l_t(w_t) and the
    loss on the sample that w_t has adapted to. Here the loss on that sample is what counts, so there is no such term.
    """
    errors = pseudolabel_errors(constants, least=least)
    general = general_bound(constants, errors, step_of(rows_for(classes)))
    terms = {name: term for name, term in general.terms.items() if name != "step"}
    return Bound(sum(terms.values()), terms, general.failed)


def member_bound(
    epochs: Sequence[Constants],
    *,
    classes: int,
    rate: float,
    least: float,
    withheld: float = 0.0,
    before: float = 0.0,
    with_source: bool = True,
) -> Bound:
    """The most by which the expected loss of the learner exceeds that of the best parameters of every round.

    `epochs` holds the constants of `member_constants` for each epoch, `rate` is the budget's, and `least` is c, the
    least probability of a query that the budget allows (`osamd.accounting.budget.least`). `withheld` and `before` are
    the expected numbers of rounds in which the budget withheld the query, and before the member has begun.
    """
    for name, number in (("withheld", withheld), ("before", before)):
        require_not_negative("member_bound", name, number)
    steep = steepness(classes)
    if {epoch.G for epoch in epochs} != {steep.lipschitz}:
        raise InputError(f"`member_bound(epochs=...)`: give member_constants of every epoch, for {classes} classes.")
    rounds = math.ceil(before) + sum(epoch.T for epoch in epochs)
    stay = arbiter_guarantee.constant("osamd", rounds)
    guard = arbiter_guarantee.bound(stay, rate=rate, floor=least, with_source=with_source)
    per_error = 2.0 * step_of(rows_for(classes)) * steep.lipschitz**2 + 4.0 * steep.lipschitz * RADIUS
    terms = {
        "guard": guard.value,
        "doubt": rounds * math.log(1.0 / (1.0 - GUARD_DOUBT)),
        "before": before * math.log(classes),
        "withheld": withheld * (math.log(classes / GUARD_DOUBT) + per_error),
    }
    failed = list(guard.failed)
    for epoch in epochs:
        member = epoch_bound(epoch, classes=classes, least=least)
        failed += member.failed
        for name, term in member.terms.items():
            terms[name] = terms.get(name, 0.0) + term
    return Bound(sum(terms.values()), terms, tuple(dict.fromkeys(failed)))


def steepness(classes: int) -> Steepness:
    """G and L of the member."""
    return TWO_CLASSES if rows_for(classes) == 1 else SEVERAL_CLASSES
