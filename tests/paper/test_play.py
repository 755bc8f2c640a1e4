"""The loop: reproducible to the bit, and strict about what a stream hands it."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.paper.geometry import p_norm
from osamd.paper.losses import loss
from osamd.paper.methods import METHODS, InnerLoops, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.streams import Arrays, rotating_gaussian

SETTINGS = Settings(eta=0.01, sigma=0.35, loss=loss("hinge", l2=0.2), adaptation=InnerLoops(20, 0.01), label_rate=0.2)
START = [0.4, 0.0, -4.0]
FRESH = """
import hashlib
from tests.paper.test_play import SETTINGS, START
from osamd.paper.methods import METHODS, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.streams import rotating_gaussian
digest = hashlib.sha256()
for name in METHODS:
    ledger, state = play(learner(name, linear(2), SETTINGS, START), rotating_gaussian(300), 7)
    digest.update(ledger.asked.tobytes() + ledger.margin.tobytes() + state.student.tobytes() + state.teacher.tobytes())
print(digest.hexdigest())
"""


def test_the_same_seed_gives_the_same_queries_bit_for_bit_in_a_fresh_process():
    digest = hashlib.sha256()
    for name in METHODS:
        ledger, state = play(learner(name, linear(2), SETTINGS, START), rotating_gaussian(300), 7)
        columns = (ledger.asked, ledger.margin, state.student, state.teacher)
        digest.update(b"".join(column.tobytes() for column in columns))
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest.hexdigest()


def test_another_seed_gives_other_queries():
    asked = [play(learner("osamd", linear(2), SETTINGS, START), rotating_gaussian(300), s).ledger.asked for s in (0, 1)]
    assert not np.array_equal(*asked)


def test_a_stream_of_arrays_plays_as_the_stream_it_came_from():
    stream = rotating_gaussian(1500)  # more than one block
    x, y = stream.sample(5)
    again = Arrays(x, [stream.classes[i] for i in y])
    one, two = (play(learner("osamd", linear(2), SETTINGS, START), s, 5) for s in (stream, again))
    np.testing.assert_array_equal(one.ledger.asked, two.ledger.asked)
    np.testing.assert_array_equal(one.state.student, two.state.student)


def test_methods_that_ask_by_the_same_rule_ask_for_the_same_labels():
    asked = {
        name: play(learner(name, linear(2), SETTINGS, START), rotating_gaussian(500), 2).ledger for name in METHODS
    }
    for name in ("paa", "osamd-no-self-adaptation"):
        np.testing.assert_array_equal(asked[name].asked, asked["osamd"].asked)
    np.testing.assert_array_equal(asked["omd-partial"].asked, asked["osamd-no-active-query"].asked)
    assert asked["omd-all"].asked.all()


def test_the_ledger_adds_up():
    learned = learner("osamd", linear(2), SETTINGS, START)
    told = []
    ledger = play(learned, rotating_gaussian(2500), 1, keep_params=True, progress=told.append).ledger
    assert len(ledger) == 2500
    assert told == [1024, 2048, 2500]
    np.testing.assert_allclose(ledger.probability, 0.35 / (0.35 + ledger.margin))
    assert ledger.accuracy == np.mean(ledger.decision == ledger.label)
    assert ledger.label_rate == ledger.asked.mean()
    assert ledger.pseudolabel_errors == np.sum(ledger.pseudolabel != ledger.label)
    x, y = rotating_gaussian(2500).sample(1)
    sign = np.where(y == 1, 1.0, -1.0)
    margin = sign * np.einsum("ti,ti->t", ledger.params, np.c_[x, np.ones(2500)])
    expected = np.maximum(0, 1 - margin) + 0.2 * (ledger.params[:, :2] ** 2).sum(axis=1)
    np.testing.assert_allclose(ledger.loss, expected, rtol=1e-12)
    np.testing.assert_allclose(ledger.accumulated_loss[-1], expected.sum())


class Broken(Arrays):
    """A stream whose third row of x, or label, is replaced."""

    def __init__(self, x=None, y=None, rows=5):
        super().__init__(np.arange(10.0).reshape(5, 2), [0, 1, 0, 1, 0])
        self.replaced, self.label, self.rows = x, y, rows

    def blocks(self, seed):
        for x, y in super().blocks(seed):
            x, y = x[: self.rows].copy(), y[: self.rows].copy()
            x[2] = x[2] if self.replaced is None else self.replaced
            y[2] = y[2] if self.label is None else self.label
            yield x, y


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (Broken(x=[np.nan, 0.0]), r"round 2 holds \[nan, 0\.0\]; features must be finite"),
        (Broken(x=[0.0, np.inf]), r"round 2 holds \[0\.0, inf\]"),
        (Broken(y=7), "round 2 has label 7, which is not a class index"),
        (Broken(rows=4), "announced 5 rounds and gave 4"),
        (Arrays(np.zeros((3, 4)), [0, 1, 0]), r"features of shape \(4,\), the model takes 2"),
        (Arrays(np.zeros((3, 2)), "abc"), "round 2 has label 2, which is not a class index"),
    ],
)
def test_bad_samples_are_refused_with_their_round(stream, sentence):
    with pytest.raises(InputError, match=sentence):
        play(learner("osamd", linear(2), SETTINGS, START), stream, 0)


@pytest.mark.parametrize(
    ("method", "changes", "scale"),
    [
        ("omd-all", {"eta": 5.0, "loss": loss("hinge", l2=0.3)}, 1.0),
        ("osamd", {"adaptation": InnerLoops(200, 1e3)}, 1.0),
        ("osamd", {"loss": loss("squared-hinge"), "adaptation": None}, 1e100),
        ("osamd", {"loss": loss("logistic"), "geometry": p_norm(1.5), "adaptation": None}, 1e300),
        ("osamd", {"loss": loss("softmax"), "eta": 1e10, "adaptation": None}, 1e300),
    ],
)
def test_a_diverging_run_is_stopped_with_its_round(method, changes, scale):
    x, y = rotating_gaussian(2000).sample(0)
    stream = Arrays(x * scale, list(y))
    with pytest.raises(InputError, match=r"in round \d+ the scores are no longer finite"):
        play(learner(method, linear(2), replace(SETTINGS, **changes)), stream, 0)


@pytest.mark.parametrize("name", ["hinge", "logistic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_nudge_of_one_bit_stays_small_with_the_exact_step(name, classes):
    """The exact step lands on kinks; the student's slope there must not hang on the last bit."""
    x, y = rotating_gaussian(1000).sample(0)
    y = y + (x[:, 1] > 8.0) if classes == 3 else y
    nudge = 1.0 + np.random.default_rng(0).choice([0.0, 2.0**-52], size=x.shape)
    settings = Settings(eta=0.01, sigma=0.35, loss=loss(name, l2=0.2))
    one, two = (
        play(learner("osamd", linear(2, classes), settings), Arrays(rows, list(y), classes=range(classes)), 0)
        for rows in (x, x * nudge)
    )
    np.testing.assert_array_equal(one.ledger.asked, two.ledger.asked)
    np.testing.assert_allclose(one.state.student, two.state.student, atol=1e-11)
