"""Files that a result is written to: each opened again by what it is for."""

import csv
import io
import json
import math
import re
from xml.etree import ElementTree

import jsonschema
import pytest

import sample_records as samples
from likewise.errors import InvalidSettings
from likewise.record import Record
from likewise.report.escaping import for_csv
from likewise.report.export import (
    COLUMNS,
    kind_of,
    result_schema,
    to_csv,
    to_junit,
    to_markdown,
    write_outputs,
)


def read(record):
    return list(csv.DictReader(io.StringIO(to_csv(record))))


def test_a_result_is_written_in_every_form_and_json_is_read_again(sample, tmp_path):
    names = ("report.html", "result.json", "groups.csv", "summary.md", "audit.xml")
    files = {kind_of(name): tmp_path / name for name in names}
    write_outputs(sample, files)
    assert all(path.stat().st_size > 100 for path in files.values())
    again = Record.read(files["json"])
    assert again.to_json() == sample.to_json()
    jsonschema.validate(json.loads(files["json"].read_text()), json.loads(result_schema()))
    with pytest.raises(InvalidSettings, match=r"must end in \.json, \.html"):
        kind_of(tmp_path / "report.docx")


def test_the_table_has_one_row_a_comparison_or_group_with_full_numbers():
    rows = read(samples.evidence())
    assert [(r["group"], r["other"]) for r in rows[:2]] == [("Female", "Male"), ("Male", "Female")]
    row = samples.evidence().matched_pairs.comparisons[0]
    assert float(rows[0]["ratio"]) == row.ratio
    assert (float(rows[0]["lower"]), float(rows[0]["upper"])) == row.interval
    assert float(rows[0]["selection_rate"]) == 0.118
    assert rows[2]["result"] == "inconclusive"
    assert {r["settings_hash"] for r in rows} == {samples.evidence().settings_hash}
    assert list(rows[0]) == list(COLUMNS)
    rows = read(samples.flow())
    assert [r["group"] for r in rows] == ["Male", "Female", "White", "non-White"]
    assert float(rows[1]["ratio"]) == samples.flow().groups[1].estimate
    assert rows[1]["result"] == "evidence"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "＋", "－", "＠"])
@pytest.mark.parametrize("before", ["", "a;", "a,", "a|", 'a;"', " ", "\t", "\n", "a\t", "a;\t "])
def test_no_cell_is_a_formula_wherever_a_locale_ends_cells(sign, before):
    cell = for_csv(f"{before}{sign}cmd|calc")
    assert f"'{sign}cmd" in cell
    assert "\t" not in cell
    assert "\n" not in cell


def test_a_hostile_table_splits_into_no_formula_at_any_separator():
    assert [for_csv(v) for v in (-1.5, 3, math.nan)] == [-1.5, 3, ""]
    for text in (";=1+1", "\t=1+1", ",@x", "\n-2"):
        written = to_csv(samples.hostile(text=text))
        for mark in ";,\t|":
            cells = (cell for line in written.splitlines() for cell in line.split(mark))
            started = [c for c in cells if c.lstrip('" ').startswith(("=", "+", "@"))]
            assert started == []


def test_junit_fails_on_evidence_skips_the_inconclusive_and_errs_on_the_invalid():
    def suite(record):
        return ElementTree.fromstring(to_junit(record).encode()).find("testsuite")

    found = suite(samples.evidence())
    assert found.get("failures") == "3"  # the verdict, and both directions of sex
    assert found.get("skipped") == "2"
    assert found.find("testcase/failure").get("message") == samples.evidence().sentence
    counted = ("failures", "skipped", "errors")
    assert [suite(samples.inconclusive()).get(name) for name in counted] == ["0", "2", "0"]
    assert suite(samples.invalid()).get("errors") == "5"
    within = suite(samples.within())
    assert [within.get(name) for name in counted] == ["0"] * 3
    assert int(within.get("tests")) == len(within.findall("testcase"))


def test_markdown_shows_names_as_they_are_and_begins_with_the_verdict():
    said = to_markdown(samples.hostile(text="|[x](http://evil)<b>@you`*"))
    table = [line for line in said.splitlines() if line.startswith("| ")]
    assert {len(line.replace("\\|", "").split("|")) for line in table} == {8}
    assert not re.search(r"<b>|@you|(?<!\\)\]\(", said)
    said = to_markdown(samples.evidence())
    assert said.startswith("### 🔴 Evidence of unfairness by sex: the model favours people with")
    assert samples.evidence().sentence in said.replace("\\", "").replace("&lt;", "<")
