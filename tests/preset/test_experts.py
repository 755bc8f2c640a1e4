"""Each expert of the linear preset does what its file says, on data where the answer is known."""

import numpy as np
import pytest

from osamd.preset import forest as trees
from osamd.preset import growing
from osamd.preset import regression as ridge
from osamd.preset import scale as scales
from osamd.preset import state as layout
from osamd.preset.arbiter import DOUBTS, EVIDENCE, SOURCE_PRIOR, mix, open_trust, trusted_into, verify
from osamd.preset.bayes import bayes_opinion, recount
from osamd.preset.grounds import CREDIT, TIES, Grounds, credit, evidence
from osamd.preset.neighbours import BLANK, VOTERS, WIDTH
from osamd.preset.round import learn, observe
from osamd.preset.scale import CLIP, follow, hold


def taught(x, y, classes, capacity=512):
    """A state that was told every label, and the vector it works in."""
    state = layout.open_state(x.shape[1], classes, 1.0, capacity)
    work = layout.open_work(state)
    for row, label in zip(x, y.tolist(), strict=True):
        opinion = observe(state, work, row, 0.5, 1.0, 0.0)
        learn(state, work, opinion.pseudolabel, label, 1.0)
    return state, work


def blobs(rounds, classes, features=3, seed=0):
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, rounds)
    return generator.normal(size=(rounds, features)) + 1.5 * generator.normal(size=(classes, features))[y], y


@pytest.mark.parametrize("classes", [2, 3])
def test_the_regression_comes_to_the_optimum_of_the_ridge_problem(classes):
    x, y = blobs(24, classes)
    state, work = taught(x, y, classes)
    parts, seen = layout.parts_of(state), layout.work_of(work, state)
    for _ in range(1500 // ridge.SWEEPS):
        ridge.refit(parts.regression, parts.memory, seen.digest.norms, 24, 24, seen.scores)
    rows = np.column_stack([parts.memory.samples[:24], np.full(24, np.sqrt(ridge.BIAS))])
    weights = parts.regression.weights.copy()
    weights[:, -1] /= np.sqrt(ridge.BIAS)
    logits = rows @ weights.T
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    truth = np.eye(classes)[parts.memory.labels[:24].astype(int)]
    slope = ridge.RIDGE * weights - (truth - shares).T @ rows
    assert np.abs(slope).max() < 1e-4


def test_a_sample_that_leaves_the_memory_leaves_the_regression():
    x, y = blobs(200, 2)
    state, _ = taught(x, y, 2, capacity=32)
    parts = layout.parts_of(state)
    for fit in (parts.regression, parts.fast_regression):
        rows = np.column_stack([parts.memory.samples, np.full(32, ridge.BIAS)])
        np.testing.assert_allclose(fit.weights, fit.duals.T @ rows, rtol=1e-8, atol=1e-10)
    assert (parts.fast_regression.duals != 0.0).any(axis=1).sum() == ridge.NEWEST


def test_neighbours_vote_by_their_distance_over_the_width_of_the_neighbourhood():
    x, y = blobs(100, 3)
    state, work = taught(x, y, 3)
    sample = np.array([0.5, 1.0, 2.0])
    observe(state, work, sample, 0.5, 1.0, 0.0)
    parts, seen = layout.parts_of(state), layout.work_of(work, state)
    away = ((parts.memory.samples[:100] - seen.z) ** 2).sum(axis=1)
    near = np.argsort(away)[:VOTERS]
    votes = np.exp(-WIDTH * (away[near] - away[near[0]]) / away[near[-1]])
    wanted = np.bincount(parts.memory.labels[near].astype(int), votes, 3) + BLANK / 3
    np.testing.assert_allclose(seen.opinions[layout.NEIGHBOURS], wanted / wanted.sum(), rtol=1e-9)


@pytest.mark.parametrize(("features", "tight"), [(3, 1.0), (60, 1.0), (60, 1e-6), (5, 0.0)])
def test_distances_in_single_precision_lose_no_neighbour(features, tight):
    """The votes are those of exact distances, however close the samples lie; with 0 there are only three kinds."""
    generator = np.random.default_rng(3)
    kinds = generator.normal(size=(3, features))
    x = kinds[generator.integers(0, 3, 150)] + tight * generator.normal(size=(150, features))
    state, work = taught(x[:120], generator.integers(0, 2, 120), 2)
    for sample in x[120:]:
        observe(state, work, sample, 0.5, 1.0, 0.0)
        parts, seen = layout.parts_of(state), layout.work_of(work, state)
        away = ((parts.memory.samples[:120] - seen.z) ** 2).sum(axis=1)
        near = np.argsort(away, kind="stable")[:VOTERS]
        found = seen.nearby.near.astype(int)
        np.testing.assert_allclose(away[found], away[near], rtol=1e-9, atol=1e-28)
        np.testing.assert_allclose(seen.nearby.away[found], away[found], rtol=1e-9, atol=1e-28)


def test_what_is_computed_from_the_memory_follows_it():
    x, y = blobs(150, 2, features=5)
    state, work = taught(x[:40], y[:40], 2, capacity=64)
    for row, label in zip(x[40:], y[40:].tolist(), strict=True):  # the ring turns, and the scale is renewed on the way
        opinion = observe(state, work, row, 0.5, 1.0, 0.0)
        learn(state, work, opinion.pseudolabel, label, 1.0)
        observe(state, work, row, 0.5, 1.0, 0.0)
        parts, seen = layout.parts_of(state), layout.work_of(work, state)
        count = min(int(state[layout.KEPT]), len(parts.memory.labels))
        np.testing.assert_array_equal(seen.digest.columns[:, :count], parts.memory.columns[:, :count].astype("f4"))
        norms = (parts.memory.samples[:count] ** 2).sum(axis=1)
        np.testing.assert_allclose(seen.digest.norms[:count], norms, rtol=1e-12)


@pytest.mark.parametrize(("expert", "reach"), [("fast_bayes", 8.0), ("bayes", 256.0)])
def test_bayes_is_that_of_normal_features_with_the_stream_as_one_sample_of_every_class(expert, reach):
    x, y = blobs(120, 3)
    state, _ = taught(x, y, 3)
    parts = layout.parts_of(state)
    recount(getattr(parts, expert), parts.memory, 120, reach)
    z, found = np.array([0.5, -1.0, 0.2]), np.zeros(3)
    bayes_opinion(getattr(parts, expert), z, found)
    age, logs = np.arange(120)[::-1], []
    for c in range(3):
        weight = np.append((1.0 - 1.0 / reach) ** age[y == c], 1.0)
        rows = np.vstack([parts.memory.samples[:120][y == c], np.zeros(3)])
        mean = np.average(rows, 0, weight)
        spread = np.average((rows - mean) ** 2, 0, weight) + 1.0 / weight.sum()
        logs.append(np.log(weight.sum()) - 0.5 * ((z - mean) ** 2 / spread + np.log(spread)).sum())
    wanted = np.exp(np.array(logs) - max(logs))
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-9)


def test_every_remembered_sample_falls_into_a_leaf_of_its_own_class():
    x, y = blobs(60, 3)
    state, work = taught(x, y, 3)
    parts, seen = layout.parts_of(state), layout.work_of(work, state)
    growing.grow(parts.forest, 0, parts.memory, 60, seen.room, 12345.0)
    for place in range(60):
        leaf = trees.leaf_of(parts.forest, 0, parts.memory.samples[place])
        assert -1.0 - parts.forest.feature[0, leaf] == parts.memory.labels[place]


def test_a_tree_makes_a_threshold_that_no_plane_has():
    generator = np.random.default_rng(1)
    x = generator.uniform(-1.0, 1.0, size=(300, 2))
    y = (np.abs(x[:, 0]) > 0.5).astype(int)
    state, work = taught(x, y, 2)
    right = 0
    for row in generator.uniform(-1.0, 1.0, size=(200, 2)):
        observe(state, work, row, 0.5, 1.0, 0.0)
        seen = layout.work_of(work, state)
        right += seen.opinions[layout.FOREST].argmax() == int(abs(row[0]) > 0.5)
    assert right >= 180


def followed(columns):
    state = layout.open_state(columns.shape[1], 2, 0.1)
    scale = layout.parts_of(state).scale
    for t, row in enumerate(columns, 1):
        follow(scale, row, float(t))
    for i in range(columns.shape[1]):
        hold(scale, i)
    return scale


def test_the_held_scale_survives_trends_outliers_and_constant_columns():
    generator = np.random.default_rng(2)
    plain = generator.normal(size=(4000, 1))
    wild = plain.copy()
    wild[generator.random(4000) < 0.01] *= 1e4
    early = plain.copy()
    early[3] = 1e4
    scale = followed(np.hstack([plain, wild, early, np.arange(4000.0)[:, None], np.full((4000, 1), 7.0)]))
    deviations = 1.0 / scale.inverse[:4]
    assert deviations[0] == pytest.approx(1.0, rel=0.1)
    assert deviations[1] == pytest.approx(1.0, rel=0.3)
    assert deviations[2] == pytest.approx(1.0, rel=0.3)
    assert deviations[3] == pytest.approx(4000.0 / np.sqrt(12.0), rel=0.05)
    assert scale.inverse[4] == 0.0


def test_standardised_features_are_cut_off():
    scale = followed(np.random.default_rng(3).normal(size=(500, 2)))
    z = np.zeros(2)
    scales.standardise_into(scale, np.array([1e9, -1e9]), z)
    assert z.tolist() == [CLIP, -CLIP]


def test_without_labels_the_source_alone_is_trusted_and_one_dispute_on_a_clean_stream_turns_it():
    trust, mixture = np.zeros(6), np.zeros(2)
    open_trust(trust)
    source, blend = np.array([0.9, 0.1]), np.array([0.05, 0.95])
    trusted_into(trust, unfamiliar(0.0), source, blend, mixture)
    assert mixture[0] > mixture[1]
    for _ in range(8):  # labels on which both are right
        verify(trust, 0.95, 0.95, 2, 1.0)
    assert trust[:3].sum() == pytest.approx(SOURCE_PRIOR)
    trusted_into(trust, unfamiliar(2.0 * EVIDENCE), source, blend, mixture)
    assert mixture[0] > mixture[1] - 0.2  # an even record: the source keeps its head start
    verify(trust, 0.1, 0.95, 2, 1.0)
    trusted_into(trust, unfamiliar(EVIDENCE), source, blend, mixture)
    assert mixture[1] > mixture[0]


def test_a_label_counts_less_in_the_trust_where_the_mixture_was_undecided():
    moved = []
    for margin in (1.0, 0.0):
        trust = np.zeros(6)
        open_trust(trust)
        verify(trust, 0.1, 0.9, 2, evidence(margin))
        moved.append(np.log(trust[3:] / trust[:3]))
    np.testing.assert_allclose(moved[1], TIES * moved[0], rtol=1e-9)


def unfamiliar(verified):
    """The grounds on samples that are far from those of the source."""
    return Grounds(sourced=True, verified=verified, credit=credit(100.0), boldness=1.0)


def test_a_source_counts_more_while_samples_look_like_its_own():
    trust, source, blend = np.zeros(6), np.array([0.9, 0.1]), np.array([0.1, 0.9])
    open_trust(trust)
    weights = {}
    for shift in (0.0, 0.6, 100.0):
        mixture = np.zeros(2)
        grounds = Grounds(sourced=True, verified=1e9, credit=credit(shift), boldness=1.0)
        trusted_into(trust, grounds, source, blend, mixture)
        weights[shift] = mixture[0] - mixture[1]
    assert weights[0.0] > weights[0.6] > weights[100.0] == pytest.approx(0.0, abs=1e-6)
    assert credit(0.0) == CREDIT
    # each of the three levels of doubt keeps 1 - doubt of the lead of 0.8, and the source weighs CREDIT times the blend
    lead = 0.8 * np.mean([1.0 - doubt for doubt in DOUBTS])
    assert weights[0.0] == pytest.approx(lead * (CREDIT - 1.0) / (CREDIT + 1.0))


def test_without_a_source_the_student_says_nothing_and_few_labels_count_little():
    shares = np.array([1.0, 0.0, 0.8, 0.2, 0.3, 0.7])  # the student, and two experts
    losses, even, bold = np.array([0.0, 3.0, 1.0]), np.zeros(2), np.zeros(2)
    mix(losses, shares, False, 0.0, even)
    assert even.tolist() == pytest.approx([0.55, 0.45])
    mix(losses, shares, False, 1.0, bold)
    assert bold.tolist() == pytest.approx((np.exp(-2.0) * shares[2:4] + shares[4:6]) / (1.0 + np.exp(-2.0)))


def test_the_shift_of_samples_is_that_of_the_column_that_moved_most_and_constant_columns_do_not_count():
    generator = np.random.default_rng(5)
    rows = np.column_stack([generator.normal(size=(2000, 2)) * [1.0, 50.0], np.full(2000, 7.0)])
    scale = followed(rows)
    scales.note_source(scale)
    assert scales.shift_from_source(scale) < 0.25  # what the last 250 rounds stray by chance
    moved = rows + np.array([0.0, 100.0, 3.0])  # by two deviations, and a column that was constant
    for t, x in enumerate(moved):
        scales.follow(scale, x, 2001.0 + t)
    assert scales.shift_from_source(scale) == pytest.approx(2.0, abs=0.3)
