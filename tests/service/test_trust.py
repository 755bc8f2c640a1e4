"""A stranger's folder runs none of its code, by any command, until the operator says so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from engine_cases import WIDTH, Service, module_state, row
from test_commands import Serving

from osamd.cli.app import main
from osamd.errors import InputError
from osamd.service import trust
from osamd.service.folder import CONFIG, open_state
from osamd.service.log import Log

CODE = f"""
import pathlib
pathlib.Path(__file__).with_name("ran").touch()

def make():
    import torch
    from torch import nn
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear({WIDTH}, 4), nn.Tanh(), nn.Linear(4, 3))
"""


@pytest.fixture(autouse=True)
def _key_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(trust.VARIABLE, raising=False)


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A folder that somebody else made, with code beside it, in the current folder."""
    with Service(module_state(tmp_path / "own", budget=0.5), tmp_path / "own" / "log.sqlite") as service:
        service.send(*range(20))
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.copytree(tmp_path / "own", place / "state")
    (place / "state" / trust.MARK).unlink()
    (place / "stranger.py").write_text(CODE)
    config = json.loads((place / "state" / CONFIG).read_text())
    (place / "state" / CONFIG).write_text(json.dumps(config | {"module": "stranger:make"}))
    monkeypatch.chdir(place)
    return place


def test_no_command_runs_the_code_of_a_strangers_folder(strange, capsys):
    for command in (
        ["serve", "--dir", "state", "--port", "0"],
        ["export", "state", "learner"],
        ["export", "state", "labels.csv", "--labels"],
        ["backup", "state", "copy"],
        ["restore", "state", "copy"],
        ["replay", "state", "--budget", "2%"],
    ):
        assert main(command) == 2, command
        said = capsys.readouterr().err
        assert "names code to run, 'stranger:make'" in said, command
        assert "--trust-code" in said
    assert main(["token", "state", "--name", "ann"]) == 0
    assert main(["streams", "."]) == 0
    assert not (strange / "ran").exists()


def test_a_folder_of_many_streams_serves_the_others(strange, tmp_path):
    shutil.copytree(tmp_path / "own", strange / "own")
    command = [sys.executable, "-m", "osamd", "serve", "--dir", ".", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "osamd serves the streams" in process.stdout.readline()
    process.terminate()
    assert "the stream state is not served" in process.communicate(timeout=60)[1]
    assert not (strange / "ran").exists()


def test_the_flag_lets_it_run_and_is_remembered(strange):
    with Serving("serve", "--dir", "state", "--trust-code") as served:
        assert served.end()[0] == 0
    assert (strange / "ran").exists()
    with Serving("serve", "--dir", "state") as served:
        assert served.end()[0] == 0


def test_a_mark_is_for_one_code_one_learner_and_one_user(tmp_path, monkeypatch):
    state = module_state(tmp_path / "state", budget=0.5)
    assert open_state(state.folder).module() is not None
    mark = (state.folder / trust.MARK).read_text()
    assert not trust.trusts(state.folder, "other:make", state.identity)
    assert not trust.trusts(state.folder, "engine_cases:small_module", "0" * 64)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    with pytest.raises(InputError, match="was not made here"):
        open_state(state.folder).learner()
    monkeypatch.setenv(trust.VARIABLE, "1")
    assert open_state(state.folder).learner() is not None
    assert (state.folder / trust.MARK).read_text() != mark


def test_a_user_without_a_home_says_it_every_time(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(blocked))
    state = module_state(tmp_path / "state", budget=0.5)
    with pytest.raises(InputError, match="OSAMD_TRUST_CODE=1"):
        open_state(state.folder).learner()
    monkeypatch.setenv(trust.VARIABLE, "1")
    with Service(open_state(state.folder), Log(state.log_file)._url.render_as_string()) as service:
        service.do("observe", [(None, row(1))])
