"""Corruptions: fifteen kinds in five strengths, and the stream of digits that goes through them."""

import os
from pathlib import Path

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.streams import corrupted_mnist
from osamd.streams.real.corruptions import CORRUPTIONS, corrupted
from osamd.streams.real.mnist import rotating_mnist

DATA = Path(os.environ.get("OSAMD_DATA_DIR") or Path(__file__).parents[2].parent / "shared" / "data")
needs_mnist = pytest.mark.skipif(
    not (DATA / "mnist" / "train-images-idx3-ubyte.gz").exists(), reason=f"MNIST is not in {DATA}; set OSAMD_DATA_DIR"
)


def ring():
    y, x = np.mgrid[:28, :28]
    return np.clip(3.0 - np.abs(np.hypot(y - 14, x - 13) - 7.0), 0.0, 1.0)


def made(kind, strength, seed=0):
    return corrupted(ring(), kind, strength, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corruption_changes_an_image_more_the_stronger_it_is_and_stays_within_its_range(kind):
    apart = []
    for strength in range(1, 6):
        images = [made(kind, strength, seed) for seed in range(20)]
        assert all(image.shape == (28, 28) and image.min() >= 0.0 and image.max() <= 1.0 for image in images)
        apart.append(np.mean([np.abs(image - ring()).mean() for image in images]))
    assert np.all(np.diff(apart) > 0.0)
    assert apart[0] > 0.003


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corruption_is_a_function_of_its_generator_and_leaves_the_image_alone(kind):
    image = ring()
    first = corrupted(image, kind, 3, np.random.default_rng(1))
    np.testing.assert_array_equal(image, ring())
    np.testing.assert_array_equal(first, made(kind, 3, 1))


def test_there_are_fifteen_kinds_and_others_are_refused():
    assert len(CORRUPTIONS) == 15
    with pytest.raises(InputError, match=r"`corrupted\(strength=6\)`: give a strength from 1 to 5"):
        made("fog", 6)
    with pytest.raises(InputError, match="smoke"):
        made("smoke", 1)


@needs_mnist
def test_kinds_come_abruptly_then_gradually_and_then_again():
    stream = corrupted_mnist(DATA, rounds=1350)
    kinds, strengths = stream.sequence(4)
    thirds = [kinds[first : first + 450] for first in (0, 450, 900)]
    assert thirds[0] == thirds[1] == thirds[2]
    assert all(thirds[0].count(kind) == 30 for kind in CORRUPTIONS)
    assert set(strengths[:450]) == set(strengths[900:]) == {5}
    steps = strengths[450:480]
    assert steps[0] == steps[-1] == 1
    assert set(np.abs(np.diff(steps))) == {0, 1}
    assert sorted(set(steps)) == [1, 2, 3, 4, 5]
    assert stream.sequence(5)[0] != kinds


@needs_mnist
def test_corrupted_digits_are_those_of_rotating_mnist_and_do_not_depend_on_how_they_are_read():
    stream, digits = corrupted_mnist(DATA, rounds=90), rotating_mnist(DATA, rounds=90)
    x, y = stream.source(50, seed=2)
    np.testing.assert_array_equal(x, digits.source(50, seed=2)[0])
    whole, labels = stream.take(2, 9_990, 10_090)
    np.testing.assert_array_equal(labels, digits.take(2, 9_990, 10_090)[1])
    np.testing.assert_array_equal(stream.take(2, 10_030, 10_040)[0], whole[40:50])
    assert not np.array_equal(whole[10:], digits.upright(2, 10_000, 10_090)[0].reshape(90, -1))
    assert whole.min() >= 0.0
    assert whole.max() <= 1.0
    assert len(y) == 50
