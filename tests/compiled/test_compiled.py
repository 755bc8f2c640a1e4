"""The compiled path equals the plain one: same queries, parameters within 1e-12.

Every kind of round is held equal with every part that is compiled into it: both fused rounds with every loss, and the
lowered statement with every geometry and every loss, for two classes and for several. `compiled_units` says why that is
enough for the pairs of a geometry and a loss.
"""

import numpy as np
import pytest
from compiled_units import AS_SHIPPED, EVERY, MADE, NOT_OPTIMISED, UNITS, differences, kinds_of
from hypothesis import given, settings
from hypothesis import strategies as st

from osamd import compiled
from osamd.errors import InputError
from osamd.evaluation.many import run_many
from osamd.files import user_cache
from osamd.paper.losses import LOSSES, loss
from osamd.paper.methods import METHODS, InnerLoops, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.streams import Arrays, rotating_gaussian


@pytest.mark.parametrize("part", ["geometry", "loss"])
def test_every_kind_of_round_is_compiled_with_every_part_that_it_takes_in(part):
    def compiled_in(units):
        return {(kind, unit.classes, getattr(unit, part)) for unit in units for kind in kinds_of(unit)}

    assert compiled_in(UNITS) == compiled_in(EVERY)


@pytest.fixture(scope="module")
def compared():
    """All units, over the cores. numba's cache does not tell levels of optimisation apart, so each has its own."""
    found = dict(zip(AS_SHIPPED, run_many(differences, AS_SHIPPED), strict=True))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NUMBA_OPT", "0")
        environment.setenv("OSAMD_CACHE_DIR", str(user_cache() / "not-optimised"))
        return found | dict(zip(NOT_OPTIMISED, run_many(differences, NOT_OPTIMISED), strict=True))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.geometry}-{unit.loss}-{unit.classes}")
def test_streams_agree(unit, compared):
    found = compared[unit]
    assert found.runs == 2 * (7 if kinds_of(unit) == ("rows",) else 42)
    assert found.queries == found.decisions == 0
    assert found.parameters < 1e-12
    assert found.losses < 1e-12


# The fused round adds a bias beside the loss, so one loss without it will do; each pair is compiled anew.
LOSS_AND_BIAS = [*((name, True) for name in LOSSES), ("hinge", False)]


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 20),
    st.sampled_from(list(METHODS)),
    st.sampled_from(LOSS_AND_BIAS),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([None, InnerLoops(3, 0.2)]),
    st.floats(1e-3, 1.0),
    st.floats(1e-2, 2.0),
)
def test_the_fused_round_agrees_on_random_streams(seed, features, method, part, l2, adaptation, eta, sigma):
    name, bias = part
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
    x, y = rotating_gaussian(2000).sample(0)

    class Spoiled(Arrays):
        def blocks(self, seed):
            for x, y in super().blocks(seed):
                x, y = x.copy(), y.copy()
                if len(x) > 476:
                    x[1500 % 1024 if len(x) < 1500 else 1500], y[1500 % 1024 if len(x) < 1500 else 1500] = row, label
                yield x, y

    parts = ("euclidean", "hinge") if geometry == "flat" else ("box", "softmax")  # units compiled as shipped
    made = Settings(eta=0.01, sigma=0.3, geometry=MADE[parts[0]](), loss=loss(parts[1]))
    if geometry == "lowered" and row[0] == 1e200:
        pytest.skip("the box keeps parameters finite")
    with pytest.raises(InputError, match=sentence):
        compiled.play(learner("osamd", linear(2), made, [0.4, 0.0, -0.5]), Spoiled(x, y.tolist()), 0)
