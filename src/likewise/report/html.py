"""The report as one web page: self-contained, small whatever n is, readable by everyone."""

import base64
import functools
import hashlib
import importlib.resources
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from likewise.errors import printable
from likewise.record import MatchedPairsRecord, RateComparison, Record
from likewise.report import charts, formats, text
from likewise.report.charts import Plot, Row
from likewise.report.formats import Names, interval, level, limit, number, p_value, percent
from likewise.report.text import Line, arrows, effect, leading, limits, rate
from likewise.settings.settings_file import write_settings

TEMPLATES = importlib.resources.files("likewise.report") / "templates"
MOST_ROWS = 24
"""Comparisons and groups that the page shows; the result file holds all."""
MOST_COLUMNS = 8
FILTERS = ("number", "percent", "points", "p_value", "interval", "limit", "shown", "sentence_case")
"""Functions of `likewise.report.formats` that templates call, or write values by."""
SENSITIVITY = {
    "as chosen": "As chosen",
    "column left out": "One column fewer that may matter",
    "column added": "One column more that may matter",
}


def to_html(record: Record) -> str:
    """Return the report of an audit as the text of one HTML file."""
    return render("report.html.j2", **report_values(record))


def to_card(record: Record) -> str:
    """Return what a notebook shows: verdict, plot, groups and control, in its own colours."""
    return render("card.html.j2", verdict=record.verdict, **report_values(record))


def render(template: str, **values: Any) -> str:
    """Fill a template, every value escaped.

    The policy of the page allows its own style, by hash, and nothing else: no script runs, no
    request leaves it, and text from the data cannot run even if it got into the markup.
    """
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    known = {"style": Markup(style), "policy": policy}
    return _environment().get_template(template).render(**known, **values)


def _shown(value: Any) -> Any:
    """Spell out what would turn letters round, and keep a number with its per cent sign."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return re.sub(r"(?<=\d) %", "\u00a0%", printable(value))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("likewise.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    named = {name: getattr(formats, name) for name in FILTERS}
    environment.filters |= named | {"count": "{:,}".format}
    environment.globals |= named | {"charts": charts, "nan": math.isnan, "rate": rate, "text": text}
    return environment


def report_values(record: Record) -> dict[str, Any]:
    """Return what the templates are filled with."""
    names, part = Names.from_record(record), record.matched_pairs
    title, about = text.headline(record)
    first = [] if part is None else _one_each(part.comparisons)
    lead, decides = leading(record), lambda row: row.verdict == record.verdict
    drivers = [d for d in record.drivers if not math.isnan(d.share)]
    drivers.sort(key=lambda d: lead is not None and d.attribute != lead.attribute)
    people = [] if part is None else list(part.people)
    people.sort(key=lambda p: lead is not None and p.direction != lead.direction)
    return {
        "record": record,
        "names": names,
        "title": title,
        "about": formats.capital(about),
        "said": formats.capital(text.claim(record)[1]),
        "steps": text.next_steps(record),
        "forest": forest(record),
        "band": () if part is None else [limit(end) for end in limits(part)],
        "drivers": drivers[: 2 * MOST_COLUMNS],
        "people": people[:4],  # of the disadvantaged group first
        "changes": () if part is None else list(_changes(part, first[:2], names)),
        "balance": () if part is None else list(love_plots(part, first[:2], names)),
        "controls": _controls(record, first, names),
        "sensitivity": _sensitivity(record, names),
        "groups": text.group_measures(record)[:MOST_ROWS],
        "first": first[:MOST_COLUMNS],
        "overlap": [] if part is None else sorted(part.comparisons, key=decides, reverse=True),
        "level": level(record.alpha),
        "settings": write_settings(record.settings)[:6000],
    }


Section = tuple[str, str, Sequence[Line]]
"""A heading, a note on it, and estimates."""


def ratio_plot(
    record: Record, sections: Sequence[Section], title: str, of: str, left_out: int = 0
) -> Plot:
    """Return estimates on one axis, with lines at 1 and the limits."""
    part, (first, second, quantity, sure, _) = record.matched_pairs, text.head(record)
    body: list[Row] = []
    for heading, note, several in sections:
        body.append(Row(heading, note=note, heading=True))
        for one in several:
            facts = (", p " if part is None else " → ").join(one.facts)
            cells = facts, _estimate(one.value, one.ends), one.words
            tone = one.verdict or "inconclusive"
            body.append(Row(one.label, one.value, one.ends, cells, "", tone, one.verdict))
    unit = "Mean prediction" if quantity == "difference" else "Rate"
    rates = "People, p" if part is None else f"{unit} {first} → {second}"
    head = of, rates, f"{quantity.capitalize()} ({sure})", "Result"
    log = quantity == "ratio"
    marks = (1.0, record.delta) if part is None else sorted((*limits(part), float(log)))
    return Plot(title, head, body, [m for m in marks if not math.isnan(m)], log, left_out)


def forest(record: Record) -> Plot:
    """Return all attributes, groups and tests on one axis."""
    names, lines = Names.from_record(record), text.estimates(record)
    shown = lines
    if len(lines) > MOST_ROWS:  # whole attributes, evidence first
        found = {line.attribute for line in lines if line.verdict == "evidence"} | {""}
        shown = sorted(lines, key=lambda line: line.attribute not in found)[:MOST_ROWS]
    sections = []
    for attribute, several in itertools.groupby(shown, key=lambda line: line.attribute):
        heading = names.column(attribute) if attribute else "Everyone"
        sections.append((heading, _selected(record, names, attribute), list(several)))
    title = "Every comparison" if record.matched_pairs is not None else "Every test and group"
    return ratio_plot(record, sections, title, "Compared", len(lines) - len(shown))


def _selected(record: Record, names: Names, attribute: str) -> str:
    """Return selection rates and the lowest impact ratio of an attribute's groups, as they are."""
    found = [(group, row) for at, group, row in text.group_measures(record) if at == attribute]
    rates = [(g, row["selection_rate"]) for g, row in found if "selection_rate" in row]
    if not rates:
        return ""
    said = ", ".join(f"{names.group(attribute, g)} {percent(m.value)}" for g, m in rates[:6])
    ratios = [row["impact_ratio"].value for _, row in found if "impact_ratio" in row]
    lowest = min((ratio for ratio in ratios if not math.isnan(ratio)), default=math.nan)
    impact = "" if math.isnan(lowest) else f"; impact ratio {number(lowest)}"
    return f"selected, as they are: {said}{impact}"


def _one_each(rows: Iterable[RateComparison]) -> list[RateComparison]:
    """Return one direction of every pair of groups, not the mirrored one; evidence first."""
    found: dict[tuple[str, frozenset[str], str], RateComparison] = {}
    for row in rows:
        key = row.attribute, frozenset((row.group, row.other)), row.outcome
        if key not in found or found[key].mirror:
            found[key] = row
    return sorted(found.values(), key=lambda row: row.verdict != "evidence")


def _controls(record: Record, first: Sequence[RateComparison], names: Names) -> Plot:
    """Return the negative control: redrawn or permuted values as dots, beside the estimate."""
    rows = []
    for row in first[:MOST_COLUMNS]:
        if redrawn := text.control(row):
            name, tone, value = arrows(row, names), row.verdict, effect(row)[1]
            cells = number(value), text.span(redrawn)
            rows.append(Row(name, value, cells=cells, tone=tone, dots=redrawn))
    for test, c in record.control.items():
        span = f"{text.span(c.permuted)}, p = {p_value(c.p_value)}"
        cells, name = (number(c.estimate), span), text.test_name(test)
        note, tone = f"{len(c.permuted)} permutations, {c.n:,} people", record.verdict
        rows.append(Row(name, c.estimate, cells=cells, note=note, tone=tone, dots=c.permuted))
    head = ("Compared", "Estimate", "Redrawn" if first else "Permuted")
    log = text.head(record)[2] == "ratio"
    return Plot("Negative control", head, rows, [float(log)], log)


def _sensitivity(record: Record, names: Names) -> Plot:
    """Return the estimate under other choices, each with its bounds."""
    found = record.sensitivity[:MOST_ROWS]
    rows: list[Row] = []
    for (what, attribute), several in itertools.groupby(found, key=lambda s: (s.what, s.attribute)):
        rows.append(Row(SENSITIVITY.get(what, what), note=names.column(attribute), heading=True))
        for s in several:
            ends, column = (s.lower_bound, s.upper_bound), names.column(s.change)
            cells, n = (_estimate(s.estimate, ends), s.outcome.replace("_", " ")), f"{s.n:,} people"
            rows.append(Row(column, s.estimate, ends, cells, n, s.outcome, s.outcome))
    part, log = record.matched_pairs, text.head(record)[2] == "ratio"
    marks = (1.0, record.delta) if log or part is None else (0.0, part.limit)
    return Plot("Sensitivity", ("Choice", "Estimate (bounds)", "Result"), rows, marks, log)


def _estimate(value: float, ends: tuple[float, float]) -> str:
    return f"{number(value)} ({interval(ends)})"


def love_plots(
    part: MatchedPairsRecord, rows: Sequence[RateComparison], names: Names
) -> Iterable[Plot]:
    """Yield a love plot for each comparison: absolute standardised differences."""
    for row in rows:
        body = []
        for b in text.balance_of(part, row)[: 2 * MOST_COLUMNS]:
            before, after = abs(b.before), abs(b.after)
            cells = (f"{before:.2f} → {after:.2f}",)
            body.append(Row(names.column(b.column), after, cells=cells, before=before))
        if body:
            yield Plot(arrows(row, names), ("Column", "Before → after"), body, (0.0, 0.1), False)


def _changes(
    part: MatchedPairsRecord, rows: Sequence[RateComparison], names: Names
) -> Iterable[tuple[str, Markup, str]]:
    """Yield the histogram of each comparison, with the shares below, at and above zero."""
    found = {h.direction: h for h in part.changes if sum(h.counts)}
    units = part.measure in text.UNITS
    for row in rows:
        if (h := found.get(row.direction)) is None:
            continue
        total, bins = sum(h.counts), list(zip(h.edges, h.edges[1:], h.counts, strict=False))
        # Bins that touch zero also hold people whose rate does not change at all.
        up = percent(sum(c for a, _, c in bins if a > 0) / total)
        down = percent(sum(c for _, b, c in bins if b < 0) / total)
        said = f"{up} of people go up, {down} down, the others by little. Some of this is chance."
        edges = h.edges if units else [100 * edge for edge in h.edges]
        yield arrows(row, names), charts.histogram(edges, h.counts, mark=0.0, label=said), said
