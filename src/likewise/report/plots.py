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
from likewise.report.charts import Axis
from likewise.report.escaping import cut
from likewise.report.formats import Names, level, limit
from likewise.report.text import arrows, balance_of, estimates, headline, leading, limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY, PALE = "#0072b2", "#d55e00", "#555555", "#dce8f2"
MOST_ROWS = 40
BAND = "time", "band_lower", "band_upper"


@dataclasses.dataclass(frozen=True)
class Plots:
    """The pictures of a result as matplotlib axes.

    Every method takes axes to draw on, or makes new ones, and returns them.
    """

    record: Record

    def __call__(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every comparison (or test and group) with its interval, on one axis."""
        record, names = self.record, Names.from_record(self.record)
        part, lines = record.matched_pairs, estimates(record)[:MOST_ROWS]
        _need(lines, "comparisons")
        log = part is None or part.measure != "prediction"
        ends = [record.delta] if part is None else [e for e in limits(part) if math.isfinite(e)]
        marks = [*ends, 1.0 if log else 0.0]
        axis = Axis.for_rows([(n.ends[0], n.value, n.ends[1]) for n in lines], marks, log=log)
        ax = ax or _new_axes(len(lines))
        if len(ends) == 2:
            ax.axvspan(*ends, color=PALE, zorder=0)
        ax.axvline(1.0 if log else 0.0, color=GREY, linewidth=1)
        for end in ends:
            ax.axvline(end, color=GREY, linestyle="--", linewidth=1)
        for y, line in enumerate(lines):
            found = line.verdict == "evidence"
            colour = ORANGE if found else BLUE
            if any(map(math.isfinite, line.ends)):
                # An interval without an end runs off the axis.
                ax.plot([min(max(end, axis.low), axis.high) for end in line.ends], [y, y], colour)
            if math.isfinite(line.value):
                ax.plot([line.value], [y], "o", color=colour, mfc=colour if found else "white")
        if log:
            ax.set_xscale("log")
            _plain_ticks(ax)
        titles = [f"{names.column(one.attribute)}: " * bool(one.attribute) for one in lines]
        labels = [_literal(f"{title}{one.label}") for title, one in zip(titles, lines, strict=True)]
        ax.set_yticks(range(len(lines)), labels)
        ax.set_ylim(len(lines) - 0.5, -0.5)
        what = "ratio of rates, other / own" if log else "difference of mean predictions"
        what = "loss or errors after / before" if part is None else what
        ax.set_xlabel(f"{what} ({level(record.alpha)} CI)")
        title = ":\n".join(_literal(said, 72) for said in headline(record) if said)
        ax.set_title(title, loc="left", fontsize="medium")
        return ax

    def balance(self, ax: "Axes | None" = None) -> "Axes":
        """Draw a love plot: differences in each column that may matter, before and after."""
        part, row = self.record.matched_pairs, leading(self.record)
        found = [] if part is None or row is None else balance_of(part, row)
        _need(found, "balance of matched columns")
        assert row is not None
        names = Names.from_record(self.record)
        found.sort(key=lambda b: abs(b.before))
        ax = ax or _new_axes(len(found))
        places = range(len(found))
        before, after = [abs(b.before) for b in found], [abs(b.after) for b in found]
        ax.plot(before, places, "o", mfc="white", color=GREY, label="before")
        ax.plot(after, places, "o", color=BLUE, label="after matching")
        ax.axvline(0.1, color=GREY, linestyle="--", linewidth=1)
        ax.set_yticks(places, [_literal(names.column(b.column)) for b in found])
        ax.set_xlim(left=0)
        ax.set_xlabel("absolute standardised mean difference")
        ax.set_title(_literal(f"Balance, {arrows(row, names)}"), loc="left")
        ax.legend(frameon=False)
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
            ax.set_xscale("log")
            _plain_ticks(ax)
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


def _plain_ticks(ax: "Axes") -> None:
    """Write ratios as 0.5, 1, 2 and not as powers of ten."""
    ticker = import_optional("matplotlib.ticker", "plots", "A plot")
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
