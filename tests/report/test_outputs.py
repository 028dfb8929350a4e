"""What machines read: schema, JUnit, CSV, Markdown; and what people read in a terminal."""

import csv
import io
import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers import run
from likewise.engine.decide import judge_outcomes
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.report import verdict_words
from likewise.report.junit import to_junit
from likewise.report.layout import WIDTH, facts
from likewise.report.markdown import to_markdown
from likewise.report.outputs import groups_csv, write_outputs
from likewise.report.phrases import method
from likewise.report.redact import redact, redact_outcomes
from likewise.report.schema import result_schema
from likewise.report.terminal import print_coloured, show
from likewise.report.words import summary
from likewise.settings import Settings


def test_the_published_schema_is_that_of_the_code(root):
    published = (root / "docs" / "schema" / "result.schema.json").read_text(encoding="utf-8")
    assert published == result_schema(), "write docs/schema/result.schema.json again (see docs)"


def test_a_result_obeys_the_published_schema(record):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(record.to_json()), json.loads(result_schema()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            json.loads(record.to_json()) | {"outcome": "fair"}, json.loads(result_schema())
        )


def test_a_result_comes_back_from_its_file(record):
    again = Record.from_json(record.to_json())
    assert again.to_json() == record.to_json()
    assert math.isinf(again.groups[3].upper)


def test_junit_has_a_case_for_each_test_and_group(record):
    suite = ElementTree.fromstring(to_junit(record)).find("testsuite")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "loss ratio (decides)",
        "error-rate ratio",
        "sex: Female",
        "sex: Male",
        "race: White",
        "race: non-White",
    ]
    assert suite.get("tests") == "6"
    assert suite.get("failures") == str(sum(case.find("failure") is not None for case in cases))
    assert "more than 1.550" in cases[0].find("failure").get("message")


def test_junit_calls_an_untrustworthy_audit_an_error_and_few_people_skipped(make):
    record = make.record(trustworthy=False, reasons=("it diverged",))
    few = record.groups[3].model_copy(update={"rejected": False})
    suite = ElementTree.fromstring(to_junit(record.model_copy(update={"groups": (few,)})))[0]
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "1")


def test_junit_survives_what_xml_cannot_hold(record):
    nasty = record.groups[0].model_copy(update={"group": 'a\x00\x08<b>&"\ud800'})
    suite = ElementTree.fromstring(to_junit(record.model_copy(update={"groups": (nasty,)})))[0]
    assert suite.findall("testcase")[2].get("name") == r'sex: a\x00\x08<b>&"\ud800'


def failures(record):
    suite = ElementTree.fromstring(to_junit(record))[0]
    return [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]


def rejected(record):
    rows = csv.DictReader(io.StringIO(groups_csv(record)))
    return [f"{row['trait']}: {row['group']}" for row in rows if row["rejected"] == "True"]


def test_what_an_audit_holds_back_is_a_failure_nowhere(make):
    held = make.test(rejected=False, outcome="inconclusive", held_back="a coin does as much")
    other = make.test("error_rate_ratio")  # rejects, and does not decide
    tests = {"loss_ratio": held, "error_rate_ratio": other}
    record = make.record(outcome="inconclusive", tests=tests)
    assert (failures(record), rejected(record)) == ([], [])
    assert "The audit itself accuses no group" in to_markdown(record)
    accused = make.record(tests=tests)
    assert len(rejected(accused)) == 4
    assert "accuses no group" not in to_markdown(accused)


def test_with_counterparts_the_groups_are_theirs(make, record):
    part = make.counterparts(Frau={}, Mann={"estimate": 1.0, "outcome": "within_tolerance"})
    name = "counterparts, sex: Frau"
    found = make.record(
        counterparts=part,
        tests={name: make.test(name, map="counterparts"), **record.tests},
        decided_by=record.decided_by.model_copy(update={"map": "counterparts", "test": name}),
    )
    assert failures(found) == [f"{name} (decides)", "sex: Frau"]
    assert rejected(found) == ["sex: Frau"]
    assert "| sex: Frau | 400 | 1.400 | 1.350 – 1.450 | 0.0040 |" in to_markdown(found)
    assert "race" not in to_markdown(found).split("By group")[1]


def test_csv_cannot_run_as_a_formula(record):
    evil = ("=cmd|'/c calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", ' =1,"x"\n')
    groups = tuple(record.groups[0].model_copy(update={"group": text}) for text in evil)
    rows = list(
        csv.DictReader(io.StringIO(groups_csv(record.model_copy(update={"groups": groups}))))
    )
    assert [row["group"] for row in rows] == [f"'{text}" for text in evil]
    assert float(rows[0]["estimate"]) == pytest.approx(1.6)


def test_markdown_shows_the_verdict_and_escapes_names(record):
    nasty = record.groups[0].model_copy(update={"group": "<img>|@all [x](http://y)\n# h"})
    text = to_markdown(record.model_copy(update={"groups": (nasty,)}))
    assert text.startswith("### 🔴 Individual fairness audit")
    assert "**loss ratio (Hall)**" in text
    row = next(line for line in text.splitlines() if "sex:" in line)
    assert "&lt;img>" in row
    assert "@all" not in row
    assert "](http://y)" not in row
    assert row.replace("\\|", "").count("|") == 6


def test_the_summary_fits_a_terminal_and_ends_with_the_verdict(record):
    text = summary(record)
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).endswith(" ".join(record.sentence.split()))


@pytest.mark.parametrize("lower", [1.3, 1.2], ids=["evidence", "inconclusive"])
@pytest.mark.parametrize("render", [summary, to_markdown])
def test_the_cap_is_named_and_the_bound_that_certifies_is_shown(make, render, lower):
    test = make.test(lower=lower, upper=1.91, capped_upper_bound=1.834, cap=10.0)
    text = render(make.record(tests={"loss_ratio": test}, outcome=test.outcome))
    assert "cap 10" in text
    assert ("1.834, ratios capped at 10" in text) == (test.outcome == "inconclusive")
    assert render is not summary or max(map(len, text.splitlines())) <= 80


def test_no_more_is_promised_about_false_accusations_than_was_measured(make, record):
    def promised(record):
        return " ".join(method(record))

    refitted = record.decided_by.model_copy(update={"metric": "refitted"})
    assert "under this very metric" in promised(record)  # learned, and taken as given
    assert "is accused by chance in at most about 5 % of samples." in promised(
        make.record(decided_by=refitted)
    )
    weighted = record.tests["loss_ratio"].model_copy(update={"method": "Hall, weighted"})
    tests = {**record.tests, "loss_ratio": weighted}
    assert "about 6.5 % of samples." in promised(make.record(decided_by=refitted, tests=tests))
    assert "is not known here" in promised(
        make.record(trustworthy=False, reasons=("nobody moved",))
    )


def test_colour_only_where_there_is_a_terminal(record, capsys):
    from rich.console import Console

    show(record)
    assert "\x1b" not in capsys.readouterr().out
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=80, highlight=False)
    print_coloured(console, summary(record), record)
    verdict = seen.getvalue().splitlines()[-3:]
    assert all(line.startswith("\x1b[1;31m") for line in verdict if line.strip())
    plain = io.StringIO()
    print_coloured(Console(file=plain, width=80), summary(record), record)
    assert plain.getvalue().rstrip() == summary(record).rstrip()


def test_every_output_is_written_whole(record, tmp_path):
    names = {
        kind: tmp_path / f"out.{kind}" for kind in ("html", "junit", "csv", "markdown", "json")
    }
    write_outputs(record, **names)
    assert all(path.stat().st_size > 100 for path in names.values())
    assert Record.read(names["json"]).to_json() == record.to_json()


def test_the_report_command_renders_a_saved_result(record, tmp_path):
    saved = tmp_path / "result.json"
    saved.write_text(record.to_json())
    shown = run("report", saved)
    assert shown.stdout.strip() == summary(record).strip()
    page = tmp_path / "page.html"
    done = run("report", saved, "--html", page, "--redact")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "HS-grad" not in page.read_text()
    missing = run("report", tmp_path / "no.json")
    assert missing.exit_code == 2
    assert "no file" in missing.stderr
    nowhere = run("report", saved, "--html", tmp_path / "no" / "page.html")
    assert nowhere.exit_code == 2


def test_redacted_outcomes_give_the_same_tests(rng):
    n = 400
    y = rng.integers(0, 2, n)
    before = rng.exponential(size=n)
    outcomes = Outcomes(
        row=np.arange(n),
        y=y,
        loss_before=before,
        loss_after=before * rng.uniform(1, 2, n),
        decision_before=np.where(rng.random(n) < 0.2, 1 - y, y),
        decision_after=np.where(rng.random(n) < 0.3, 1 - y, y),
        probability_before=rng.random(n),
        probability_after=rng.random(n),
        fair_distance=np.zeros(n),
        status=np.zeros(n, dtype=int),
        cluster=np.array([f"household {i // 4}" for i in range(n)], dtype=object),
        groups={"sex": np.array(["F", "M"] * (n // 2), dtype=object)},
        about={"classes": ["no", "yes"], "map": "flow", "task": "classification"},
    )
    hidden = redact_outcomes(outcomes)
    one, two = (judge_outcomes(o, Settings()).records for o in (outcomes, hidden))
    for name, test in one.items():
        # Sums over clusters may run in another order, so the last digits may differ.
        for value in ("estimate", "std_error", "lower_bound", "upper_bound", "p_value"):
            assert getattr(two[name], value) == pytest.approx(getattr(test, value), rel=1e-9)
        assert two[name].outcome == test.outcome
    assert hidden.groups == {}
    text = str(hidden.to_arrow().to_pydict()) + str(hidden.about)
    for value in ("household", "yes", "'F'"):
        assert value not in text


def test_redacting_leaves_the_first_record_as_it_was(record):
    before = record.to_json()
    redact(record)
    assert record.to_json() == before


def test_an_untrustworthy_summary_ends_with_a_warning_not_with_a_verdict(make):
    text = summary(make.record(trustworthy=False, reasons=("it diverged",)))
    assert text.endswith("Not trustworthy: It diverged.\nDo not use this result.")


def test_columns_of_a_table_never_run_together(make):
    wide = make.test(estimate=-99999.4, lower=54660.2, upper=3.2e17)
    line = verdict_words.tests_table([wide]).splitlines()[2]
    assert line.split()[2:] == ["-99999", f"{wide.std_error:.2e}", "54660", "3.20e+17", "<0.0001"]


def test_words_that_no_line_can_hold_are_broken_after_their_commas():
    names = [f"column-number-{i}" for i in range(9)]
    lines = facts([("What now", f"likewise improve --may-matter {','.join(names)}")])
    assert max(map(len, lines)) <= WIDTH
    assert all(any(name in line for line in lines) for name in names)
