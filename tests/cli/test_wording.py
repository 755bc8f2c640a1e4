"""Words of the command line are in the command alone: the library names arguments, the command its options."""

import ast
import re
from pathlib import Path

import pytest

import osamd
import osamd.prequential
from osamd.cli.app import app, main
from osamd.cli.wording import in_options, options_of
from osamd.errors import InputError

PACKAGE = Path(osamd.__file__).parent
COMMAND = re.compile(r"`osamd [^`]*`|var\(--[\w-]+|--[\w-]+:|python -m [^`]*")
"""A whole command that somebody may type, and the variables of a style sheet."""
OPTION = re.compile(r"(?<![\w-])--[a-z]")


def strings(tree):
    """Every text of a module with its line, formatted ones in one piece, without docstrings and options of argparse."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")).startswith("add"):
            skipped.update(found for argument in [*node.args, *node.keywords] for found in ast.walk(argument))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def spoken(text):
    return [text for _, text in strings(ast.parse(text)) if OPTION.search(COMMAND.sub("", text))]


def test_no_message_of_the_library_speaks_of_options():
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "cli" not in path.relative_to(PACKAGE).parts
        for text in spoken(path.read_text())
    ]
    assert found == []


def test_the_scan_finds_an_option_and_lets_commands_pass():
    assert spoken('x = f"give --{name} {value}"') == ["give --x x"]
    assert spoken("raise InputError('give ' '--budget 5%')") == ["give --budget 5%"]
    assert (
        spoken('"""Run it with --budget."""\nx = "`osamd token STATE --name NAME`"\nadd("--seeds", help="as --seed")')
        == []
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("`run(budget=7)`: as in budget='5%' or budget=0.05.", "`--budget 7`: as in --budget 5% or --budget 0.05."),
        ("give max_labels=1 or seeds=2.", "give --max-labels 1 or --seeds 2."),
        ("`rows(drop=['a'], keep=['a'])`: one.", "`--drop a --keep a`: one."),
        ("`rows(label=None)`: by label=... of t.csv.", "`--label`: by --label of t.csv."),
        ("name the classes by classes=[...].", "name the classes by --classes."),
        ("give compare=True.", "give --compare."),
        ("`OSAMD(features=2, budget=3)`: no.", "`OSAMD(features=2, budget=3)`: no."),
        ("set OSAMD_TRUST_CODE=1, or x.label=2.", "set OSAMD_TRUST_CODE=1, or x.label=2."),
        ("classes=['a, b', \"it's\"] then.", """--classes '"a, b",it'"'"'s' then."""),
    ],
)
def test_arguments_become_options_of_the_command_that_runs(message, said):
    found = in_options(message, options_of(app, ["run", "table.csv"]))
    assert found == said


def test_a_function_speaks_of_its_argument_and_the_command_of_its_option(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "1,a\n2,b\n" * 60)
    with pytest.raises(InputError, match=r"^`run\(budget=7\)`: .* as in budget='5%' or budget=0.05"):
        osamd.prequential.run(table, "y", budget=7)
    assert main(["run", str(table), "--label", "y", "--budget", "7"]) == 2
    assert capsys.readouterr().err.startswith("osamd: `--budget 7`: ")
    assert main(["run", str(table)]) == 2
    assert "t.csv needs --label, the column that holds the class. Its columns: 'x', 'y'." in capsys.readouterr().err
