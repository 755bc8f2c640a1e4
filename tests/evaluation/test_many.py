"""Many runs: the same results on every engine, kept, resumed, tried again and named."""

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import osamd
from osamd.errors import InputError
from osamd.evaluation.kept_results import KeptResults, decoded, encoded
from osamd.evaluation.many import Runner, RunsFailed, run_many
from osamd.streams import rotating_gaussian


class Found(NamedTuple):
    number: float
    numbers: Any
    names: dict[Any, Any]


class Attempt(NamedTuple):
    folder: str
    number: int


def first_times(task: Attempt, times: int) -> bool:
    """Whether this is one of the first attempts at the task."""
    made = len(list(Path(task.folder).glob(f"{task.number}-*")))
    (Path(task.folder) / f"{task.number}-{made}").touch()
    return made < times


def fails_once(task: Attempt) -> int:
    if first_times(task, 1):
        raise OSError("the disk is full")
    return task.number


def always_fails_at_two(task: Attempt) -> int:
    first_times(task, 0)
    if task.number == 2:
        raise ValueError("no such thing")
    return task.number


def killed_once_at_one(task: Attempt) -> int:
    if task.number == 1 and first_times(task, 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return task.number


def refused(task: Attempt) -> int:
    first_times(task, 0)
    raise InputError("give another number.")


def attempts(folder, count=4):
    return [Attempt(str(folder), number) for number in range(count)]


def test_what_is_kept_comes_back_to_the_last_bit(tmp_path):
    found = Found(0.1 + 0.2, np.array([[1.5, np.nan], [np.inf, -0.0]]), {("a", 1): [None, True], "b": np.arange(3)})
    kept = KeptResults(tmp_path / "new", first_times)
    with pytest.raises(FileNotFoundError):
        kept.read("a task")
    for back in (kept.write("a task", found), kept.read("a task")):
        assert type(back) is Found
        assert back.number == found.number
        assert back.numbers.tobytes() == found.numbers.tobytes()
        assert back.names["b"].dtype == found.names["b"].dtype
        assert back.names["a", 1] == [None, True]
    with pytest.raises(TypeError, match="must be made of numbers"):
        kept.write("a task", {1, 2})


def test_a_kept_file_names_no_class_but_a_named_tuple_of_the_package():
    for name in ("os:stat_result", "pathlib:Path", "osamd.learner.linear:OSAMD"):
        with pytest.raises(TypeError, match="is no"):
            decoded({"named": [name, []]}, "osamd")
    assert decoded(encoded(Found(1, 2, {})), __name__.partition(".")[0]) == Found(1, 2, {})


def test_a_damaged_file_is_a_sentence(tmp_path):
    kept = KeptResults(tmp_path, first_times)
    kept.write("a task", 1.0)
    kept.path("a task").write_text('{"named": ')
    with pytest.raises(InputError, match=r"is damaged.*delete it"):
        kept.read("a task")


def test_a_run_that_fails_is_tried_again(tmp_path):
    assert run_many(fails_once, attempts(tmp_path), Runner(workers=1)) == [0, 1, 2, 3]


def test_a_killed_worker_costs_no_result(tmp_path):
    assert run_many(killed_once_at_one, attempts(tmp_path), Runner(workers=2)) == [0, 1, 2, 3]


def test_runs_that_fail_every_time_are_named_and_the_others_are_kept(tmp_path):
    tasks, kept = attempts(tmp_path), tmp_path / "kept"
    with pytest.raises(RunsFailed, match=r"1 of 4 runs failed, each 3 times: Attempt\(.*number=2\)") as failure:
        run_many(always_fails_at_two, tasks, Runner(workers=1, kept=kept))
    assert isinstance(failure.value.__cause__, ValueError)
    assert len(list(kept.glob("*.json"))) == 3
    with pytest.raises(RunsFailed):
        run_many(always_fails_at_two, tasks, Runner(workers=1, kept=kept))
    tried = sorted(path.name for path in tmp_path.glob("*-*"))
    assert tried == ["0-0", "1-0", *(f"2-{n}" for n in range(6)), "3-0"]  # the kept ones were not played again


def test_what_the_caller_must_change_is_raised_at_once(tmp_path):
    with pytest.raises(InputError, match="give another number"):
        run_many(refused, attempts(tmp_path), Runner(workers=1))
    assert len(list(tmp_path.glob("*"))) == 1
    with pytest.raises(InputError, match="no such engine"):
        run_many(refused, attempts(tmp_path), Runner(engine="rey"))


GRID = {"budget": [0.05, 0.2], "method": ["osamd-preset", "osamd"]}


def test_a_sweep_goes_on_where_it_was_interrupted(tmp_path):
    def interrupt() -> None:
        if len(list(tmp_path.glob("*.json"))) == 3:
            raise KeyboardInterrupt

    asked = {"streams": ["gaussian-flip"], "seeds": [7, 8], "rounds": 100, "workers": 1}
    whole = osamd.sweep(GRID, **asked)
    with pytest.raises(KeyboardInterrupt):
        osamd.sweep(GRID, **asked, kept=tmp_path, progress=interrupt)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(before) == 3
    assert osamd.sweep(GRID, **asked, kept=tmp_path) == whole
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(after) == 8
    assert before.items() <= after.items()


def test_a_sweep_takes_streams_and_tables_of_ones_own(tmp_path):
    stream = rotating_gaussian(150)
    x, y = stream.sample(0)
    named = np.array(["no", "yes"])[y]
    found = osamd.sweep([{}, {"budget": 0.3}], {"own": stream, "table": (x, named)}, 2, warmup=40, workers=1)
    assert [row.stream for row in found.rows] == ["own", "own", "table", "table"]
    assert found.records[-1] == {
        "stream": "table",
        "budget": 0.3,
        "seed": 1,
        **found.scores[-1]._asdict(),
    }
    assert found.best("table").accuracy.mean == max(r.accuracy.mean for r in found.rows if r.stream == "table")
    assert "own, the defaults:" in str(found)
    assert all(row.labels.mean <= row.setting.get("budget", 0.05) for row in found.rows)


@pytest.mark.parametrize(
    ("grid", "streams", "message"),
    [
        ({"budget": []}, ["rotating-gaussian"], "value"),
        ({"seed": [1]}, ["rotating-gaussian"], "seed"),
        ({"loss": [object()]}, ["rotating-gaussian"], "numbers, text or None"),
        ({}, ["rotating-gausian"], "Did you mean .rotating-gaussian"),
        ({}, "rotating-gaussian", "list of names"),
        ({}, {"own": 3}, "a pair"),
        ({}, {"own": (np.zeros((5, 2)), [0, 1])}, "one label a row"),
    ],
)
def test_a_sweep_refuses_in_a_sentence(grid, streams, message):
    with pytest.raises(InputError, match=message):
        osamd.sweep(grid, streams, seeds=1, workers=1)
