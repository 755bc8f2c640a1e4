"""The README and the docs run, and point at files that exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    if page.name == "README.md":
        printed = capsys.readouterr().out.strip()
        assert f"`{printed}`" in page.read_text()
        assert len(page.read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for named in re.findall(r"`(osamd/[\w/]+\.py)`", text):
        assert (ROOT / named).exists(), named


def test_every_function_that_the_docs_name_exists():
    from importlib import import_module

    for dotted in set(re.findall(r"`(osamd(?:\.\w+)+)`", (ROOT / "docs" / "paper.md").read_text())):
        *module, name = dotted.split(".")
        try:
            import_module(dotted)
        except ModuleNotFoundError:
            assert hasattr(import_module(".".join(module)), name), dotted


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_runs(example, capsys):
    if "torch" in example.read_text():
        pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    assert len(example.read_text().splitlines()) <= 40
    runpy.run_path(str(example), run_name="__main__")
    before, after = re.findall(r"([\d.]+)% right", capsys.readouterr().out)
    assert float(after) > float(before) + 10


def test_the_tables_of_the_page_on_adaptation_are_those_of_its_results():
    pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    hook = runpy.run_path(str(ROOT / "docs" / "hooks" / "adaptation.py"))
    assert hook["tables"]()
    assert hook["filled"](hook["PAGE"].read_text()) == hook["PAGE"].read_text()
