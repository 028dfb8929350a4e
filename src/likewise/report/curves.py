"""Pictures with two axes: the spread of ratios, the horizons, and models side by side."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from likewise.record import HorizonRecord
from likewise.report.axis import Axis
from likewise.report.charts import number_short, polygon
from likewise.report.layout import number
from likewise.report.svg import box, dot, label, line, picture

HEIGHT = 190
FOOT = 166
HEAD = 24


def _height(axis: Axis, value: float) -> float:
    """Return the place of a value on the vertical axis, in pixels from the top."""
    return round(FOOT - (FOOT - HEAD) * axis.at(value) / 100, 2)


def _frame(across: Axis, up: Axis, ticks: Sequence[float], names: Sequence[str]) -> list[Markup]:
    parts = [line(0, FOOT, 100, FOOT, "axis")]
    for tick in up.ticks(4):
        y = _height(up, tick)
        parts += [line(0, y, 100, y, "grid"), label(number_short(tick), 0, y - 3, "tick", "start")]
    parts += [
        label(name, across.at(t), FOOT + 18, "tick") for t, name in zip(ticks, names, strict=True)
    ]
    return parts


def histogram(distribution: Mapping[str, Sequence[float]], delta: float) -> Markup:
    """Draw how many people have which loss ratio, both on a log scale.

    With heights on a log scale a handful of people with very large ratios, who may decide the
    mean, stay visible beside thousands with ordinary ones.
    """
    edges, counts = list(distribution["edges"]), list(distribution["counts"])
    across = Axis.of([edges[0], edges[-1], 1.0, delta], log=True)
    decades = math.ceil(math.log10(max(*counts, 10)))
    heights = [FOOT - (FOOT - HEAD) * math.log10(1 + c) / (decades + 0.05) for c in counts]
    ticks = across.ticks(7)
    parts = [line(0, FOOT, 100, FOOT, "axis")]
    for power in range(1, decades + 1):
        y = FOOT - (FOOT - HEAD) * math.log10(1 + 10**power) / (decades + 0.05)
        parts += [
            line(0, y, 100, y, "grid"),
            label(f"{10**power:,}", 0, y - 3, "tick", "start"),
        ]
    for left, right, y, count in zip(edges, edges[1:], heights, counts, strict=False):
        if count:
            a, b = across.at(left), across.at(right)
            name = "bar over" if left >= delta else "bar"
            parts.append(box(a, round(y, 2), b - a - 0.15, round(FOOT - y, 2), name))
    parts += [label(number_short(t), across.at(t), FOOT + 18, "tick") for t in ticks]
    x = across.at(delta)
    parts += [
        line(x, HEAD - 8, x, FOOT, "delta"),
        label(f"δ = {delta:g}", x, HEAD - 12, "delta-label"),
    ]
    low, high = edges[0], edges[-1]
    said = f"Histogram of {int(sum(counts))} loss ratios, from {number(low)} to {number(high)}."
    return picture(*parts, height=HEIGHT, label=said, name="curve")


def horizon_chart(
    horizons: Sequence[HorizonRecord], delta: float, within_reach: float | None = None
) -> Markup:
    """Draw the loss ratio against the time of the flow, with the band that holds for all times."""
    values = [v for h in horizons for v in (h.loss_ratio, h.lower_bound, h.band_lower)]
    values += [h.band_upper for h in horizons if math.isfinite(h.band_upper)]
    values += [delta, *([] if within_reach is None else [within_reach])]
    across = Axis.of([h.time for h in horizons])
    up = Axis.of(values)
    parts = _frame(across, up, [h.time for h in horizons], [f"T = {h.time:g}" for h in horizons])
    banded = [h for h in horizons if not math.isnan(h.band_lower)]
    if len(banded) > 1:
        top = [(across.at(h.time), _height(up, _or_high(h.band_upper, up))) for h in banded]
        foot = [(across.at(h.time), _height(up, h.band_lower)) for h in reversed(banded)]
        parts.append(polygon([*top, *foot], HEIGHT, "band"))
    marks = [(delta, f"δ = {delta:g}", "delta", "delta-label")]
    if within_reach is not None:
        marks.append((within_reach, f"within reach {number(within_reach)}", "reach", "value"))
    for x, (value, text, name, letters) in zip((99.0, 72.0), marks, strict=False):
        # Side by side, so that names do not meet however near the lines are.
        y = _height(up, value)
        parts += [line(0, y, 100, y, name), label(text, x, y - 5, letters, "end")]
    places = [(across.at(h.time), _height(up, h.loss_ratio), h) for h in horizons]
    for (x1, y1, _), (x2, y2, _) in itertools.pairwise(places):
        parts.append(line(x1, y1, x2, y2, "path"))
    for x, y, h in places:
        parts.append(dot(x, y, 5, "estimate over" if h.lower_bound > delta else "estimate"))
    said = "; ".join(f"{number(h.loss_ratio)} at T = {h.time:g}" for h in horizons)
    return picture(*parts, height=HEIGHT, label=f"Loss ratio by horizon: {said}.", name="curve")


def _or_high(value: float, axis: Axis) -> float:
    return value if math.isfinite(value) else axis.high


@dataclasses.dataclass(frozen=True)
class Traded:
    """A model between being right and being fair: lower end, value and upper end of either."""

    name: str
    accuracy: tuple[float, float, float]
    audit: tuple[float, float, float]


def trade_chart(points: Sequence[Traded], delta: float) -> Markup:
    """Draw balanced accuracy against the audit value, with error bars where they are known.

    Up and to the left is better: right more often, and less loss to similar people.
    """
    across = Axis.of([1.0, delta, *(v for p in points for v in p.audit if math.isfinite(v))])
    up = Axis.of([v for p in points for v in p.accuracy if math.isfinite(v)])
    parts = _frame(across, up, across.ticks(), [number_short(t) for t in across.ticks()])
    x = across.at(delta)
    parts += [
        line(x, HEAD - 8, x, FOOT, "delta"),
        label(f"δ = {delta:g}", x, HEAD - 12, "delta-label"),
    ]
    for point in points:
        lower, value, upper = point.audit
        x, y = across.at(value), _height(up, point.accuracy[1])
        if not math.isnan(lower) and not math.isnan(upper):
            parts.append(line(across.at(lower), y, across.at(upper), y, "whisker"))
        low, high = point.accuracy[0], point.accuracy[2]
        if math.isfinite(low) and math.isfinite(high):
            parts.append(line(x, _height(up, low), x, _height(up, high), "whisker"))
        parts.append(dot(x, y, 5, "estimate over" if lower > delta else "estimate"))
        parts.append(label(point.name, x, y - 9, "value"))
    said = "; ".join(
        f"{p.name}: {number(p.audit[1])} at balanced accuracy {number(p.accuracy[1])}"
        for p in points
    )
    return picture(*parts, height=HEIGHT, label=said, name="curve")
