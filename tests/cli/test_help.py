"""Help: few options, in groups, quickly; and old options say what took their place."""

import re
import subprocess
import sys

import pytest
import typer

from helpers import run
from likewise.cli import app
from likewise.cli.app import COMMANDS
from likewise.cli.grouped import MOVED

COUNTERPARTS = {"--may-matter", "--free", "--pool", "--favourable", "--paper"}
"""Options of an audit that came with counterparts, beside the 28."""


def options(text):
    _, _, listed = text.partition("Data:")
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", listed or text, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_says_what_every_option_does(command):
    text = run(command, "--help", COLUMNS=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "Example: likewise" in text
    assert not re.search(r"^  (?:-\w, )?--[\w-]+(?: \S+)?\s*$(?!\n {4,})", text, re.MULTILINE)


def test_an_audit_shows_at_most_28_options_in_groups():
    text = run("audit", "--help").stdout
    assert set(options(text)) >= COUNTERPARTS
    assert 10 < len(set(options(text)) - COUNTERPARTS) <= 28
    headings = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert headings[-6:] == ["Arguments", "Data", "Question", "Method", "Output", "Running"]


@pytest.mark.parametrize(
    ("command", "flag"), [(command, flag) for command in MOVED for flag in MOVED[command]]
)
def test_an_old_option_says_in_one_sentence_what_to_write_instead(command, flag):
    said = run(command, "model", "data.csv", flag, "7")
    assert said.exit_code == 2
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert line.startswith(f"Error: {flag} is no longer an option: write -")
    assert run(command, "model", "data.csv", f"{flag}=7").stderr == said.stderr
    assert flag not in options(run(command, "--help").stdout)


def test_what_stands_after_two_dashes_is_no_option():
    assert "no longer" not in run("audit", "--", "--lam", "data.csv").stderr


def test_the_new_ways_are_choices_that_there_are():
    ways = {way for moved in MOVED.values() for way in moved.values()}
    sets = [way.removeprefix("--set ") for way in ways if way.startswith("--set ")]
    assert len(sets) > 10
    values = {"solver": "euler", "test": "loss_ratio", "loss": "absolute", "interval": "paper",
              "output": "logits"}  # fmt: skip
    assigned = [way.format(values.get(way.split("=")[0].split(".")[-1], "7")) for way in sets]

    from likewise.settings import Settings

    for text in assigned:
        assert Settings().with_set([text]) != Settings(), text


@pytest.mark.parametrize("command", [(), ("audit",)])
def test_help_imports_none_of_the_libraries_that_take_long(command):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['likewise', *{command!r}, '--help']\n"
        "try:\n"
        "    runpy.run_module('likewise', run_name='__main__')\n"
        "except SystemExit:\n"
        "    print(*sys.modules, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.splitlines())
    assert "likewise.cli.app" in loaded
    slow = {
        "pydantic",
        "rich",
        "numpy",
        "scipy",
        "sklearn",
        "torch",
        "pyarrow",
        "likewise.cli.demo",
    }
    assert loaded.isdisjoint(slow)


def test_the_line_of_each_command_is_shown_without_importing_it():
    text = run("--help").stdout
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE)
    assert list(typer.main.get_command(app).commands) == list(COMMANDS)
