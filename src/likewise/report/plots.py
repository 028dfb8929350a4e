"""Plots for papers and slides: ``result.plot()`` draws one figure of matplotlib.

Colours are told apart by people who see red and green alike; evidence is also a filled dot, and
everything else a hollow one.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from likewise.errors import InvalidSample, import_optional
from likewise.record import Record
from likewise.report.charts import Plot
from likewise.report.escaping import cut
from likewise.report.formats import Names, level, limit
from likewise.report.html import forest, love_plots
from likewise.report.text import arrows, headline, leading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY, PALE = "#0072b2", "#d55e00", "#555555", "#dce8f2"
BAND = "time", "band_lower", "band_upper"


@dataclasses.dataclass(frozen=True)
class Plots:
    """The pictures of a result as matplotlib axes.

    Every method takes axes to draw on, or makes new ones, and returns them.
    """

    record: Record

    def __call__(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every comparison (or test and group) with its interval, on one axis."""
        record, part = self.record, self.record.matched_pairs
        plot = forest(record)
        what = "ratio of rates, other / own" if plot.axis.log else "difference of mean predictions"
        what = "loss or errors after / before" if part is None else what
        title = ":\n".join(_literal(said, 72) for said in headline(record) if said)
        ax = _draw(plot, ax, f"{what} ({level(record.alpha)} CI)")
        ax.set_title(title, loc="left", fontsize="medium")
        return ax

    def balance(self, ax: "Axes | None" = None) -> "Axes":
        """Draw a love plot: differences in each column that may matter, before and after."""
        part, row = self.record.matched_pairs, leading(self.record)
        names = Names.from_record(self.record)
        found = [] if part is None or row is None else list(love_plots(part, [row], names))
        _need(found, "balance of matched columns")
        what = "absolute standardised mean difference, before (hollow) and after"
        ax = _draw(found[0], ax, what)
        ax.set_xlim(left=0)
        ax.set_title(_literal(f"Balance, {found[0].title}"), loc="left")
        return ax

    def people(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how each person's rate (or loss, perturbed) changes."""
        part, row, spread = self.record.matched_pairs, leading(self.record), None
        counts, edges = (self.record.distribution.get(name, ()) for name in ("counts", "edges"))
        if part is not None and row is not None:
            spread = next((h for h in part.changes if h.direction == row.direction), None)
            counts, edges = ((), ()) if spread is None else (spread.counts, spread.edges)
        _need(counts, "changes of people")
        ax = ax or _new_axes(6)
        ax.stairs(counts, edges, fill=True, color=BLUE)
        if part is None or row is None:
            _ratio_axis(ax)
            ax.set_yscale("symlog", linthresh=1)
            ax.axvline(1.0, color=GREY, linewidth=1)
            ax.set_xlabel("loss after / before")
            ax.set_title("Each person's loss ratio", loc="left")
        else:
            names = Names.from_record(self.record)
            ax.axvline(0.0, color=GREY, linewidth=1)
            ax.set_xlabel("change of the rate with the other group's columns")
            ax.set_title(_literal(f"Each person's change, {arrows(row, names)}"), loc="left")
        ax.set_ylabel("people")
        return ax

    def stopping_time(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the loss ratio of the gradient flow against its stopping time, with its band."""
        found = self.record.stopping_times
        _need(found, "stopping times")
        ax = ax or _new_axes(6)
        ax.plot([s.time for s in found], [s.loss_ratio for s in found], "o-", color=BLUE)
        banded = [s for s in found if math.isfinite(s.band_lower) and math.isfinite(s.band_upper)]
        times, low, high = ([getattr(s, n) for s in banded] for n in BAND)
        ax.fill_between(times, low, high, color=PALE, zorder=0)
        ax.axhline(self.record.delta, color=GREY, linestyle="--", linewidth=1)
        place = found[-1].time, self.record.delta
        ax.annotate(f"limit {limit(self.record.delta)}", place, ha="right", va="bottom")
        ax.set_xlabel("stopping time T")
        ax.set_ylabel("mean loss ratio")
        ax.set_title("Loss ratio by stopping time", loc="left")
        return ax


def _draw(plot: Plot, ax: "Axes | None", label: str) -> "Axes":
    """Draw the rows of a plot from top to bottom, with its marks."""
    rows = [row for row in plot.rows if not row.heading]
    ax = ax or _new_axes(len(rows))
    if plot.band is not None:
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
    if plot.axis.log:
        _ratio_axis(ax)
    labels, heading = [], ""
    for row in plot.rows:
        heading = f"{row.label}: " if row.heading else heading
        labels += [] if row.heading else [_literal(heading.removeprefix("Everyone: ") + row.label)]
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(label)
    return ax


def _ratio_axis(ax: "Axes") -> None:
    """Write ratios as 0.5, 1, 2 and not as powers of ten."""
    ticker = import_optional("matplotlib.ticker", "plots", "A plot")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    ax.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())


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
