"""Help fits a terminal of 80 columns and is never cut off; shells complete the commands."""

import os
import subprocess
import sys

import pytest
from typer.main import get_command

from osamd.cli.app import app, main

COMMANDS = [(), *((name,) for name in get_command(app).commands)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_no_word_is_cut_off(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines[1:] if "…" in line or line.endswith("...")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_of_help_breaks_inside_a_name(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main([*command, "--help"])
    told = capsys.readouterr().out
    assert not [line for line in told.splitlines() if line.endswith("-")]
    assert "\N{NON-BREAKING HYPHEN}" not in told


def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["--help"])
    listed = "".join(capsys.readouterr().out.split())
    for (command,) in COMMANDS[1:]:
        main([command, "--help"])
        first = capsys.readouterr().out.split("\n\n")[1]
        assert "".join(first.split()) in listed  # wherever the lines break


def test_a_shell_completes_commands_and_options():
    environment = os.environ | {"_OSAMD_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    for typed, completed in (("osamd rep", {"reproduce", "replay"}), ("osamd --install", {"--install-completion"})):
        said = subprocess.run(
            [sys.executable, "-m", "osamd"],
            env=environment | {"COMP_WORDS": typed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert set(said.stdout.split()) == completed
