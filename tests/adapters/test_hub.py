"""A learner as a folder with a model card."""

import json

import numpy as np
import pytest

import osamd
from osamd.adapters.hub import load_folder, save_folder
from osamd.errors import InputError
from osamd.streams import rotating_gaussian


@pytest.fixture(scope="module")
def learner():
    stream = rotating_gaussian(1200)
    source, known = stream.source(200, seed=0)
    made = osamd.OSAMD.from_source(source, [["near", "far"][i] for i in known], budget=0.1)
    for row, label in zip(*stream.sample(seed=0), strict=True):
        decision = made.ask(row)
        made.tell(decision, ["near", "far"][label] if decision.query else None)
    return made


def test_a_learner_comes_back_from_its_folder_and_goes_on(learner, tmp_path):
    folder = save_folder(learner, tmp_path / "pumps", intended_use="Tells near pumps from far ones.", licence="mit")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "learner.osamd"]
    again, own = load_folder(folder), learner.copy()
    for row in rotating_gaussian(300).sample(seed=1)[0]:
        one, other = own.ask(row), again.ask(row)
        assert (one.label, one.query, one.margin) == (other.label, other.query, other.margin)
        own.tell(one)
        again.tell(other)


def test_the_card_tells_accuracy_labels_drift_use_and_limits(learner, tmp_path):
    folder = save_folder(
        learner, tmp_path / "pumps", title="Pumps", intended_use="Tells near from far.", limits="Only pumps of type A."
    )
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: osamd\n")
    for said in (
        "# Pumps",
        f"{learner.accuracy()}, from {learner.accuracy().labels} labels",
        f"{learner.asked} ({100 * learner.asked / 1200:.1f} %)",
        "margins of the latest samples",
        learner.health().why,
        "## Intended use\n\nTells near from far.",
        "## Limits\n\nOnly pumps of type A.",
        "near",
    ):
        assert said in card, said
    said = json.loads((folder / "config.json").read_text())
    assert said["accuracy"]["low"] == learner.accuracy().low
    assert said["classes"] == learner.classes
    assert said["labels_asked"] == learner.asked


def test_a_young_learner_says_that_it_does_not_know(tmp_path):
    folder = save_folder(osamd.OSAMD(features=["a", "b"]), tmp_path / "young")
    card = (folder / "README.md").read_text()
    assert "too few labels (0 of 20)" in card
    assert "The authors have not said what it is meant for." in card
    assert "features a, b" in card
    assert json.loads((folder / "config.json").read_text())["accuracy"] is None
    assert load_folder(folder).rounds == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "no config.json"),
        (lambda folder: (folder / "config.json").write_text('{"library_name": "other"}'), "not one of osamd's"),
        (lambda folder: (folder / "config.json").write_text('{"library_name": "osamd", "format": 2}'), "version 2"),
        (lambda folder: (folder / "learner.osamd").unlink(), "cannot be read"),
        (lambda folder: osamd.OSAMD(features=3).save(folder / "learner.osamd"), "not the file that config.json"),
    ],
)
def test_a_spoilt_folder_is_refused_in_a_sentence(spoil, message, tmp_path):
    folder = save_folder(osamd.OSAMD(features=2), tmp_path / "folder")
    spoil(folder)
    with pytest.raises(InputError, match=message):
        load_folder(folder)


def test_a_network_needs_a_module_like_its_own(tmp_path):
    torch = pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    made = osamd.NetworkOSAMD(module, classes=["a", "b"], budget=0.5)
    for row in np.random.default_rng(0).normal(size=(5, 2)):
        made.tell(made.ask(row.astype(np.float32)), None)
    folder = save_folder(made, tmp_path / "network")
    with pytest.raises(InputError, match="give module="):
        load_folder(folder)
    row = np.array([0.3, -0.2], np.float32)
    assert load_folder(folder, module).predict_proba(row) == made.predict_proba(row)


def test_a_title_is_one_line(tmp_path):
    with pytest.raises(InputError, match="one line"):
        save_folder(osamd.OSAMD(features=2), tmp_path / "folder", title="two\nlines")
    assert not (tmp_path / "folder").exists()
