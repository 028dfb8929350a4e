"""Plots for papers and slides: ``result.plot()`` draws one figure of matplotlib.

Rows, marks and axes are those of the report. Colours are told apart by people who see red and green
alike; evidence is also a filled dot, and everything else a hollow one.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from likewise.errors import InvalidSample, import_optional
from likewise.record import Record
from likewise.report.charts import Axis, Plot
from likewise.report.escaping import cut
from likewise.report.formats import Names, level, limit
from likewise.report.html import forest, love_plots
from likewise.report.text import arrows, headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY, PALE = "#0072b2", "#d55e00", "#555555", "#dce8f2"


@dataclasses.dataclass(frozen=True)
class Plots:
    """The pictures of a result as matplotlib axes.

    Every method takes axes to draw on, or makes new ones, and returns them.
    """

    record: Record

    def __call__(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every comparison (or test and group) with its interval, on one axis."""
        record, plot = self.record, forest(self.record)
        what = "ratio of rates, other / own" if plot.log else "difference of mean predictions"
        what = "loss or errors after / before" if record.matched_pairs is None else what
        title = ":\n".join(_literal(said, 72) for said in headline(record) if said)
        return _draw(plot, ax, f"{what} ({level(record.alpha)} CI)", title)

    def balance(self, ax: "Axes | None" = None) -> "Axes":
        """Draw a love plot: differences in each column that may matter, before and after."""
        part, names = self.record.matched_pairs, Names.from_record(self.record)
        found = [] if part is None else list(love_plots(part, [part.leading], names))
        _need(found, "balance of matched columns")
        what = "absolute standardised mean difference, before (hollow) and after"
        return _draw(found[0], ax, what, _literal(f"Balance, {found[0].title}"))

    def people(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how each person's rate (or loss, perturbed) changes."""
        part = self.record.matched_pairs
        counts, edges = (self.record.distribution.get(name, ()) for name in ("counts", "edges"))
        what, title, mark = "loss after / before", "Each person's loss ratio", 1.0
        if part is not None:
            spread = [h for h in part.changes if h.direction == part.leading.direction]
            counts, edges = (spread[0].counts, spread[0].edges) if spread else ((), ())
            what, mark = "change of the rate with the other group's columns", 0.0
            title = f"Each person's change, {arrows(part.leading, Names.from_record(self.record))}"
        _need(counts, "changes of people")
        ax = ax or _new_axes(6)
        ax.stairs(counts, edges, fill=True, color=BLUE)
        ax.axvline(mark, color=GREY, linewidth=1)
        if part is None:
            ax.set_yscale("symlog", linthresh=1)
            _ratio_axis(ax, Axis.around([*edges, mark], log=True))
        ax.set_xlabel(what)
        ax.set_ylabel("people")
        ax.set_title(_literal(title), loc="left")
        return ax


def _draw(plot: Plot, ax: "Axes | None", label: str, title: str) -> "Axes":
    """Draw the rows of a plot from top to bottom, with its marks."""
    rows = [row for row in plot.rows if not row.heading]
    ax = ax or _new_axes(len(rows))
    if plot.band:
        ax.axvspan(*plot.band, color=PALE, zorder=0)
    for mark in plot.marks:
        ax.axvline(mark, color=GREY, linestyle="-" if mark in (0, 1) else "--", linewidth=1)
    for y, row in enumerate(rows):
        filled, colour = row.tone in ("evidence", ""), ORANGE if row.tone == "evidence" else BLUE
        if any(map(math.isfinite, row.ends)):
            # An interval without an end runs off the axis.
            ends = [min(max(end, plot.axis.low), plot.axis.high) for end in row.ends]
            ax.plot(ends, [y, y], colour)
        ax.plot([row.before], [y], "o", color=GREY, mfc="white")
        if math.isfinite(row.value):
            ax.plot([row.value], [y], "o", color=colour, mfc=colour if filled else "white")
    if plot.log:
        _ratio_axis(ax, plot.axis)
    labels, heading = [], ""
    for row in plot.rows:
        heading = f"{row.label}: " if row.heading else heading
        labels += [] if row.heading else [_literal(heading.removeprefix("Everyone: ") + row.label)]
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(label)
    ax.set_title(title, loc="left", fontsize="medium")
    return ax


def _ratio_axis(ax: "Axes", axis: Axis) -> None:
    """Write ratios as 0.5, 1, 2 and not as powers of ten, at the places of the report."""
    ax.set_xscale("log")
    ax.set_xticks(axis.ticks(), [limit(value) for value in axis.ticks()])
    ax.minorticks_off()


def _new_axes(rows: int) -> "Axes":
    pyplot = import_optional("matplotlib.pyplot", "plots", "A plot")
    _, ax = pyplot.subplots(figsize=(7, 1.4 + 0.32 * rows), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _need(values: Sequence[Any], what: str) -> None:
    if not values:
        raise InvalidSample(f"This result holds no {what} to plot.")


def _literal(text: str, most: int = 44) -> str:
    """Return a short text that matplotlib does not read as mathematics."""
    return cut(text, most).replace("$", r"\$")
