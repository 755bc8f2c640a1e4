"""Messages of the library in the words of the command line: `label='state'` becomes `--label state`.

The library names the call and its arguments, as in "`rows(label='knd')`: ...; give drop=['x']". Whoever typed a command
knows options instead, so the command rewrites every argument that is one of its own options, and nothing else.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import typer

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUE = rf"{_TEXT}|\[(?:{_TEXT}|[^\]'\"])*\]|\.\.\.|[^\s,;:()`\[\]]*[^\s,;:.()`\[\]]"
_ARGUMENT = re.compile(rf"(?<![\w.-])(?P<name>[a-z]\w*)=(?P<value>{_VALUE})")
_ARGUMENT_OR_CALL = re.compile(rf"`\w+\((?P<given>\w+=(?:{_VALUE})(?:, \w+=(?:{_VALUE}))*)\)`|{_ARGUMENT.pattern}")


def options_of(command: typer.Typer, arguments: Sequence[str]) -> dict[str, str]:
    """The long options of the command that these arguments call, by the names of their parameters."""
    from typer.main import get_command

    called: Any = get_command(command)
    named = next((one for one in arguments if not one.startswith("-")), "")
    called = getattr(called, "commands", {}).get(named, called)
    found = {one.name: next((option for option in one.opts if option.startswith("--")), "") for one in called.params}
    return {name: option for name, option in found.items() if option}


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message with arguments as options, where the command has them.

    >>> known = {"label": "--label", "drop": "--drop"}
    >>> in_options("`rows(label='knd')`: no such column; give drop=['a, b', 'c'].", known)
    '`--label knd`: no such column; give --drop \\'"a, b",c\\'.'
    >>> in_options("`OSAMD(features=2)`: give budget=0.05.", {"budget": "--budget"})
    '`OSAMD(features=2)`: give --budget 0.05.'
    """

    options = {name.removesuffix("s"): option for name, option in options.items()} | dict(options)  # budget: --budgets

    def option(found: re.Match[str]) -> str:
        name = options.get(found["name"])
        return found[0] if name is None else f"{name} {in_shell(found['value'])}".rstrip()

    def rewritten(found: re.Match[str]) -> str:
        if not found["given"]:
            return option(found)
        given = list(_ARGUMENT.finditer(found["given"]))
        return f"`{' '.join(map(option, given))}`" if all(one["name"] in options for one in given) else found[0]

    return _ARGUMENT_OR_CALL.sub(rewritten, message)


def in_shell(value: str) -> str:
    """A value as it is written in Python, as a shell takes it; nothing for a value that is left open.

    >>> in_shell("'two words'"), in_shell("['no', 'yes']"), in_shell("0.05"), in_shell("[...]"), in_shell("None")
    ("'two words'", 'no,yes', '0.05', '', '')
    """
    try:
        given = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if given is ... or given is None or given is True or given == [...]:
        return ""
    return as_option(given) if isinstance(given, list) else shlex.quote(given) if isinstance(given, str) else value


def as_option(names: Sequence[object]) -> str:
    """Names as a shell takes them for an option with commas.

    >>> print(as_option([0, 1]), as_option(["a, b", "c"]))
    0,1 '"a, b",c'
    """
    held = io.StringIO()
    csv.writer(held, lineterminator="").writerow(names)
    return shlex.quote(held.getvalue())
