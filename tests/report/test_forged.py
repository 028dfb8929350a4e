"""Results that somebody forged: refused in a sentence, or shown harmlessly wherever they go."""

import csv
import io
import json
import math
import os
import random
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from likewise.cli import app
from likewise.errors import InvalidFile, InvalidSettings
from likewise.record import LARGEST_FILE, Record
from likewise.record.json_text import UNPRINTABLE
from likewise.report.compare_page import comparison_page
from likewise.report.details import details
from likewise.report.escaping import for_csv, for_markdown, for_xml
from likewise.report.html import to_html
from likewise.report.junit import to_junit
from likewise.report.markdown import to_markdown
from likewise.report.outputs import groups_csv
from likewise.report.side_by_side import compare, words
from likewise.report.words import summary

RED = "\x1b[31m"
HOSTILE = [None, True, -1, 0, 1e308, -1e308, 1e99, 10**40, math.inf, "", "=1", "x" * 9, [], {}]


def forged(record, *path, to):
    """Return the text of a result in which one value was replaced."""
    tree = json.loads(record.to_json())
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (["sentence"], RED, r"it holds the unprintable character '\\x1b'"),
        (["data", "source"], "\x9b31m", r"unprintable character '\\x9b'"),
        (["groups", 0, "group"], "Male\u202e", r"unprintable character '\\u202e'"),
        (["tests", "loss_ratio", "estimate"], 1e308, r"the number 1e\+308, beyond all that is"),
        (["settings", "delta"], 1e300, r"the number 1e\+300"),
        (["tests", "loss_ratio", "p_value"], 7, r"'tests.loss_ratio.p_value': it must lie between"),
        (["tests", "loss_ratio", "std_error"], -1, r"std_error': it must not be negative"),
        (["tests", "loss_ratio", "n"], -1, r"tests.loss_ratio.n'"),
        (["tests", "loss_ratio", "alpha"], 1.0, r"alpha'"),
        (["tests", "loss_ratio", "test"], "coin", r"the test under 'loss_ratio' is 'coin'"),
        (["settings_hash"], "=1+1", r"damaged at 'settings_hash'"),
        (["data", "sha256"], "<b>", r"damaged at 'data.sha256'"),
        (["created"], "yesterday", r"damaged at 'created'"),
        (["rows"], {"n": 3}, r"rows do not say how many 'moved' there are"),
        (["distribution", "counts"], [-1.0] * 8, r"do not make a histogram"),
        (["distribution", "edges"], [1.0], r"do not make a histogram"),
        (["metric", "origin", "traits", 0, "before"], 5, r"'metric.origin.traits.0.before'"),
        (["worst", 0, "row"], 10**30, r"'worst.0.row'"),
    ],
)
def test_a_forged_value_is_refused_at_the_door(record, path, to, said):
    with pytest.raises(InvalidFile, match=said):
        Record.from_json(forged(record, *path, to=to), "r.json")


def test_a_result_with_escape_sequences_never_reaches_the_terminal(record, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(forged(record, "warnings", to=[f"{RED}all is well\x07"]), encoding="utf-8")
    done = CliRunner().invoke(app, ["report", str(path)])
    assert done.exit_code == 2
    assert "\x1b" not in done.output
    assert "Error: " in done.output


def test_a_name_with_escape_sequences_in_an_error_is_spelled_out(tmp_path):
    done = CliRunner().invoke(app, ["report", f"{tmp_path}/{RED}.json"])
    assert done.exit_code == 2
    assert "\x1b" not in done.output


def test_text_that_an_audit_meets_in_its_data_is_spelled_out_in_the_result(make):
    group = make.record().groups[0]
    found = type(group).model_validate(group.model_dump() | {"group": f"{RED}Male\r"})
    assert found.group == r"\x1b[31mMale\r"
    person = type(make.person(0)).model_validate(
        make.person(0).model_dump() | {"before": {RED: [RED, 3]}}
    )
    assert person.before == {r"\x1b[31m": [r"\x1b[31m", 3]}


def test_numbers_beyond_all_bounds_are_written_as_infinite_and_read_again(make):
    test = make.test(estimate=1e200, upper_bound=-1e200)
    again = Record.from_json(make.record(beside=(test,)).to_json())
    assert again.beside[0].estimate == math.inf
    assert again.beside[0].upper_bound == -math.inf
    assert to_html(make.record(beside=(test,)))


def everything(record):
    """Write a record in every form there is."""
    other = {"a": record, "b": record}
    return (
        to_html(record)
        + to_junit(record)
        + to_markdown(record)
        + groups_csv(record)
        + summary(record, details(record))
        + words(compare(other))
        + comparison_page(compare(other))
    )


def places(tree, path=()):
    """Return the paths to everything in a tree."""
    tree = dict(enumerate(tree)) if isinstance(tree, list) else tree
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield (*path, key)
        yield from places(value, (*path, key))


def test_whatever_is_put_wherever_is_refused_or_shown(record):
    """One in fifty of all pairs of a place and a hostile value; the fuzzer tries more of them."""
    rng = random.Random(0)
    shown = 0
    for path in places(json.loads(record.to_json())):
        for value in HOSTILE:
            if rng.random() < 0.02:
                try:
                    found = Record.from_json(forged(record, *path, to=value))
                except InvalidFile:
                    continue
                assert not UNPRINTABLE.search(everything(found))
                shown += 1
    assert shown > 20


def test_a_test_of_ones_own_is_shown_everywhere(make):
    own = make.test("median\nratio", "of | my *own*")
    record = make.record(
        tests={"median\nratio": own},
        decided_by={"map": "<b>", "test": "median\nratio", "interval": "x", "metric": "fixed"},
    )
    assert "<b>" not in to_html(record)
    assert r"of \| my \*own\*" in to_markdown(record)
    assert everything(Record.from_json(record.to_json()))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " =", "＝"])
def test_no_cell_of_a_table_is_a_formula(record, start):
    group = record.groups[0].model_copy(update={"group": f"{start}cmd()", "trait": f"{start}x"})
    forged_hash = record.model_copy(update={"groups": (group,), "settings_hash": f"{start}1"})
    rows = list(csv.reader(io.StringIO(groups_csv(forged_hash))))
    assert all(cell[:1] not in "=+-@\t\r" or _is_number(cell) for cell in rows[1] if cell)
    assert for_csv(f"{start}1").startswith("'")


def _is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def test_each_output_has_its_escape():
    shown = for_markdown("[a](http://b)\n@team <i>\x1b")
    assert shown == "\\[a\\](http:\u200b//b) @\u200bteam &lt;i>\\\\x1b"
    assert for_xml("a\x00\uffff") == "a\\x00\ufffd"


def test_a_pipe_a_device_or_an_endless_file_is_no_result(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(InvalidFile, match="is not a regular file"):
        Record.read(pipe)
    with pytest.raises(InvalidFile, match="is not a regular file"):
        Record.read("/dev/zero")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(InvalidFile, match="is larger than 100,000,000 bytes"):
        Record.read(large)
    with pytest.raises(InvalidFile, match="cannot be read: Is a directory"):
        Record.read(tmp_path)
    with pytest.raises(InvalidFile, match="cannot be read: embedded null byte"):
        Record.read("a\x00b")


def test_a_verdict_has_the_names_of_the_paper(record):
    found = record.verdict("loss_ratio")
    assert (found.S_n, found.T_n) == (found.estimate, found.statistic)
    assert found.V_n / math.sqrt(found.n) == pytest.approx(found.std_error, rel=1e-15)
    with pytest.raises(InvalidSettings, match="There is no test 'coin' in this audit, which made"):
        record.verdict("coin")


START = """
import os, signal, sys, threading
before = signal.getsignal(signal.SIGINT)
real = __import__
def importing(name, *rest, **more):
    if name == {name!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)
import builtins, runpy
builtins.__import__ = importing
sys.argv = ["likewise", "report", "no.json"]
runpy.run_module("likewise", run_name="__main__")
"""


@pytest.mark.parametrize("name", ["likewise.cli", "typer", "likewise.cli.exits", "likewise.record"])
def test_an_interruption_while_starting_ends_with_130_and_one_line(name):
    code = START.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_nothing_is_imported_before_an_interruption_is_attended_to():
    """What Python itself imports while it starts is out of reach, and its answer too."""
    code = "import os, sys; known = set(sys.modules); import likewise.__main__; "
    code += "print(*sorted(set(sys.modules) - known))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["likewise", "likewise.__main__"]
