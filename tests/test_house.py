"""The house rules that a program can check: short files and functions, and one name for one thing."""

import ast
import itertools
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("osamd", "benchmarks", "docs/hooks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PACKAGE = sorted((ROOT / "osamd").rglob("*.py"))

REASON = "is long because"
"""What the docstring of a long file or function must say."""

MOST_LINES, MOST_OF_A_FUNCTION = 300, 60

LONG = {
    "osamd/learner/linear.py": "all that can be called on the object that people hold stands in one place",
    "osamd/service/schema.py": "what a schema may say stands in one place",
    "osamd/tables/row_sources.py": "every kind of file is read by the same few steps, which stand side by side",
    "osamd/prequential/runs.py": "one function takes every option of a run, and its docstring explains each",
}
"""Files whose reason stands here and not in their docstrings."""

SAME_CLASS = {
    "Comparison": "a learner beside its peers: on tables, and as networks",
    "Memory": "labelled samples that are remembered: as arrays of the default learner, and as tensors of networks",
    "OSAMDClassifier": "the same estimator, as scikit-learn and as River name theirs",
    "Peer": "a competitor of the default learner: on tables, and as networks",
}
"""Classes of one name in several modules, with the reason."""


def lines_of(function):
    """The lines of a function below its signature and docstring: a command's options are its signature."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def named(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_long_file_or_function_says_why(path):
    text = path.read_text()
    module = ast.parse(text)
    if named(path) in LONG:
        return
    if len(text.splitlines()) > MOST_LINES:
        assert REASON in " ".join(ast.get_docstring(module).split())
    classes = [part for part in module.body if isinstance(part, ast.ClassDef)]
    for part in itertools.chain(module.body, *(held.body for held in classes)):  # functions within others count there
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(part) > MOST_OF_A_FUNCTION:
            assert REASON in " ".join((ast.get_docstring(part) or "").split()), part.name


@pytest.mark.parametrize("path", LONG)
def test_a_reason_is_given_for_a_file_that_is_long(path):
    text = (ROOT / path).read_text()
    functions = [part for part in ast.walk(ast.parse(text)) if isinstance(part, ast.FunctionDef)]
    assert len(text.splitlines()) > MOST_LINES or max(map(lines_of, functions)) > MOST_OF_A_FUNCTION


def test_a_class_has_a_name_of_its_own():
    places = defaultdict(set)
    for path in PACKAGE:
        for part in ast.parse(path.read_text()).body:
            if isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
                places[part.name].add(named(path))
    assert {name for name, found in places.items() if len(found) > 1} == set(SAME_CLASS)


def test_no_docstring_begins_with_a_fragment():
    for path in FILES:
        for part in ast.walk(ast.parse(path.read_text())):
            if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                assert not (ast.get_docstring(part) or "").startswith("Of "), f"{named(path)}: {part}"
