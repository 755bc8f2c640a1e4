"""Streams: the laws they claim, the truth of drift they carry, and the input they refuse."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare, kstest, norm

from osamd.errors import InputError
from osamd.paper.losses import LOSSES, loss
from osamd.streams import (
    Arrays,
    Changed,
    Drift,
    ExactStream,
    PriorShift,
    Rotating,
    Schedule,
    TwoPoint,
    abrupt,
    ball_noise,
    changed,
    gaussian_noise,
    gradual,
    recurring,
    relabel,
    rotating_balls,
    rotating_gaussian,
    transform,
)


def test_rotating_gaussian_is_the_appendixs():
    stream = rotating_gaussian(2000)
    x, y = stream.sample(0)
    angle = math.pi * np.arange(2000) / 1999
    centre = np.where(y == 1, 15.0, 5.0)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    residual = ((x - centre) / math.sqrt(3.0)).ravel()
    assert kstest(residual, "norm").pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    assert abs(y.mean() - 0.5) < 4 * 0.5 / math.sqrt(2000)
    assert stream.classes == (-1, 1)
    start = np.array([0.4, 0.0, -4.0])
    x, y = stream.source(2000, 0)
    assert np.mean((np.c_[x, np.ones(2000)] @ start > 0) == (y == 1)) > 0.99  # the slip in the text would give 0


@pytest.mark.parametrize("rounds", [1, 2, 500, 5000])
def test_every_horizon_turns_by_the_same_angle(rounds):
    drift = rotating_gaussian(rounds).drift
    assert len(drift.position) == rounds
    assert drift.position[0] == 0.0
    assert drift.position[-1] == pytest.approx(math.pi if rounds > 1 else 0.0)


def test_more_features_are_noise_that_does_not_rotate():
    x, _ = rotating_gaussian(4000, features=5).sample(0)
    assert x.shape == (4000, 5)
    assert np.all(np.abs(x[:, 2:].mean(axis=0)) < 4 * math.sqrt(3 / 4000))
    np.testing.assert_allclose(x[:, 2:].var(axis=0), 3.0, rtol=0.15)


def test_balls_are_separable_with_the_stated_margin_inside_the_unit_ball():
    stream = rotating_balls(3000, features=3, distance=0.5, radius=0.4)
    x, y = stream.sample(1)
    direction = stream.rotation(np.arange(3000))[:, :, 0]
    margin = np.where(y == 1, 1.0, -1.0) * np.einsum("ti,ti->t", x, direction)
    assert margin.min() >= 0.1
    assert np.linalg.norm(x, axis=1).max() <= 1.0
    centred = x - np.where(y == 1, 0.5, -0.5)[:, None] * direction
    uniform = (np.linalg.norm(centred, axis=1) / 0.4) ** 3
    assert kstest(uniform, "uniform").pvalue > 1e-4


STREAMS = [
    rotating_gaussian(40),
    rotating_gaussian(40, features=4),
    rotating_balls(40),
    rotating_balls(40, features=5),
    TwoPoint(40),
    changed(rotating_balls(40), relabel([1, 0]), gradual(10, 30)),
    changed(rotating_balls(40, features=3), transform(np.arange(9.0).reshape(3, 3) / 5, [0.3, 0.0, -2.0]), abrupt(20)),
    changed(TwoPoint(40), transform([2.0, 0.5], 0.25), recurring(3)),
    changed(changed(rotating_balls(40), transform(shift=0.5), gradual(0, 40)), relabel([1, 0]), gradual(0, 50)),
]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: f"{s.name}-{s.features}")
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("bias", [True, False])
def test_expected_loss_and_gradient_are_those_of_the_samples(stream, name, bias):
    f, rng = loss(name), np.random.default_rng(4)
    w = rng.normal(size=(40, stream.features + bias)) / (1.0 if stream.name != "rotating-gaussian" else 8.0)
    rounds = np.arange(40)
    value, gradient = stream.expected_loss(f, rounds, w), stream.expected_gradient(f, rounds, w)
    for i in range(w.shape[1]):
        nudge = np.zeros(w.shape[1])
        nudge[i] = 1e-5
        numeric = (stream.expected_loss(f, rounds, w + nudge) - stream.expected_loss(f, rounds, w - nudge)) / 2e-5
        if not stream.name.startswith("two-point"):  # a kink of the hinge may lie under a point of a discrete law
            np.testing.assert_allclose(gradient[:, i], numeric, atol=1e-6)
    # Monte Carlo in one round: six standard errors, so a false alarm is hopeless.
    x, y = stream.draw(np.random.default_rng(5), np.full(20000, 23))
    rows = np.c_[x, np.ones(20000)] if bias else x
    sign = np.where(y == 1, 1.0, -1.0)
    values = f.value(sign * (rows @ w[23]))
    assert abs(values.mean() - value[23]) < 6 * values.std() / math.sqrt(20000) + 1e-12
    pulled = (f.slope(sign * (rows @ w[23])) * sign)[:, None] * rows
    assert np.all(np.abs(pulled.mean(axis=0) - gradient[23]) < 6 * pulled.std(axis=0) / math.sqrt(20000) + 1e-12)


def test_expected_hinge_equals_its_closed_form():
    """E max(0, 1 - z) for z ~ N(m, s^2) is (1 - m) Phi((1 - m)/s) + s phi((1 - m)/s)."""
    stream, rng = rotating_gaussian(500), np.random.default_rng(0)
    w = rng.normal(size=(500, 3)) * [0.5, 0.5, 3.0]
    w[0, :2] = 0.0  # no spread at all
    expected = np.zeros(500)
    for sign, centre in ((-1, [5.0, 0.0]), (1, [15.0, 0.0])):
        m = sign * (np.einsum("ti,ti->t", stream.rotation(np.arange(500)) @ np.array(centre), w[:, :2]) + w[:, 2])
        s = np.maximum(math.sqrt(3.0) * np.linalg.norm(w[:, :2], axis=1), 1e-300)
        gap = np.clip((1 - m) / s, -1e10, 1e10)
        expected += 0.5 * ((1 - m) * norm.cdf(gap) + s * norm.pdf(gap))
    np.testing.assert_allclose(stream.expected_loss(loss("hinge"), np.arange(500), w), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared-hinge", "smoothed-hinge"])
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 20.0, 77.0, 200.0])
@pytest.mark.parametrize("stream", [rotating_gaussian(3), rotating_balls(3, features=4)], ids=lambda s: s.name)
def test_expected_loss_is_exact_for_small_and_large_weights(stream, name, size):
    """Against scipy's adaptive rule, with the noise along w by its own density."""
    f, rng = loss(name), np.random.default_rng(3)
    w = rng.normal(size=stream.features)
    w *= size / np.linalg.norm(w)
    bias, spread = 0.3 * size, stream.noise.scale * size
    ball = stream.name == "rotating-balls"
    dimension = stream.features
    mass = math.sqrt(math.pi) * math.gamma((dimension + 1) / 2) / math.gamma(dimension / 2 + 1)

    def density(u):
        return (1 - u * u) ** ((dimension - 1) / 2) / mass if ball else math.exp(-u * u / 2) / math.sqrt(2 * math.pi)

    def expectation(function, mean, a, b):
        return quad(lambda u: float(function(mean + spread * u)) * density(u), a, b, epsabs=1e-13)[0]

    edge, value, slope = (1.0 if ball else 10.0), 0.0, 0.0
    for sign, centre in ((-1.0, stream.centres[0]), (1.0, stream.centres[1])):
        mean = sign * (float(centre @ w) + bias)
        marks = [(m - mean) / spread for m in (-30, -9, -3, -1, 0, 0.5, 1, 3, 9, 30)]
        cuts = [-edge, *sorted(u for u in (*marks, -5.0, 5.0) if -edge < u < edge), edge]
        for a, b in pairwise(cuts):
            value += 0.5 * expectation(f.value, mean, a, b)
            slope += 0.5 * sign * expectation(f.slope, mean, a, b)
    rounds, rows = np.array([0]), np.append(w, bias)[None]
    assert stream.expected_loss(f, rounds, rows)[0] == pytest.approx(value, rel=1e-10, abs=1e-10)
    assert stream.expected_gradient(f, rounds, rows)[0, -1] == pytest.approx(slope, rel=1e-10, abs=1e-10)


def test_theorem_2s_stream_flips_half_way_and_its_features_do_not_tell():
    stream = TwoPoint(4000)
    x, y = stream.sample(0)
    assert set(map(tuple, x)) == {(-1.0, 0.0), (1.0, 0.0)}
    left = x[:, 0] < 0
    assert np.all(y[:2000] == left[:2000])
    assert np.all(y[2000:] == ~left[2000:])
    assert stream.drift.changes == (2000,)
    assert abs(left[:2000].mean() - left[2000:].mean()) < 0.06


def test_an_abrupt_relabelling_swaps_classes_from_its_round_on():
    base = rotating_gaussian(3000)
    stream = Changed(base, relabel([1, 0]), abrupt(1700))
    (x, y), (changed_x, changed_y) = base.sample(3), stream.sample(3)
    np.testing.assert_array_equal(x, changed_x)
    np.testing.assert_array_equal(changed_y[:1700], y[:1700])
    np.testing.assert_array_equal(changed_y[1700:], 1 - y[1700:])
    assert stream.drift.changes == (1700,)


def test_a_gradual_change_mixes_the_concepts_in_the_stated_share():
    base = rotating_gaussian(6000)
    stream = Changed(base, transform(shift=[100.0, 0.0]), gradual(2000, 4000))
    moved = stream.sample(0)[0][:, 0] - base.sample(0)[0][:, 0] > 50
    assert not moved[:2000].any()
    assert moved[4000:].all()
    assert abs(moved[2500:3500].mean() - 0.5) < 4 * 0.5 / math.sqrt(1000)
    assert stream.drift.changes == (2001,)
    assert stream.drift.position[3000] == 0.5


def test_a_recurring_change_takes_turns():
    stream = Changed(rotating_gaussian(1000), transform(matrix=-1.0), recurring(250))
    np.testing.assert_array_equal(stream.drift.changes, [250, 500, 750])
    np.testing.assert_array_equal(stream.drift.position[[0, 249, 250, 499, 500]], [0, 0, 1, 1, 0])


@pytest.mark.parametrize(
    ("schedule", "kind", "changes"),
    [
        (abrupt(4), "abrupt", (4,)),
        (abrupt(0), "abrupt", ()),
        (abrupt(99), "abrupt", ()),
        (gradual(2, 5), "gradual", (3,)),
        (gradual(2, 3), "gradual", (3,)),
        (recurring(3), "recurring", (3, 6, 9)),
        (recurring(1), "recurring", tuple(range(1, 10))),
        (Schedule("seasonal", lambda t: np.abs((t % 6) - 3) / 3), "seasonal", (1, 4, 7)),
    ],
)
def test_a_drift_tells_its_kind_and_where_each_jump_or_ramp_begins(schedule, kind, changes):
    stream = Changed(rotating_gaussian(10), relabel([1, 0]), schedule)
    assert (stream.drift.kind, stream.drift.changes) == (kind, changes)


def test_a_changed_stream_keeps_the_truth_of_the_stream_within():
    inner = Changed(TwoPoint(10), relabel([1, 0]), gradual(2, 6))
    drift = Changed(inner, transform(shift=1.0), recurring(5)).drift
    assert [d.kind for d in (drift, drift.inner, drift.inner.inner)] == ["recurring", "gradual", "abrupt"]
    assert isinstance(drift.inner, Drift)
    assert drift.inner.inner.inner is None


def test_changes_within_changes_are_drawn_apart():
    half = Schedule("half", lambda rounds: np.full(len(rounds), 0.5))
    base = rotating_gaussian(4000)
    twice = Changed(Changed(base, transform(shift=[1000.0, 0.0]), half), transform(shift=[0.0, 1000.0]), half)
    moved = twice.sample(0)[0] - base.sample(0)[0] > 500.0
    counts = np.bincount(2 * moved[:, 0] + moved[:, 1], minlength=4)
    assert chisquare(counts).pvalue > 1e-4  # all four outcomes as often; false alarm 1e-4, on a fixed seed


def test_a_change_is_exact_around_an_exact_binary_stream_alone():
    flip = relabel([1, 0])
    assert isinstance(changed(TwoPoint(5), flip, abrupt(2)), ExactStream)
    assert changed(TwoPoint(5), flip, abrupt(2)).rotation(np.arange(5)) is None
    assert not isinstance(changed(TwoPoint(5), lambda x, y: (x, 1 - y), abrupt(2)), ExactStream)
    assert not isinstance(changed(Arrays([[0.0], [1.0]], [0, 1]), flip, abrupt(1)), ExactStream)
    three = Rotating("three", np.eye(3), gaussian_noise(1.0), 5, classes=(0, 1, 2))
    assert not isinstance(changed(three, relabel([1, 2, 0]), abrupt(2)), ExactStream)


def test_an_exact_change_gives_the_samples_of_the_plain_one():
    arguments = rotating_balls(3000), transform(shift=1.0), gradual(500, 2500)
    for exact, plain in zip(changed(*arguments).sample(4), Changed(*arguments).sample(4), strict=True):
        np.testing.assert_array_equal(exact, plain)


@pytest.mark.parametrize("make", [lambda: rotating_gaussian(9000), lambda: TwoPoint(9000)])
def test_shifted_priors_change_how_often_a_class_comes_and_not_how_it_looks(make):
    stream = PriorShift(make(), [0.2, 0.8], gradual(3000, 6000))
    x, y = stream.sample(0)
    for first, prior in ((0, 0.5), (6000, 0.8)):
        assert abs(y[first : first + 3000].mean() - prior) < 4 * 0.5 / math.sqrt(3000)
    assert abs(y[4000:5000].mean() - 0.65) < 4 * 0.5 / math.sqrt(1000)
    assert stream.drift.kind == "gradual"
    assert stream.drift.inner.kind == make().drift.kind
    if stream.features == 2 and isinstance(stream.stream, Rotating):
        angle = stream.stream.angle(np.arange(9000))
        centre = np.where(y == 1, 15.0, 5.0)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
        assert kstest(((x - centre) / math.sqrt(3.0)).ravel(), "norm").pvalue > 1e-4
    else:
        np.testing.assert_array_equal(y, x[:, 0] == np.where(np.arange(9000) < 4500, -1.0, 1.0))


def test_a_matrix_turns_the_features():
    stream = Changed(rotating_gaussian(10), transform([[0.0, -1.0], [1.0, 0.0]]), abrupt(0))
    before, after = rotating_gaussian(10).sample(0)[0], stream.sample(0)[0]
    np.testing.assert_allclose(after, np.c_[-before[:, 1], before[:, 0]])


def test_arrays_keep_order_and_give_their_warm_up_as_source():
    stream = Arrays(np.arange(8.0).reshape(4, 2), ["b", "a", "b", "a"], warmup=1)
    assert stream.classes == ("a", "b")
    assert stream.rounds == 3
    np.testing.assert_array_equal(stream.sample(0)[0], [[2, 3], [4, 5], [6, 7]])
    np.testing.assert_array_equal(stream.source(1, 0)[1], [1])
    assert stream.drift is None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rotating_gaussian(0), r"`rotating_gaussian\(rounds=0\)`: .* at least 1"),
        (lambda: TwoPoint(-3), r"`TwoPoint\(rounds=-3\)`"),
        (lambda: rotating_gaussian(10, features=1), r"`rotating_gaussian\(features=1\)`: .* at least 2"),
        (lambda: rotating_balls(9, -1), r"`rotating_balls\(features=-1\)`"),
        (lambda: Rotating("r", [[1.0], [2.0]], gaussian_noise(1.0), 5), "at least two coordinates"),
        (lambda: rotating_balls(radius=0.7), "radius < distance"),
        (lambda: rotating_balls(radius="wide"), "radius < distance"),
        (lambda: gaussian_noise(0.0), "std must be positive"),
        (lambda: ball_noise(-1.0, 2), "radius must be positive"),
        (lambda: Rotating("r", [[1.0, 0.0]], gaussian_noise(1.0), 5, classes=(0,)), "at least two classes"),
        (
            lambda: Rotating("r", np.eye(3), gaussian_noise(1.0), 5, classes=(0, 1, 2)).expected_loss(
                loss("hinge"), np.arange(5), np.zeros((5, 3))
            ),
            "exact for two classes, not 3",
        ),
        (lambda: Arrays(np.zeros((0, 2)), []), "no rounds are left"),
        (lambda: Arrays(np.zeros((2, 2)), [0, 1], warmup=2), "no rounds are left"),
        (lambda: Arrays(np.zeros(3), [0, 1, 0]), "one row per round"),
        (lambda: Arrays(np.zeros((3, 1)), [0, 1]), "x has 3 rows but y has 2 labels"),
        (lambda: Arrays(np.zeros((3, 1)), ["a", "a", "a"]), r"one class only \('a'\)"),
        (lambda: Arrays(np.zeros((2, 1)), ["a", "c"], classes=["a", "b"]), "label 'c' of row 1 is not in the classes"),
        (lambda: Arrays([[0.0], [np.nan]], [0, 1]), r"row 1 holds \[nan\]"),
        (lambda: Arrays(np.zeros((3, 1)), [0, 1, 0]).source(1, 0), "keeps 0 warm-up rows"),
        (
            lambda: Changed(rotating_gaussian(5), relabel([1, 0, 2]), abrupt(2)),
            "number of features and classes, 2 and 2",
        ),
        (lambda: Changed(rotating_gaussian(5), relabel([0]), abrupt(2)), "number of features and classes"),
        (lambda: Changed(rotating_gaussian(5), transform(np.ones(3)), abrupt(2)), "keep the number of features"),
        (lambda: Changed(rotating_gaussian(5), transform(shift=[1, 2, 3]), abrupt(2)), "keep the number of features"),
        (lambda: Changed(rotating_gaussian(5), transform(np.eye(3)), abrupt(2)), "keep the number of features"),
        (lambda: Changed(rotating_gaussian(5), "flip", abrupt(2)), "a function of x and y, such as relabel"),
        (lambda: Changed(rotating_gaussian(5), relabel([1, 0]), lambda t: t), "use abrupt"),
        (lambda: PriorShift(rotating_gaussian(5), [0.5, 0.6], abrupt(2)), "with a sum of 1"),
        (lambda: PriorShift(rotating_gaussian(5), [1.5, -0.5], abrupt(2)), "one probability for each of the 2 classes"),
        (lambda: PriorShift(rotating_gaussian(5), [1.0], abrupt(2)), "one probability for each of the 2 classes"),
        (
            lambda: PriorShift(Arrays([[0.0], [1.0]], [0, 1]), [0.5, 0.5], abrupt(2)),
            "cannot draw an x of a given class",
        ),
        (lambda: relabel([0, 0]), "each class index once"),
        (lambda: gradual(5, 5), "start must come before stop"),
        (lambda: recurring(0), r"`recurring\(period=0\)`: .* at least 1"),
        (
            lambda: Changed(rotating_gaussian(5), relabel([1, 2, 0]), abrupt(2)),
            "keep the number of features and classes",
        ),
        (lambda: Changed(rotating_gaussian(5), transform(np.ones((3, 2))), abrupt(2)), "keep the number of features"),
    ],
)
def test_bad_streams_are_refused_in_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
