"""The site builds without a warning, its Python and its commands run, and its reference is that of the package."""

import importlib.util
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import osamd

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "index.md", DOCS / "concepts.md", *sorted(DOCS.glob("start/*.md")), *sorted(DOCS.glob("guides/*.md"))]
SERVED = [DOCS / "guides" / "service.md", DOCS / "guides" / "operations.md"]
"""Pages whose code talks to a service that they start."""
ALONE = [page for page in PAGES if page not in SERVED]

NEEDS = {
    "torch": "torch",
    "sklearn": "sklearn",
    "river": "river",
    "skactiveml": "skactiveml",
    "onnx": "onnxruntime",
    "mlflow": "mlflow",
}
"""What a page imports beside the core, which not every environment holds."""

NOT_FOR_USERS = {
    "osamd.__main__",
    "osamd.accounting",
    "osamd.accounting.alarms",
    "osamd.accounting.book",
    "osamd.accounting.gain",
    "osamd.accounting.lean_books",
    "osamd.accounting.meter",
    "osamd.accounting.few_bytes",
    "osamd.accounting.sound_books",
    "osamd.accounting.steering",
    "osamd.accounting.target",
    "osamd.adapters",
    "osamd.adapters.onnx_graph",
    "osamd.adapters.onnx_nodes",
    "osamd.checks",
    "osamd.errors",
    "osamd.evaluation",
    "osamd.evaluation.task_engines",
    "osamd.evaluation.kept_results",
    "osamd.evaluation.array_checks",
    "osamd.files",
    "osamd.learner",
    "osamd.learner.backbone",
    "osamd.learner.features",
    "osamd.learner.blocks",
    "osamd.learner.former",
    "osamd.learner.low_rank",
    "osamd.learner.inputs",
    "osamd.learner.network_inputs",
    "osamd.learner.several_parts",
    "osamd.learner.persistence",
    "osamd.learner.recipes",
    "osamd.learner.reports",
    "osamd.learner.resuming",
    "osamd.learner.rows",
    "osamd.learner.saving",
    "osamd.learner.source",
    "osamd.numerics",
    "osamd.paper",
    "osamd.streams.downloads",
}
"""Modules without a page in the reference: the inside, and packages whose modules have one each."""


def imported(name):
    """A module of the package, or None where what it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `mkdocs build --strict` does; a warning is an error."""
    mkdocs = pytest.importorskip("mkdocs.commands.build", reason="the site needs mkdocs: pip install 'osamd[docs]'")
    pytest.importorskip("mkdocstrings", reason="the site needs mkdocstrings: pip install 'osamd[docs]'")
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder))
    config.plugins.on_startup(command="build", dirty=False)
    mkdocs.build(config)
    config.plugins.on_shutdown()
    return folder


@pytest.fixture
def one_thread():
    """Small networks are slower on many threads, and much slower where other programs run."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", ALONE, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_python_and_the_runs_of_a_page_go_through_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    from osamd.cli.app import main

    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for kind, block in re.findall(r"```(python|sh)\n(.*?)```", page.read_text(), flags=re.DOTALL):
        if kind == "python":
            for module, project in NEEDS.items():
                if re.search(rf"^(from|import) (osamd\.adapters\.)?{module}\b", block, flags=re.MULTILINE):
                    pytest.importorskip(project)
            exec(compile(block, str(page), "exec"), namespace)
        else:
            for line in re.findall(r"^osamd (run .*)$", block, flags=re.MULTILINE):
                if Path(shlex.split(line)[1]).exists():
                    assert main(shlex.split(line)) == 0, line
    capsys.readouterr()


def test_the_refusals_on_the_page_of_troubles_are_printed_as_they_stand_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "guides" / "troubleshooting.md").read_text()
    namespace: dict[str, object] = {}
    for block, sentence in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "troubleshooting.md", "exec"), namespace)
        assert capsys.readouterr().out == sentence


class Terminal:
    """Runs what a page says in the terminal: a service beside it, all else to its end; its ports are free ones here."""

    def __init__(self, folder):
        self._folder, self._services, self._ports = folder, [], {}
        (folder / "bin").mkdir()
        (folder / "bin" / "osamd").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m osamd "$@"\n')
        (folder / "bin" / "osamd").chmod(0o755)

    def here(self, text):
        """The text with ports that are free here."""
        for known in ("8000", "8001"):
            if re.search(rf"\b{known}\b", text) and known not in self._ports:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self._ports[known] = str(free.getsockname()[1])
        return re.sub(r"\b800[01]\b", lambda found: self._ports[found[0]], text)

    def run(self, block):
        from osamd.cli.app import main

        environment = os.environ | {"PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}"}
        options = {"cwd": self._folder, "env": environment, "text": True}
        if "osamd serve" in block:
            line = block.strip() if "--port" in block else f"{block.strip()} --port 8000"
            command = shlex.split(self.here(line))
            self._services.append(subprocess.Popen(command, stdout=subprocess.PIPE, **options))
            assert "stop it with Ctrl-C" in self._services[-1].stdout.readline()
        elif all(line.startswith("osamd ") for line in block.strip().splitlines()):
            for line in block.strip().splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
        else:
            done = subprocess.run(["sh", "-e", "-c", self.here(block)], capture_output=True, **options)
            assert done.returncode == 0, done.stderr
            assert '"error"' not in done.stdout, done.stdout

    def close(self):
        for service in self._services:
            service.send_signal(signal.SIGINT)
            service.communicate(timeout=60)
            assert service.returncode == 0


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OSAMD_DATABASE", raising=False)
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def blocks(page):
    """The Python, commands and JSON of a page, each with the name of the file it belongs into, if the text says so."""
    return re.findall(r"(?:`(\w+\.\w+)`:\n\n)?```(python|sh|json)\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", SERVED, ids=lambda page: page.stem)
def test_the_pages_of_the_service_go_through_from_top_to_bottom(page, terminal, tmp_path, capsys):
    for project in ("fastapi", "torch"):
        pytest.importorskip(project)
    for command in ("curl", "sqlite3"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed here")
    if page.stem == "operations":
        osamd.OSAMD(features=2).save("pumps.osamd")
        terminal.run("osamd init pumps --model pumps.osamd")
        terminal.run("osamd token pumps")  # makes the log
    namespace: dict[str, object] = {}
    for file, kind, block in blocks(page):
        if file:
            (tmp_path / file).write_text(block)
        elif kind == "python":
            exec(compile(terminal.here(block), str(page), "exec"), namespace)
        elif kind == "sh":
            terminal.run(block)
    if "service" in namespace:
        namespace["service"].close()
    capsys.readouterr()


def test_the_json_of_the_guide_is_what_the_service_speaks():
    pytest.importorskip("fastapi")
    import json

    from osamd.service.schema import Schema
    from osamd.service.wire.responses import Decided

    seen = []
    for file, kind, block in blocks(SERVED[0]):
        if kind == "json":
            content = json.loads(block)
            schema = "classes" in content
            seen.append((file, (Schema if schema else Decided).model_validate(content)))
    assert [file for file, _ in seen] == ["", "bars.json", ""]
    assert seen[2][1].features == 5


def test_the_page_of_the_http_api_has_every_route_and_every_code(site):
    pytest.importorskip("fastapi")
    from osamd.service import desk_routes, guard, refusals, routes, web

    text = (site / "reference" / "http.html").read_text()
    for router in (routes.samples, routes.router, desk_routes.router, web.router):
        for route in router.routes:
            assert not route.include_in_schema or route.path in text, route.path
    said = re.findall(r'(?:4\d\d|500), "([a-z-]+)"', Path(guard.__file__).read_text())
    assert {"cross-site", "unsupported-media-type"} <= set(said)
    for code in [*refusals.STATUS, *said, "internal"]:
        assert f"<code>{code}</code>" in text, code


def test_the_site_is_built_without_a_warning(site):
    for page in PAGES:
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists()


def test_the_site_asks_nothing_of_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//[^\s\">]+", text), page.name
        assert not re.findall(r"<link(?![^>]*rel=\"?canonical)[^>]*href=\"?(?:https?:)?//[^\s\">]+", text), page.name


def test_the_reference_shows_every_documented_class_and_function(site):
    for page in (site / "reference").glob("osamd*.html"):
        module, text = imported(page.stem), page.read_text()
        for name, value in vars(module).items() if module else ():
            own = getattr(value, "__module__", None) == page.stem or name in getattr(module, "__all__", ())
            if isinstance(value, type | FunctionType) and own and name[0] != "_":
                # A dataclass or a NamedTuple without a docstring is given one that begins with its signature.
                documented = value.__doc__ and not value.__doc__.startswith(f"{name}(")
                anchors = {f'id="{page.stem}.{name}"', f'id="{value.__module__}.{name}"'}
                assert not documented or any(anchor in text for anchor in anchors), f"{page.stem}.{name}"


def test_every_module_has_its_page_in_the_reference_or_is_known_not_to_be_for_users(site):
    shown = {page.stem for page in (site / "reference").glob("osamd*.html")}
    assert not shown & NOT_FOR_USERS
    whole = {name for name in shown if hasattr(imported(name), "__path__")} - {"osamd"}
    inside = ("osamd.cli", "osamd.fleet", "osamd.learner.cores", "osamd.reporting", "osamd.reproduce", "osamd.service")
    inside += tuple(f"{package}." for package in whole)
    for found in pkgutil.walk_packages(osamd.__path__, "osamd."):
        assert found.name in shown | NOT_FOR_USERS or found.name.startswith(inside), found.name


def test_the_page_of_the_command_holds_the_help_of_every_command(site):
    from typer.main import get_command

    from osamd.cli.app import app

    text = (site / "reference" / "command.html").read_text()
    for name, command in get_command(app).commands.items():
        assert f"osamd {name}" in text
        for option in command.params:
            assert max(option.opts, key=len) in text or option.param_type_name == "argument", option.opts


def test_a_dotted_name_in_the_text_leads_to_its_reference(site):
    text = (site / "paper.html").read_text()
    assert re.search(r'href="reference/osamd\.paper\.queries\.html#osamd\.paper\.queries\.query_probability"', text)


def test_in_a_docstring_an_example_is_code_and_a_formula_is_no_tag():
    pytest.importorskip("griffe", reason="the site needs mkdocstrings: pip install 'osamd[docs]'")
    plain = runpy.run_path(str(DOCS / "hooks" / "docstrings.py"))["plain"]
    assert plain("argmin <a, v>, `<a>`.\n\n>>> 1 <a\n2\n\nEnd.") == (
        "argmin &lt;a, v>, `<a>`.\n\n```pycon\n>>> 1 <a\n2\n```\n\nEnd."
    )
