"""A record as one web page: self-contained, small whatever n is, readable by everyone."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from likewise.record import Measure, Record
from likewise.report import charts, curves, phrases
from likewise.report.counterpart_page import counterpart_values, share_rows
from likewise.report.next_steps import next_steps
from likewise.report.page import fill, render, short
from likewise.report.people import person
from likewise.report.verdict_words import certifies, placebo_words
from likewise.report.words import flow_beside, moved_placebo, moved_tests, search_words
from likewise.settings.settings_file import write_settings

MOST_GROUPS = 80
MOST_DIRECTIONS = 12
GROUP_MEASURES = (
    "selection_rate",
    "impact_ratio",
    "true_positive_rate",
    "false_positive_rate",
    "average_odds_difference",
)

Row = tuple[Any, Markup]


def to_html(record: Record) -> str:
    """Return the report of an audit as the text of one HTML file."""
    deciding = record.tests[record.decided_by.test]
    delta = record.settings.delta
    shuffled = moved_placebo(record)
    groups = record.groups[:MOST_GROUPS]
    people = [person(case) for case in record.worst]
    moved = moved_tests(record)
    part = record.counterparts
    return render(
        "report.html.j2",
        record=record,
        deciding=deciding,
        delta=delta,
        not_said=phrases.not_said(record),
        method=phrases.method(record),
        verdict_chart=charts.verdict_chart(deciding),
        people=people,
        levels=sorted({short(v) for p in people for v in p.case.groups.values()}),
        groups=interval_rows([(g, g.lower, g.estimate, g.upper) for g in groups], delta),
        more_groups=len(record.groups) - len(groups),
        shifts=shift_rows(record),
        next_steps=next_steps,
        columns_that_carry=share_rows(record.carried) if record.carried else None,
        tests=interval_rows(
            [(t, t.interval[0], t.estimate, t.interval[1]) for t in [*moved, *record.beside]],
            delta,
        ),
        histogram=(
            curves.histogram(record.distribution, delta)
            if record.distribution.get("counts")
            else None
        ),
        placebo=charts.placebo_strip(shuffled, delta) if shuffled is not None else None,
        placebo_words=placebo_words,
        flow_beside=flow_beside(record),
        flow_strip=next(
            (charts.placebo_strip(p, delta) for p in record.placebo_beside.values()), None
        ),
        shuffled=shuffled,
        tail=tail(record),
        tail_words=phrases.tail_words,
        horizons=(
            curves.horizon_chart(record.horizons, delta, within_reach(record))
            if record.horizons
            else None
        ),
        within_reach=within_reach(record),
        search=search_words(record.search) if record.search else "",
        sensitivity=interval_rows(
            [(s, s.lower_bound, s.estimate, s.upper_bound) for s in record.sensitivity], delta
        ),
        overall=[m for m in record.measures if not m.group],
        by_group=measures_by_group(record.measures),
        selected=record.settings.decide.favourable or "".join(record.model.classes[1:2]),
        group_measures=GROUP_MEASURES,
        directions=record.metric.directions[:MOST_DIRECTIONS],
        bar=charts.bar,
        settings=short(write_settings(record.settings), 6000),
        moved=moved,
        certifying=deciding.capped_upper_bound if certifies(deciding) else None,
        **({} if part is None else counterpart_values(part, delta)),
    )


def result_snippet(record: Record) -> str:
    """Return what a notebook shows: the verdict, its picture and the tests.

    It takes the notebook's own colours for text and background.
    """
    deciding = record.tests[record.decided_by.test]
    return fill(
        "notebook.html.j2",
        record=record,
        deciding=deciding,
        verdict_chart=charts.verdict_chart(deciding),
    )


def interval_rows(
    rows: Sequence[tuple[Any, float, float, float]], delta: float
) -> tuple[Markup, list[Row]]:
    """Return the axis of a column of intervals, and each row with its picture."""
    axis = charts.scale([row[1:] for row in rows], delta, 1.0)
    pictures = [(row[0], charts.row_chart(axis, *row[1:], delta)) for row in rows]
    return charts.axis_chart(axis, delta), pictures


def shift_rows(record: Record) -> list[Row]:
    """Return the features that are pushed, each with a bar."""
    largest = max((s.mean_absolute for s in record.shifts), default=0.0) or 1.0
    return [(s, charts.bar(s.mean_absolute / largest)) for s in record.shifts if s.mean_absolute]


def tail(record: Record) -> dict[str, float]:
    """Return the tail diagnostics, wherever the record holds them."""
    found = dict(record.tail)
    for test in record.tests.values():
        found = {
            name: test.details[name] for name in ("hill_index", "top_share") if name in test.details
        } | found
    return found


def within_reach(record: Record) -> float | None:
    """Return the loss ratio of the search within reach, beside or deciding, if there is one."""
    for test in [*record.tests.values(), *record.beside]:
        if test.map == "reach" and test.test == "loss_ratio":
            return test.estimate
    return record.diagnostics.get("reach")


def measures_by_group(measures: Sequence[Measure]) -> dict[str, Mapping[str, Measure]]:
    """Return the measures of each group by name."""
    table: dict[str, dict[str, Measure]] = {}
    for measure in measures:
        if measure.group:
            table.setdefault(measure.group, {})[measure.name] = measure
    return dict(list(table.items())[:MOST_GROUPS])
