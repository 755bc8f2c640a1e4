"""A second start compiles nothing."""

import json
import os
import shutil
import subprocess
import sys

from osamd.compiled.lowering import cache_folder

START = """
import json, osamd
from osamd.paper.geometry import ball
misses = {}
for name, settings in {
    "two classes": {"standardise": True},
    "several classes": {"classes": 3},
    "ball": {"geometry": ball(2.0)},
}.items():
    learner = osamd.OSAMD(features=2, sigma=1e9, **settings)
    learner.tell(learner.ask([1.0, 2.0]), 1)
    core = learner._core
    compiled = (core._ask.func, core._tell.func, core.confirm.func)
    misses[name] = sum(sum(one.stats.cache_misses.values()) for one in compiled)
preset = osamd.OSAMD(features=2)
preset.tell(preset.ask([1.0, 2.0]), 1)
used = (preset._core._compiled.turn,)
misses["preset"] = sum(sum(one.stats.cache_misses.values()) for one in used)
print(json.dumps(misses))
"""


def test_a_second_process_finds_everything_compiled(tmp_path):
    # What other tests have compiled need not be compiled here; the copy is not written to by those that run meanwhile.
    if cache_folder().is_dir():
        shutil.copytree(cache_folder(), tmp_path / cache_folder().name, ignore=shutil.ignore_patterns("*.tmp.*"))
    own = {**os.environ, "OSAMD_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        said = subprocess.run([sys.executable, "-c", START], env=own, check=True, capture_output=True, text=True).stdout
    assert set(json.loads(said).values()) == {0}
