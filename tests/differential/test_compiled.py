"""The compiled path equals the plain one, for every combination: same queries, parameters within 1e-12."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_units import UNITS, Unit, differences, learners, one_by_one, random_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from osamd import compiled
from osamd.compiled import lowering
from osamd.compiled.kernels import flat_block, general_block, kind_of_round
from osamd.compiled.one import one_sample
from osamd.compiled.rows import rows_block
from osamd.errors import InputError
from osamd.evaluation.many import run_many
from osamd.losses import LOSSES, loss
from osamd.methods import METHODS, InnerLoops, Settings, learner
from osamd.models import linear
from osamd.play import play
from osamd.scores import UNLABELLED
from osamd.streams import Arrays, rotating_gaussian
from osamd.streams.base import query_generator


@pytest.fixture(scope="module")
def compared():
    """All units, over the cores."""
    return dict(zip(UNITS, run_many(differences, UNITS), strict=True))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.geometry}-{unit.loss}-{unit.classes}")
def test_streams_agree(unit, compared):
    found = compared[unit]
    assert found.runs == 3 * 42
    assert found.queries == found.decisions == 0
    assert found.parameters < 1e-12
    assert found.losses < 1e-12


@pytest.mark.parametrize(
    "unit",
    [
        Unit("euclidean", "hinge", 2),
        *(Unit("euclidean", name, 3) for name in LOSSES),
        Unit("euclidean", "hinge", 10),
        Unit("signed-simplex", "logistic", 2),
        Unit("ball", "hinge", 3),
    ],
    ids=str,
)
def test_one_sample_at_a_time_agrees(unit):
    found = one_by_one(unit)
    assert found.runs == 42
    assert found.queries == found.decisions == 0
    assert found.parameters < 1e-12


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 20),
    st.sampled_from(list(METHODS)),
    st.sampled_from(list(LOSSES)),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([None, InnerLoops(3, 0.2)]),
    st.floats(1e-3, 1.0),
    st.floats(1e-2, 2.0),
    st.booleans(),
)
def test_the_fused_round_agrees_on_random_streams(seed, features, method, name, l2, adaptation, eta, sigma, bias):
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=60)
    stream = Arrays(generator.normal(size=(60, features)) + y[:, None], y.tolist(), classes=(0, 1))
    made = Settings(eta=eta, sigma=sigma, loss=loss(name, l2=l2), adaptation=adaptation, label_rate=0.3)
    start = generator.normal(size=features + bias)
    bound = learner(method, linear(features, bias=bias), made, start)
    ours, plain = compiled.play(bound, stream, 0), play(bound, stream, 0)
    np.testing.assert_array_equal(ours.ledger.asked, plain.ledger.asked)
    np.testing.assert_allclose(ours.state.teacher, plain.state.teacher, atol=1e-12 * (1 + np.abs(start).max()))
    np.testing.assert_allclose(ours.state.student, plain.state.student, atol=1e-12 * (1 + np.abs(start).max()))


def paper(rounds=2000):
    made = Settings(eta=0.01, sigma=0.35, loss=loss("hinge", l2=0.2), adaptation=InnerLoops(20, 0.01))
    return learner("osamd", linear(2), made, [0.4, 0.0, -4.0]), rotating_gaussian(rounds)


def test_columns_that_are_not_kept_change_nothing():
    bound, stream = paper(3000)
    full, none = compiled.play(bound, stream, 1), compiled.play(bound, stream, 1, columns=())
    assert none.totals._replace(loss=0.0) == full.totals._replace(loss=0.0)
    assert full.totals.loss == pytest.approx(full.ledger.loss.sum())
    assert full.totals.right == np.sum(full.ledger.decision == full.ledger.label)
    assert full.totals.asked == full.ledger.asked.sum()
    assert full.totals.pseudolabel_errors == full.ledger.pseudolabel_errors
    assert len(none.ledger.asked) == len(none.ledger.label) == 0
    np.testing.assert_array_equal(none.state.student, full.state.student)
    with pytest.raises(InputError, match="Did you mean 'margin'"):
        compiled.play(bound, stream, 1, columns=("margins",))


@pytest.mark.parametrize("geometry", ["flat", "lowered"])
@pytest.mark.parametrize(
    ("row", "label", "sentence"),
    [
        ([np.nan, 0.0], 1, r"round 1500 holds \[nan, 0\.0\]"),
        ([0.0, -np.inf], 1, "round 1500 holds"),
        ([0.0, 0.0], 2, "round 1500 has label 2"),
        ([1e200, 0.0], 1, "round 1500 the scores are no longer finite"),
    ],
)
def test_bad_samples_stop_with_their_round(geometry, row, label, sentence):
    from osamd.geometry import ball, euclidean

    x, y = rotating_gaussian(2000).sample(0)

    class Spoiled(Arrays):
        def blocks(self, seed):
            for x, y in super().blocks(seed):
                x, y = x.copy(), y.copy()
                if len(x) > 476:
                    x[1500 % 1024 if len(x) < 1500 else 1500], y[1500 % 1024 if len(x) < 1500 else 1500] = row, label
                yield x, y

    made = Settings(eta=0.01, sigma=0.3, geometry=euclidean() if geometry == "flat" else ball(5.0))
    if geometry == "lowered" and row[0] == 1e200:
        pytest.skip("the ball keeps parameters finite")
    with pytest.raises(InputError, match=sentence):
        compiled.play(learner("osamd", linear(2), made, [0.4, 0.0, -4.0]), Spoiled(x, y.tolist()), 0)


def by_rows(features, name="hinge"):
    """Three classes with the exact step, from a random start."""
    start = np.random.default_rng(0).normal(size=(3, features + 1))
    return learner("osamd", linear(features, 3), Settings(eta=0.05, sigma=0.3, loss=loss(name)), start)


@pytest.mark.parametrize("name", ["hinge", "softmax"])
def test_one_sample_at_a_time_is_the_stream_to_the_last_bit_with_several_classes(name):
    bound, stream = by_rows(11, name), random_stream(5, 11, 3)
    x, y = stream.sample(0)
    whole, one = compiled.play(bound, stream, 0), compiled.One(bound)
    wide = np.zeros((len(x), 22))
    wide[:, ::2] = x
    for t, u in enumerate(query_generator(0).random(len(y)).tolist()):
        label, query = one.decide(wide[t, ::2], u)  # a row need not be contiguous
        assert (label, query) == (whole.ledger.decision[t], whole.ledger.asked[t])
        one.learn(int(y[t]) if query else UNLABELLED)
    np.testing.assert_array_equal(one.state.teacher, whole.state.teacher)
    np.testing.assert_array_equal(one.state.student, whole.state.student)


@pytest.mark.parametrize("bound", [paper()[0], by_rows(2)], ids=["two classes", "three"])
def test_one_refuses_what_it_cannot_take_and_stays_as_it_was(bound):
    one = compiled.One(bound)
    before = one.state
    for x, sentence in (
        (np.zeros(3), "the model takes 2"),
        (np.array([np.nan, 1.0]), "must be finite"),
        (np.array([1.0, -np.inf]), "must be finite"),
        (np.array([1e200, 1.0]), "no longer finite"),
    ):
        with pytest.raises(InputError, match=sentence):
            one.decide(x, 0.5)
    one.decide(np.array([15.0, 0.0]), 0.0)
    for y in (bound.model.classes, -2):
        with pytest.raises(InputError, match=rf"learn\(y={y}\)"):
            one.learn(y)
    np.testing.assert_array_equal(one.state.teacher, before.teacher)
    np.testing.assert_array_equal(one.state.student, before.student)


TWICE = """
import sys
import numpy as np
from osamd import compiled
from osamd.compiled import runs
from osamd.methods import Settings, learner
from osamd.models import linear
from osamd.streams import rotating_gaussian
bound = learner("osamd", linear(2), Settings(eta=0.01, sigma=0.35), [0.4, 0.0, -4.0])
compiled.play(bound, rotating_gaussian(10), 0)
stats = runs.block_kernel(bound).stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run_with_cache(folder: Path, package: Path) -> list[int]:
    environment = os.environ | {"OSAMD_CACHE_DIR": str(folder), "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, check=True, env=environment, cwd=folder
    )
    return [int(number) for number in done.stdout.split()]


def test_a_second_start_compiles_nothing_and_an_edit_compiles_anew(tmp_path):
    import shutil

    import osamd

    package = tmp_path / "package"
    shutil.copytree(Path(osamd.__file__).parent, package / "osamd", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run_with_cache(cache, package) == [0, 1]
    assert run_with_cache(cache, package) == [1, 0]
    losses = package / "osamd" / "losses.py"
    losses.write_text(losses.read_text() + "\n# edited\n")
    assert run_with_cache(cache, package) == [0, 1]
    command = package / "osamd" / "cli.py"
    command.write_text(command.read_text() + "\n# edited\n")
    assert run_with_cache(cache, package) == [1, 0]


def test_two_processes_that_compile_at_once_do_not_take_each_others_code(tmp_path):
    first, second, later = (lowering.KeyedFiles(str(tmp_path), "block", "stamp") for _ in range(3))
    first._load_index = second._load_index = dict  # both looked before either wrote
    write = second._save_data

    def overtaken(name, data):
        first.save("a", "code of a")
        write(name, data)

    second._save_data = overtaken
    second.save("b", "code of b")
    assert later.load("a") in ("code of a", None)
    assert later.load("b") == "code of b"


def test_every_function_that_is_lowered_stands_in_the_sources_of_the_digest():
    root = Path(lowering.__file__).parent.parent
    covered = {found for pattern in lowering.SOURCES for found in root.glob(pattern)}
    for unit in UNITS:
        one = learners(unit, 2, 0)[0]
        {"flat": flat_block, "rows": rows_block, "general": general_block}[kind_of_round(one)](one)
        one_sample(one)
    stands_in = {Path(function.__code__.co_filename) for function in lowering._lowered}
    assert stands_in <= covered
    assert {path.name for path in stands_in} >= {"algorithm.py", "losses.py", "models.py", "euclidean.py", "queries.py"}
