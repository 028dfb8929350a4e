"""Intervals as pictures, one large, many small in the rows of a table; placebos as dots."""

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from likewise.record import PlaceboRecord, TestRecord
from likewise.record.json_text import LARGEST
from likewise.report.axis import Axis
from likewise.report.layout import number
from likewise.report.svg import box, decoration, dot, element, label, line, picture

ROW = 22
TOP, MIDDLE, BOTTOM = 30, 62, 96
PLACEBOS, TRUE, FOOT = 22, 52, 78


def verdict_chart(test: TestRecord) -> Markup:
    """Draw the deciding interval against the tolerance."""
    low, high = test.interval
    axis = Axis.of([1.0, test.delta, low, high, test.estimate]).widened(0.12)
    at = axis.at
    delta = at(test.delta)
    parts = [
        box(delta, TOP, 100 - delta, BOTTOM - TOP, "beyond"),
        line(0, BOTTOM, 100, BOTTOM, "axis"),
    ]
    parts += [label(number_short(t), at(t), BOTTOM + 18, "tick") for t in axis.ticks()]
    parts += [line(at(t), BOTTOM, at(t), BOTTOM + 4, "axis") for t in axis.ticks()]
    parts += [
        line(delta, TOP - 6, delta, BOTTOM, "delta"),
        label(f"tolerance δ = {test.delta:g}", delta, TOP - 12, "delta-label"),
    ]
    if not math.isnan(low) and not math.isnan(high):
        left, right = at(low), at(high)
        parts += [
            line(left, MIDDLE, right, MIDDLE, "whisker"),
            *(line(x, MIDDLE - 7, x, MIDDLE + 7, "whisker") for x in (left, right)),
            *_interval_labels(low, high, left, right),
        ]
    if not math.isnan(test.estimate):
        parts.append(dot(at(test.estimate), MIDDLE, 7, "estimate"))
    said = (
        f"Estimate {number(test.estimate)}, two-sided interval {number(low)} to {number(high)}, "
        f"tolerance {test.delta:g}."
    )
    return picture(*parts, height=BOTTOM + 26, label=said, name="verdict-chart")


def _interval_labels(low: float, high: float, left: float, right: float) -> list[Markup]:
    y = MIDDLE + 24
    if right - left < 16:
        text = f"{number(low)} – {number(high)}"
        return [label(text, (left + right) / 2, y, "value")]
    return [label(number(low), left, y, "value"), label(number(high), right, y, "value")]


def number_short(value: float) -> str:
    """Return a number for the foot of an axis."""
    return f"{value:.0e}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:.6g}"


def scale(rows: Iterable[tuple[float, float, float]], *marks: float) -> Axis:
    """Return one axis for the rows ``(lower, value, upper)`` of a table, and marks on it.

    One very uncertain row must not flatten all the others: the axis ends at ten times what the
    values span, and longer intervals run off it.
    """
    rows = list(rows)
    values = [v for row in rows for v in row if abs(v) <= LARGEST] + list(marks)
    middles = [row[1] for row in rows if abs(row[1]) <= LARGEST] + list(marks)
    if not middles:
        return Axis.of(values)
    span = max(max(middles) - min(middles), 0.1 * abs(max(middles)), 1e-9)
    low, high = min(middles) - 5 * span, max(middles) + 5 * span
    return Axis.of([min(max(v, low), high) for v in values])


def row_chart(
    axis: Axis, lower: float, value: float, upper: float, mark: float | None = None
) -> Markup:
    """Draw one row's interval on the axis of its table."""
    at = axis.at
    parts = [] if mark is None else [line(at(mark), 0, at(mark), ROW, "delta")]
    if not math.isnan(lower) and not math.isnan(upper):
        parts.append(line(at(lower), ROW / 2, at(upper), ROW / 2, "whisker"))
        if upper > axis.high:
            parts.append(label("→", at(upper), ROW / 2 + 4, "value", "start"))
    if not math.isnan(value):
        name = "estimate over" if mark is not None and lower > mark else "estimate"
        parts.append(dot(at(value), ROW / 2, 4.5, name))
    return decoration(*parts, height=ROW, name="row-chart")


def axis_chart(axis: Axis, mark: float | None = None, name: str = "δ") -> Markup:
    """Draw the numbers that belong above a column of intervals."""
    ticks = axis.ticks(4)
    if mark is not None:
        ticks = [t for t in ticks if abs(axis.at(t) - axis.at(mark)) > 12]
    parts = [label(number_short(t), axis.at(t), 14, "tick") for t in ticks]
    if mark is not None:
        parts.append(label(name, axis.at(mark), 14, "delta-label"))
    return decoration(*parts, height=18, name="row-chart")


def bar(share: float) -> Markup:
    """Draw a bar over a share of the width."""
    full = 0.0 if math.isnan(share) else 100 * min(max(share, 0.0), 1.0)
    return decoration(box(0, 3, full, 10, "bar"), height=16, name="bar-chart")


def change(before: float, after: float) -> Markup:
    """Draw how a probability changed: a hollow dot before, a filled one after."""
    if math.isnan(before) or math.isnan(after):
        return Markup("")
    axis = Axis(0, 1)
    a, b = axis.at(before), axis.at(after)
    parts = [
        line(axis.at(0), 10, axis.at(1), 10, "rail"),
        line(axis.at(0.5), 5, axis.at(0.5), 15, "rail"),
        line(a, 10, b, 10, "whisker"),
        dot(a, 10, 5, "before"),
        dot(b, 10, 5, "estimate over" if after < before else "estimate"),
    ]
    return decoration(*parts, height=20, name="change-chart")


def polygon(points: Sequence[tuple[float, float]], height: int, name: str) -> Markup:
    """Draw a filled shape; x in per cent, y in pixels."""
    text = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    shape = element("polygon", points=text, class_=name)
    return element(
        "svg",
        shape,
        x="0",
        y="0",
        width="100%",
        height=height,
        viewBox=f"0 0 100 {height}",
        preserveAspectRatio="none",
    )


def placebo_strip(placebo: PlaceboRecord, delta: float) -> Markup:
    """Draw every placebo as a dot, the true estimate below them, and the tolerance."""
    known = [value for value in placebo.placebos if math.isfinite(value)]
    axis = Axis.of([1.0, delta, placebo.estimate, *known]).widened(0.05)
    at = axis.at
    parts = [line(0, FOOT, 100, FOOT, "axis")]
    parts += [label(number_short(t), at(t), FOOT + 18, "tick") for t in axis.ticks()]
    parts += [line(at(delta), 8, at(delta), FOOT, "delta")]
    parts += [dot(at(value), PLACEBOS, 4, "placebo") for value in known]
    parts.append(dot(at(placebo.estimate), TRUE, 7, "estimate"))
    low, high = min(known, default=math.nan), max(known, default=math.nan)
    said = (
        f"With the true traits {number(placebo.estimate)}; with the traits shuffled "
        f"{number(low)} to {number(high)} ({len(placebo.placebos)} placebos)."
    )
    return picture(*parts, height=FOOT + 26, label=said, name="placebo-strip")
