"""The command `osamd`: the commands are put together here, and each is a call and a print in a file of its own."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from osamd.cli.labels import labels
from osamd.cli.reproduce import reproduce
from osamd.cli.robustness import robustness
from osamd.cli.run import run
from osamd.cli.service import COMMANDS
from osamd.cli.theory import theory

# A command and its context are typer's or click's, by version; what they are made of is found from typer's alone.
_Context: Any = TyperCommand.context_class
_Formatter: Any = _Context.formatter_class

_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class WholeNames(_Formatter):  # type: ignore[misc]
    """Help whose lines never break at a hyphen, so that names such as omd-partial can be read and copied."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Any, *settings: Any, **named: Any) -> None:
        super().write_dl([(term, about.replace("-", _HYPHEN)) for term, about in rows], *settings, **named)

    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-"))


class _HelpContext(_Context):  # type: ignore[misc]
    formatter_class = WholeNames


class _Command(TyperCommand):
    context_class = _HelpContext


class _Group(TyperGroup):
    context_class = _HelpContext


app = typer.Typer(
    name="osamd",
    cls=_Group,
    help="Keep a classifier right on a drifting stream while asking for very few labels.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help, which fits every width; boxes cut words off
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from osamd import __version__

        print(f"osamd {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]


@app.callback()
def osamd(version: Version = False) -> None:
    """Keep a classifier right on a drifting stream while asking for very few labels."""


def _first_paragraph(command: Any) -> str:
    """What the list of commands says about a command; without it, typer would cut the sentence off."""
    return " ".join(command.__doc__.split("\n\n")[0].split())


for _command in (run, labels, reproduce, theory, robustness, *COMMANDS):
    app.command(cls=_Command, short_help=_first_paragraph(_command))(_command)


# Typer carries its own click or imports one, by version; this is its base of every refusal in both.
_Refused: Any = typer.BadParameter.__mro__[2]


def _sentence(error: Any) -> str:
    """A refusal of typer's in our form; it is a box on a terminal otherwise."""
    words = " ".join(error.format_message().split()).rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "osamd"
    return f"{command}: {words} (try {command} --help)."


def run_command(command: typer.Typer, name: str, arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; an error of the user's is one sentence and 2."""
    from osamd.errors import InputError

    try:
        code = command(arguments, prog_name=name, standalone_mode=False) or 0
    except InputError as error:
        from osamd.cli.wording import in_options, options_of

        options = options_of(command, sys.argv[1:] if arguments is None else arguments)
        print(f"{name}: {in_options(str(error), options)}", file=sys.stderr)
        return 2
    except _Refused as error:
        # Without words it is the command alone, and the help has been shown.
        if error.format_message():
            print(_sentence(error), file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer's own code for Ctrl-C, which it says nothing about
        print(f"{name}: interrupted; no results were written.", file=sys.stderr)
    return int(code)


def main(arguments: list[str] | None = None) -> int:
    """Run `osamd`."""
    return run_command(app, "osamd", arguments)
