"""The paper's bound for the guard: its parts by hand, and its lemma over draws of the queries.

The mean number of wrong pseudolabels may exceed the lemma's bound by more than three standard errors in at most 1 of
700 tests.
"""

import math

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation import arbiter_guarantee
from osamd.evaluation.arbiter_guarantee import member_losses
from osamd.evaluation.member_regret import epoch_bound, member_bound, member_constants, pseudolabel_errors
from osamd.evaluation.theory import general_bound, lemma3
from osamd.paper.scores import UNLABELLED
from osamd.preset import mirror_descent as descent
from osamd.preset.arbiter import GUARD_DOUBT
from osamd.preset.round import learn, observe
from osamd.preset.state import OSAMD, begin, open_state, open_work, work_of
from osamd.preset.views import Sizes

FEATURES, FLOOR = 3, 0.1


def separable(generator, classes, v, rounds):
    """Samples whose best class leads by MARGIN at least, as the parameters v see their unit vectors."""
    found = []
    while len(found) < rounds:
        z = generator.normal(size=FEATURES)
        x = np.append(z, 1.0) / math.sqrt(1.0 + z @ z)
        scores = v @ x
        lead = abs(scores[0]) if classes == 2 else np.diff(np.sort(scores)[-2:])[0]
        if lead >= descent.MARGIN:
            found.append((z, int(scores[0] > 0.0) if classes == 2 else int(scores.argmax())))
    return found


@pytest.mark.parametrize("classes", [2, 4])
def test_over_draws_wrong_pseudolabels_are_no_more_than_the_lemma_divided_by_the_floor(classes):
    rows = descent.rows_for(classes)
    v = np.random.default_rng(1).normal(size=(rows, FEATURES + 1))
    v *= 5.0 / np.linalg.norm(v)
    wrong = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        sizes = Sizes(FEATURES, classes, 32)
        model, _ = descent.cut_descent(np.zeros(1000), 0, sizes)
        seen, _ = descent.cut_descended(np.zeros(1000), 0, sizes)
        own, errors = np.empty(classes), 0
        for z, y in separable(generator, classes, v, 600):
            descent.descent_opinion(model, seen, z, own)
            errors += descent.preferred(seen.taught) != y
            probability = max(FLOOR, generator.random() ** 4)  # any, as long as it is at least the floor
            asked = generator.random() < probability
            descent.descend(model, seen, z, own, y if asked else UNLABELLED)
        wrong.append(errors)
    constants = member_constants(classes, T=600, C_T=0.0, V_T=0.0, R=descent.MARGIN, eps_v=0.5 * (v**2).sum())
    most = pseudolabel_errors(constants, least=FLOOR)
    assert most.holds
    assert np.mean(wrong) <= most.value + 3.0 * np.std(wrong, ddof=1) / math.sqrt(len(wrong))
    assert np.mean(wrong) > 0.01 * most.value  # so the bound is not empty


@pytest.mark.parametrize("classes", [2, 3])
def test_the_bound_is_the_sum_of_its_parts(classes):
    epochs = [member_constants(classes, T=T, C_T=0.5, V_T=0.1, R=2.0, alpha=0.001) for T in (100, 300)]
    found = member_bound(epochs, classes=classes, rate=0.2, least=0.1, withheld=7.0, before=10.0)
    step = descent.step_of(descent.rows_for(classes))
    members = [general_bound(one, lemma3(one, descent.MARGIN).value / 0.1, step) for one in epochs]
    guard = arbiter_guarantee.bound(arbiter_guarantee.constant("osamd", 410), rate=0.2, floor=0.1).value
    each = 2.0 * step * epochs[0].G ** 2 + 2.0 * epochs[0].G * epochs[0].D
    rest = 410 * -math.log(1.0 - GUARD_DOUBT) + 10.0 * math.log(classes)
    rest += 7.0 * (math.log(classes / GUARD_DOUBT) + each)
    assert found.holds
    assert found.value == pytest.approx(sum(one.value - one.terms["step"] for one in members) + guard + rest)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_members_loss_stays_within_its_bound(classes):
    """On a still, separable stream, whose best parameters lose at least 0, for every one of several draws."""
    rows = descent.rows_for(classes)
    v = np.random.default_rng(1).normal(size=(rows, FEATURES + 1))
    v *= descent.RADIUS / np.linalg.norm(v)
    constants = member_constants(classes, T=600, C_T=0.0, V_T=0.0, R=descent.MARGIN, eps_v=0.5 * (v**2).sum())
    for seed in range(4):
        generator = np.random.default_rng(seed)
        sizes = Sizes(FEATURES, classes, 32)
        model, _ = descent.cut_descent(np.zeros(1000), 0, sizes)
        seen, _ = descent.cut_descended(np.zeros(1000), 0, sizes)
        own, lost, best, errors = np.empty(classes), 0.0, 0.0, 0
        for z, y in separable(generator, classes, v, 600):
            descent.descent_opinion(model, seen, z, own)
            lost -= math.log(own[y])
            scores = v @ (np.append(z, 1.0) / math.sqrt(1.0 + z @ z))
            logits = np.array([0.0, scores[0]]) if rows == 1 else scores
            best += np.logaddexp.reduce(logits) - logits[y]
            errors += descent.preferred(seen.taught) != y
            descent.descend(model, seen, z, own, y if generator.random() < FLOOR else UNLABELLED)
        general = general_bound(constants, float(errors), descent.step_of(rows))
        assert lost - best <= general.value - general.terms["step"]
    assert epoch_bound(constants, classes=classes, least=FLOOR).holds


def test_the_constants_are_those_of_the_member():
    """No loss exceeds F, no slope G, and the step is the largest that the theorem allows."""
    generator = np.random.default_rng(0)
    for classes in (2, 5):
        known = member_constants(classes, T=10, C_T=1.0, V_T=1.0, R=1.0)
        rows = descent.rows_for(classes)
        assert descent.step_of(rows) == pytest.approx(1.0 / (4.0 * (known.L * known.D + known.G)))
        for _ in range(200):
            w = generator.normal(size=(rows, FEATURES + 1))
            w *= descent.RADIUS / np.linalg.norm(w)
            x = generator.normal(size=FEATURES + 1)
            scores = w @ (x / np.linalg.norm(x))
            logits = np.array([0.0, scores[0]]) if rows == 1 else scores
            shares = np.exp(logits - np.logaddexp.reduce(logits))
            y = int(generator.integers(classes))
            slope = [descent.slope_at(shares, y, c, rows) for c in range(rows)]
            assert -math.log(shares[y]) <= known.F
            assert np.linalg.norm(slope) <= known.G


def test_where_the_guard_hears_the_member_its_loss_is_the_members_logistic_loss():
    state = open_state(2, 2, 0.2)
    begin(state, np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    work = open_work(state)
    seen = work_of(work, state)
    for x in np.random.default_rng(0).normal(size=(40, 2)):
        opinion = observe(state, work, x, 1.0, 0.0, 0.0)
        y = int(x[0] > 0.0)
        heard = member_losses(seen, y)[arbiter_guarantee.MEMBERS.index("osamd")]
        assert heard == pytest.approx(-math.log(GUARD_DOUBT / 2 + (1.0 - GUARD_DOUBT) * seen.opinions[OSAMD, y]))
        learn(state, work, opinion.pseudolabel, y, 1.0)


def test_what_cannot_be_bounded_says_why():
    constants = member_constants(2, T=100, C_T=1.0, V_T=1.0, R=0.5)
    assert "sigma <= R" in " ".join(member_bound([constants], classes=2, rate=0.1, least=0.05).failed)
    assert "floor" in " ".join(member_bound([constants], classes=2, rate=0.1, least=0.0).failed)
    for epochs, classes in (([], 2), ([constants], 3)):
        with pytest.raises(InputError, match=f"for {classes} classes"):
            member_bound(epochs, classes=classes, rate=0.1, least=0.05)
    with pytest.raises(InputError, match="withheld"):
        pseudolabel_errors(constants, least=0.1, withheld=-1.0)
    with pytest.raises(InputError, match="before"):
        member_bound([constants], classes=2, rate=0.1, least=0.05, before=-1.0)
