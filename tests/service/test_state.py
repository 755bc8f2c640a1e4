"""The folder of a service: what it was made from comes back, and whatever is wrong with it is one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql
from engine_cases import WIDTH, Service, bits, linear_state, module_state, row, small_module

import osamd
from osamd.errors import InputError
from osamd.service import engine as engines
from osamd.service import log as logs
from osamd.service.folder import CONFIG, START, create, open_state
from osamd.service.inferred_schema import of_learner


def refused(folder, match):
    with pytest.raises(InputError, match=match) as error:
        open_state(folder).learner()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    return str(error.value)


def test_a_folder_opens_to_what_it_was_made_from(tmp_path):
    made = linear_state(tmp_path / "state", classes=3, limits={"max_pending": 7}, standardise=True)
    found = open_state(tmp_path / "state")
    assert found.config == made.config
    assert found.identity == made.identity
    assert bits(found.learner()) == bits(made.learner())
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [CONFIG, START]


@pytest.mark.parametrize("names", [["no", "yes"], [0, 1], [1.5, 2.5, 3.5], [False, True], ["1", "2"]])
def test_classes_come_back_as_they_are(names, tmp_path):
    create(tmp_path / "state", osamd.OSAMD(features=2, classes=names))
    found = open_state(tmp_path / "state")
    assert found.learner().classes == names
    assert [one.name for one in found.schema.classes] == names
    assert [one.title for one in found.schema.classes] == [str(name) for name in names]


def test_names_of_features_become_columns(tmp_path):
    state = create(tmp_path / "state", osamd.OSAMD(features=["heat", "load"]), title="boiler")
    assert [column.name for column in state.schema.columns] == ["heat", "load"]
    assert state.schema.title == "boiler"


def test_a_network_comes_back_by_the_function_that_makes_it(tmp_path):
    module_state(tmp_path / "state")
    found = open_state(tmp_path / "state")
    learner = found.learner()
    learner.ask(found.samples(row(1)[None])[0])
    assert bits(found.learner()) != bits(learner)


def test_an_expiry_of_the_learner_becomes_one_of_the_service(tmp_path):
    state = linear_state(tmp_path / "state", expire_after=9)
    assert (state.config.expire_after, state.learner().expire_after) == (9, None)


def test_a_folder_is_made_once(tmp_path):
    linear_state(tmp_path / "state")
    with pytest.raises(InputError, match="is already a service"):
        linear_state(tmp_path / "state")


def test_a_learner_that_waits_for_labels_is_refused(tmp_path):
    learner = osamd.OSAMD(features=WIDTH, sigma=1e9)
    assert learner.ask(row(1)).query
    with pytest.raises(InputError, match="pending queries"):
        create(tmp_path / "state", learner)
    assert not (tmp_path / "state").exists()


def test_a_learner_that_takes_other_samples_than_the_schema_is_refused(tmp_path):
    with pytest.raises(InputError, match="x has 4 numbers"):
        create(tmp_path / "state", osamd.OSAMD(features=3), schema=of_learner([0, 1], 4, "four"))
    with pytest.raises(InputError, match="give them alike"):
        create(tmp_path / "state", osamd.OSAMD(features=3), schema=of_learner(["a", "b"], 3, "three"))
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("names", [[1, "1"], ["", "x"], ["x" * 201, "y"]])
def test_classes_that_cannot_be_told_apart_or_shown_are_one_sentence(names, tmp_path):
    with pytest.raises(InputError, match="class") as error:
        create(tmp_path / "state", osamd.OSAMD(features=2, classes=names))
    assert "\n" not in str(error.value)


def test_limits_that_make_no_sense_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="max_pending") as error:
        create(tmp_path / "state", osamd.OSAMD(features=2), max_pending=0)
    assert "\n" not in str(error.value)


def test_a_network_that_draws_dropout_is_refused(tmp_path):
    """Its draws are in no log, so it could not be folded again."""
    pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    from osamd.learner.network import NetworkOSAMD

    learner = NetworkOSAMD(small_module(), classes=["a", "b", "c"], eta=0.1, sigma=1.0, dropout=True)
    with pytest.raises(InputError, match="dropout"):
        create(tmp_path / "s", learner, schema=of_learner(["a", "b", "c"], 3, ""), module="engine_cases:small_module")


# What is wrong with a folder


def test_no_folder_no_settings_or_no_learner_is_no_service(tmp_path):
    refused(tmp_path / "nothing", "is not a service")
    for name in (CONFIG, START):
        linear_state(tmp_path / name)
        (tmp_path / name / name).unlink()
        refused(tmp_path / name, "is not a service")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text[:-20], "service.json"),
        (lambda text: "", "service.json"),
        (lambda text: "[]", "service.json"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "format"),
        (lambda text: text.replace('"max_pending": 10000', '"max_pending": 0'), "max_pending"),
        (lambda text: text.replace('"max_pending"', '"most_pending"'), "m(ax|ost)_pending"),
        (lambda text: text.replace('"kind": "linear"', '"kind": "network"', 1), "linear learner"),
        (lambda text: text.replace('"cat"', '"cow"'), "class"),
        (lambda text: text.replace('"name": "cat"', '"name": "dog"'), "two classes have the same name"),
        (lambda text: text.replace('"x1"', '"x2"'), "two columns have the same name"),
    ],
)
def test_damaged_settings_are_one_sentence(change, match, tmp_path):
    linear_state(tmp_path / "state")
    place = tmp_path / "state" / CONFIG
    changed = change(place.read_text())
    assert changed != place.read_text()
    place.write_text(changed)
    refused(tmp_path / "state", match)


def test_settings_that_are_no_text_are_one_sentence(tmp_path):
    linear_state(tmp_path / "state")
    (tmp_path / "state" / CONFIG).write_bytes(b"\xff\xfe\x00")
    refused(tmp_path / "state", "service.json")


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_learner_that_is_cut_is_one_sentence(cut, tmp_path):
    linear_state(tmp_path / "state")
    place = tmp_path / "state" / START
    place.write_bytes(place.read_bytes()[:cut])
    refused(tmp_path / "state", r"start\.safetensors.*(damaged|not saved by osamd)")


def test_a_learner_with_a_bit_flipped_anywhere_is_one_sentence(tmp_path):
    linear_state(tmp_path / "state")
    place = tmp_path / "state" / START
    whole = place.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole), 60):
        data = bytearray(whole)
        data[at] ^= 4
        place.write_bytes(data)
        with pytest.raises(InputError) as error:
            open_state(tmp_path / "state")
        assert "\n" not in str(error.value)


def test_a_learner_of_another_folder_is_refused_by_the_log(tmp_path):
    state = linear_state(tmp_path / "state")
    with Service(state, state.log_file) as service:
        service.send(1)
    other = linear_state(tmp_path / "other", seed=9)
    (state.folder / START).write_bytes((other.folder / START).read_bytes())
    with pytest.raises(InputError, match="belongs to another learner"):
        Service(open_state(state.folder), state.log_file).engine.start()


def damage(log, rows, **values):
    with log.writing() as connection:
        connection.execute(sql.update(logs.snapshots).where(rows).values(**values))


@pytest.mark.parametrize("values", [{"learner": b"nothing"}, {"counts": "no JSON"}, {"counts": "[]"}])
def test_a_snapshot_that_is_damaged_falls_back_to_the_one_before(tmp_path, monkeypatch, caplog, values):
    monkeypatch.setattr(engines, "SNAPSHOT_EVERY", 5)
    state = linear_state(tmp_path / "state")
    with Service(state, state.log_file) as service:
        for number in range(12):
            service.send(number)
        before = bits(service.learner)
        last = service.log.snapshot().seq
        damage(service.log, logs.snapshots.c.seq == last, **values)
        service.kill()
    with service.again() as after:
        assert bits(after.learner) == before
        assert f"the snapshot after event {last} cannot be used" in caplog.text
        for number in range(5):  # until the next snapshot, which the damaged one must not outlive
            after.send(number)
        assert last not in [one.seq for one in after.log.snapshots()]


def test_a_service_whose_snapshots_are_all_damaged_begins_with_the_first_event(tmp_path):
    state = linear_state(tmp_path / "state")
    with Service(state, state.log_file) as service:
        service.send(*range(12))
        before = bits(service.learner)
    log = logs.Log(state.log_file)
    damage(log, sql.true(), learner=b"nothing")
    log.close()
    with service.again() as after:
        assert bits(after.learner) == before


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nomodule", "package.module:function"),
        ("no.such.package:make", "cannot be imported"),
        ("json:nothing", "cannot be imported"),
        ("engine_cases:row", "engine_cases:row"),
        ("json:__doc__", "json:__doc__"),
    ],
)
def test_a_module_that_cannot_be_made_is_one_sentence(name, match, tmp_path, monkeypatch):
    monkeypatch.setenv("OSAMD_TRUST_CODE", "1")
    state = module_state(tmp_path / "state")
    config = json.loads((state.folder / CONFIG).read_text()) | {"module": name}
    (state.folder / CONFIG).write_text(json.dumps(config))
    refused(state.folder, match)


def test_a_network_needs_its_module(tmp_path):
    state = module_state(tmp_path / "state")
    config = json.loads((state.folder / CONFIG).read_text()) | {"module": None}
    (state.folder / CONFIG).write_text(json.dumps(config))
    refused(state.folder, "module")
