"""Sweeps on a real Ray: the same bytes as on this machine alone, whatever happens to workers on the way."""

import os
import signal
import threading
import time

import pytest

import osamd
from osamd.cli.app import main
from osamd.errors import InputError

GRID = {"budget": [0.02, 0.05, 0.1, 0.2, 0.3], "method": ["osamd-preset", "osamd"]}
STREAMS = ["rotating-gaussian", "gaussian-flip", "gaussian-recurring", "gaussian-priors"]


@pytest.fixture(scope="module")
def ray():
    found = pytest.importorskip("ray", reason="Ray is not installed: make test-doors has it")
    yield found
    found.shutdown()


def kill_one_worker(children):
    """Kill one of Ray's workers that is at a task; returns its process id."""
    import psutil

    while True:
        for process in children:
            for child in process.children(recursive=True):
                try:
                    if child.name().startswith("ray::play_cell"):
                        os.kill(child.pid, signal.SIGKILL)
                        return child.pid
                except psutil.NoSuchProcess:
                    continue
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore")
def test_200_cells_with_two_workers_killed_give_the_bytes_of_one_machine(ray, tmp_path):
    import psutil

    killed = []

    def progress() -> None:
        nonlocal done
        done += 1
        if done in (20, 120):
            threads.append(threading.Thread(target=lambda: killed.append(kill_one_worker([psutil.Process()]))))
            threads[-1].start()

    done, threads = 0, []
    asked = {"streams": STREAMS, "seeds": 5, "rounds": 200, "workers": 2}
    over_ray = osamd.sweep(GRID, **asked, engine="ray", kept=tmp_path / "ray", progress=progress)
    for thread in threads:
        thread.join()
    assert len(set(killed)) == 2
    here = osamd.sweep(GRID, **asked | {"workers": 1}, engine="local", kept=tmp_path / "local")
    assert over_ray == here
    files = {path.name: path.read_bytes() for path in (tmp_path / "ray").iterdir()}
    assert len(files) == 200
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "local").iterdir()}


@pytest.mark.filterwarnings("ignore")
def test_a_refusal_in_a_worker_is_the_callers_sentence(ray):
    with pytest.raises(InputError, match="no such method"):
        osamd.sweep({"method": ["osmd"]}, ["two-point"], seeds=1, rounds=50, engine="ray", workers=2)


@pytest.mark.filterwarnings("ignore")
def test_the_commands_write_the_same_files(ray, tmp_path):
    quick = {
        "labels": ("labels", "gaussian-flip", "--rounds", "200", "--seeds", "2", "--no-peers", "--budgets", "5%"),
        "robustness": ("robustness", "--group", "late", "--seeds", "1", "--rounds", "400"),
        "reproduce": ("reproduce", "rotating-gaussian", "--seeds", "2", "--methods", "osamd,omd-partial"),
    }
    for name, command in quick.items():
        for engine in ("ray", "local"):
            assert main([*command, "--engine", engine, "--workers", "2", "--out", str(tmp_path / name / engine)]) == 0
        (content,) = (tmp_path / name / "local").glob("*.json")
        assert (tmp_path / name / "ray" / content.name).read_bytes() == content.read_bytes()


def test_a_missing_ray_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'pip install "osamd\[ray\]"'):
        osamd.sweep({}, ["two-point"], seeds=1, rounds=50, engine="ray")
