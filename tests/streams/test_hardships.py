"""Hardships: what they do to a stream and what they leave, the truth they keep, and the input they refuse."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from osamd.errors import InputError
from osamd.streams import (
    Arrays,
    Changed,
    IrrelevantFeatures,
    NoisyLabels,
    Outliers,
    RareClass,
    Rotating,
    Stream,
    TrendingColumn,
    UnscaledFeatures,
    abrupt,
    gaussian_noise,
    relabel,
    rotating_gaussian,
)

WRAPPERS = {
    "noisy": lambda stream: NoisyLabels(stream, 0.3),
    "irrelevant": lambda stream: IrrelevantFeatures(stream, 3),
    "unscaled": UnscaledFeatures,
    "trending": lambda stream: TrendingColumn(stream, 2.0),
    "outliers": lambda stream: Outliers(stream, 0.1),
}


class InBlocks(Stream):
    """Another stream, in blocks of another size."""

    def __init__(self, stream, size):
        self._within, self._size, self.name = stream, size, stream.name
        self.rounds, self.features, self.classes = stream.rounds, stream.features, stream.classes

    def blocks(self, seed):
        x, y = self._within.sample(seed)
        for start in range(0, len(y), self._size):
            yield x[start : start + self._size], y[start : start + self._size]

    def source(self, count, seed):
        return self._within.source(count, seed)


def three_classes(rounds):
    centres = [[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]
    return Rotating("three", centres, gaussian_noise(1.0), rounds, classes=(0, 1, 2))


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_hardship_does_not_depend_on_the_blocks_of_the_stream(wrap):
    plain = rotating_gaussian(3000)
    whole = wrap(plain).sample(4)
    for size in (1, 7, 1500, 3000):
        for ours, theirs in zip(wrap(InBlocks(plain, size)).sample(4), whole, strict=True):
            assert (ours == theirs).all()


@pytest.mark.parametrize("wrap", [*WRAPPERS.values(), RareClass], ids=[*WRAPPERS, "rare"])
def test_a_hardship_is_the_same_on_the_same_seed_and_keeps_rounds_classes_and_drift(wrap):
    plain = rotating_gaussian(2500)
    stream, again = wrap(plain), wrap(rotating_gaussian(2500))
    for draw in (lambda one, seed: one.sample(seed), lambda one, seed: one.source(50, seed)):
        assert all((a == b).all() for a, b in zip(draw(stream, 1), draw(again, 1), strict=True))
        assert any((a != b).any() for a, b in zip(draw(stream, 1), draw(stream, 2), strict=True))
    x, y = stream.sample(1)
    assert x.shape == (2500, stream.features)
    assert (stream.rounds, stream.classes, len(y)) == (2500, plain.classes, 2500)
    assert (stream.drift.position == plain.drift.position).all()
    assert stream.source(50, 1)[0].shape == (50, stream.features)


def test_a_share_of_the_labels_is_another_class_and_the_truth_is_kept():
    plain = three_classes(20_000)
    stream = NoisyLabels(plain, 0.1)
    x, y = stream.sample(0)
    clean_x, clean_y = plain.sample(0)
    assert (x == clean_x).all()
    assert (stream.truth(0) == clean_y).all()
    wrong = y != clean_y
    assert abs(wrong.mean() - 0.1) < 4 * 0.3 / np.sqrt(20_000)
    ways = np.bincount((y - clean_y)[wrong] % 3, minlength=3)
    assert ways[0] == 0
    assert chisquare(ways[1:]).pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    assert (NoisyLabels(plain, 1.0).sample(0)[1] != clean_y).all()
    assert (NoisyLabels(plain, 0.0).sample(0)[1] == clean_y).all()


def test_the_source_has_noise_too():
    plain = rotating_gaussian(2000)
    wrong = NoisyLabels(plain, 0.2).source(2000, 0)[1] != plain.source(2000, 0)[1]
    assert abs(wrong.mean() - 0.2) < 4 * 0.4 / np.sqrt(2000)


def test_the_truth_goes_through_other_hardships_and_takes_in_changes():
    flipped = Changed(rotating_gaussian(2000), relabel([1, 0]), abrupt(1000))
    stream = UnscaledFeatures(IrrelevantFeatures(NoisyLabels(flipped, 0.2), 2))
    assert (stream.truth(3) == flipped.sample(3)[1]).all()
    assert (stream.sample(3)[1] != stream.truth(3)).any()


def test_hardships_within_hardships_are_independent():
    twice = NoisyLabels(NoisyLabels(rotating_gaussian(20_000), 0.5), 0.5)
    wrong = twice.sample(0)[1] != twice.truth(0)
    assert abs(wrong.mean() - 0.5) < 4 * 0.5 / np.sqrt(20_000)  # the same draws would give 0
    x, _ = IrrelevantFeatures(IrrelevantFeatures(rotating_gaussian(5000), 1), 1).sample(0)
    assert abs(np.corrcoef(x[:, 2], x[:, 3])[0, 1]) < 4 / np.sqrt(5000)


def test_irrelevant_features_are_standard_normal_and_come_last():
    plain = rotating_gaussian(5000)
    x, y = IrrelevantFeatures(plain, 3).sample(0)
    clean_x, clean_y = plain.sample(0)
    assert (x[:, :2] == clean_x).all()
    assert (y == clean_y).all()
    assert kstest(x[:, 2:].ravel(), "norm").pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    assert np.abs(np.corrcoef(np.c_[x[:, 2:], y].T)[:3, 3]).max() < 4 / np.sqrt(5000)


def test_unscaled_features_are_in_the_units_given():
    plain = rotating_gaussian(100)
    x, _ = UnscaledFeatures(plain, scale=[1000.0, 0.001], shift=[-5.0, 2.0]).sample(0)
    assert x == pytest.approx(plain.sample(0)[0] * [1000.0, 0.001] + [-5.0, 2.0])
    scale, shift = UnscaledFeatures(plain, scale=[2.0, 3.0]).units(0)
    assert (scale.tolist(), shift.tolist()) == ([2.0, 3.0], [0.0, 0.0])


def test_units_that_are_drawn_are_those_of_all_rounds_and_of_the_source():
    plain = rotating_gaussian(3000)
    stream = UnscaledFeatures(plain)
    scale, shift = stream.units(5)
    assert stream.sample(5)[0] == pytest.approx(plain.sample(5)[0] * scale + shift)
    assert stream.source(10, 5)[0] == pytest.approx(plain.source(10, 5)[0] * scale + shift)
    drawn = np.array([stream.units(seed)[0] for seed in range(200)])
    assert 1e-3 <= drawn.min() < 1e-2
    assert 1e2 < drawn.max() <= 1e3


def test_a_trending_column_counts_the_rounds_and_the_source_came_before():
    plain = rotating_gaussian(3000)
    stream = TrendingColumn(plain, step=0.25)
    x, y = stream.sample(0)
    assert (x[:, :2] == plain.sample(0)[0]).all()
    assert (y == plain.sample(0)[1]).all()
    assert (x[:, 2] == 0.25 * np.arange(3000)).all()
    before = stream.source(40, 0)[0]
    assert (before[:, :2] == plain.source(40, 0)[0]).all()
    assert (before[:, 2] == 0.25 * np.arange(-40, 0)).all()


def test_outliers_go_astray_by_so_many_deviations_in_a_share_of_the_cells():
    plain = rotating_gaussian(20_000)
    stream = Outliers(plain, share=0.05, size=1000.0)
    clean, labels = plain.sample(0)
    x, y = stream.sample(0)
    away = (x - clean) / clean.std(axis=0)
    assert (y == labels).all()
    astray = x != clean
    assert abs(astray.mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 40_000)
    assert np.abs(away[astray]) == pytest.approx(1000.0)
    up = (away[astray] > 0).mean()
    assert abs(up - 0.5) < 4 * 0.5 / np.sqrt(astray.sum())
    both = astray.all(axis=1).mean()  # the cells of a row are drawn apart
    assert abs(both - 0.05**2) < 4 * np.sqrt(0.05**2 / 20_000)
    source, _ = stream.source(2000, 0)
    assert abs((source != plain.source(2000, 0)[0]).mean() - 0.05) < 4 * np.sqrt(0.05 / 4000)
    assert (Outliers(plain, share=0.0).sample(0)[0] == clean).all()


def test_a_rare_class_is_thinned_and_the_others_are_drawn_from_the_same_round():
    stream = RareClass(three_classes(30_000), rare=2, ratio=10.0)
    counts = np.bincount(stream.sample(0)[1])
    expected = np.array([10.0, 10.0, 1.0]) / 21.0 * 30_000
    assert chisquare(counts, expected).pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    x, y = RareClass(rotating_gaussian(5000)).sample(0)
    angle = rotating_gaussian(5000).angle(np.arange(5000))
    centre = np.where(y == 1, 15.0, 5.0)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    assert kstest(((x - centre) / np.sqrt(3.0)).ravel(), "norm").pvalue > 1e-4


def test_a_ratio_of_one_is_the_stream_itself():
    assert (RareClass(rotating_gaussian(2000), ratio=1).sample(0)[0] == rotating_gaussian(2000).sample(0)[0]).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: NoisyLabels(s, 1.5), r"`NoisyLabels\(share=1.5\)`: share is the share of wrong labels"),
        (lambda s: NoisyLabels(s, float("nan")), "share is the share of wrong labels"),
        (lambda s: NoisyLabels("gaussian", 0.1), r"`NoisyLabels\(stream='gaussian'\)`: stream must be a Stream"),
        (lambda s: IrrelevantFeatures(s, 0), r"`IrrelevantFeatures\(count=0\)`: count must be a whole number"),
        (lambda s: IrrelevantFeatures(None, 2), "stream must be a Stream"),
        (lambda s: UnscaledFeatures(s, [1.0]), "one number for each of the 2 features"),
        (lambda s: UnscaledFeatures(s, [1.0, 0.0]), "a scale of 0 removes a feature"),
        (lambda s: UnscaledFeatures(s, [1.0, np.inf]), "scale must be finite"),
        (lambda s: UnscaledFeatures(s, shift="far"), "shift must be numbers"),
        (lambda s: TrendingColumn(s, 0.0), r"`TrendingColumn\(step=0.0\)`: step is the growth of the column"),
        (lambda s: TrendingColumn(s, float("inf")), "a finite number other than 0"),
        (lambda s: Outliers(s, -0.1), r"`Outliers\(share=-0.1\)`: share is the share of cells"),
        (lambda s: Outliers(s, 0.1, size=0.0), "size must be positive"),
        (lambda s: Outliers([[0.0]], 0.1), "stream must be a Stream"),
        (lambda s: RareClass(s, rare=2), "the index of a class, 0 to 1"),
        (lambda s: RareClass(s, ratio=0.5), "a finite number of at least 1"),
        (lambda s: RareClass(Arrays([[0.0], [1.0]], [0, 1])), "of arrays, leave out rows"),
        (lambda s: RareClass(NoisyLabels(s, 0.1)), "put other wrappers around that"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_rule(make, words):
    with pytest.raises(InputError, match=words):
        make(rotating_gaussian(100))
