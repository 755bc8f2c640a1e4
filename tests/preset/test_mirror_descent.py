"""The guard's member OSAMD is the paper's algorithm, round by round, and the proof of Lemma 1 holds in every round."""

import math

import numpy as np
import pytest

from osamd.paper.algorithm import Rates, State, bind
from osamd.paper.geometry import ball
from osamd.paper.losses import loss
from osamd.paper.models import linear
from osamd.paper.scores import UNLABELLED
from osamd.preset import mirror_descent as descent
from osamd.preset import state as layout
from osamd.preset.round import gather, has_begun, learn, observe
from osamd.preset.scale import FIRST_RENEWAL
from osamd.preset.views import Sizes

ROUNDS, FEATURES = 400, 4


def stream(classes, seed=0):
    """Standardised samples of classes whose centres turn, unit vectors of them, labels, and which are told."""
    generator = np.random.default_rng(seed)
    y = generator.integers(classes, size=ROUNDS)
    angle = np.pi * np.arange(ROUNDS) / ROUNDS + 2.0 * np.pi * y / classes
    z = 0.7 * generator.normal(size=(ROUNDS, FEATURES))
    z[:, 0] += 2.0 * np.cos(angle)
    z[:, 1] += 2.0 * np.sin(angle)
    rows = np.column_stack([z, np.ones(ROUNDS)])
    return z, rows / np.linalg.norm(rows, axis=1, keepdims=True), y, generator.random(ROUNDS) < 0.2


def opened(classes, start=None):
    sizes = Sizes(FEATURES, classes, 32)
    found, _ = descent.cut_descent(np.zeros(10_000), 0, sizes)
    seen, _ = descent.cut_descended(np.zeros(10_000), 0, sizes)
    if start is not None:
        found.teacher[:], found.student[:] = start, start
    return found, seen


def papers_round(classes):
    rows = descent.rows_for(classes)
    steep = descent.TWO_CLASSES if rows == 1 else descent.SEVERAL_CLASSES
    model = linear(features=FEATURES + 1, classes=classes, bias=False)
    rates = Rates(
        self_training=True,
        teacher_decides=False,
        sigma=descent.MARGIN,
        floor=0.0,
        eta=descent.step_of(rows),
        cap=descent.MARGIN / steep.lipschitz**2,
        target=descent.MARGIN,
        scale=0.0,
        inner_loops=0,
        inner_rate=0.0,
        penalty=np.zeros(model.shape),
    )
    return bind(model, loss("logistic" if rows == 1 else "softmax"), ball(descent.RADIUS)), rates


@pytest.mark.parametrize("far", [0.5, 30.0], ids=["inside the ball", "on its edge"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_it_is_the_papers_round(classes, far):
    z, x, y, told = stream(classes)
    rows = descent.rows_for(classes)
    start = np.random.default_rng(1).normal(size=(rows, FEATURES + 1))
    start *= min(far, descent.RADIUS) / np.linalg.norm(start)
    found, seen = opened(classes, start)
    plain, rates = papers_round(classes)
    state = State(*(2 * [start[0].copy() if rows == 1 else start.copy()]))
    own, edge = np.empty(classes), 0
    for t in range(ROUNDS):
        descent.descent_opinion(found, seen, z[t], own)
        decision = plain.observe(state, x[t], 1.0, rates)
        scores = np.atleast_1d(np.asarray(decision.adapted) @ x[t])
        logits = np.array([0.0, scores[0]]) if rows == 1 else scores
        shares = np.exp(logits - logits.max())
        np.testing.assert_allclose(own, shares / shares.sum(), atol=1e-9)
        assert descent.preferred(seen.taught) == decision.pseudolabel
        label = int(y[t]) if told[t] else UNLABELLED
        descent.descend(found, seen, z[t], own, label)
        state = plain.learn(state, x[t], decision, label, rates)
        np.testing.assert_allclose(found.teacher.ravel(), state.teacher.ravel(), atol=1e-8)
        np.testing.assert_allclose(found.student.ravel(), state.student.ravel(), atol=1e-8)
        edge += math.sqrt(descent.size_of(found.student)) > descent.RADIUS - 1e-9
    assert (edge > 0) == (far > descent.RADIUS)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_takes_the_teacher_as_far_towards_a_separator_as_the_proof_of_lemma_1_says(classes):
    """Z M (sigma + |H|) sigma / (2 G^2) <= D(v, theta) - D(v, theta'), for every v that separates the sample."""
    generator = np.random.default_rng(2)
    rows = descent.rows_for(classes)
    steep = descent.TWO_CLASSES if rows == 1 else descent.SEVERAL_CLASSES
    v = generator.normal(size=(rows, FEATURES + 1))
    v *= 0.99 * descent.RADIUS / np.linalg.norm(v)
    found, seen = opened(classes)
    own, wrong = np.empty(classes), 0
    for _ in range(4000):
        z = generator.normal(size=FEATURES)
        x = np.append(z, 1.0)
        x /= np.linalg.norm(x)
        scores = v @ x
        y = int(scores[0] > 0.0) if rows == 1 else int(scores.argmax())
        best = np.sort(scores)[::-1]
        if (abs(scores[0]) if rows == 1 else best[0] - best[1]) < descent.MARGIN:
            continue
        if generator.random() < 0.01:
            found.teacher[:] = generator.normal(size=found.teacher.shape)  # forget, so that there are mistakes
        before = 0.5 * ((v - found.teacher) ** 2).sum()
        descent.descent_opinion(found, seen, z, own)
        is_wrong = descent.preferred(seen.taught) != y
        wrong += is_wrong
        first, second = (abs(seen.taught[0]), 0.0) if rows == 1 else np.sort(seen.taught)[::-1][:2]
        descent.descend(found, seen, z, own, y)
        gained = before - 0.5 * ((v - found.teacher) ** 2).sum()
        least = descent.MARGIN / (2.0 * steep.lipschitz**2) * (descent.MARGIN + first - second) if is_wrong else 0.0
        assert gained >= least - 1e-12
    assert wrong > 50


@pytest.mark.parametrize("classes", [2, 4])
def test_the_inequality_of_lemma_3_holds_for_any_label_and_any_parameters(classes):
    """Z M (sigma + |H|) sigma / (2 G^2) <= D(v, theta) - D(v, theta') + (sigma / G^2) max(0, sigma - Psi(v))."""
    generator = np.random.default_rng(4)
    rows = descent.rows_for(classes)
    square = (descent.TWO_CLASSES if rows == 1 else descent.SEVERAL_CLASSES).lipschitz ** 2
    found, seen = opened(classes)
    own = np.empty(classes)
    for _ in range(3000):
        v = generator.normal(size=(rows, FEATURES + 1))
        v *= descent.RADIUS * generator.random() / np.linalg.norm(v)
        z, y = 2.0 * generator.normal(size=FEATURES), int(generator.integers(classes))
        x = np.append(z, 1.0) / math.sqrt(1.0 + z @ z)
        before = 0.5 * ((v - found.teacher) ** 2).sum()
        descent.descent_opinion(found, seen, z, own)
        is_wrong = descent.preferred(seen.taught) != y
        lead = abs(seen.taught[0]) if rows == 1 else np.diff(np.sort(seen.taught)[-2:])[0]
        descent.descend(found, seen, z, own, y)
        after = 0.5 * ((v - found.teacher) ** 2).sum()
        scores = v @ x
        psi = (2 * y - 1) * scores[0] if rows == 1 else scores[y] - np.delete(scores, y).max()
        hinge = descent.MARGIN / square * max(0.0, descent.MARGIN - psi)
        left = is_wrong * (descent.MARGIN + lead) * descent.MARGIN / (2.0 * square)
        assert left <= before - after + hinge + 1e-12


def test_a_class_that_is_added_is_not_preferred_everywhere():
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(300, 2))
    weights = np.column_stack([3.0 * generator.normal(size=(3, 2)), np.full(3, -4.0)])  # as of one model per class
    state = layout.open_state(2, 3, 0.1)
    gather(state, layout.open_work(state), rows)
    layout.begin(state, weights)
    grown = layout.resized(state, classes=4)
    work = layout.open_work(grown)
    seen = layout.work_of(work, grown)
    preferred = []
    for row in rows:
        observe(grown, work, row, 1.0, 0.0, 0.0)
        preferred.append(descent.preferred(seen.descended.taught))
    assert preferred == (rows @ weights[:, :2].T).argmax(axis=1).tolist()


def test_the_first_label_teaches_it():
    x = np.random.default_rng(6).normal(size=(30, 3))
    state = layout.open_state(3, 2, 0.1)
    work = layout.open_work(state)
    for t, row in enumerate(x):
        opinion = observe(state, work, row, 1.0, 0.0, 0.0)
        learn(state, work, opinion.pseudolabel, 0 if t == 20 else UNLABELLED, 0.0)
    assert layout.parts_of(state).descent.teacher @ np.append((x[20]), 1.0) < 0.0


def test_it_begins_with_a_scale_and_a_source_or_a_label():
    x = np.random.default_rng(0).normal(size=(60, 3))
    state = layout.open_state(3, 2, 0.1)
    work = layout.open_work(state)
    seen = layout.work_of(work, state)
    for row in x[:20]:
        opinion = observe(state, work, row, 1.0, 0.0, 0.0)
        assert seen.opinions[layout.OSAMD].tolist() == [0.5, 0.5]
        learn(state, work, opinion.pseudolabel, UNLABELLED, 0.0)
    assert not has_begun(state)
    for row in x[20:40]:
        opinion = observe(state, work, row, 1.0, 0.0, 0.0)
        learn(state, work, opinion.pseudolabel, int(row[0] > 0.0), 1.0)
    assert has_begun(state)
    observe(state, work, np.array([3.0, 0.0, 0.0]), 1.0, 0.0, 0.0)
    assert seen.opinions[layout.OSAMD, 1] > 0.5
    assert seen.descended.taught[0] > 0.5


def test_it_starts_from_the_source_and_keeps_its_decisions_when_the_scale_is_renewed():
    generator = np.random.default_rng(3)
    rows = 50.0 + 20.0 * generator.normal(size=(300, 3))
    weights = np.array([0.05, -0.05, 0.02, -1.0])
    truth = rows @ weights[:3] + weights[3]
    state = layout.open_state(3, 2, 0.1)
    work = layout.open_work(state)
    gather(state, work, rows)
    layout.begin(state, np.stack([-0.5 * weights, 0.5 * weights]))
    seen, parts = layout.work_of(work, state), layout.parts_of(state)
    agreed = []
    for row, score in zip(rows, truth, strict=True):
        observe(state, work, row, 1.0, 0.0, 0.0)
        agreed.append((seen.descended.taught[0] > 0.0) == (score > 0.0))
    assert all(agreed)
    before = [float(parts.descent.teacher[0, :3] @ ((row - parts.scale.centre) * parts.scale.inverse)) for row in rows]
    before = np.array(before) + parts.descent.teacher[0, 3]
    renewal = state[layout.RENEWAL]
    assert renewal > FIRST_RENEWAL
    for row in 20.0 + rows:  # the world has moved, so the scale will
        opinion = observe(state, work, row, 1.0, 0.0, 0.0)
        learn(state, work, opinion.pseudolabel, UNLABELLED, 0.0)
    assert state[layout.RENEWAL] > renewal
    z = (rows - parts.scale.centre) * parts.scale.inverse
    np.testing.assert_allclose(z @ parts.descent.teacher[0, :3] + parts.descent.teacher[0, 3], before, atol=1e-9)
