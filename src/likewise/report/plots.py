"""Plots of a result for papers and slides: ``result.plot.groups()`` returns matplotlib axes."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from likewise.errors import InvalidSample, need
from likewise.record import Record
from likewise.report.verdict_words import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GREY = "#24567f", "#a02c1c", "#555555"


@dataclasses.dataclass(frozen=True)
class Plots:
    """The pictures of a report as matplotlib axes.

    Every method takes axes to draw on, or makes new ones, and returns them.
    """

    record: Record

    def verdict(self, ax: "Axes | None" = None) -> "Axes":
        """Draw both tests against the tolerance."""
        tests = list(self.record.tests.values())
        rows = [
            (TITLES.get(t.test, t.test), t.interval[0], t.estimate, t.interval[1]) for t in tests
        ]
        return self._forest(rows, ax, "ratio after / before")

    def groups(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the loss ratio of every group, with simultaneous intervals."""
        rows = [(f"{g.trait}: {g.group}", g.lower, g.estimate, g.upper) for g in self.record.groups]
        return self._forest(rows, ax, "mean loss ratio")

    def sensitivity(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the statistic under other choices."""
        rows = [
            (f"{s.what}: {s.change}", s.lower_bound, s.estimate, s.upper_bound)
            for s in self.record.sensitivity
        ]
        return self._forest(rows, ax, "ratio after / before")

    def features(self, ax: "Axes | None" = None, n: int = 15) -> "Axes":
        """Draw how far the map pushes each feature."""
        shifts = self.record.shifts[:n]
        _need(shifts, "moved features")
        ax = ax or _new_axes(len(shifts))
        ax.barh(
            [_literal(s.feature) for s in shifts], [s.mean_absolute for s in shifts], color=BLUE
        )
        ax.invert_yaxis()
        ax.set_xlabel("mean distance moved")
        return ax

    def ratios(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution of the loss ratios on log scales."""
        found = self.record.distribution
        _need(found.get("counts", ()), "loss ratios")
        ax = ax or _new_axes(6)
        ax.stairs(found["counts"], found["edges"], fill=True, color=BLUE)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=1)
        ax.set_xlabel("loss ratio")
        ax.set_ylabel("people")
        self._tolerance(ax)
        return ax

    def horizons(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the loss ratio against the time of the flow, with its band."""
        found = self.record.horizons
        _need(found, "horizons")
        ax = ax or _new_axes(6)
        times = [h.time for h in found]
        ax.plot(times, [h.loss_ratio for h in found], "o-", color=BLUE)
        banded = [h for h in found if math.isfinite(h.band_lower) and math.isfinite(h.band_upper)]
        ax.fill_between(
            [h.time for h in banded],
            [h.band_lower for h in banded],
            [h.band_upper for h in banded],
            color=BLUE,
            alpha=0.15,
        )
        ax.axhline(self.record.settings.delta, color=GREY, linestyle="--", linewidth=1)
        ax.set_xlabel("T")
        ax.set_ylabel("mean loss ratio")
        return ax

    def _forest(
        self, rows: Sequence[tuple[str, float, float, float]], ax: "Axes | None", name: str
    ) -> "Axes":
        _need(rows, "intervals of this kind")
        ax = ax or _new_axes(len(rows))
        delta = self.record.settings.delta
        ends = [v for row in rows for v in row[1:] if math.isfinite(v)] or [delta]
        low, high = min(ends), max(ends)
        for y, (_, lower, value, upper) in enumerate(rows):
            left = lower if math.isfinite(lower) else low
            right = upper if math.isfinite(upper) else high
            colour = RED if lower > delta else BLUE
            ax.plot([left, right], [y, y], color=colour)
            ax.plot([value], [y], "o", color=colour)
        ax.set_yticks(range(len(rows)), [_literal(row[0]) for row in rows])
        ax.invert_yaxis()
        ax.set_xlabel(name)
        self._tolerance(ax)
        return ax

    def _tolerance(self, ax: "Axes") -> None:
        delta = self.record.settings.delta
        ax.axvline(delta, color=GREY, linestyle="--", linewidth=1, label=f"δ = {delta:g}")
        ax.legend(frameon=False)


def _new_axes(rows: int) -> "Axes":
    pyplot = need("matplotlib.pyplot", "plots", "A plot")
    _, ax = pyplot.subplots(figsize=(6, 1.2 + 0.32 * rows), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _need(values: Sequence[Any], what: str) -> None:
    if not values:
        raise InvalidSample(f"This result holds no {what} to plot.")


def _literal(text: str) -> str:
    """Return a name that matplotlib does not read as mathematics."""
    cut = text if len(text) <= 60 else f"{text[:59]}…"
    return cut.replace("$", r"\$")
