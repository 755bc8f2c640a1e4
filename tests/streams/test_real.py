"""Rotating MNIST, Portraits and Cover-Type are the appendix's; tests on the data itself skip where it is not."""

import gzip
import io
import json
import math
import os
import shutil
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import rotate

from osamd.errors import InputError
from osamd.streams import cover_type, portraits, rotating_gaussian, rotating_mnist
from osamd.streams import downloads as data
from osamd.streams.base import BLOCK
from osamd.streams.real.cover_type import moments
from osamd.streams.real.mnist import rotated
from osamd.streams.real.portraits import FACES, from_archive, from_folder

DATA = Path(os.environ.get("OSAMD_DATA_DIR") or Path(__file__).parents[2].parent / "shared" / "data")


def needs(path):
    return pytest.mark.skipif(not (DATA / path).exists(), reason=f"{path} is not in {DATA}; set OSAMD_DATA_DIR")


needs_mnist = needs("mnist/train-images-idx3-ubyte.gz")
needs_portraits = needs("portraits/portraits_32x32.npz")
needs_cover_type = needs("covertype/covtype.data.gz")

STREAMS = [
    pytest.param("rotating-mnist", "reported", marks=needs_mnist),
    pytest.param("rotating-mnist", "held-out", marks=needs_mnist),
    pytest.param("portraits", "reported", marks=needs_portraits),
    pytest.param("portraits", "held-out", marks=needs_portraits),
    pytest.param("cover-type", "reported", marks=needs_cover_type),
    pytest.param("cover-type", "held-out", marks=needs_cover_type),
]
MAKERS = {"rotating-mnist": rotating_mnist, "portraits": portraits, "cover-type": cover_type}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each stream of the data once; the user's own cache is left alone."""
    cache, streams = tmp_path_factory.mktemp("cache"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "user_cache", lambda: cache)

        def make(name, rows="reported"):
            if (name, rows) not in streams:
                streams[name, rows] = MAKERS[name](DATA, rows=rows)
            return streams[name, rows]

        yield make


SIZES = {
    ("rotating-mnist", "reported"): (10_000, 25_000, (1, 28, 28), tuple(range(10)), 60_000),
    ("rotating-mnist", "held-out"): (3_000, 25_000, (1, 28, 28), tuple(range(10)), 10_000),
    ("portraits", "reported"): (2_000, 16_000, (1, 32, 32), ("F", "M"), 27_849),
    ("portraits", "held-out"): (2_000, 7_849, (1, 32, 32), ("F", "M"), 27_849),
    ("cover-type", "reported"): (50_000, 445_141, (54,), (1, 2), 581_012),
    ("cover-type", "held-out"): (5_000, 48_121, (54,), (3, 6), 581_012),
}


@pytest.mark.parametrize(("name", "rows"), STREAMS)
def test_a_stream_has_the_appendixs_sizes_and_tells_its_facts(made, name, rows):
    stream = made(name, rows)
    source_size, rounds, shape, classes, whole = SIZES[name, rows]
    assert (stream.name, stream.source_size, stream.rounds) == (name, source_size, rounds)
    assert (stream.shape, stream.features, stream.classes) == (shape, math.prod(shape), classes)
    facts = json.loads(json.dumps(stream.facts, allow_nan=False))
    assert (facts["rows"], facts["data_set_rows"]) == (rows, whole)
    assert (facts["source_rows"], facts["stream_rows"]) == (source_size, rounds)
    assert all(len(digest) == 64 for digest in facts["sha256"].values())
    x, y = stream.source()
    assert (x.shape, x.dtype, y.shape, y.dtype) == (
        (source_size, stream.features),
        np.float64,
        (source_size,),
        np.int64,
    )
    assert set(y) == set(range(len(classes)))
    for few, all_rows in zip(stream.source(7, 0), stream.source(seed=0), strict=True):
        np.testing.assert_array_equal(few, all_rows[:7])
    with pytest.raises(InputError, match=rf"the source of {name} has {source_size} samples; ask for no more"):
        stream.source(source_size + 1, 0)


@pytest.mark.parametrize(("name", "rows"), STREAMS)
def test_no_sample_depends_on_how_the_stream_is_read(made, name, rows):
    stream = made(name, rows)
    blocks = stream.blocks(3)
    next(blocks)
    x, y = next(blocks)
    first = stream.source_size + BLOCK
    for start, stop in pairwise([0, 1, 10, 500, BLOCK]):
        part_x, part_y = stream.take(3, first + start, first + stop)
        np.testing.assert_array_equal(part_x, x[start:stop])
        np.testing.assert_array_equal(part_y, y[start:stop])


@pytest.mark.parametrize(("name", "rows"), [case for case in STREAMS if "mnist" not in case.values[0]])
def test_recorded_streams_are_the_same_for_every_seed(made, name, rows):
    stream = made(name, rows)
    for one, other in zip(next(stream.blocks(0)), next(stream.blocks(1)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert sum(len(y) for _, y in stream.blocks(0)) == stream.rounds


@needs_mnist
def test_rotating_mnist_draws_by_the_seed(made):
    stream, held_out = made("rotating-mnist"), made("rotating-mnist", "held-out")
    order = stream.order(0)
    assert len(set(order)) == len(order) == 35_000
    np.testing.assert_array_equal(order, stream.order(0))
    assert np.mean(order == stream.order(1)) < 0.001
    held = held_out.order(0)
    assert len(held) == 28_000
    assert len(set(held[:3000])) == 3000
    assert not set(held[:3000]) & set(held[3000:])
    assert len(set(held[3000:])) > 6700  # 7,000 (1 - exp(-25/7)) = 6,803 expected
    assert not set(stream.facts["sha256"]) & set(held_out.facts["sha256"])  # training images and test images
    np.testing.assert_array_equal(np.bincount(stream._y), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    np.testing.assert_array_equal(np.bincount(held_out._y), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])


@needs_mnist
def test_rotating_mnist_turns_evenly_as_scipy_does(made):
    stream = made("rotating-mnist")
    order = stream.order(5)
    for t in (0, 1, 12_000, 24_999):
        x, y = stream.take(5, 10_000 + t, 10_001 + t)
        image = stream._images[order[10_000 + t]] / 255.0
        turned = rotate(image, 90.0 * t / 24_999, reshape=False)
        np.testing.assert_allclose(x[0].reshape(28, 28), turned, rtol=0, atol=1e-12)
        assert y[0] == stream._y[order[10_000 + t]]
    np.testing.assert_allclose(x[0].reshape(28, 28), np.rot90(image), rtol=0, atol=1e-12)  # rot90 is counterclockwise
    x, _ = stream.source(20, 5)
    np.testing.assert_array_equal(x.reshape(-1, 28, 28), stream._images[order[:20]] / 255.0)
    assert stream.drift.position[[0, -1]].tolist() == [0.0, math.pi / 2]


@needs_mnist
def test_a_shorter_rotating_mnist_turns_as_far():
    stream = rotating_mnist(DATA, rounds=10)
    assert len(stream.sample(0)[0]) == stream.rounds == stream.facts["stream_rows"] == 10
    assert stream.drift.position[-1] == pytest.approx(math.pi / 2)
    with pytest.raises(InputError, match=r"`rotating_mnist\(rounds=50001\)`: at most 50000 images are left"):
        rotating_mnist(DATA, rounds=50_001)


def test_a_turn_is_counterclockwise_to_the_eye():
    arrow = np.zeros((1, 9, 9))
    arrow[0, 4, 6] = 1.0  # right of the centre; row 0 is on top
    assert np.unravel_index(np.argmax(rotated(arrow, np.array([90.0]))[0]), (9, 9)) == (2, 4)  # above it
    assert np.unravel_index(np.argmax(rotated(arrow, np.array([45.0]))[0]), (9, 9)) == (3, 5)


@needs_portraits
def test_portraits_come_by_year_and_held_out_ones_are_others(made):
    stream, held_out = made("portraits"), made("portraits", "held-out")
    assert (stream.facts["source_years"], stream.facts["stream_years"]) == ([1905, 1935], [1935, 1981])
    assert (held_out.facts["source_years"], held_out.facts["stream_years"]) == ([1981, 1986], [1986, 2013])
    with np.load(DATA / "portraits/portraits_32x32.npz") as kept:
        images, labels = kept["images"].reshape(27_849, -1), kept["labels"]
    pieces = [stream.source(), stream.sample(0), held_out.source(), held_out.sample(0)]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in pieces]) * 255.0, images)
    np.testing.assert_array_equal(np.concatenate([y for _, y in pieces]), labels)
    assert np.bincount(labels).tolist() == [14_946, 12_903]


@needs_cover_type
def test_cover_type_is_sorted_by_distance_and_standardised_over_all_rows(made):
    stream, held_out = made("cover-type"), made("cover-type", "held-out")
    table = np.loadtxt(DATA / "covertype/covtype.data.gz", delimiter=",", dtype=np.int16)
    mean, deviation = table[:, :54].mean(axis=0), table[:, :54].std(axis=0)
    for one, pair, counts in ((stream, (1, 2), [211_840, 283_301]), (held_out, (3, 6), [35_754, 17_367])):
        rows = table[np.isin(table[:, 54], pair)]
        rows = rows[np.argsort(rows[:, 3], kind="stable")]
        x, y = one.sample(0)
        labels = np.concatenate([one.source()[1], y])
        assert np.bincount(labels).tolist() == counts
        np.testing.assert_array_equal(np.array(pair)[labels], rows[:, 54])
        assert np.all(np.diff(x[:, 3]) >= 0)
        some = np.random.default_rng(0).integers(one.rounds, size=1000)
        expected = (rows[one.source_size + some, :54] - mean) / deviation
        np.testing.assert_allclose(x[some], expected, rtol=1e-9, atol=1e-9)
    assert stream.facts["source_distance"] == [0, 42]
    assert stream.facts["stream_distance"] == [42, 1397]


def test_moments_of_whole_numbers_are_exact_over_many_blocks():
    table = np.random.default_rng(0).integers(-7000, 7000, size=(70_000, 3)).astype(np.int16)
    table[:, 2] = 5
    mean, deviation = moments(table)
    np.testing.assert_allclose(mean, table.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(deviation[:2], table[:, :2].std(axis=0), rtol=1e-13)
    assert deviation[2] == 1.0  # a column that never changes is only centred


def test_a_sample_of_any_other_stream_is_a_vector():
    assert rotating_gaussian(10, features=3).shape == (3,)


PHOTOS = [
    ("F", "1912_Ohio_Cleveland_Central_0-2.png", 40),
    ("M", "1905_Ohio_Cleveland_Central_0-1.png", 80),
    ("F", "1905_Iowa_Ames_High_0-1.png", 120),
    ("M", "1912_Ohio_Akron_North_3-1.png", 160),
]


def photo(grey):
    image = pytest.importorskip("PIL.Image", reason="photographs are read by Pillow")
    across = np.clip(grey + np.arange(171) // 4, 0, 255).astype(np.uint8)
    content = io.BytesIO()
    image.fromarray(np.tile(across[:, None], (186, 1, 3))).save(content, "png")
    return content.getvalue()


@pytest.fixture
def archive(tmp_path):
    """A little one of the authors' kind, with files around the photographs that are none."""
    path = tmp_path / "portraits" / f"{FACES}.tar.gz"
    path.parent.mkdir()
    files = [(f"{gender}/{name}", photo(grey)) for gender, name, grey in PHOTOS]
    with tarfile.open(path, "w:gz") as tar:
        for name, content in [*files, ("readme.txt", b"hello"), ("F/._1905_Iowa_Ames_High_0-1.png", b"resource")]:
            member = tarfile.TarInfo(f"{FACES}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_the_authors_archive_is_read_in_the_order_of_its_names(archive, tmp_path):
    image = pytest.importorskip("PIL.Image")
    arrays, digest = from_archive(archive)
    assert arrays["years"].tolist() == [1905, 1905, 1912, 1912]
    assert arrays["labels"].tolist() == [0, 1, 1, 0]  # Iowa before Ohio, Akron before Cleveland
    assert arrays["images"].shape == (4, 32, 32)
    small = image.open(io.BytesIO(photo(120))).resize((32, 32), image.Resampling.LANCZOS).convert("L")
    np.testing.assert_array_equal(arrays["images"][0], np.asarray(small))
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    unpacked, same = from_folder(tmp_path / "unpacked" / FACES)
    assert digest == same
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, unpacked[name])


def test_an_archive_of_enough_photographs_is_a_stream_and_is_prepared_once(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(data, "user_cache", lambda: tmp_path / "cache")
    content = io.BytesIO()
    image.new("RGB", (2, 2), (51, 51, 51)).save(content, "png")
    path = tmp_path / "portraits" / f"{FACES}.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for i in range(18_000):
            member = tarfile.TarInfo(f"{FACES}/{'FM'[i % 2]}/{1905 + i // 200}_Ohio_{i:05}.png")
            member.size = len(content.getvalue())
            tar.addfile(member, io.BytesIO(content.getvalue()))
    stream = portraits(tmp_path)
    assert stream.facts["data_set_rows"] == 18_000
    assert stream.facts["order"].startswith("file name")
    assert (stream.facts["source_years"], stream.facts["stream_years"]) == ([1905, 1914], [1915, 1994])
    x, y = next(stream.blocks(0))
    assert np.all(x == 0.2)
    assert y[:4].tolist() == [0, 1, 0, 1]
    monkeypatch.setitem(sys.modules, "PIL.Image", None)  # the second time nothing is decoded
    np.testing.assert_array_equal(next(portraits(tmp_path).blocks(0))[1], y)
    with pytest.raises(
        InputError, match="18000 portraits are there, but these rows need 20001; get the whole data set"
    ):
        portraits(tmp_path, rows="held-out")


def test_bad_portraits_are_refused_in_a_sentence(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "user_cache", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match="4 portraits are there, but these rows need 18000"):
        portraits(tmp_path)
    whole, damaged = archive.read_bytes(), f"{FACES}.tar.gz is damaged or of another edition; delete it"
    for content in (whole[: len(whole) // 2], b"", b"no archive", gzip.compress(b"no archive")):
        archive.write_bytes(content)
        with pytest.raises(InputError, match=damaged):
            portraits(tmp_path)
    archive.unlink()
    with pytest.raises(InputError, match=rf"there are no portraits in .*; download {FACES}.tar.gz from https://"):
        portraits(tmp_path)
    (tmp_path / "portraits/portraits_32x32.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"portraits_32x32.npz is damaged or of another edition"):
        portraits(tmp_path)
    (tmp_path / "portraits" / FACES / "F").mkdir(parents=True)
    (tmp_path / "portraits" / FACES / "F" / "1905_Ohio.png").write_bytes(b"no png")
    with pytest.raises(InputError, match=r"is damaged or of another edition"):
        portraits(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r"photographs are read by Pillow; run pip install pillow"):
        portraits(tmp_path)


def test_bad_covertype_and_mnist_files_are_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "user_cache", lambda: tmp_path / "cache")
    for name in ("covertype", "mnist"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"`cover_type\(data_dir=.*covtype.data.gz is missing; get it from https://"):
        cover_type(tmp_path)
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is missing; get it from https://"):
        rotating_mnist(tmp_path)
    for content in (b"no gzip", gzip.compress(b"1,2,3\n"), gzip.compress(b"1,2,3\n" * 1000)[:-12]):
        (tmp_path / "covertype/covtype.data.gz").write_bytes(content)
        (tmp_path / "mnist/train-images-idx3-ubyte.gz").write_bytes(content)
        with pytest.raises(InputError, match=r"covtype.data.gz is damaged or of another edition"):
            cover_type(tmp_path)
        with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is damaged or of another edition"):
            rotating_mnist(tmp_path)


@pytest.mark.parametrize("name", list(MAKERS))
def test_unknown_rows_are_refused_in_a_sentence(name):
    with pytest.raises(InputError, match=r"\(rows='heldout'\)`: no such rows. Did you mean 'held-out'\?"):
        MAKERS[name](DATA, rows="heldout")
