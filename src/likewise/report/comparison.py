"""Models compared, as text and as a page: differences on the same people, and every ratio."""

from collections.abc import Callable, Iterator
from typing import Any

from likewise.errors import printable
from likewise.record import RateComparison
from likewise.report import formats
from likewise.report.escaping import cut
from likewise.report.formats import Names, level, limit, number, percent, points
from likewise.report.html import ratio_plot, render
from likewise.report.terminal import layout
from likewise.report.text import arrows, comparison_line, limits, sentence

MOST_ROWS = 40

# What `likewise.compare` returns is known here by its fields alone: it stands above reports.


def comparison_text(comparison: Any, width: int = 80) -> str:
    """Return a comparison of models as text: what is shown first, then every ratio."""
    lines = ["MODELS COMPARED", ""]
    for said in claims(comparison):
        lines += formats.wrap(said, "  ", width)
    rows = [["", "own → other", "ratio", f"{level(comparison.alpha)} CI", "result"]]
    for what, several in _by_comparison(comparison):
        rows.append([what, "", "", "", ""])
        for name, row in several:
            line = comparison_line(comparison.records[name], row, f"  {cut(name, 24)}")
            own, other, *found = line.cells("–")
            found[-1] = found[-1].removesuffix(" (mirror)")
            rows.append([line.label, f"{own} → {other}", *found])
    if width < 80:  # without rates
        rows = [[row[0], *row[2:]] for row in rows]
    lines += ["", *layout(rows[: MOST_ROWS + 1], width), ""]
    for name, record in comparison.records.items():
        lines += formats.wrap(f"{cut(name, 24)}: {sentence(record)}", "", width, hanging="  ")
    return printable("\n".join(lines))


def claims(comparison: Any) -> Iterator[str]:
    """Yield what is shown about each model beside the first, one sentence each."""
    for pair in comparison.pairs:
        first, second = cut(pair.first, 24), cut(pair.second, 24)
        names = Names.from_record(comparison.records[pair.first])
        beyond = f"above a factor of {number(comparison.margin)} "
        for one in pair.deviations:
            about, less = arrows(one, names), {"lower": "less", "higher": "more"}
            said = f"No difference {beyond}shown for {about}"
            if (claim := one.claim(pair.alpha)) in less:
                said = f"{second} differs {less[claim]} than {first} for {about}"
            change = f"|log ratio| {number(one.first)} → {number(one.second)}"
            yield f"{said}: {change} ({_sure(one, pair.alpha, number)})."
        for one in pair.performance:
            write, gap = (percent, points) if one.what == "error rate" else (number, number)
            said = f"No difference shown in {one.what}"
            if (claim := one.claim(pair.alpha)) in ("lower", "higher"):
                said = f"{second} has a {claim} {one.what} than {first}"
            change = f"{write(one.first)} → {write(one.second)}"
            yield f"{said}: {change} ({_sure(one, pair.alpha, gap)})."


def _sure(one: Any, alpha: float, write: Callable[[float], str]) -> str:
    low, high = map(write, one.interval)
    p = formats.p_value(one.p_value)
    return f"difference {write(one.value)}, {level(alpha)} CI {low} to {high}, p {p}"


def _by_comparison(comparison: Any) -> list[tuple[str, list[tuple[str, RateComparison]]]]:
    """Return every comparison of groups, and its result under each model."""
    found: dict[str, list[tuple[str, RateComparison]]] = {}
    for name, record in comparison.records.items():
        names = Names.from_record(record)
        for row in () if record.matched_pairs is None else record.matched_pairs.comparisons:
            what = f"{names.column(row.attribute)}: {arrows(row, names)}"
            found.setdefault(what, []).append((name, row))
    return list(found.items())


def comparison_page(comparison: Any) -> str:
    """Return a comparison of models as the text of one HTML file."""
    records = comparison.records
    sections = [
        (what, "", [comparison_line(records[name], row, cut(name, 40)) for name, row in several])
        for what, several in _by_comparison(comparison)[:MOST_ROWS]
    ]
    first = next(iter(records.values()))
    return render(
        "compare.html.j2",
        comparison=comparison,
        claims=list(claims(comparison)),
        forest=ratio_plot(first, sections, "Every comparison by model", "Model"),
        band=" to ".join(map(limit, limits(first.matched_pairs))),
        sentence=sentence,
    )
