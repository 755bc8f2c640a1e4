"""The exported graph decides as the frozen learner does."""

import json

import numpy as np
import pytest

import osamd
from osamd.adapters import onnx as door
from osamd.errors import InputError
from osamd.streams import (
    Changed,
    MachineTable,
    abrupt,
    overlapping_gaussians,
    relabel,
    rotating_gaussian,
)

package = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'osamd[onnx]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'osamd[onnx]'")

ROUNDS = 1500
STREAMS = {
    "rotating": lambda classes: rotating_gaussian(ROUNDS + 1000),
    "flipped": lambda classes: Changed(
        overlapping_gaussians(ROUNDS + 1000, classes=classes, features=6),
        relabel([*range(1, classes), 0]),
        abrupt(ROUNDS // 2),
    ),
    "machine": lambda classes: MachineTable(ROUNDS + 1000),
}


def played(stream, *, sourced=True, rounds=ROUNDS, names=None, **settings):
    """A learner that has played the first rounds, and the samples after them."""
    names = names or list(range(len(stream.classes)))
    x, y = stream.sample(1)
    if sourced:
        first, known = stream.source(300, 1)
        learner = osamd.OSAMD.from_source(first, [names[i] for i in known], classes=names, **settings)
    else:
        learner = osamd.OSAMD(features=x.shape[1], classes=names, **settings)
    for row, label in zip(x[:rounds], y[:rounds].tolist(), strict=True):
        decision = learner.ask(row)
        learner.tell(decision, names[label] if decision.query else None)
    return learner, np.ascontiguousarray(x[-1000:])


@pytest.mark.parametrize(
    ("stream", "classes"),
    [("rotating", 2), ("machine", 3), *(("flipped", classes) for classes in range(2, 11))],
)
@pytest.mark.parametrize("sourced", [True, False])
def test_1000_of_1000_decisions_are_equal(stream, classes, sourced, tmp_path):
    learner, rows = played(STREAMS[stream](classes), sourced=sourced, budget=0.1)
    before = learner._core.state
    found = door.export(learner, tmp_path / "learner.onnx", rows)
    assert (found.samples, found.equal) == (1000, 1000)
    assert found.largest_gap < 1e-12
    labels, shares = door.decisions(tmp_path / "learner.onnx", rows)
    assert labels.tolist() == [learner.predict(row) for row in rows]
    assert np.allclose(shares, [list(learner.predict_proba(row).values()) for row in rows], atol=1e-12)
    assert learner._core.state.tobytes() == before.tobytes()  # frozen: an export teaches nothing
    assert learner.rounds == ROUNDS


@pytest.mark.parametrize("rounds", [0, 1, 5, 40, 200])
def test_a_young_learner_is_exported_too(rounds, tmp_path):
    stream = overlapping_gaussians(2000, classes=4, features=3)
    learner, rows = played(stream, sourced=False, rounds=rounds, budget=0.5)
    assert door.export(learner, tmp_path / "learner.onnx", rows).equal == 1000


def test_outliers_constant_columns_and_samples_of_the_memory_agree(tmp_path):
    generator = np.random.default_rng(3)
    x = np.column_stack([generator.normal(1e6, 1e3, 600), np.full(600, 7.0), generator.integers(0, 2, 600)])
    y = ((x[:, 0] > 1e6) ^ (x[:, 2] > 0)).astype(int)
    learner = osamd.OSAMD(features=["load", "unused", "on"], classes=["fine", "broken"], budget=0.5)
    for row, label in zip(x, y, strict=True):
        decision = learner.ask(row)
        learner.tell(decision, ["fine", "broken"][label] if decision.query else None)
    strange = x[:100] * np.array([1e6, -1e9, 50.0])
    found = door.export(learner, tmp_path / "learner.onnx", np.concatenate([x, strange]))
    assert found.equal == 700
    assert set(door.decisions(tmp_path / "learner.onnx", x)[0]) == {"fine", "broken"}


def test_the_agreement_is_in_the_metadata(tmp_path):
    learner, _ = played(rotating_gaussian(ROUNDS + 1000), names=["left", "right"])
    found = door.export(learner, tmp_path / "learner.onnx")
    assert str(found).startswith("1000 of 1000 decisions equal")
    said = {entry.key: entry.value for entry in package.load(tmp_path / "learner.onnx").metadata_props}
    assert json.loads(said["agreement"]) == {"samples": 1000, "equal": 1000, "largest_gap": found.largest_gap}
    assert json.loads(said["classes"]) == ["left", "right"]
    assert said["rounds"] == str(ROUNDS)
    assert said["accuracy"] == str(learner.accuracy())


def test_the_student_alone_would_mislead():
    """Why the whole decision is exported: on a stream that no line divides, the student alone differs from it."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2500, 2))
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(int)
    learner = osamd.OSAMD.from_source(x[:500], y[:500], budget=0.2)
    for row, label in zip(x[500:1500], y[500:1500].tolist(), strict=True):
        decision = learner.ask(row)
        learner.tell(decision, label if decision.query else None)
    own = np.array([learner.predict(row) for row in x[1500:]])
    student = (x[1500:] @ learner.weights[:-1] + learner.weights[-1] > 0).astype(int)
    assert (student == own).mean() < 0.8
    labels, _ = door.decisions(door.graph_of(learner).SerializeToString(), x[1500:])
    assert labels.tolist() == own.tolist()


@pytest.mark.parametrize("method", ["paa", "omd-all", "omd-partial", "osamd-no-self-adaptation"])
@pytest.mark.parametrize("classes", [2, 4])
def test_methods_of_the_paper_without_self_adaptation_are_linear_graphs(method, classes, tmp_path):
    stream = overlapping_gaussians(2500, classes=classes, features=4)
    learner, rows = played(stream, method=method, budget=None if method == "omd-all" else 0.2, rounds=500)
    assert door.export(learner, tmp_path / "learner.onnx", rows).equal == 1000


def test_what_is_no_fixed_graph_is_refused_in_a_sentence(tmp_path):
    for settings, message in (
        ({"method": "osamd"}, "adapts its student to each sample"),
        ({"method": "paa", "standardise": True}, "counts in its own scale"),
    ):
        with pytest.raises(InputError, match=message):
            door.export(osamd.OSAMD(features=2, **settings), tmp_path / "learner.onnx")
    with pytest.raises(InputError, match="only linear learners"):
        door.export(object(), tmp_path / "learner.onnx")
    with pytest.raises(InputError, match="no sample yet"):
        door.export(osamd.OSAMD(), tmp_path / "learner.onnx")
    with pytest.raises(InputError, match="rows of 2 features"):
        door.export(osamd.OSAMD(features=2), tmp_path / "learner.onnx", [[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match="cannot write"):
        door.export(osamd.OSAMD(features=2), tmp_path / "none" / "learner.onnx")
    assert not list(tmp_path.iterdir())
