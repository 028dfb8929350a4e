"""Data quality: notes that a careful analyst would make about a table, one line each."""

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from likewise.audit_data import AuditData, missing
from likewise.data.columns import holds_dates, is_missing, kind, numbers, without_dictionary
from likewise.data.survey import Survey
from likewise.errors import InvalidData, LikewiseWarning, few

MIN_REPEATED = 0.01  # share of repeated rows from which on they are noted
PERFECT_AUC = 0.999  # area under the ROC curve from which on a column tells the label
MIN_CLASS_ROWS = 10  # rows of either label without which no column is said to predict it
BINS = 20  # bins of a number that predicts
MAX_NOTES = 5  # notes of one kind

MIN_COUNT, MIN_EXPECTED = 5, 12
"""How often a value occurs, and how often one would expect it where it does not occur at all, from
which on that is noted: names occur less often, and chance leaves out 12 with probability 6e-6."""


def data_notes(survey: Survey, may_matter: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what stands out in the audited people: repeated rows, leaks, codes and gaps."""
    people = survey.sample.in_columns()
    assert people.table is not None
    of = f"of {len(people):,} {'rows' if len(people) == survey.n else 'people looked at'}"
    kinds = (
        *(_repeated_rows(survey), _perfect_predictors(people.table, people.y)),
        *(_missing_codes(people.table, of), _gaps(people.table, may_matter, of)),
    )
    some = (itertools.islice(notes, MAX_NOTES) for notes in kinds)
    return tuple(itertools.chain(*some))


def _gaps(table: pa.Table, columns: Sequence[str], of: str) -> Iterator[str]:
    for name in columns:
        if name in table.column_names and (count := int(is_missing(table[name]).sum())):
            yield (
                f"{name!r} is missing in {count:,} {of}. Missing is a value of its own: "
                "such people are compared with each other."
            )


def left_out_notes(dropped: Mapping[str, int], whose: str = "") -> tuple[str, ...]:
    """Return how many rows were left out on request, and why; nothing if there are none."""
    reasons = few([f"{reason} ({count:,})" for reason, count in dropped.items()])
    total = sum(dropped.values())
    rows, verb = ("row", "is") if total == 1 else ("rows", "are")
    return (f"{total:,} {rows} {whose}{verb} left out: {reasons}.",) if total else ()


def _repeated_rows(survey: Survey) -> Iterator[str]:
    sample, count, n = survey.sample, survey.repeated, survey.n
    if sample.id is None and sample.cluster is None and count >= max(1, MIN_REPEATED * n):
        about = "" if len(sample) == n else "About "
        yield (
            f"{about}{count:,} of {n:,} rows repeat another row in every column. If these are the "
            "same people, name what identifies them (--id) or groups them (--clusters)."
        )


def _perfect_predictors(table: pa.Table, y: Shaped[np.ndarray, " n"]) -> Iterator[str]:
    classes, codes = np.unique(y.astype(str), return_inverse=True)
    if len(classes) != 2 or np.bincount(codes).min() < MIN_CLASS_ROWS:
        return
    for name in table.column_names:
        area = predictive_area(table, [name], codes == 1)
        if kind(table[name].type) == "numbers":
            known = ~is_missing(table[name])
            ordered = _area(numbers(name, table[name])[known], codes[known] == 1)
            area = max(area, ordered, 1 - ordered)
        if area >= PERFECT_AUC:
            yield (
                f"{name!r} predicts the label perfectly (AUC {area:.3f}). Is it known when the "
                "decision is made?"
            )


def predictive_area(
    table: pa.Table, columns: Sequence[str], positive: Bool[np.ndarray, " n"]
) -> float:
    """Area under the ROC curve of columns as predictors of a group, cross-validated.

    The score of a value (a number's bin, a category, a combination of indicators) is the share of
    the group among the other half of the rows: no name of one person predicts anything.
    """
    code = np.zeros(len(table), dtype=np.int64)
    for name in columns:
        values = binned(without_dictionary(table[name]))
        code = np.unique(code * (values.max(initial=0) + 1) + values, return_inverse=True)[1]
    half = np.random.default_rng(0).permutation(len(code)) % 2  # rows may come in turns
    cell, size = 2 * code + half, 2 * (int(code.max(initial=0)) + 1)
    count = np.bincount(cell, minlength=size)
    rate = (np.bincount(cell, positive, size) + positive.mean()) / (count + 1)
    return max(_area(rate[2 * code + 1 - half], positive), 0.5)


def _area(score: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"]) -> float:
    """Return the probability that a score is larger in the group than outside it."""
    from scipy.stats import rankdata

    inside, outside = int(positive.sum()), int((~positive).sum())
    if not inside or not outside:
        return math.nan
    return float(rankdata(score)[positive].sum() / inside - (inside + 1) / 2) / outside


def binned(column: Any) -> Int[np.ndarray, " n"]:
    """Return codes of values: numbers and dates in equal bins, missing ones by themselves."""
    missing = is_missing(column)
    dates = kind(column.type) == "dates" or holds_dates(column, times=True)
    if dates or kind(column.type) == "numbers":
        values = np.where(missing, 0.0, numbers("", column))
        known = values[~missing]
        edges = np.unique(np.quantile(known, np.arange(1, BINS) / BINS)) if len(known) else known
        codes = np.searchsorted(edges, values, side="left")
    else:
        encoded = column.combine_chunks().dictionary_encode().indices
        codes = encoded.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(missing, codes.max(initial=0) + 1, codes)


def _missing_codes(table: pa.Table, of: str) -> Iterator[str]:
    """Note numbers whose largest or smallest value looks like a code for a missing one.

    Such a value is made of nines (99, 999999, −9, −99), or is −1 where all else is not negative;
    it occurs more than once, and is at least twice as far out as every other value.
    """
    for name in table.column_names:
        if kind(table[name].type) != "numbers":
            continue
        values = numbers(name, table[name].drop_null())
        distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        if len(distinct) < 3:
            continue
        for place, rest in ((-1, distinct[:-1]), (0, distinct[1:])):
            value, count = float(distinct[place]), counts[place]
            if count > 1 and _is_code(value, rest):
                yield (
                    f"{name!r} is {value:.0f} in {count:,} {of}: a missing-value code? "
                    "It is read as a number."
                )


def _is_code(value: float, others: Float[np.ndarray, " m"]) -> bool:
    nines = value == int(value) and set(str(abs(int(value)))) == {"9"}
    if value < 0:
        return bool((others >= 0).all() and (value == -1 or nines))
    return bool(nines and value >= 99 and value >= 2 * float(np.abs(others).max()))


def pool_notes(people: AuditData, pool: AuditData, columns: Sequence[str]) -> tuple[str, ...]:
    """Return how people and pool are written otherwise: groups and categories.

    A group or column in which both have too little in common is refused: spelled in two ways,
    nobody would be comparable, or the model would be asked about values it does not know.
    """
    found: list[str] = []
    for name, groups in people.protected.items():
        ours, theirs = (one[~missing(one)].tolist() for one in (groups, pool.protected[name]))
        found += _compare(name, Counter(ours), Counter(theirs), groups=True)
    tables: list[Any] = [people.table, pool.table]
    for name in columns:
        both = [without_dictionary(table[name]).drop_null() for table in tables]
        words = kind(both[0].type) in ("text", "true/false")
        if words and not all(holds_dates(one, times=True) for one in both):
            found += _compare(name, *(Counter(one.to_pylist()) for one in both))
    return tuple(found)


def _compare(
    name: str, ours: Counter[Any], theirs: Counter[Any], *, groups: bool = False
) -> list[str]:
    """Compare values of people and pool: those of one that the other lacks, if not by chance."""
    found = []
    for some, others, whose, whom in (
        (theirs, ours, "the pool", "no one audited"),
        (ours, theirs, "the people audited", "no one of the pool"),
    ):
        strange = [value for value, _ in some.most_common() if value not in others]
        if not (groups and some is ours):
            least = max(MIN_COUNT, MIN_EXPECTED * some.total() / max(others.total(), 1e-9))
            strange = [value for value in strange if some[value] >= least]
        if strange:
            count = sum(some[value] for value in strange)
            found.append(
                f"{name!r} is {few(map(repr, strange), last='or')} for {count:,} of "
                f"{some.total():,} of {whose} and for {whom}. Is it spelled in two ways?"
            )
    shared = len(ours.keys() & theirs.keys())
    if found and shared < 1 + (groups and len(theirs) > shared):
        ours_named, theirs_named = (
            few(repr(value) for value, _ in some.most_common()) for some in (ours, theirs)
        )
        raise InvalidData(
            f"{name!r} is {ours_named} among the people audited and {theirs_named or 'missing'} in "
            "the pool, so no one is comparable. Write both in the same way, or give another pool."
        )
    return found


def warn_about_scales(
    x: Float[np.ndarray, "n d"], features: Sequence[str], lam: float = 50.0
) -> None:
    r"""Warn when the penalty :math:`\lambda d_x^2` is meant for other units than a column has.

    A move of one standard deviation :math:`s` costs :math:`\lambda s^2`, and the paper's
    :math:`\lambda = 50` is meant for standardised features. Warns when some s is above 30 or below
    1/30; constant and 0/1 columns do not count.
    """
    # Evenly spaced rows: scales that differ by 30 show in any ten thousand people.
    sample = x[:: max(1, len(x) // 10_000)]
    spread = sample.std(axis=0)
    spread[(spread == 0) | ((sample == 0) | (sample == 1)).all(axis=0)] = 1.0
    j = int(np.abs(np.log(spread)).argmax())
    if not math.isnan(lam) and not 1 / 30 <= spread[j] <= 30:
        warnings.warn(
            f"The features are not on one scale: {features[j]!r} has a standard deviation of "
            f"{spread[j]:.3g}, so that such a move costs {lam * spread[j] ** 2:.3g} at lam = "
            f"{lam:g}. Standardise them with an encoder, or choose lam for these units.",
            LikewiseWarning,
            stacklevel=2,
        )
