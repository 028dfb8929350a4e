"""Figures that could stand in a paper: PNG for pages, SVG for print."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import colors, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from likewise_studies.published import Column
from likewise_studies.simulation import DELTA, THETA, VARIANTS
from likewise_studies.study import Inference, Row

STYLE: Any = {
    "font.family": "serif",
    "font.size": 8,
    "mathtext.fontset": "dejavuserif",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "likewise",
}
# Distinct in grey and to colour-blind eyes (Okabe and Ito).
COLOURS = {
    "Baseline": "#0072B2",
    "Project": "#E69F00",
    "Reductions": "#009E73",
    "SenSR": "#CC79A7",
}
OUTCOME_COLOURS = {
    "evidence": "#B2182B",
    "inconclusive": "#777777",
    "within_tolerance": "#2166AC",
}
LOWEST, HIGHEST = 0.8, 300.0
"""Where bars end: a log axis has no room at zero, and infinity is far."""


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg``; return where."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with rc_context(STYLE):
        figure.savefig(paths[0], dpi=200, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def heat_maps(grids: Mapping[str, Mapping[int, Float[np.ndarray, "t t"]]]) -> Figure:
    r"""Draw Figure 1: :math:`T_n` over the coefficients, a row a variant, a column an angle."""
    angles = list(next(iter(grids.values())))
    with rc_context({**STYLE, "axes.spines.top": True, "axes.spines.right": True}):
        figure = Figure(figsize=(7.0, 5.2), layout="constrained")
        axes = figure.subplots(len(grids), len(angles), sharex=True, sharey=True, squeeze=False)
        norm = colors.TwoSlopeNorm(DELTA, 1.0, 2.5)
        for index, (name, by_angle) in enumerate(grids.items()):
            first, _, rest = VARIANTS[name].words.partition(": ")
            axes[index][0].set_ylabel(f"{first}\n({rest})\n\n$\\theta_2$")
            for axis, (angle, grid) in zip(axes[index], by_angle.items(), strict=True):
                image = _heat_map(axis, grid, norm)
                turned = f"metric turned by {angle}°\n" if index == 0 else ""
                count = f"{int((grid > DELTA).sum())} of {grid.size} rejected"
                axis.set_title(turned + count, fontsize=7)
        for axis in axes[-1]:
            axis.set_xlabel(r"$\theta_1$")
        bar = figure.colorbar(image, ax=axes, extend="max", shrink=0.7, aspect=30)
        bar.set_label("$T_n$")
        bar.set_ticks(
            [1.0, 1.1, DELTA, 1.5, 2.0, 2.5], labels=["1", "1.1", "1.25", "1.5", "2", "2.5"]
        )
        return figure


def _heat_map(axis: Axes, grid: Float[np.ndarray, "t t"], norm: colors.Normalize) -> Any:
    half = (THETA[1] - THETA[0]) / 2
    extent = (THETA[0] - half, THETA[-1] + half) * 2
    # Rows of the grid are θ1, which belongs on the horizontal axis.
    image = axis.imshow(
        grid.T, origin="lower", extent=extent, cmap="RdBu_r", norm=norm, aspect="equal"
    )
    axis.contour(THETA, THETA, grid.T, levels=[DELTA], colors="black", linewidths=1.0)
    axis.set_xticks([-4, 0, 4])
    axis.set_yticks([-4, 0, 4])
    return image


def split_dots(rows: Sequence[Row], beside: Mapping[str, Mapping[str, Column]]) -> Figure:
    """Draw both statistics of every method and split, and our intervals with two maps."""
    methods = list(dict.fromkeys(row.method for row in rows))
    with rc_context(STYLE):
        figure = Figure(figsize=(7.0, 4.8), layout="constrained")
        axes = figure.subplots(2, 2)
        statistics = {"T_n": "Loss ratio, $T_n$", "T_tilde_n": r"Error rates, $\tilde T_n$"}
        for axis, (name, title) in zip(axes[0], statistics.items(), strict=True):
            for place, method in enumerate(methods):
                values = [getattr(row, name) for row in rows if row.method == method]
                _dots(axis, place, values, COLOURS.get(method, "black"))
                _known(axis, place, name, method, beside)
            axis.set_title(f"{title}: the paper's test", fontsize=8)
        inferred = {
            "flow": "Our interval, gradient flow",
            "reach": "Our interval, within the reach",
        }
        for axis, (name, title) in zip(axes[1], inferred.items(), strict=True):
            _intervals(axis, rows, methods, name)
            axis.set_title(title, fontsize=8)
        for axis in axes.flat:
            axis.axhline(DELTA, color="black", linewidth=0.8, linestyle=(0, (4, 2)))
            axis.set_yscale("log")
            axis.set_xlim(-0.6, len(methods) - 0.4)
            axis.set_xticks(range(len(methods)), methods)
            _plain_ticks(axis)
        end = (len(methods) - 0.45, DELTA)
        axes[0, 0].annotate(r"$\delta = 1.25$", end, ha="right", va="bottom", fontsize=7)
        known, _ = axes[0, 0].get_legend_handles_labels()
        outcomes = [
            Line2D([], [], color=colour, label=outcome.replace("_", " "))
            for outcome, colour in OUTCOME_COLOURS.items()
        ]
        # Legends are filled column by column: a row each for what is above and below.
        pairs = itertools.zip_longest(known, outcomes)
        handles = [handle for pair in pairs for handle in pair if handle is not None]
        figure.legend(handles=handles, fontsize=7, loc="outside lower center", ncols=3)
        return figure


def _dots(axis: Axes, place: int, values: Sequence[float], colour: str) -> None:
    across = place - 0.12 + np.linspace(-0.12, 0.12, len(values)) * (len(values) > 1)
    label = "ours (a dot a split)" if place == 0 else None
    axis.scatter(across, values, s=9, color=colour, alpha=0.75, linewidths=0, label=label)
    axis.hlines(float(np.mean(values)), place - 0.28, place + 0.04, color=colour)


def _known(
    axis: Axes, place: int, name: str, method: str, beside: Mapping[str, Mapping[str, Column]]
) -> None:
    shapes = {"authors' models": "o", "published": "D"}
    for shift, (source, columns) in enumerate(beside.items()):
        known = columns.get(method, {}).get(name)
        if known is None:
            continue
        low = min(known.sd or 0.0, known.mean - LOWEST)
        axis.errorbar(
            place + 0.16 + 0.16 * shift, known.mean, yerr=[[low], [known.sd or 0.0]],
            fmt=shapes[source], markersize=3.5, markerfacecolor="white", color="0.35",
            elinewidth=0.7, label=source if place == 0 else None,
        )  # fmt: skip


def _intervals(axis: Axes, rows: Sequence[Row], methods: Sequence[str], name: str) -> None:
    for place, method in enumerate(methods):
        own: list[Inference] = sorted(
            (getattr(row, name) for row in rows if row.method == method), key=lambda f: f.estimate
        )
        across = place + np.linspace(-0.3, 0.3, len(own)) * (len(own) > 1)
        for x, found in zip(across, own, strict=True):
            colour = OUTCOME_COLOURS[found.outcome]
            low, high = max(found.lower_bound, LOWEST), min(found.upper_bound, HIGHEST)
            axis.vlines(x, low, high, color=colour, linewidth=1.3)
            axis.plot(x, found.estimate, "o", color=colour, markersize=2)


def time_paths(paths: Sequence[Mapping[str, Any]]) -> Figure:
    r"""Draw Figure 2: :math:`T_n` against the time, log-log, with a simultaneous band."""
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        axis = figure.subplots()
        first = min(path["split"] for path in paths)
        for path in paths:
            method, times, main = path["method"], path["times"], path["split"] == first
            colour = COLOURS.get(method, "black")
            axis.plot(
                times, path["T_n"], color=colour, label=method if main else None,
                linewidth=1.3 if main else 0.5, alpha=1 if main else 0.5,
            )  # fmt: skip
            if main:
                axis.fill_between(
                    times, path["lower"], path["upper"], color=colour, alpha=0.25, linewidth=0
                )
        axis.axhline(DELTA, color="black", linewidth=0.8, linestyle=(0, (4, 2)))
        axis.axvline(5, color="0.6", linewidth=0.6)
        axis.annotate("the paper's $T$", (5, 0.99), xycoords=("data", "axes fraction"), va="top",
                      ha="right", fontsize=7, color="0.4", rotation=90)  # fmt: skip
        axis.annotate(r"$\delta = 1.25$", (times[0], DELTA), va="bottom", fontsize=7)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("time $T$ of the flow")
        axis.set_ylabel("$T_n$, and 95 % band over all times")
        axis.legend(loc="upper left")
        _plain_ticks(axis)
        return figure


def _plain_ticks(axis: Axes) -> None:
    """Label a log axis with numbers people read: 1, 2, 5, 10."""
    low, high = axis.get_ylim()
    marks = [m * 10.0**e for e in range(-1, 5) for m in (1, 1.25, 1.5, 2, 3, 5)]
    if high / low > 8:
        marks = [m for m in marks if f"{m:e}"[0] in "125" and f"{m:e}"[2] == "0"]
    if high / low > 200:
        marks = [10.0**e for e in range(-1, 5)]
    axis.set_yticks([m for m in marks if low <= m <= high], minor=False)
    axis.set_yticklabels([f"{m:g}" for m in marks if low <= m <= high])
    axis.minorticks_off()
