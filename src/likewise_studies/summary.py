"""From one row a method and split to the tables of the paper, with its numbers beside ours."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from likewise_studies.published import (
    ADULT_MODELS,
    ADULT_PUBLISHED,
    COMPAS_MODELS,
    COMPAS_PUBLISHED,
    Column,
    KnownValue,
)
from likewise_studies.study import Row
from likewise_studies.text_tables import Table, number, spread

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


def by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of every method."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.method, []).append(row)
    return found


def means(rows: Sequence[Row]) -> dict[str, Column]:
    """Return mean and standard deviation over splits, by method."""
    found: dict[str, Column] = {}
    for method, own in by_method(rows).items():
        column = {}
        for name in QUANTITIES:
            values = [float(getattr(row, name)) for row in own]
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
            column[name] = KnownValue(float(np.mean(values)), sd)
        found[method] = column
    return found


def _mean(values: Iterable[float], digits: int = 3) -> str:
    return number(float(np.mean(list(values))), digits)


def _counts(outcomes: Iterable[str]) -> list[str]:
    """Return how often each outcome occurs."""
    found = list(outcomes)
    return [str(found.count(outcome)) for outcome in OUTCOMES]


def paper_table(study: str, title: str, rows: Sequence[Row]) -> Table:
    """Return the paper's table: ours, the authors' own models, and what is published."""
    lines: list[tuple[str, ...]] = []
    ruled: list[int] = []
    for method, column in means(rows).items():
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
    for method, own in by_method(rows).items():
        for name in ("flow", "reach"):
            found = [getattr(row, name) for row in own]
            averaged = [
                _mean((getattr(one, value) for one in found), digits)
                for value, digits in AVERAGED.items()
            ]
            outcomes = _counts(one.outcome for one in found)
            lines.append((method if name == "flow" else "", name, *averaged, *outcomes))
    return Table(
        f"{title}: our default inference, the metric's own uncertainty included",
        ("", "method", "S_n", "s.e.", "s.e. refitted", *OUTCOMES.values()),
        tuple(lines),
        left=2,
    )


def shuffled_table(title: str, rows: Sequence[Row]) -> Table:
    """Return what the paper's test says of the attributes, and of the same attributes permuted."""
    lines, times = [], len(rows[0].shuffled.shuffled)
    for method, several in by_method(rows).items():
        own = [row.shuffled for row in several]
        values = [value for one in own for value in one.shuffled]
        lines.append(
            (
                method,
                _mean((one.T_n for one in own), 2),
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
    for method, own in by_method(rows).items():
        found = [row.paired for row in own]
        shown = (
            [row.balanced_accuracy for row in own],
            *([one.ratios[name] for one in found] for name in attributes),
            [one.lower for one in found],
            [one.upper for one in found],
        )
        verdicts = _counts(one.verdict for one in found)
        lines.append((method, *map(_mean, shown), *verdicts))
    return Table(
        f"{title}: matched pairs of the test split, the comparison furthest from 1",
        ("", "bal.", *attributes, "CI low", "CI high", *OUTCOMES.values()),
        tuple(lines),
    )


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
