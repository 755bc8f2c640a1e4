"""The pages that are made when the site is built: the reference of the package, from its docstrings, of `osamd`, and of
the HTTP API.

mkdocs calls `on_config`, `on_files` and `on_page_content`.
"""

from __future__ import annotations

import re
from typing import Any

import openapi
from mkdocs.structure.files import File, Files

REFERENCE: dict[str, list[str]] = {
    "The learner": [
        "osamd",
        "osamd.learner.linear",
        "osamd.learner.starting",
        "osamd.learner.network",
        "osamd.learner.ask_tell",
        "osamd.learner.decision",
        "osamd.learner.lean",
        "osamd.preset",
        "osamd.preset.arbiter",
        "osamd.preset.round",
        "osamd.preset.memory",
        "osamd.preset.state",
        "osamd.accounting.budget",
        "osamd.accounting.accuracy",
        "osamd.accounting.health",
        "osamd.prequential",
        "osamd.tables",
    ],
    "The service": ["osamd.client"],
    "Many keys": ["osamd.spark", "osamd.spark.keyed"],
    "Other libraries": [
        "osamd.adapters.sklearn",
        "osamd.adapters.river",
        "osamd.adapters.skactiveml",
        "osamd.adapters.onnx",
        "osamd.adapters.mlflow",
        "osamd.adapters.hub",
    ],
    "The round and its parts": [
        "osamd.paper.algorithm",
        "osamd.paper.methods",
        "osamd.paper.models",
        "osamd.paper.losses",
        "osamd.paper.geometry",
        "osamd.paper.queries",
        "osamd.paper.scores",
    ],
    "Experiments": [
        "osamd.streams",
        "osamd.paper.play",
        "osamd.paper.ledger",
        "osamd.compiled",
        "osamd.fleet.fleet",
        "osamd.fleet.play",
        "osamd.fleet.round",
    ],
    "Evaluation": [
        "osamd.evaluation.regret",
        "osamd.evaluation.recovery",
        "osamd.evaluation.comparators",
        "osamd.evaluation.drift",
        "osamd.evaluation.mmd",
        "osamd.evaluation.propositions",
        "osamd.evaluation.theory",
        "osamd.evaluation.arbiter_guarantee",
        "osamd.evaluation.member_regret",
        "osamd.evaluation.answers",
        "osamd.evaluation.constants",
        "osamd.evaluation.intervals",
        "osamd.evaluation.many",
        "osamd.evaluation.plots",
    ],
}
"""Every module has a page of its own; a test says which modules of the package are not for users."""

HIDDEN = {
    "osamd.paper.geometry": ["osamd.paper.geometry.euclidean.euclidean", "osamd.paper.geometry.p_norm.p_norm"],
    "osamd.streams": [f"osamd.streams.real.{name}.{name}" for name in ("portraits", "cover_type", "corrupted_mnist")],
}
"""What a package exports under the name of the module it comes from, which hides it from the reader of the sources."""

COMMAND = "reference/command.md"
HTTP = "reference/http.md"

WIDTH = 92
"""Characters of a line of help: what fits beside the table of contents."""

NAMED = re.compile(r"<(a|h\d|pre)\b.*?</\1>|<code>(osamd(?:\.\w+)+)</code>", flags=re.DOTALL)
"""A dotted name of the package in the text of a page, and the places where such a name is left as it is."""


def page_of(module: str) -> str:
    return f"reference/{module}.md"


def on_config(config: Any) -> Any:
    """Fill the section Reference of the navigation."""
    modules = [{title: [{module: page_of(module)} for module in listed]} for title, listed in REFERENCE.items()]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = [{"The command": COMMAND}, {"The HTTP API": HTTP}, *modules]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    files.append(File.generated(config, COMMAND, content=command_page()))
    files.append(File.generated(config, HTTP, content=openapi.page()))
    for module in (module for listed in REFERENCE.values() for module in listed):
        files.append(File.generated(config, page_of(module), content=module_page(module)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Let every dotted name in a text lead to its reference, where it has one."""
    return NAMED.sub(lambda found: _link(found[2]) if found[2] else found[0], html)


def _link(name: str) -> str:
    return f'<autoref optional identifier="{name}"><code>{name}</code></autoref>'


def module_page(module: str) -> str:
    """Markdown that mkdocstrings fills in."""
    parts = [f"---\ntitle: {module}\n---", f"# {module} {{#{module}}}", f"::: {module}"]
    rooted = "    options:\n      show_root_heading: true\n      show_root_toc_entry: true"
    return "\n\n".join(parts + [f"::: {name}\n{rooted}" for name in HIDDEN.get(module, [])]) + "\n"


def command_page() -> str:
    """What `osamd --help` and the help of every command print."""
    import typer

    from osamd.cli.app import app

    command = typer.main.get_command(app)
    whole = _context(command, "osamd", None)
    parts = ["# The command `osamd`", _help(command, whole)]
    for name, part in command.commands.items():  # type: ignore[attr-defined]
        parts += [f"## `osamd {name}`", _help(part, _context(part, name, whole))]
    return "\n\n".join(parts) + "\n"


def _context(command: Any, name: str, parent: Any) -> Any:
    import typer

    command.rich_markup_mode = None  # plain text, no boxes
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH, **command.context_settings}
    return typer.Context(command, info_name=name, parent=parent, **settings)


def _help(command: Any, context: Any) -> str:
    return f"```text\n{command.get_help(context)}\n```"
