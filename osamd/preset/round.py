"""One round of the linear preset: `observe` decides and says whether to ask; `learn` takes the label, or none.

    z = clip((x - centre) / deviation)                             scale
    p_e: student, regressions, Bayes, neighbours, forest           experts, and the paper's OSAMD
    blend = sum_e a_e p_e,  a_e ~ exp(-L_e)                        arbiter: pseudolabel
    trusted = source against blend                                 arbiter: trust earned by labels
    p = guard over trusted, source, experts and the paper's OSAMD  arbiter: decision
    ask with probability max(floor, sigma / (sigma + m^POWER))     m: the margin of p and the blend, half and half

    with a label: arbiter, memory, regressions, Bayes, forest;  in every round: OSAMD, scale, student

`observe` leaves the state as it is and writes into `work`, which `learn` then reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.paper.queries import query_probability
from osamd.paper.scores import UNLABELLED
from osamd.preset.arbiter import (
    FADING,
    POWER,
    arbitrate,
    consult,
    fall_back,
    likeliest,
)
from osamd.preset.bayes import REACH, bayes_opinion, count_in, recount, settle
from osamd.preset.forest import TREES, count_in_leaves, forest_opinion
from osamd.preset.grounds import Grounds, boldness, credit, evidence
from osamd.preset.growing import grow, refresh
from osamd.preset.linear_models import evenly, scores_into, softmax_in_place
from osamd.preset.memory import carry_over, digest_memory, keep
from osamd.preset.mirror_descent import descend, descent_opinion, keep_in_ball, rescale, start_descent
from osamd.preset.neighbours import neighbours_opinion
from osamd.preset.regression import NEWEST, drop, refit, restate
from osamd.preset.scale import (
    FIRST_RENEWAL,
    RENEWED,
    SETTLED,
    Scale,
    follow,
    hold,
    note_source,
    shift_from_source,
    standardise_into,
)
from osamd.preset.state import (
    BAYES,
    FAST_BAYES,
    FAST_REGRESSION,
    FEATURES,
    FOREIGN,
    FOREST,
    KEPT,
    LINEAR,
    NEIGHBOURS,
    OSAMD,
    RATE,
    REGRESSION,
    RENEWAL,
    ROUNDS,
    SEED,
    SHIFT,
    SOURCED,
    STUDENT,
    VERIFIED,
    PresetParts,
    Work,
    parts_of,
    work_of,
)
from osamd.preset.student import SHARPNESS, train


class Opinion(NamedTuple):
    """What a round says about its sample."""

    label: int
    """The decision; -1 where the sample cannot be used."""
    pseudolabel: int
    """The blend's opinion."""
    margin: float
    query: bool
    probability: float
    """The probability of asking, as it was before the draw."""


def observe(state: Any, work: Any, x: Any, u: float, sigma: float, floor: float) -> Opinion:
    """The first half of the round."""
    if x.shape[0] != int(state[FEATURES]):
        return Opinion(-1, 0, 0.0, False, 0.0)
    return opine(state, parts_of(state), work_of(work, state), x, u, sigma, floor)


def opine(state: Any, part: PresetParts, seen: Work, x: Any, u: float, sigma: float, floor: float) -> Opinion:
    """The first half of the round for a sample with the right number of features, where the parts are at hand."""
    for i in range(x.shape[0]):
        seen.x[i] = x[i]
    standardise_into(part.scale, x, seen.z)
    experts_into(state, part, seen)
    label, pseudolabel, margin = consult(part.arbiter, grounds_of(state), seen)
    if not margin >= 0.0:  # a score is nan
        return Opinion(-1, 0, 0.0, False, 0.0)
    probability = query_probability(margin**POWER, sigma, floor)
    return Opinion(label, pseudolabel, margin, u < probability, probability)


def grounds_of(state: Any) -> Grounds:
    """What the arbiter goes by. There is no credit while nobody knows what the samples of the source looked like."""
    sourced, known = state[SOURCED] > 0.0, state[SHIFT] >= 0.0
    return Grounds(sourced, state[VERIFIED], credit(state[SHIFT]) if known else 1.0, boldness(sourced, state[KEPT]))


def experts_into(state: Any, part: PresetParts, seen: Work) -> None:
    """Compute the probabilities of the source, of every expert, and of the paper's OSAMD."""
    kept = int(state[KEPT])
    if state[SOURCED] == LINEAR:
        scores_into(part.source, seen.x, seen.source)
        softmax_in_place(seen.source, 1.0)
    elif state[SOURCED] != FOREIGN:  # a foreign source has written its own
        evenly(seen.source)
    opinions = seen.opinions
    if state[SOURCED] > 0.0:
        scores_into(part.student, seen.x, opinions[STUDENT])
        softmax_in_place(opinions[STUDENT], SHARPNESS)
    else:
        evenly(opinions[STUDENT])
    scores_into(part.regression.weights, seen.z, opinions[REGRESSION])
    softmax_in_place(opinions[REGRESSION], 1.0)
    scores_into(part.fast_regression.weights, seen.z, opinions[FAST_REGRESSION])
    softmax_in_place(opinions[FAST_REGRESSION], 1.0)
    bayes_opinion(part.bayes, seen.z, opinions[BAYES])
    bayes_opinion(part.fast_bayes, seen.z, opinions[FAST_BAYES])
    digest_memory(part.memory, seen.digest, kept, state[RENEWAL])
    count = min(kept, part.memory.labels.shape[0])
    neighbours_opinion(part.memory, seen.digest, count, seen.nearby, seen.z, opinions[NEIGHBOURS])
    forest_opinion(part.forest, seen.z, seen.leaves, opinions[FOREST])
    if has_scale(state):
        descent_opinion(part.descent, seen.descended, seen.z, opinions[OSAMD])
    if not has_begun(state):
        evenly(opinions[OSAMD])


def has_scale(state: Any) -> bool:
    """Whether a scale is held already."""
    return bool(state[RENEWAL] > FIRST_RENEWAL)


def has_begun(state: Any) -> bool:
    """Whether the paper's OSAMD plays: it needs a scale, and a source or a label to begin with."""
    return has_scale(state) and bool(state[SOURCED] > 0.0 or state[KEPT] > 0.0)


def learn(state: Any, work: Any, pseudolabel: int, y: int, weight: float) -> None:
    """The second half, for the sample observed last; if y is UNLABELLED, the pseudolabel stands in for it.

    `weight` is c / p, the least probability of asking divided by that of this query; 0 if the label was not asked for.
    """
    take_in(state, parts_of(state), work_of(work, state), pseudolabel, y, weight)


def take_in(state: Any, part: PresetParts, seen: Work, pseudolabel: int, y: int, weight: float) -> None:
    """The second half of the round, where the parts are at hand."""
    sourced = state[SOURCED] > 0.0
    state[VERIFIED] *= 1.0 - FADING * state[RATE]
    if y != UNLABELLED:
        arbitrate(part.arbiter, sourced, seen, y, weight, evidence(likeliest(seen.mixture)[1]))
        state[VERIFIED] += 1.0
    fall_back(part.arbiter, state[RATE], sourced)  # last: the guarantee is about the weights that decided
    if has_begun(state) or (has_scale(state) and y != UNLABELLED):
        descend(part.descent, seen.descended, seen.z, seen.opinions[OSAMD], y)
    state[ROUNDS] += 1.0
    follow(part.scale, seen.x, state[ROUNDS])
    if sourced:
        compare_with_source(state, part.scale)
    if state[ROUNDS] >= state[RENEWAL]:
        renew(state, part, seen)
    if y != UNLABELLED:
        teach(state, part, seen, y)
    if sourced:
        # It trains itself only where the decision agrees with the blend: labels must settle a disagreement.
        agreed = pseudolabel if likeliest(seen.mixture)[0] == pseudolabel else UNLABELLED
        target = agreed if y == UNLABELLED else y
        if target != UNLABELLED:
            train(part.student, part.scale, seen.x, target, seen.scores, seen.direction)


def compare_with_source(state: Any, scale: Scale) -> None:
    """Note how far samples have moved from those of the source. Where no rows of the source were given, the samples of
    the first SETTLED rounds stand for them."""
    if state[SHIFT] >= 0.0:
        state[SHIFT] = shift_from_source(scale)
    elif state[ROUNDS] >= SETTLED:
        note_source(scale)
        state[SHIFT] = 0.0


def renew(state: Any, part: PresetParts, seen: Work) -> None:
    """Hold the present scale, and convert the memory, and what was learned from it, to that scale."""
    is_first = not has_scale(state)
    state[RENEWAL] = RENEWED * state[ROUNDS]
    kept = int(state[KEPT])
    count = min(kept, part.memory.labels.shape[0])
    for i in range(part.scale.centre.shape[0]):
        centre, inverse = part.scale.centre[i], part.scale.inverse[i]
        hold(part.scale, i)
        carry_over(part.memory, count, i, centre, inverse, part.scale)
        rescale(part.descent.teacher, i, centre, inverse, part.scale)
        rescale(part.descent.student, i, centre, inverse, part.scale)
    if is_first and state[SOURCED] > 0.0:
        start_descent(part.descent, part.scale, part.student)
    keep_in_ball(part.descent.teacher)
    keep_in_ball(part.descent.student)
    restate(part.regression, part.memory, count)
    restate(part.fast_regression, part.memory, count)
    recount(part.fast_bayes, part.memory, kept, REACH[0])
    recount(part.bayes, part.memory, kept, REACH[1])
    if count > 0:
        for tree in range(TREES):
            state[SEED] = grow(part.forest, tree, part.memory, kept, seen.room, state[SEED])


def teach(state: Any, part: PresetParts, seen: Work, y: int) -> None:
    """Teach the sample observed last, with its label, to the experts that learn only from labels."""
    ring, kept = part.memory.labels.shape[0], int(state[KEPT])
    standardise_into(part.scale, seen.x, seen.z)
    if kept >= ring:
        drop(part.regression, part.memory, kept % ring)
    if kept >= NEWEST:
        drop(part.fast_regression, part.memory, (kept - NEWEST) % ring)
    keep(part.memory, kept, seen.z, y)
    kept += 1
    state[KEPT] = kept
    digest_memory(part.memory, seen.digest, kept, state[RENEWAL])
    refit(part.regression, part.memory, seen.digest.norms, kept, min(kept, ring), seen.scores)
    refit(part.fast_regression, part.memory, seen.digest.norms, kept, min(kept, NEWEST), seen.scores)
    count_in(part.fast_bayes, seen.z, y, REACH[0])
    count_in(part.bayes, seen.z, y, REACH[1])
    settle(part.fast_bayes)
    settle(part.bayes)
    count_in_leaves(part.forest, seen.z, y)
    state[SEED] = refresh(part.forest, part.memory, kept, seen.room, state[SEED])


def remember(state: Any, work: Any, rows: Any, labels: Any) -> None:
    """Teach labelled rows of the source to the experts, as many as there is room for."""
    part, seen = parts_of(state), work_of(work, state)
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            seen.x[i] = rows[k, i]
        teach(state, part, seen, int(labels[k]))


def gather(state: Any, work: Any, rows: Any) -> None:
    """Start the scale from the table of the source, as if its rows had come one after the other."""
    part, seen = parts_of(state), work_of(work, state)
    for k in range(rows.shape[0]):
        state[ROUNDS] += 1.0
        follow(part.scale, rows[k], state[ROUNDS])
    renew(state, part, seen)
    note_source(part.scale)
    state[SHIFT] = 0.0
