"""Disclosure control: a record without single people and without small cells.

What remains is about at least ten people together. Counts are rounded to tens, so that small ones
cannot be found by subtraction, and shares of people are those of rounded counts. Other numbers have
three digits, or two where they are made of counts alone: from more, counts could be worked out.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from likewise.record import (
    DataRecord,
    GroupPair,
    MatchedPairsRecord,
    Measure,
    RateComparison,
    Record,
    TestRecord,
)
from likewise.report.text import sentence

CELL = 10
"""People that a cell of a table holds at least."""
OTHER = "other"
COUNTS = {
    *("n", "people", "without_overlap", "clipped", "pairs", "pool_size", "in_pool", "clusters"),
    *("pool_rows", "subsample", "missing", "dropped", "classes", "protected", "rows"),
    *("people_needed", "pool_needed", "counts", "events"),
}
"""Names of numbers of people, or of tables of them."""
FROM_COUNTS = {"error_rate_ratio", "impact_ratio"}
"""Names of a test and of measures that are made of a few counts alone."""
TABLE = {"both", "newly_wrong", "newly_right", "neither"}
"""Cells of that test: errors before and after a perturbation."""
SHARES, ERROR_RATES = ("_rate", "decisions_changed"), ("error_rate_before", "error_rate_after")
CHOSEN = {"delta", "alpha", "limit", "threshold", "cap", "parameters", "edges", "seconds"}
"""Numbers that say nothing about the people."""
COUNTED = re.compile(r"\b\d[\d,]*(?=( of [\d,]+)? (people|rows|pairs|clusters)\b)")

Levels = set[tuple[str, str]]


def redact(record: Record) -> Record:
    """Return the record without what is known about single people or fewer than ten.

    People, row numbers and notes that quote values are left out, and so are the distribution of
    single ratios and the levels of encoded columns. Levels of an attribute that fewer than ten
    people hold are named "other", and tables with a smaller cell are left out. So are the
    command, if there is such a level, and settings that tell of it: display names, the map of
    labels, where its attribute is cut. The hash is that of the settings as they were.
    """
    data, part, metric, by = record.data, record.matched_pairs, record.metric, record.decided_by
    small = {(a, g) for a, table in data.protected.items() for g, n in table.items() if n < CELL}
    columns, labels = record.settings.columns, record.settings.labels
    said = {level for _, level in small} | {labels.get(f"{a} = {level}") for a, level in small}
    words = "|".join(re.escape(word) for word in sorted(filter(None, said)))
    named = re.compile(rf"(?<!\w)(?:{words})(?!\w)" if words else r"(?!)")
    tables = {name: _merged(table) for name, table in data.protected.items()}
    if part is not None:
        part = _pairs(part, small, data)
    if metric is not None:  # whatever its origin and its directions hold may name levels
        origin = {name: metric.origin[name] for name in ("source", "n") if name in metric.origin}
        unnamed: tuple[dict[str, float], ...] = ({},) * len(metric.directions)
        metric = metric.model_copy(update={"origin": origin, "directions": unnamed})
    settings = record.settings.changed(
        labels=_unnamed(labels, named),
        columns__label_map=_unnamed(columns.label_map, named),
        columns__bins={
            name: cuts for name, cuts in columns.bins.items() if name not in dict(small)
        },
    )
    hidden = record.model_copy(
        update={
            "causes": tuple(named.sub(OTHER, cause) for cause in record.causes),
            "warnings": tuple(text for text in record.warnings if not named.search(text)),
            "skipped": tuple(text for text in record.skipped if not named.search(text)),
            "tests": {name: _test(test, named) for name, test in record.tests.items()},
            "secondary": tuple(_test(test, named) for test in record.secondary),
            "sensitivity": tuple(
                one for one in record.sensitivity if one.n >= CELL and not _names(one, small)
            ),
            **{"metric": metric, "matched_pairs": part, "perturbed": (), "distribution": {}},
            **{"notes": (), "rows": _without_few(record.rows), "redacted": True},
            "command": "" if small else record.command,
            "groups": tuple(
                g.model_copy(update={name: _rate(getattr(g, name), g.n) for name in ERROR_RATES})
                for g in record.groups
                if (g.attribute, g.group) not in small
                and all(_cells(g.n, getattr(g, name)) for name in ERROR_RATES)
            ),
            "measures": _measures(record.measures, small),
            "subgroups": tuple(s for s in record.subgroups if s.n >= CELL),
            "data": data.model_copy(
                update={
                    "features": tuple(dict.fromkeys(f.partition("=")[0] for f in data.features)),
                    "classes": data.classes
                    if min(data.classes.values(), default=0) >= CELL
                    else {},
                    "protected": {
                        a: t for a, t in tables.items() if min(t.values(), default=0) >= CELL
                    },
                    "missing": _without_few(data.missing),
                    "dropped": _without_few(data.dropped),
                    "notes": (),
                }
            ),
        }
    )
    digits = 2 if by is not None and by.test in FROM_COUNTS else 3
    values = _rounded(hidden.model_dump(exclude={"settings"}), digits=digits)
    rounded = Record.model_validate(values | {"settings": settings})
    return rounded.model_copy(update={"sentence": sentence(rounded)})


def _test(test: TestRecord, named: re.Pattern[str]) -> TestRecord:
    """Return a test without words on small groups, and without the table it is made of."""
    return test.model_copy(
        update={
            "notes": tuple(note for note in test.notes if not named.search(note)),
            "details": {name: n for name, n in test.details.items() if name not in TABLE},
            "held_back": named.sub(OTHER, test.held_back),
        }
    )


def _rounded(value: Any, name: str = "", digits: int = 3) -> Any:
    """Return data in which counts of people are tens, and other numbers have so many digits."""
    if name in CHOSEN:
        return value
    if isinstance(value, dict):
        digits = 2 if FROM_COUNTS & {name, value.get("test"), value.get("name")} else digits
        return {k: _rounded(v, name if name in COUNTS else k, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_rounded(inner, name, digits) for inner in value)
    if isinstance(value, str):
        return value if name == "command" else COUNTED.sub(_tens, value)
    if isinstance(value, bool | None) or (isinstance(value, int) and name not in COUNTS):
        return value
    if name in COUNTS:
        return round(value, -1) if math.isfinite(value) else value
    if name == "moves" or name.startswith("p_"):  # a share; what tells a statistic in many digits
        return round(float(f"{value:.2g}"), 4)
    return float(f"{value:.{digits}g}")


def _tens(found: re.Match[str]) -> str:
    count = int(found[0].replace(",", ""))
    return f"{round(count, -1):,}" if count >= CELL or not count else f"fewer than {CELL}"


def _rate(rate: float, n: int) -> float:
    """Return a share of n people as one of counts in tens; unknown if that has a small cell."""
    return round(rate * n, -1) / round(n, -1) if _cells(n, rate) else math.nan


def _share(part: Any, name: str) -> Any:
    """Return a share of n people as one of counts in tens, with an interval as wide or wider."""
    known, unit = getattr(part, name), CELL / max(round(part.n, -1), CELL)
    rate, ends = _rate(known, part.n), np.array([part.lower, part.upper])
    down, up = (unit * np.ceil(np.abs(known - ends) / unit)).tolist()
    return part.model_copy(update={name: rate, "lower": max(0.0, rate - down), "upper": rate + up})


def _without_few(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if n >= CELL or n == 0}


def _unnamed(texts: Mapping[str, str], named: re.Pattern[str]) -> dict[str, str]:
    """Return texts under their names, without those that name a small group."""
    return {key: text for key, text in texts.items() if not named.search(f"{key} {text}")}


def _merged(levels: Mapping[str, int]) -> dict[str, int]:
    """Return the levels of an attribute, those of fewer than ten people as one."""
    kept = {level: n for level, n in levels.items() if n >= CELL}
    rest = sum(n for n in levels.values() if n < CELL)
    return kept | ({OTHER: kept.get(OTHER, 0) + rest} if rest else {})


def _names(one: Any, small: Levels) -> bool:
    """Tell whether one of two groups is a small one."""
    return not small.isdisjoint({(one.attribute, one.group), (one.attribute, one.other)})


def _cells(n: float, rate: float) -> bool:
    """Tell whether a rate leaves at least ten people on both sides, also of rounded counts."""
    hits = rate * n
    cells = min(hits, n - hits) >= CELL and round(hits, -1) < round(n, -1)
    return n >= CELL and (math.isnan(rate) or cells)


def _measures(measures: Iterable[Measure], small: Levels) -> tuple[Measure, ...]:
    """Return the measures of groups without small cells.

    One rate with a small cell takes all measures of its group with it: from the rest it could be
    worked out.
    """
    hidden = small | {
        (m.attribute, m.group)
        for m in measures
        if m.group and not _cells(m.n, m.value if m.name.endswith("_rate") else math.nan)
    }
    return tuple(
        m.model_copy(update={"lower": math.nan, "upper": math.nan})
        if m.name == "impact_ratio"
        else _share(m, "value")
        if m.name.endswith(SHARES)
        else m
        for m in measures
        if (m.attribute, m.group) not in hidden
    )


def _pairs(part: MatchedPairsRecord, small: Levels, data: DataRecord) -> MatchedPairsRecord:
    """Return matched pairs without people, and without tables that have a small cell.

    Folds and histograms go: many small sums tell each of their counts.
    """
    rows = [r for r in part.comparisons if r.people >= CELL and not _names(r, small)]
    directions = {way for row in rows for way in (row.direction, row.mirrored)}

    def kept(found: Iterable[GroupPair]) -> tuple[GroupPair, ...]:
        return tuple(one for one in found if one.direction in directions)

    return part.model_copy(
        update={
            # A record needs one comparison: where all are small, the first is kept without numbers.
            "comparisons": tuple(_coarse(row, data.protected) for row in rows)
            or (_emptied(part.comparisons[0], small),),
            "people": (),
            "shown": kept(part.shown),
            "balance": kept(part.balance),
            "hidden_factor": kept(part.hidden_factor),
            "changes": (),
            "performance_folds": {},
            "reads": tuple(
                _share(use, "changed") for use in part.reads if _cells(use.n, use.changed)
            ),
        }
    )


def _coarse(row: RateComparison, protected: Mapping[str, Mapping[str, int]]) -> RateComparison:
    """Return a comparison without raw rates, folds and p-values that tell of a few."""
    few = [n for n in ("changed_up", "changed_down") if 0 < getattr(row, n) * row.people < CELL]
    few += ["events"] if row.events < CELL else []
    update: dict[str, Any] = dict.fromkeys(few, math.nan) | {"folds": None, "p_by_limit": ()}
    if row.measure == "decision":
        levels = protected.get(row.attribute, {})
        n = {"raw_group": levels.get(row.group, 0), "raw_other": levels.get(row.other, 0)}
        n["actual"] = row.people
        update |= {name: _rate(getattr(row, name), count) for name, count in n.items()}
    return row.model_copy(update=update)


def _emptied(row: RateComparison, small: Levels) -> RateComparison:
    values = row.model_dump(include={"attribute", "group", "other", "measure", "outcome", "reason"})
    for name in ("group", "other"):
        values[name] = OTHER if (row.attribute, values[name]) in small else values[name]
    values |= dict.fromkeys(("own", "swapped", "difference", "ratio"), math.nan)
    values |= {"n": 0, "people": 0, "interval": (math.nan, math.nan), "verdict": "inconclusive"}
    return RateComparison.model_validate(values)
