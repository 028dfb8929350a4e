"""Help: few options, in groups, quickly."""

import re

import pytest

from helpers import run
from likewise.cli.app import COMMANDS
from likewise.cli.app import command as built


def options(text):
    _, _, listed = text.partition("Data:")
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", listed or text, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_by_60_lines_and_says_what_every_option_does(command):
    text = run(command, "--help", COLUMNS=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 60
    assert "Example: likewise" in text
    assert not re.search(r"^  (?:-\w, )?--[\w-]+(?: \S+)?\s*$(?!\n {4,})", text, re.MULTILINE)


def test_an_audit_shows_28_options_in_groups_beside_the_question():
    text = run("audit", "--help").stdout
    question = {"--may-matter", "--pool", "--favourable", "--paper"}
    assert set(options(text)) >= question
    assert 10 < len(set(options(text)) - question) <= 28
    headings = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert headings[-6:] == ["Arguments", "Data", "Question", "Method", "Output", "Running"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_with_a_value_says_what_kind_in_the_same_words(command):
    params = built(command).params
    kinds = {param.metavar for param in params if not getattr(param, "is_flag", False)}
    assert kinds <= {
        *("MODEL", "DATA", "RESULT", "RESULTS", "STUDY", "[RESULT] ROWS..."),
        *("COLUMN", "COLUMNS", "COLUMN=CUTS", "PAIRS", "NAME", "NAMES", "NAME=VALUE", "VALUE"),
        *("FILE", "FILES", "FOLDER", "WHERE", "NUMBER", "SHARE", "COUNT"),
    }


def test_the_line_of_each_command_is_shown_without_importing_it():
    text = run("--help").stdout
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE)
