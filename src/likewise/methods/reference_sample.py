"""The reference sample of matched pairs: its rows, its covariates, and how balanced pairs are."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import AuditData, missing
from likewise.data.columns import group_name, holds_dates, kind, numbers, without_dictionary
from likewise.errors import InvalidData, nearest
from likewise.methods.matching import Covariates

MOST_LEVELS = 12
"""Groups of one attribute that are compared with each other; more have to be merged first."""

BINARY = 2
"""Values up to which a numeric column is a category."""


@dataclasses.dataclass(frozen=True, eq=False)
class ReferenceSample:
    """People among whom comparable pairs are found, in original columns.

    They were ``given``, or are audited people themselves; ``positions`` are those of people drawn
    from the audited, who are then not audited.
    """

    people: AuditData
    given: bool
    positions: Int[np.ndarray, " n"] | None = None

    def __len__(self) -> int:
        return len(self.people)

    @functools.cached_property
    def table(self) -> pa.Table:
        """Their original columns, categories written out."""
        assert self.people.table is not None
        return plain(self.people.table)


def plain(table: pa.Table) -> pa.Table:
    """Return a table whose categories are written out, so that equal values are equal."""
    columns = {name: without_dictionary(table[name]) for name in table.column_names}
    return pa.table(columns).combine_chunks()


def check_columns(
    may_matter: Sequence[str],
    attributes: Sequence[str],
    people: pa.Table,
    pool: pa.Table,
    read: Sequence[str],
) -> None:
    """Refuse columns that people or reference sample lack, or that are named for two things."""
    if not attributes:
        raise InvalidData(
            "Which people are compared? Name a protected attribute (protected, --protected)."
        )
    for name in (part for whole in attributes for part in whole.split("×")):
        if name in may_matter:
            raise InvalidData(
                f"{name!r} is a protected attribute, so it cannot be among the columns that may "
                "matter."
            )
    for table, whose, names in (
        (people, "The people audited have", may_matter),
        (pool, "The reference sample has", (*may_matter, *read)),
    ):
        known = list(table.column_names)
        if strange := [name for name in names if name not in known]:
            why = "may matter" if strange[0] in may_matter else "the model reads"
            listed = f" Its columns: {', '.join(known)}." if len(known) <= 20 else ""
            raise InvalidData(
                f"{whose} no column {strange[0]!r}, which {why} (what is named as label, weight, "
                f"cluster or id is none).{nearest(strange[0], known)}{listed}"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class CovariateCoding:
    """How the columns that may matter become numbers and categories.

    Strings, booleans and numeric columns with at most two values are categories; a missing value is
    a category of its own. Dates count in days. ``levels`` has the code of every value of the
    reference sample, by category column.
    """

    numeric: tuple[str, ...]
    levels: Mapping[str, Mapping[Any, int]]

    @classmethod
    def fit(cls, columns: Sequence[str], pool: pa.Table, people: pa.Table) -> "CovariateCoding":
        """Learn from the reference sample, and from some of the people, what kind columns are."""
        numeric, levels = [], {}
        for name in columns:
            both = [without_dictionary(table[name]) for table in (pool, people)]
            number = all(
                kind(column.type) in ("numbers", "dates") or holds_dates(column, times=True)
                for column in both
            )
            values, others = (pc.unique(column.combine_chunks()).to_pylist() for column in both)
            if number and len({v for v in (*values, *others) if v == v} - {None}) > BINARY:
                numeric.append(name)
            else:
                levels[name] = {v: code for code, v in enumerate(values) if v is not None}
        return cls(tuple(numeric), levels)

    def covariates(self, table: pa.Table) -> Covariates:
        """Return the columns that may matter of a table's rows."""
        numeric = np.empty((table.num_rows, len(self.numeric)))
        for j, name in enumerate(self.numeric):
            numeric[:, j] = numbers(name, without_dictionary(table[name]))
        category = np.empty((table.num_rows, len(self.levels)), dtype=np.int64)
        for j, (name, codes) in enumerate(self.levels.items()):
            # What the reference sample lacks has one code, missing another.
            known = {**codes, None: len(codes) + 1}
            values = without_dictionary(table[name]).to_pylist()
            category[:, j] = [known.get(value, len(codes)) for value in values]
        return Covariates(numeric, category)

    def covariates_of(self, rows: Float[np.ndarray, "n k"]) -> Covariates:
        """Return covariates that stand side by side as numbers."""
        numeric, category = np.split(rows, [len(self.numeric)], axis=1)
        return Covariates(numeric, category.astype(np.int64))

    @property
    def indicator_names(self) -> list[tuple[str, str]]:
        """Column, and the value if it is a category, of each of the indicators of all columns."""
        names = [(name, "") for name in self.numeric]
        for name, levels in self.levels.items():
            values = [*map(str, levels), "a value that no comparable person has", "missing"]
            names += [(name, value) for value in values]
        return names

    def indicators(self, rows: Covariates, name: str = "") -> Float[np.ndarray, "n c"]:
        """Return a column, or all: as numbers, or as a 0/1 column for each value of a category."""
        found = []
        for j, column in enumerate(self.numeric):
            if name in (column, ""):
                found.append(rows.numeric[:, [j]])
        for j, (column, levels) in enumerate(self.levels.items()):
            if name in (column, ""):
                codes = np.arange(len(levels) + 2)
                found.append((rows.category[:, [j]] == codes).astype(np.float64))
        return np.hstack(found)


def group_codes(names: Sequence[str], column: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return the code of everyone's group; −1 where the attribute is missing or not compared."""
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place.get(group_name(v), -1) for v in column.tolist()], dtype=np.int64)
    codes[missing(column)] = -1
    return codes


def groups_of(attribute: str, counts: Mapping[Any, int]) -> dict[str, int]:
    """Return the sizes of an attribute's groups by name; refuse a continuous attribute."""
    names = Counter[str]()
    for value, count in counts.items():
        names[group_name(value)] += count
    if len(names) > MOST_LEVELS:
        raise InvalidData(
            f"{attribute!r} has {len(names)} values, and at most {MOST_LEVELS} groups can be "
            f"compared. Merge values, or cut numbers into groups (--bins {attribute}=LIMIT)."
        )
    if len(names) < 2:
        only = next(iter(names), "nothing")
        raise InvalidData(
            f"{attribute!r} is {only!r} for everyone, so there is no other group to compare with."
        )
    return dict(sorted(names.items()))


def standardised_difference(
    values: Float[np.ndarray, "n c"],
    rows: Sequence[Int[np.ndarray, " _"]],
    units: Sequence[Int[np.ndarray, " _"]],
    weight: Float[np.ndarray, " a"] | None = None,
) -> float:
    """Standardised mean difference of a column between two sets of rows, second minus first.

    Means are divided by the pooled standard deviation of ``units``, the two groups before matching,
    so that differences before and after are in the same unit. For a category it is the largest
    difference of its levels. ``weight`` is the same for both sets.
    """
    means = []
    for some in (values[rows[0]], values[rows[1]]):
        w = np.ones((len(some), 1)) if weight is None else weight[:, None]
        there = ~np.isnan(some)
        total = (w * np.where(there, some, 0.0)).sum(0)
        means.append(total / np.maximum((w * there).sum(0), 1e-300))
    with np.errstate(invalid="ignore"):
        variances = np.nanvar(values[units[0]], axis=0) + np.nanvar(values[units[1]], axis=0)
        spread = np.sqrt(variances / 2)
        gap = np.where(spread > 0, (means[1] - means[0]) / np.where(spread > 0, spread, 1), 0.0)
    return float(gap[np.nanargmax(np.abs(gap))]) if len(gap) else 0.0
