"""What was compiled is found again by the next process, and only while its sources are the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from compiled_units import EVERY, learners

import osamd
from osamd.compiled import lowering
from osamd.compiled.block_kernels import flat_block, general_block, kind_of_round
from osamd.compiled.several_classes import rows_block
from osamd.compiled.stepwise import stepwise_kernels
from osamd.learner.cores import preset_halves

TWICE = """
import sys
import numpy as np
from osamd import compiled
from osamd.compiled import compiled_runs
from osamd.paper.methods import Settings, learner
from osamd.paper.models import linear
from osamd.streams import rotating_gaussian
bound = learner("osamd", linear(2), Settings(eta=0.01, sigma=0.35), [0.4, 0.0, -4.0])
compiled.play(bound, rotating_gaussian(10), 0)
stats = compiled_runs.block_kernel(bound).stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run_with_cache(folder: Path, package: Path) -> list[int]:
    own = {"OSAMD_CACHE_DIR": str(folder), "PYTHONPATH": str(package)}
    environment = os.environ | own | {"NUMBA_OPT": "0"}  # what is found again does not depend on it, and it is quicker
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, check=True, env=environment, cwd=folder
    )
    return [int(number) for number in done.stdout.split()]


def test_a_second_start_compiles_nothing_and_an_edit_compiles_anew(tmp_path):
    package = tmp_path / "package"
    shutil.copytree(Path(osamd.__file__).parent, package / "osamd", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run_with_cache(cache, package) == [0, 1]
    assert run_with_cache(cache, package) == [1, 0]
    losses = package / "osamd" / "paper" / "losses.py"
    losses.write_text(losses.read_text() + "\n# edited\n")
    assert run_with_cache(cache, package) == [0, 1]
    command = package / "osamd" / "cli" / "app.py"
    command.write_text(command.read_text() + "\n# edited\n")
    assert run_with_cache(cache, package) == [1, 0]


APART = """
import sys
import numpy as np
from osamd import OSAMD
for classes in map(int, sys.argv[1:]):
    x = np.random.default_rng(0).normal(size=(60, 4))
    learner = OSAMD.from_source(x, np.arange(60) % classes, method="osamd", eta=0.05, standardise=True, budget=0.5)
    print(classes, [learner.predict(row) for row in x], flush=True)
"""


def test_what_two_processes_compiled_does_not_mix_in_a_third(tmp_path):
    """Functions of one name, compiled in two processes, must not share their symbols; without optimising all stay."""
    environment = os.environ | {"OSAMD_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}

    def decisions(*classes: str) -> str:
        command = [sys.executable, "-c", APART, *classes]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    two, five = decisions("2"), decisions("5")
    assert decisions("2", "5") == two + five
    assert decisions("5", "2") == five + two


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


def test_every_function_that_is_lowered_stands_in_the_sources_of_the_digest(monkeypatch):
    monkeypatch.setattr(preset_halves, "jit_for", lambda function, *_, **__: function)  # lowering is enough, and quick
    root = Path(lowering.__file__).parent.parent
    covered = {found for pattern in lowering.SOURCES for found in root.glob(pattern)}
    for unit in EVERY:
        one = learners(unit, 2, 0)[0]
        {"flat": flat_block, "rows": rows_block, "general": general_block}[kind_of_round(one)](one)
        stepwise_kernels(one)
    made = preset_halves.CompiledPreset()
    assert all(map(callable, (made.turn, made.gather, made.remember)))
    stands_in = {Path(function.__code__.co_filename) for function in lowering._lowered}
    # The kernel of a fleet of dense networks, which other tests may have lowered, is compiled in its own file.
    own = {"dense_rounds.py", "dense_cpu.py"}
    assert {path for path in stands_in if root in path.parents and path.name not in own} <= covered
    assert {path.name for path in stands_in} >= {
        "algorithm.py",
        "losses.py",
        "models.py",
        "euclidean.py",
        "queries.py",
        "preset_halves.py",
    }
