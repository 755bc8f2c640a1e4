"""Save and load: one file, bit for bit, and never a damaged one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import osamd
from osamd.errors import InputError
from osamd.learner import saving
from osamd.paper.geometry import GEOMETRIES
from osamd.paper.losses import LOSSES
from osamd.paper.methods import KNOWN, METHODS, InnerLoops, Settings, TeacherStep, lemma1_step
from osamd.preset.state import NOT_YET, SHIFT

CONTINUE = """
import sys, json, numpy as np, osamd
held = osamd.OSAMD.load(sys.argv[1])
x, y = np.load(sys.argv[2])["x"], np.load(sys.argv[2])["y"].tolist()
queries, labels = [], []
for t in range(held.rounds, len(y)):
    for late in [d for d in held.pending if t - d.id >= 7]:
        held.tell(late, y[late.id])
    decision = held.ask(x[t])
    queries.append(decision.query)
    labels.append(decision.label)
    if not decision.query:
        held.tell(decision, None)
held.save(sys.argv[1] + ".end")
print(json.dumps([queries, labels]))
"""


def stream(rounds=300, classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rounds)
    return rng.normal(size=(rounds, 4)) + 2.0 * np.eye(4)[y], y


@pytest.mark.parametrize("method", KNOWN)
def test_a_new_process_goes_on_bit_for_bit(method, tmp_path):
    """Saved at a random round with queries pending, loaded by another process, finished: the same to the last bit."""
    x, y = stream()
    at = int(np.random.default_rng(list(method.encode())).integers(50, 250))
    of_the_paper = {"sigma": 0.5, "standardise": True} if method in METHODS else {}
    held = osamd.OSAMD(features=4, classes=3, method=method, budget=0.2, seed=4, **of_the_paper)
    queries, labels = [], []
    for t in range(len(y)):
        if t == at:
            held.save(tmp_path / "learner")
        for late in [d for d in held.pending if t - d.id >= 7]:
            held.tell(late, int(y[late.id]))
        decision = held.ask(x[t])
        queries.append(decision.query)
        labels.append(decision.label)
        if not decision.query:
            held.tell(decision, None)
    np.savez(tmp_path / "stream.npz", x=x, y=y)
    command = [sys.executable, "-c", CONTINUE, str(tmp_path / "learner"), str(tmp_path / "stream.npz")]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said == [queries[at:], labels[at:]]
    again = osamd.OSAMD.load(tmp_path / "learner.end")
    ours, theirs = held._saved(), again._saved()
    assert ours.content == theirs.content
    assert {n: a.tobytes() for n, a in ours.arrays.items()} == {n: a.tobytes() for n, a in theirs.arrays.items()}
    assert held.accuracy() == again.accuracy()
    assert [d.id for d in held.pending] == [d.id for d in again.pending]


def test_every_loss_and_geometry_comes_back():
    for name in LOSSES:
        for geometry in GEOMETRIES.values():
            settings = Settings(
                eta=0.1,
                sigma=0.2,
                loss=osamd.paper.losses.loss(name, l2=0.3),
                geometry=geometry(),
                teacher=lemma1_step(0.2),
                adaptation=InnerLoops(3, 0.5),
            )
            again = saving.settings_from_json(json.loads(json.dumps(saving.settings_to_json(settings))))
            assert (again.loss, again.teacher, again.adaptation) == (settings.loss, settings.teacher, (3, 0.5))
            assert again.geometry.name == settings.geometry.name
            assert again.geometry.decision_set == settings.geometry.decision_set


def test_a_learner_that_has_met_no_sample_can_be_saved(tmp_path):
    osamd.OSAMD(classes=["a", "b"], budget=0.1).save(tmp_path / "empty")
    held = osamd.OSAMD.load(tmp_path / "empty")
    held.tell(held.ask({"left": 1.0, "right": 2.0}), "a")
    assert held.features == ["left", "right"]


def test_settings_given_as_numbers_of_numpy_come_back(tmp_path):
    held = osamd.OSAMD(
        features=2,
        eta=np.float32(0.5),
        sigma=np.int64(1),
        l2=np.float32(0.1),
        teacher=TeacherStep(cap=np.float64(0.5)),
        adaptation=InnerLoops(np.int64(3), np.float32(0.1)),
        budget=np.float32(0.25),
        classes=np.array(["a", "b"]),
    )
    held.tell(held.ask([1.0, 2.0]), "a")
    held.save(tmp_path / "learner")
    again = osamd.OSAMD.load(tmp_path / "learner")
    assert np.array_equal(held.weights, again.weights)
    assert again.classes == ["a", "b"]


def test_a_file_keeps_its_rights_and_a_link_stays_one(tmp_path):
    place, link = tmp_path / "learner", tmp_path / "link"
    held = osamd.OSAMD(features=2)
    held.save(place)
    assert place.stat().st_mode & 0o777 == 0o666 & ~_umask()
    place.chmod(0o640)
    link.symlink_to(place)
    held.save(link)
    assert link.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o640


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.fixture
def saved(tmp_path):
    x, _ = stream()
    held = osamd.OSAMD(features=4, classes=3, budget=0.2)
    for row in x[:30]:
        held.ask(row)
    held.save(tmp_path / "learner")
    return tmp_path / "learner"


def test_every_damaged_byte_is_noticed(saved):
    good = saved.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(good), 60).tolist():
        saved.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(InputError, match="load"):
            osamd.OSAMD.load(saved)
    for end in (0, 5, len(good) // 2, len(good) - 1):
        saved.write_bytes(good[:end])
        with pytest.raises(InputError, match="damaged"):
            osamd.OSAMD.load(saved)
    saved.write_bytes(good)
    osamd.OSAMD.load(saved)


def test_other_versions_and_other_files_are_refused_in_one_sentence(saved, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(saving, "VERSION", 0)
        osamd.OSAMD.load(saved) if False else osamd.OSAMD(features=2).save(tmp_path / "old")
    with pytest.raises(InputError, match="has version 0, and this osamd reads version 1"):
        osamd.OSAMD.load(tmp_path / "old")
    from safetensors.numpy import save_file

    save_file({"x": np.ones(3)}, tmp_path / "other")
    with pytest.raises(InputError, match="not saved by osamd"):
        osamd.OSAMD.load(tmp_path / "other")
    with pytest.raises(InputError, match="no such file"):
        osamd.OSAMD.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="load"):
        osamd.OSAMD.load(tmp_path)


def test_a_learner_of_another_make_is_refused_in_one_sentence(tmp_path):
    learner = osamd.OSAMD(features=2)
    held = learner._core.arrays
    learner._core.arrays = lambda: held() | {"head": held()["head"][:-2]}
    learner.save(tmp_path / "other")
    with pytest.raises(InputError, match="incompatible version of osamd"):
        osamd.OSAMD.load(tmp_path / "other")


def test_a_save_that_fails_leaves_the_file_before_and_nothing_else(saved, monkeypatch):
    good = saved.read_bytes()
    held = osamd.OSAMD.load(saved)
    held.tell(held.ask(np.ones(4)), 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(InputError, match="No space left"):
                held.save(saved)
        assert saved.read_bytes() == good
        assert [path.name for path in saved.parent.iterdir()] == ["learner"]
    with pytest.raises(InputError, match="cannot write"):
        held.save(saved.parent / "missing" / "learner")


def test_functions_of_ones_own_are_not_saved(tmp_path):
    from dataclasses import replace

    own = replace(osamd.paper.losses.loss("hinge"), name="own")
    with pytest.raises(InputError, match="not one of osamd's"):
        osamd.OSAMD(features=2, loss=own).save(tmp_path / "learner")


def former(saved):
    """The file of the default learner as it was before: other experts, and settings that said nothing."""
    kept = {name: array for name, array in saved.arrays.items() if name in ("book", "meter", "uniforms")}
    settings = saving.settings_to_json(Settings(eta=0.3, sigma=1.0))
    own = {"settings": settings, "eta": None, "standardise": False}
    return saving.Saved(kept | {"head": np.zeros(8), "models": np.zeros(9)}, saved.content | own)


def test_files_of_the_former_default_learner_are_refused_with_the_way_to_go_on(tmp_path):
    old = former(osamd.OSAMD(features=2, budget=0.2)._saved())
    saving.write(tmp_path / "old", old)
    for load in (
        lambda: osamd.OSAMD.load(tmp_path / "old"),
        lambda: osamd.OSAMD.from_bytes(saving.packed(old)),
        lambda: osamd.OSAMD._revive(old),
    ):
        with pytest.raises(
            InputError, match=r"default learner of an earlier version.*make a new learner with from_source"
        ):
            load()


def test_the_preset_saves_no_settings_and_files_of_the_paper_do():
    assert "settings" not in osamd.OSAMD(features=2)._saved().content
    assert osamd.OSAMD(features=2, eta=0.2)._saved().content["eta"] == 0.2


def test_a_file_from_before_samples_were_compared_with_the_source_goes_on(tmp_path):
    learner = held_for_a_while()
    held = learner._core.arrays
    new = ("scale.source_mean", "scale.source_inverse")
    learner._core.arrays = lambda: {
        name: part[:-1] if name == "head" else part for name, part in held().items() if name not in new
    }
    learner.save(tmp_path / "former")
    again = osamd.OSAMD.load(tmp_path / "former")
    assert again._core.state[SHIFT] == NOT_YET
    x = np.array([2.0, 2.0])
    assert again.ask(x).label == learner.ask(x).label
    again.tell(again.ask(x), None)  # the samples so far stand for those of the source
    assert again._core.state[SHIFT] == 0.0
    again.tell(again.ask(x), None)
    assert again._core.state[SHIFT] > 0.0


def test_a_file_from_before_the_papers_osamd_was_a_member_goes_on(tmp_path):
    learner = held_for_a_while()
    held = learner._core.arrays
    learner._core.arrays = lambda: {
        name: part[:-1] / part[:-1].sum() if name == "arbiter.guard" else part
        for name, part in held().items()
        if not name.startswith("descent.")
    }
    learner.save(tmp_path / "former")
    again = osamd.OSAMD.load(tmp_path / "former")
    parts = again._core._parts
    assert parts.arbiter.guard[-1] == 0.0
    assert np.abs(parts.descent.teacher).max() > 0.0  # it starts from the student
    for x in (np.array([2.0, 2.0]), np.array([0.0, 0.0])):
        decision = again.ask(x)
        assert decision.label == learner.ask(x).label
        again.tell(decision, None)
    assert again._core._parts.arbiter.guard[-1] > 0.0  # its weight grows


def held_for_a_while(rounds=1200):
    """A default learner with a source that has played some rounds."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, rounds)
    x = generator.normal(size=(rounds, 2)) + 2.0 * y[:, None]
    learner = osamd.OSAMD.from_source(x[:100], y[:100], budget=0.1)
    for row, label in zip(x, y.tolist(), strict=True):
        decision = learner.ask(row)
        learner.tell(decision, label if decision.query else None)
    return learner
