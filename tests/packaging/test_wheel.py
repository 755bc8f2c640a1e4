"""The wheel holds the package alone, and works where none of the extras is installed."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import osamd

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MODULES = {
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "scikit-activeml": "skactiveml",
}
"""What an extra is imported as, where that is not its name with underscores."""

WITHOUT_EXTRAS = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {forbidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""

TRY = """
import osamd
from osamd.cli.app import main
try:
    import matplotlib
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("an extra is there")
assert main(["--help"]) == 0
assert main(["run", "table.csv", "--label", "y", "--warmup", "100", "--out", "report", "--no-other-budgets"]) == 0
learner = osamd.OSAMD(features=2, budget=0.5)
learner.tell(learner.ask([1.0, 2.0]), 1)
"""


def extras() -> set[str]:
    """What may be imported only where an extra is installed."""
    core = {re.match(r"[\w-]+", need)[0] for need in PROJECT["dependencies"]}
    named = {re.match(r"[\w-]+", need)[0] for needs in PROJECT["optional-dependencies"].values() for need in needs}
    return {MODULES.get(name, name.replace("-", "_")) for name in named - core - {"osamd"}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="building a wheel needs hatchling: pip install 'osamd[test]'")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"osamd", f"osamd-{osamd.__version__}.dist-info"}
    for path in (ROOT / "osamd").rglob("*.py"):
        assert zipfile.ZipFile(wheel).read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
    assert "osamd/py.typed" in names


def test_the_version_is_written_once(wheel):
    assert "version" in PROJECT["dynamic"]
    metadata = zipfile.ZipFile(wheel).read(f"osamd-{osamd.__version__}.dist-info/METADATA").decode()
    assert f"\nVersion: {osamd.__version__}\n" in metadata
    assert "\nAuthor: " in metadata


def test_the_core_works_without_extras(tmp_path):
    """The wheel holds the same files, so the package is taken from where the tests have it compiled already."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_EXTRAS.format(forbidden=sorted(extras())))
    rows = "".join(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(300))
    (tmp_path / "table.csv").write_text("a,b,y\n" + rows)
    own = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", TRY], cwd=tmp_path, env=os.environ | own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000
