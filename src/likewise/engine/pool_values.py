"""Do people and pool speak of the same things? Their groups and values, compared."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.data.arrow import days, holds_dates, kind, numbers
from likewise.data.pairs import group_names
from likewise.errors import InvalidData, StatisticalWarning

BY_CHANCE = 0.001
"""What two samples of one population differ in more rarely than this is told."""

MANY = 0.1
"""Or a share this large of people whose values the others do not have, beyond what is expected."""

NAMED = 5
"""Values that a sentence names."""


def check_groups(trait: str, audited: Mapping[Any, int], pool: pa.Table) -> None:
    """Refuse a pool that has nobody's group; warn of people whose group it does not have.

    Parameters
    ----------
    audited
        How many people have each value of the trait.
    """
    column = pa.table({trait: pa.array(list(audited), from_pandas=True)})
    counts = dict(zip(group_names(column, trait).tolist(), audited.values(), strict=True))
    there = sorted(set(group_names(pool, trait).tolist()) - {""})
    strange = {group: count for group, count in counts.items() if group not in there}
    if not strange or not there:
        return
    if len(strange) == len(counts):
        raise InvalidData(
            f"{trait!r} is {_named(counts)} among the people audited and {_named(there)} in the "
            "pool, so nobody has a counterpart. Write both in the same way, or give a pool with "
            "these groups."
        )
    each = ", ".join(f"{group!r} {count}" for group, count in list(strange.items())[:NAMED])
    warnings.warn(
        f"{sum(strange.values())} of the {sum(counts.values())} people audited whose {trait!r} is "
        f"known are compared with nobody: the pool has nobody of their group ({each}).",
        StatisticalWarning,
        stacklevel=2,
    )


def compare_values(columns: Sequence[str], people: pa.Table, pool: pa.Table) -> None:
    """Refuse a column in which people and pool have nothing in common; warn of strange values.

    A value that only the pool has does occur, so that a model may be asked about it; but where a
    category is spelled in two ways, a model knows one of them, and a harm could not be seen.
    """
    for name in columns:
        if name not in pool.column_names:
            continue  # which is said elsewhere
        ours, theirs = people[name].drop_null(), pool[name].drop_null()
        if kind(ours.type) in ("text", "true/false"):
            if not (holds_dates(ours) and holds_dates(theirs)):
                _compare_levels(name, _counts(ours), _counts(theirs))
        elif kind(ours.type) == "dates":
            _compare_ranges(name, days(ours), days(theirs))
        elif kind(ours.type) == "numbers":
            _compare_ranges(name, numbers(name, ours), numbers(name, theirs))


def _compare_levels(name: str, ours: Counter[Any], theirs: Counter[Any]) -> None:
    """Compare categories.

    That the others have none of a value is by chance if their share of all people, to the power
    of how often the value occurs, is not small. Of a column in which values hardly ever occur
    twice (names, say), nothing is expected.
    """
    n, q = ours.total(), theirs.total()
    if n and not ours.keys() & theirs.keys() and (_single(theirs) / max(q, 1)) ** n < BY_CHANCE:
        raise InvalidData(
            f"Nobody audited has a value of {name!r} that occurs in the pool: it is {_named(ours)} "
            f"among the people audited and {_named(theirs) or 'missing'} in the pool. Write both "
            "in the same way, or give another pool."
        )
    for some, others, whose, whom, so in (
        (theirs, ours, "the pool", "nobody audited", "The model is asked about it all the same"),
        (
            ours,
            theirs,
            "the people audited",
            "nobody of the pool",
            "The model is not asked about it",
        ),
    ):
        strange = {value: count for value, count in some.items() if value not in others}
        share = sum(strange.values()) / max(some.total(), 1)
        rare = some.total() / max(n + q, 1)
        beyond = MANY + 2 * _single(others) / max(others.total(), 1)
        if share > beyond or any(rare**count < BY_CHANCE / len(some) for count in strange.values()):
            warnings.warn(
                f"Column {name!r} is {_named(strange, 'or')} for {100 * share:.2g} % of {whose} "
                f"and for {whom}. {so}; is it spelled in two ways?",
                StatisticalWarning,
                stacklevel=2,
            )


def _compare_ranges(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Warn of numbers whose ranges have nothing in common."""
    if not len(ours) or not len(theirs):
        return
    if ours.min() > theirs.max() or ours.max() < theirs.min():
        warnings.warn(
            f"Column {name!r} lies between {theirs.min():g} and {theirs.max():g} in the pool and "
            f"between {ours.min():g} and {ours.max():g} among the people audited. Is it in the "
            "same unit?",
            StatisticalWarning,
            stacklevel=2,
        )


def _counts(column: Any) -> Counter[Any]:
    """Count values, the most frequent first."""
    counted = column.value_counts()
    values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    found = Counter(dict(zip(values, counts, strict=True)))
    return Counter(dict(found.most_common()))


def _single(counts: Counter[Any]) -> int:
    """Return how many values occur once: about as many people have a value not seen before."""
    return sum(count == 1 for count in counts.values())


def _named(values: Any, last: str = "and") -> str:
    """Name a few values."""
    names = [repr(value) for value in values]
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
