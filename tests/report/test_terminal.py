"""The summary at a terminal: how long, how wide, in which colours, and what comes first."""

import io
import re

import pytest

import sample_records as samples
from likewise.redecide import at_limit
from likewise.report.html import to_html
from likewise.report.terminal import show, summary

WIDTHS = (60, 80, 120)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_summary_fits_its_width_and_25_lines_or_80_and_breaks_no_command(sample, width):
    lines = summary(sample, width=width, written=["report.html"]).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("Report ")
    lines = summary(sample, width=width, verbose=True).splitlines()
    assert len(lines) <= 80
    assert all(len(line) <= width or line.startswith("  likewise ") for line in lines)


def test_the_whole_summary_of_two_attributes_with_what_matters_in_twelve_lines():
    assert summary(samples.evidence(), written=["report.html"]) == (
        """\
likewise 0.2   model.safetensors   9,045 people

EVIDENCE OF UNFAIRNESS by sex: the model favours people with sex = Male over
comparable people with sex = Female

        People with sex = Female get '>50K' 15.9 % of the time; with the
        marital-status and relationship of comparable people with sex = Male,
        35.1 %. Ratio 2.21 (95 % CI 2.06–2.36); limit 1.25.
        Next: look for a fairer model that is as accurate (likewise improve).

                            own   other  ratio        95 % CI  result
sex   Female → Male      15.9 %  35.1 %   2.21    2.06 – 2.36  evidence
      Male → Female      46.8 %  23.6 %  0.504  0.471 – 0.540  evidence (mirror)
race  non-White → White  22.9 %  28.0 %   1.22    1.14 – 1.31  inconclusive
      White → non-White  38.4 %  31.9 %  0.831  0.776 – 0.889  inconclusive
control: redrawn sex                             0.970 – 1.04  ok

Compared      people alike in age, education-num, hours-per-week, occupation and
              3 more
Driven by     marital-status 59 %, relationship 41 %
Skipped       reach
Note          capital-gain is 99999 in 44 rows: a missing-value code?
Report        report.html"""
    )


def test_groups_that_do_not_fit_side_by_side_can_be_told_apart():
    known = {"verdict": "within_tolerance", "outcome": "yes"}
    rows = [
        samples.comparison("a_long_attribute", "no", "yes", 0.1, 0.0, **known, ratio=-0.03),
        samples.comparison("a_long_attribute", "yes", "no", 0.2, 0.0, **known),
    ]
    said = summary(samples.pairs(rows, "within_tolerance"))
    assert "a_long_attribute = no → yes   10.0        0   0.00 " in said  # no ratio is below 0
    assert "a_long_attribute = yes → no   20.0        0   0.00 " in said
    assert "Compared      rates of 'income = yes', of people alike in age" in said


@pytest.mark.parametrize(
    ("make", "update", "words"),
    [
        (samples.evidence, {"control": (-1.78, 2.1)}, "0.00 – 2.10\n"),  # it holds the finding
        (samples.evidence, {"control": (-1.78, 2.0)}, "0.00 – 2.00  ok\n"),
        (samples.regression, {"control": (0.99, 1.01)}, "−5.12 – 5.12  ok\n"),  # of 512
    ],
)
def test_what_was_computed_is_shown_within_its_range(make, update, words):
    record = make()
    first, *others = record.matched_pairs.comparisons
    record = samples.changed(record, rows=[first.model_copy(update=update), *others])
    assert words in summary(record, verbose=True)
    shown = words.split(" ok")[0].replace(" – ", " to ").strip()
    assert f'<td class="num">{shown}</td>' in to_html(record)


def test_comparisons_that_decide_come_first_and_the_others_are_counted():
    record = samples.many()
    rows = sorted(record.matched_pairs.comparisons, key=lambda row: row.verdict == "evidence")
    said = summary(samples.changed(record, rows=rows), width=120)
    assert re.findall(r" (evidence|inconclusive)\b", said.split("result")[1]) == ["evidence"] * 8
    assert "… and 32 more comparisons (-v, or the report)" in said


def test_notes_that_are_not_shown_are_counted_and_all_are_shown_with_v():
    record = at_limit(samples.evidence(notes=("First.", "Second.")), 1.5)
    said = summary(record)
    assert said.endswith("Second.\n" + 14 * " " + "… and 2 more notes (-v, or the report)")
    said = summary(record, verbose=True)
    assert "Read again at the limit 1.5" in said
    assert "capital-gain is 99999" in said
    assert "more note" not in said


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [samples.evidence, samples.three_groups, samples.many])
def test_what_to_do_about_a_warning_is_never_cut_off(make, width):
    warning = f"The loss is 0.2 there and 0.4 here: {'it may have seen them, ' * 5}or so. Give "
    warning += "people whom it has not seen (--pool)."
    said = summary(make().model_copy(update={"warnings": (warning,)}), width=width)
    assert len(said.splitlines()) <= 25
    told = " ".join(said.split("Warning")[1].split())
    assert "Give people whom it has not seen (--pool)." in told


def test_the_flow_shows_its_statistics_and_its_control():
    said = summary(samples.flow())
    assert "S_n 1.62, V_n 4.61, lower bound 1.55; 9,045 people" in said
    assert "permuted attributes 1.05 to 1.28" in said
    assert "Numerical" in summary(samples.flow(), verbose=True)


def test_a_pipe_gets_no_colour_and_the_width_of_the_environment(capsys, monkeypatch):
    show(samples.evidence(), quiet=True)
    assert capsys.readouterr().out == samples.evidence().sentence + "\n"
    monkeypatch.setenv("COLUMNS", "200")
    show(samples.evidence(), verbose=True)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert 100 < max(map(len, (line for line in said.splitlines() if line[:4] != "  li"))) <= 120


@pytest.mark.parametrize("no_color", [False, True])
def test_the_headline_alone_has_the_colour_of_the_verdict(monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", "1" * no_color)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    show(samples.evidence())
    before, headline, after = terminal.getvalue().split("\n\n", 2)
    assert headline.startswith("EVIDENCE" if no_color else "\x1b[31m")
    assert "\x1b" not in before + after.removeprefix("\x1b[0m")
    # A hostile name cannot move the cursor.
    record = samples.hostile(text="\x1b[2J\x1b[31m\u202e")
    assert not re.search("[\x1b\u202e]", summary(record, verbose=True))
