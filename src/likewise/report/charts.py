"""Charts as SVG text: dots with intervals, bars and histograms.

Horizontal places are percentages, so that a picture is as wide as its place and its letters keep
their size: readable on a phone, sharp in print. Every value is escaped.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from likewise.record import MAX_NUMBER
from likewise.report.formats import limit

MARGIN = 4.0
"""Per cent of the width left free at both ends."""


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return one element; ``text_anchor`` stands for ``text-anchor``, ``class_`` for ``class``.

    Where a place is not known, nothing is drawn.

    Examples
    --------
    >>> print(element("text", "<b>", x="5%", class_="tick"))
    <text x="5%" class="tick">&lt;b&gt;</text>
    """
    if "nan%" in attributes.values():
        return Markup("")
    named = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), named, inside)


def picture(*children: Markup, height: int, label: str = "") -> Markup:
    """Return a picture of full width that screen readers announce by its label.

    Without one they skip it: its numbers stand beside it.
    """
    told = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return element("svg", *children, height=height, **told)


def line(x1: float, y1: object, x2: float, y2: object, name: str) -> Markup:
    """Return a line; x in per cent."""
    return element("line", x1=f"{x1}%", y1=y1, x2=f"{x2}%", y2=y2, class_=name)


def box(x: float, y: object, width: float, height: object, name: str) -> Markup:
    """Return a rectangle; x and width in per cent."""
    size = f"{max(width, 0):.2f}%"
    return element("rect", x=f"{x}%", y=y, width=size, height=height, class_=name)


def dot(x: float, y: object, radius: float, name: str) -> Markup:
    """Return a circle; x in per cent."""
    return element("circle", cx=f"{x}%", cy=y, r=radius, class_=name)


def text(words: str, x: float, y: object, name: str) -> Markup:
    """Return words at a place; near the ends they grow inwards."""
    half = 0.9 * len(words)
    side = "start" if x < half else "end" if x > 100 - half else "middle"
    return element("text", words, x=f"{x}%", y=y, class_=name, text_anchor=side)


@dataclasses.dataclass(frozen=True)
class Axis:
    """A stretch of numbers drawn over the width; with ``log`` equal ratios have equal lengths."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(
        cls, values: Iterable[float], ends: Iterable[float] = (), *, log: bool = False
    ) -> "Axis":
        """Return an axis on which all finite values fit.

        One very uncertain row must not flatten the others: ``ends`` of intervals reach no further
        beyond the values than these are apart.
        """
        size, back = (math.log, math.exp) if log else (float, float)
        known, far = (
            [size(v) for v in several if abs(v) <= MAX_NUMBER and (v > 0 or not log)]
            for several in (values, ends)
        )
        low, high = min(known, default=0.0), max(known, default=0.0)
        span = max(high - low, 0.2 if log else 1e-9)
        low = max(min([low, *far]), low - span)
        high = min(max([high, *far]), high + span)
        pad = 0.05 * (high - low) or 0.02 * max(abs(high), 1.0)
        return cls(back(low - pad), back(high + pad), log)

    def at(self, value: float) -> float:
        """Return where a value stands, in per cent; beyond the ends, at the end."""
        if math.isnan(value):
            return math.nan
        inside = min(max(value, self.low), self.high)
        size = math.log if self.log else float
        share = (size(inside) - size(self.low)) / (size(self.high) - size(self.low))
        return round(MARGIN + (100 - 2 * MARGIN) * share, 2)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers to write beside the axis."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1, 1.5, 2, 3, 5), (1, 2, 5), (1,)):
                numbers = (s * 10.0**e for e in decades for s in steps)
                found = [v for v in numbers if self.low <= v <= self.high]
                if len(found) <= most:
                    break
            return found[:: -(-len(found) // most) or 1]
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [round(k * step, 12) for k in range(first, last + 1)]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a plot: a dot with its interval, in the colour of ``tone``, and cells beside it.

    ``before`` is a hollow dot, ``dots`` are small ones: those of a negative control. ``flag`` is
    the verdict in the last cell.
    """

    label: str
    value: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    cells: tuple[str, ...] = ()
    note: str = ""
    tone: str = ""
    flag: str = ""
    before: float = math.nan
    dots: tuple[float, ...] = ()
    heading: bool = False


@dataclasses.dataclass(frozen=True)
class Plot:
    """Rows on one axis, with a line at every mark; between the outer ones of three it is shaded."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[Row]
    marks: Sequence[float]
    log: bool = True
    left_out: int = 0

    @functools.cached_property
    def axis(self) -> Axis:
        """The axis of all rows."""
        values = [v for row in self.rows for v in (row.value, row.before, *row.dots)]
        ends = [end for row in self.rows for end in row.ends]
        return Axis.around([*self.marks, *values], ends, log=self.log)

    @property
    def band(self) -> Sequence[float]:
        """From where to where it is within tolerance, if there is such a stretch."""
        return self.marks[::2] if len(self.marks) == 3 else ()

    def __bool__(self) -> bool:
        return bool(self.rows)

    def scale(self) -> Markup:
        """Draw the numbers above the rows: the marks in bold, then ticks, where they fit."""
        marks = sorted(self.marks, key=lambda mark: mark not in (0, 1))
        parts, taken = [], list[float]()
        for k, value in enumerate([*marks, *self.axis.ticks()]):
            at = self.axis.at(value)
            if all(abs(at - other) > 9 for other in taken):
                taken.append(at)
                parts.append(text(limit(value), at, 14, "mark-label" if k < len(marks) else "tick"))
        return picture(*parts, height=18)

    def draw(self, row: Row) -> Markup:
        """Draw one row: a dot with its interval."""
        at, parts = self.axis.at, []
        if self.band:
            low, high = map(at, self.band)
            parts.append(box(low, 0, high - low, "100%", "band"))
        parts += [line(at(mark), 0, at(mark), "100%", "mark") for mark in self.marks]
        lower, upper = row.ends
        parts.append(line(at(lower), "50%", at(upper), "50%", f"whisker {row.tone}"))
        parts += [text("←", 0, "50%", "off")] * (lower < self.axis.low)
        parts += [text("→", 100, "50%", "off")] * (upper > self.axis.high)
        # Three lines of dots, so that equal ones do not hide each other.
        places = itertools.cycle(("50%", "28%", "72%"))
        parts += [dot(at(d), next(places), 3, "control") for d in row.dots if math.isfinite(d)]
        parts.append(dot(at(row.before), "50%", 4.5, "before"))
        parts.append(dot(at(row.value), "50%", 5.5, f"dot {row.tone}"))
        return picture(*parts, height=30)


def bar(share: float, ends: tuple[float, float]) -> Markup:
    """Draw a share of the width as a bar, with its interval."""
    full, low, high = (100 * min(max(value, 0.0), 1.0) for value in (share, *ends))
    whisker = line(low, "50%", high, "50%", "bar-whisker")
    return picture(box(0, "25%", full, "50%", "bar"), whisker, height=24)


HEIGHT, HEAD, FOOT = 170, 18, 146


def histogram(
    edges: Sequence[float], counts: Sequence[float], *, log: bool = False, mark: float, label: str
) -> Markup:
    """Draw how many people have which value, on a scale of logarithms with ``log``."""
    axis, top = Axis.around([*edges, mark], log=log), max(*counts, 1.0)
    parts = [line(0, HEAD, 100, HEAD, "grid"), text(f"{top:,.0f} people", 100, HEAD - 4, "tick")]
    for left, right, count in zip(edges, edges[1:], counts, strict=False):
        x, high = axis.at(left), (FOOT - HEAD) * count / top
        parts.append(box(x, FOOT - high, axis.at(right) - x - 0.15, high, "bar"))
    parts.append(line(axis.at(mark), HEAD, axis.at(mark), FOOT, "mark"))
    parts.append(line(0, FOOT, 100, FOOT, "axis"))
    parts += [text(limit(v), axis.at(v), FOOT + 17, "tick") for v in axis.ticks(7)]
    return picture(*parts, height=HEIGHT, label=label)
