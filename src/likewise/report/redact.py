"""Disclosure control: a record without single people and without small cells.

What remains is about at least ten people together. Counts are rounded to tens, so that small ones
cannot be found by subtraction; rates and ratios stay as they are.
"""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any

from likewise.record import (
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
}
"""Names of whole numbers of people, or of tables of them."""
TABLE = ("both", "newly_wrong", "newly_right", "neither")
"""Cells of the table of errors before and after a perturbation."""

Levels = set[tuple[str, str]]


def redact(record: Record) -> Record:
    """Return the record without what is known about single people or fewer than ten.

    People, row numbers and notes that quote values are left out, and so are the distribution of
    single ratios and the levels of encoded columns. Levels of an attribute that fewer than ten
    people hold are named "other", and tables with a smaller cell are left out. So are the
    command, if there is such a level, and settings that tell of it: display names, the map of
    labels, where its attribute is cut. The hash is that of the settings as they were.
    """
    data, part, metric = record.data, record.matched_pairs, record.metric
    small = {(a, g) for a, table in data.protected.items() for g, n in table.items() if n < CELL}
    columns, labels = record.settings.columns, record.settings.labels
    said = {level for _, level in small} | {labels.get(f"{a} = {level}") for a, level in small}
    words = "|".join(re.escape(word) for word in sorted(filter(None, said)))
    named = re.compile(rf"(?<!\w)(?:{words})(?!\w)" if words else r"(?!)")
    tables = {name: _merged(table) for name, table in data.protected.items()}
    if part is not None:
        part = _pairs(part, small, data.weighted)
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
                g
                for g in record.groups
                if (g.attribute, g.group) not in small
                and all(_cells(g.n, rate) for rate in (g.error_rate_before, g.error_rate_after))
            ),
            "measures": _measures(record.measures, small),
            "subgroups": tuple(s for s in record.subgroups if s.n >= CELL),
            "data": data.model_copy(
                update={
                    "features": tuple(dict.fromkeys(f.partition("=")[0] for f in data.features)),
                    "classes": data.classes if _large(data.classes) else {},
                    "protected": {name: table for name, table in tables.items() if _large(table)},
                    "missing": _without_few(data.missing),
                    "dropped": _without_few(data.dropped),
                    "notes": (),
                }
            ),
        }
    )
    values = _rounded(hidden.model_dump(exclude={"settings"}))
    rounded = Record.model_validate(values | {"settings": settings})
    return rounded.model_copy(update={"sentence": sentence(rounded)})


def _test(test: TestRecord, named: re.Pattern[str]) -> TestRecord:
    """Return a test without words on small groups, and without counts of a few."""
    cells = {name: n for name, n in test.details.items() if name in TABLE}
    rounded = {name: round(n, -1) for name, n in cells.items()}
    few = cells if min(cells.values(), default=0.0) < CELL else {}
    return test.model_copy(
        update={
            "notes": tuple(note for note in test.notes if not named.search(note)),
            "details": {k: rounded.get(k, v) for k, v in test.details.items() if k not in few},
            "held_back": named.sub(OTHER, test.held_back),
        }
    )


def _rounded(value: Any, counts: bool = False) -> Any:
    """Return data in which every count of people is rounded to tens."""
    if isinstance(value, dict):
        return {key: _rounded(inner, counts or key in COUNTS) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_rounded(inner) for inner in value)
    whole = counts and isinstance(value, int) and not isinstance(value, bool)
    return round(value, -1) if whole else value


def _without_few(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if n >= CELL or n == 0}


def _unnamed(texts: Mapping[str, str], named: re.Pattern[str]) -> dict[str, str]:
    """Return texts under their names, without those that name a small group."""
    return {key: text for key, text in texts.items() if not named.search(f"{key} {text}")}


def _large(counts: Mapping[str, int]) -> bool:
    return all(n >= CELL for n in counts.values())


def _merged(levels: Mapping[str, int]) -> dict[str, int]:
    """Return the levels of an attribute, those of fewer than ten people as one."""
    kept = {level: n for level, n in levels.items() if n >= CELL}
    rest = sum(n for n in levels.values() if n < CELL)
    return kept | ({OTHER: kept.get(OTHER, 0) + rest} if rest else {})


def _names(one: Any, small: Levels) -> bool:
    """Tell whether one of two groups is a small one."""
    return not small.isdisjoint({(one.attribute, one.group), (one.attribute, one.other)})


def _cells(n: float, rate: float) -> bool:
    """Tell whether a rate leaves at least ten people on both sides."""
    return n >= CELL and (math.isnan(rate) or min(rate, 1 - rate) * n >= CELL)


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
    return tuple(m for m in measures if (m.attribute, m.group) not in hidden)


def _pairs(part: MatchedPairsRecord, small: Levels, weighted: bool) -> MatchedPairsRecord:
    """Return matched pairs without people, and without tables that have a small cell.

    Sums of sampling weights do not tell how many people they are of, so that they go too.
    """
    rows = [r for r in part.comparisons if r.people >= CELL and not _names(r, small)]
    directions = {way for row in rows for way in (row.direction, row.mirrored)}

    def kept(found: Iterable[GroupPair]) -> tuple[GroupPair, ...]:
        return tuple(one for one in found if one.direction in directions)

    folds = part.performance_folds
    errors = zip(folds.get("weight", ()), folds.get("error", repeat(math.nan)), strict=False)
    tells = weighted or not all(_cells(n, wrong / n if n else 0.0) for n, wrong in errors)
    histograms = (h for h in part.changes if not any(0 < c < CELL for c in h.counts))
    return part.model_copy(
        update={
            # A record needs one comparison: where all are small, the first is kept without numbers.
            "comparisons": tuple(map(_coarse, rows)) or (_emptied(part.comparisons[0], small),),
            "people": (),
            "shown": kept(part.shown),
            "balance": kept(part.balance),
            "hidden_factor": kept(part.hidden_factor),
            "changes": () if weighted else kept(histograms),
            "performance_folds": {} if tells else folds,
            "reads": tuple(use for use in part.reads if _cells(use.n, use.changed)),
        }
    )


def _coarse(row: RateComparison) -> RateComparison:
    """Return a comparison without raw rates and folds that tell of a few."""
    raw = ("actual", "raw_group", "raw_other") if row.measure == "decision" else ()
    few = [name for name in raw if not _cells(row.people, getattr(row, name))]
    few += [n for n in ("changed_up", "changed_down") if 0 < getattr(row, n) * row.people < CELL]
    few += ["events"] if row.events < CELL else []
    folds = 0 if row.folds is None else len(row.folds.own_people)
    kept = row.folds if row.people >= CELL * folds else None
    return row.model_copy(update=dict.fromkeys(few, math.nan) | {"folds": kept})


def _emptied(row: RateComparison, small: Levels) -> RateComparison:
    values = row.model_dump(include={"attribute", "group", "other", "measure", "outcome", "reason"})
    for name in ("group", "other"):
        values[name] = OTHER if (row.attribute, values[name]) in small else values[name]
    values |= dict.fromkeys(("own", "swapped", "difference", "ratio"), math.nan)
    values |= {"n": 0, "people": 0, "interval": (math.nan, math.nan), "verdict": "inconclusive"}
    return RateComparison.model_validate(values)
