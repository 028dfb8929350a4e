"""From one row a method and split to the tables of the paper, with its numbers beside ours."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from likewise_studies.published import (
    ADULT_MODELS,
    ADULT_PUBLISHED,
    COMPAS_MODELS,
    COMPAS_PUBLISHED,
    Column,
    Known,
)
from likewise_studies.study import Row
from likewise_studies.text_tables import Table, csv_text, number, spread

QUANTITIES = {
    "balanced_accuracy": "bal. acc",
    "aod_sex": "AOD sex",
    "aod_race": "AOD race",
    "T_n": "T_n",
    "T_n_rejected": "rej.",
    "T_tilde_n": "T̃_n",
    "T_tilde_n_rejected": "rej.",
}
OUTCOMES = {
    "evidence": "evidence",
    "within_tolerance": "within",
    "inconclusive": "inconclusive",
}
AVERAGED = {"estimate": 2, "std_error": 3, "std_error_refitted": 3}
"""What is averaged over splits, and with how many digits it is shown."""

BESIDE: Mapping[str, Mapping[str, Mapping[str, Column]]] = {
    "adult": {"authors' models": ADULT_MODELS, "published": ADULT_PUBLISHED},
    "compas": {"authors' models": COMPAS_MODELS, "published": COMPAS_PUBLISHED},
}
"""What stands beside our numbers, by study and source."""


def means(rows: Sequence[Row]) -> dict[str, Column]:
    """Return mean and standard deviation over splits, by method."""
    methods = dict.fromkeys(row.method for row in rows)
    return {
        method: {
            name: _known([float(getattr(r, name)) for r in rows if r.method == method])
            for name in QUANTITIES
        }
        for method in methods
    }


def _known(values: Sequence[float]) -> Known:
    return Known(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


def paper_table(study: str, title: str, rows: Sequence[Row]) -> Table:
    """Return the paper's table: ours, the authors' own models, and what is published."""
    ours = means(rows)
    lines: list[tuple[str, ...]] = []
    ruled: list[int] = []
    for method, column in ours.items():
        ruled += [len(lines)] * bool(lines)
        lines.append((method, *_cells(column)))
        for source, known in BESIDE.get(study, {}).items():
            if method in known:
                lines.append((f"  {source.removesuffix(' models')}", *_cells(known[method])))
    splits = len({row.split for row in rows})
    return Table(
        f"{title}: mean ± sd over {splits} split{'s' * (splits > 1)}; the paper's tests, δ = 1.25",
        ("", *QUANTITIES.values()),
        tuple(lines),
        frozenset(ruled),
    )


def _cells(column: Column) -> list[str]:
    cells = []
    for name in QUANTITIES:
        known = column.get(name)
        if known is None:
            cells.append("–")
        elif name.endswith("rejected"):
            cells.append(number(known.mean, 2))
        elif name.startswith("T"):
            cells.append(spread(known.mean, known.sd))
        else:
            cells.append(number(known.mean))
    return cells


def inference_table(title: str, rows: Sequence[Row]) -> Table:
    """Return what our default inference concludes, the metric's own uncertainty included."""
    lines: list[tuple[str, ...]] = []
    for method in dict.fromkeys(row.method for row in rows):
        for name in ("flow", "reach"):
            own = [getattr(row, name) for row in rows if row.method == method]
            lines.append(
                (
                    method if name == "flow" else "",
                    name,
                    *(
                        number(float(np.mean([getattr(found, value) for found in own])), digits)
                        for value, digits in AVERAGED.items()
                    ),
                    *(str(sum(found.outcome == outcome for found in own)) for outcome in OUTCOMES),
                )
            )
    return Table(
        f"{title}: our default inference, the metric's own uncertainty included",
        ("", "method", "S_n", "s.e.", "s.e. refitted", *OUTCOMES.values()),
        tuple(lines),
        left=2,
    )


def shuffled_table(title: str, rows: Sequence[Row]) -> Table:
    """Return what the paper's test says of the attributes, and of the same attributes permuted."""
    lines, times = [], len(rows[0].shuffled.shuffled)
    for method in dict.fromkeys(row.method for row in rows):
        own = [row.shuffled for row in rows if row.method == method]
        values = [value for one in own for value in one.shuffled]
        lines.append(
            (
                method,
                number(float(np.mean([one.T_n for one in own])), 2),
                f"{number(min(values), 2)} – {number(max(values), 2)}",
                number(float(np.median(values)), 2),
                number(sum(one.rejected for one in own) / len(values), 2),
                number(float(np.median([one.p_value for one in own])), 2),
                f"{sum(one.p_value <= 0.05 for one in own)} of {len(own)}",
            )
        )
    return Table(
        f"{title}: the paper's test with both attributes permuted, {times} times a split",
        ("", "T_n", "T_n permuted", "median", "rej.", "median p", "p ≤ .05"),
        tuple(lines),
    )


def paired_table(title: str, rows: Sequence[Row]) -> Table:
    """Return what matched pairs say, and how accurate the models are."""
    attributes = list(rows[0].paired.ratios)
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        found = [row.paired for row in own]
        shown = (
            [row.balanced_accuracy for row in own],
            *([one.ratios[name] for one in found] for name in attributes),
            [one.lower for one in found],
            [one.upper for one in found],
        )
        lines.append(
            (
                method,
                *(number(float(np.mean(values))) for values in shown),
                *(str(sum(one.verdict == verdict for one in found)) for verdict in OUTCOMES),
            )
        )
    return Table(
        f"{title}: matched pairs of the test split, the comparison furthest from 1",
        ("", "bal.", *attributes, "CI low", "CI high", *OUTCOMES.values()),
        tuple(lines),
    )


def study_csv(study: str, rows: Sequence[Row]) -> str:
    """Return the means as a spreadsheet: one line a method and quantity, sources side by side."""
    sources = {"ours": means(rows), **BESIDE.get(study, {})}
    head = ["method", "quantity"]
    for source in sources:
        name = source.replace("'", "").replace(" ", "_")
        head += [f"{name}_mean", f"{name}_sd"]
    lines: list[list[object]] = []
    for method in sources["ours"]:
        for quantity in QUANTITIES:
            line: list[object] = [method, quantity]
            for known in sources.values():
                value = known.get(method, {}).get(quantity)
                line += [None, None] if value is None else [value.mean, value.sd]
            lines.append(line)
    return csv_text(head, lines)


def study_json(study: str, rows: Sequence[Row]) -> dict[str, object]:
    """Return rows, means and the numbers beside them as plain values."""
    return {
        "rows": [dataclasses.asdict(row) for row in rows],
        "means": _plain(means(rows)),
        **{
            source.replace("'", "").replace(" ", "_"): _plain(known)
            for source, known in BESIDE.get(study, {}).items()
        },
    }


def _plain(columns: Mapping[str, Column]) -> dict[str, object]:
    return {
        method: {name: dataclasses.asdict(known) for name, known in column.items()}
        for method, column in columns.items()
    }
