"""The round against the paper: one step at a time, by hand, and Algorithm 2 against Algorithm 1."""

from dataclasses import replace

import numpy as np
import pytest

from osamd.paper.algorithm import State
from osamd.paper.geometry import ball, euclidean, signed_simplex
from osamd.paper.losses import loss
from osamd.paper.methods import (
    METHODS,
    InnerLoops,
    Settings,
    TeacherStep,
    experiments_step,
    learner,
    lemma1_step,
    lemma3_step,
)
from osamd.paper.models import Linear, linear
from osamd.paper.play import play
from osamd.paper.scores import MULTICLASS, UNLABELLED
from osamd.streams import rotating_gaussian

X = np.array([3.0, 4.0])  # ||x||^2 = 25
SETTINGS = Settings(eta=0.1, sigma=0.5, teacher=TeacherStep(cap=np.inf, target=1.0), label_rate=0.5)


def bound(method="osamd", theta=(0.1, 0.0), w_hat=(0.0, 0.1), **changes):
    made = learner(method, linear(features=2, bias=False), replace(SETTINGS, **changes))
    return made._replace(state=State(np.array(theta), np.array(w_hat)))


def test_observe_gives_pseudolabel_adapted_student_decision_and_query():
    osamd = bound()  # teacher's H = 0.3: pseudolabel +1; student's score 0.4
    decision = osamd.round.observe(osamd.state, X, 0.62, osamd.rates)
    assert decision.pseudolabel == 1
    # Hinge, reach 0.1 * 25 = 2.5: the implicit slope is (0.4 - 1) / 2.5 = -0.24, and the score lands on the kink.
    np.testing.assert_allclose(decision.adapted, [0.0 + 0.1 * 0.24 * 3, 0.1 + 0.1 * 0.24 * 4], atol=1e-15)
    assert decision.adapted @ X == pytest.approx(1.0)
    assert decision.label == 1
    assert decision.margin == pytest.approx(0.3)
    assert decision.probability == pytest.approx(0.5 / 0.8)
    assert decision.query
    assert not osamd.round.observe(osamd.state, X, 0.63, osamd.rates).query


def test_a_queried_label_moves_the_teacher_to_the_target_margin_and_the_student_by_the_gradient_at_w_t():
    osamd = bound(adaptation=InnerLoops(1, 1.0))
    decision = osamd.round.observe(osamd.state, X, 0.0, osamd.rates)
    np.testing.assert_allclose(decision.adapted, [0.3, 0.5])  # one full gradient step for the pseudolabel: score 2.9
    after = osamd.round.learn(osamd.state, X, decision, 0, osamd.rates)
    # Teacher: y = -1, margin -0.3, tau = 1.3 / 25; student: slope at w_t (margin -2.9) is -1, the step from w_hat_t.
    np.testing.assert_allclose(after.teacher, np.array([0.1, 0.0]) - 1.3 / 25 * X)
    assert after.teacher @ X == pytest.approx(-1.0)
    np.testing.assert_allclose(after.student, np.array([0.0, 0.1]) - 0.1 * X)


def test_the_students_gradient_is_taken_at_w_t_and_not_at_w_hat():
    osamd = bound(adaptation=InnerLoops(1, 1.0))
    decision = osamd.round.observe(osamd.state, X, 1.0, osamd.rates)
    after = osamd.round.learn(osamd.state, X, decision, UNLABELLED, osamd.rates)
    # At w_t the margin is 2.9, where the hinge is flat; at w_hat_t it is 0.4, where it is not.
    np.testing.assert_array_equal(after.student, osamd.state.student)


def test_without_a_label_the_teacher_stays_and_the_student_learns_the_pseudolabel():
    osamd = bound(w_hat=(0.0, -0.5))
    decision = osamd.round.observe(osamd.state, X, 1.0, osamd.rates)
    after = osamd.round.learn(osamd.state, X, decision, UNLABELLED, osamd.rates)
    np.testing.assert_array_equal(after.teacher, osamd.state.teacher)
    np.testing.assert_allclose(after.student, osamd.state.student + 0.1 * X)


@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if not m.self_training])
def test_methods_without_self_training_do_not_move_without_a_label(method):
    one = bound(method)
    decision = one.round.observe(one.state, X, 0.5, one.rates)
    after = one.round.learn(one.state, X, decision, UNLABELLED, one.rates)
    np.testing.assert_array_equal(after.teacher, one.state.teacher)
    np.testing.assert_array_equal(after.student, one.state.student)
    np.testing.assert_array_equal(decision.adapted, one.state.teacher if method == "paa" else one.state.student)


def test_paa_decides_with_the_teacher_and_keeps_no_student():
    paa = bound("paa", w_hat=(0.0, -1.0))
    decision = paa.round.observe(paa.state, X, 0.0, paa.rates)
    assert decision.label == decision.pseudolabel == 1
    after = paa.round.learn(paa.state, X, decision, 0, paa.rates)
    np.testing.assert_array_equal(after.student, paa.state.student)
    assert not np.array_equal(after.teacher, paa.state.teacher)


@pytest.mark.parametrize("geometry", [euclidean(), ball(10.0)])
def test_lemma_1s_step_reaches_the_margin_sigma_and_no_further(geometry):
    osamd = bound(teacher=lemma1_step(0.5), geometry=geometry)
    decision = osamd.round.observe(osamd.state, X, 0.0, osamd.rates)
    assert osamd.round.learn(osamd.state, X, decision, 0, osamd.rates).teacher @ X == pytest.approx(-0.5)
    assert osamd.round.learn(osamd.state, X, decision, 1, osamd.rates).teacher @ X == pytest.approx(0.5)
    right = bound(theta=(0.3, 0.0), teacher=lemma1_step(0.5), geometry=geometry)  # margin 0.9, beyond sigma
    np.testing.assert_array_equal(right.round.learn(right.state, X, decision, 1, osamd.rates).teacher, [0.3, 0.0])


def test_lemma_3s_step_is_lemma_1s_capped_at_sigma_over_g_squared():
    start, far = np.array([0.1, 0.0]), 0.5 / 10.0**2
    osamd = bound(teacher=lemma3_step(0.5, G=10.0))
    decision = osamd.round.observe(osamd.state, X, 0.0, osamd.rates)
    after = osamd.round.learn(osamd.state, X, decision, 0, osamd.rates).teacher
    assert far < 0.8 / 25
    np.testing.assert_allclose(after, start - far * X)


def test_the_experiments_step_with_a_fixed_scale_ignores_the_norm():
    start = np.array([0.1, 0.0])
    osamd = bound(teacher=experiments_step(cap=0.02, scale=0.01))
    decision = osamd.round.observe(osamd.state, X, 0.0, osamd.rates)
    np.testing.assert_allclose(osamd.round.learn(osamd.state, X, decision, 0, osamd.rates).teacher, start - 0.013 * X)
    np.testing.assert_allclose(osamd.round.learn(osamd.state, X, decision, 1, osamd.rates).teacher, start + 0.007 * X)


def test_a_sample_of_zeros_changes_no_weights():
    osamd = bound()
    decision = osamd.round.observe(osamd.state, np.zeros(2), 0.0, osamd.rates)
    after = osamd.round.learn(osamd.state, np.zeros(2), decision, 0, osamd.rates)
    np.testing.assert_array_equal(after.teacher, osamd.state.teacher)
    np.testing.assert_array_equal(after.student, osamd.state.student)


@pytest.mark.parametrize("name", ["hinge", "squared-hinge", "smoothed-hinge", "logistic"])
@pytest.mark.parametrize("adaptation", [None, InnerLoops(5, 0.1)], ids=["exact", "loops"])
def test_algorithm_2_on_two_classes_with_half_the_step_is_algorithm_1(name, adaptation):
    """Scores (-H/2, H/2) of weights (-w/2, w/2) give the same margins; two rows share each step, so eta is halved."""
    plain = linear(features=2)
    two = Linear(2, 2, True, False, (2, 3), MULTICLASS, *_multiclass_functions())
    settings = Settings(
        eta=0.02, sigma=0.35, loss=loss(name), teacher=lemma1_step(1.0), adaptation=adaptation, label_rate=0.2
    )
    start = np.array([0.4, 0.0, -4.0])
    stream = rotating_gaussian(300)
    for method in METHODS:
        one = play(learner(method, plain, settings, start), stream, 3)
        both = play(learner(method, two, replace(settings, eta=0.01), [-start / 2, start / 2]), stream, 3)
        np.testing.assert_array_equal(one.ledger.asked, both.ledger.asked)
        np.testing.assert_array_equal(one.ledger.decision, both.ledger.decision)
        np.testing.assert_allclose(both.state.teacher[1] - both.state.teacher[0], one.state.teacher, atol=1e-10)
        np.testing.assert_allclose(both.state.student[1] - both.state.student[0], one.state.student, atol=1e-10)


def _multiclass_functions():
    three = linear(features=2, classes=3)
    return three.scores, three.pull, three.one_class


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Settings(eta=0.0, sigma=1.0), r"`Settings\(eta=0\.0\)`: eta must be positive"),
        (lambda: Settings(eta=0.1, sigma=-1.0), r"`Settings\(sigma=-1\.0\)`: sigma must be positive"),
        (lambda: Settings(eta=float("nan"), sigma=1.0), "eta must be positive"),
        (lambda: Settings(eta=0.1, sigma=1.0, adaptation=InnerLoops(0, 0.1)), r"InnerLoops\(number=0\)"),
        (lambda: Settings(eta=0.1, sigma=1.0, adaptation=InnerLoops(5, -0.1)), r"InnerLoops\(rate=-0\.1\)"),
        (lambda: learner("osmad", linear(2), SETTINGS), r"Did you mean 'osamd'\? Known: osamd, paa"),
        (lambda: learner("omd-partial", linear(2), replace(SETTINGS, label_rate=None)), "give Settings.label_rate"),
        (lambda: learner("omd-partial", linear(2), replace(SETTINGS, label_rate=1.5)), "between 0 and 1"),
        (lambda: learner("osamd", linear(2), SETTINGS, start=[1.0, 2.0]), r"shape \(2,\), the model needs \(3,\)"),
        (lambda: learner("osamd", linear(2), SETTINGS, start=[1.0, np.nan, 0.0]), "must be finite"),
        (lambda: learner("osamd", linear(2), replace(SETTINGS, geometry=signed_simplex())), "signed=True"),
        (lambda: lemma1_step(0.0), "sigma must be positive"),
        (lambda: lemma3_step(1.0, G=0.0), r"lemma3_step\(G=0\.0\)"),
        (lambda: experiments_step(cap=-1.0), r"experiments_step\(cap=-1\.0\)"),
        (lambda: experiments_step(scale=-1.0), "scale must be zero"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
