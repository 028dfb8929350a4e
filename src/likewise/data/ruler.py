"""How alike two people are in the columns that may matter."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from likewise.data.arrow import (
    check_finite,
    days,
    holds_dates,
    is_missing,
    kind,
    without_dictionary,
)
from likewise.errors import InvalidData, nearest

MICROSECONDS_A_DAY = 86_400_000_000


@dataclasses.dataclass(frozen=True)
class Places:
    """Where people stand in the columns that may matter.

    Parameters
    ----------
    codes
        One column a category, and one a number that says whether it is missing; people are alike
        in a category if their codes are equal.
    values
        The numbers, less the ruler's origin; ``nan`` where missing.
    """

    codes: Int[np.ndarray, "n c"]
    values: Float[np.ndarray, "n d"]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Int[np.ndarray, " r"]) -> "Places":
        """Return some of the people, or some of them several times."""
        return Places(self.codes[rows], self.values[rows])


@dataclasses.dataclass(frozen=True)
class Ruler:
    r"""The distance in the columns that may matter, with units learned from a pool of people.

    Numbers and dates count in standard deviations of the pool and make one Euclidean distance
    :math:`d^2 = \sum_j ((v_j - v'_j) / s_j)^2`. Everything else is a category, equal or not. A
    missing value is a value like others: a missing number is alike only to a missing number.

    Parameters
    ----------
    numbers, categories
        Names of the columns.
    origin, scale
        For each number: a value of the pool, and the standard deviation (1 if it is constant).
    levels
        For each category: the values that occur in the pool.
    """

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    origin: tuple[float, ...]
    scale: tuple[float, ...]
    levels: Mapping[str, Any]

    @classmethod
    def fit(cls, pool: pa.Table, columns: Sequence[str]) -> "Ruler":
        """Learn units and levels from the pool."""
        for name in columns:
            if name not in pool.column_names:
                hint = nearest(name, pool.column_names)
                raise InvalidData(f"The pool has no column {name!r} that may matter.{hint}")
        numbers = tuple(
            name for name in columns if _is_number(pool[name].type) or holds_dates(pool[name])
        )
        categories = tuple(name for name in columns if name not in numbers)
        origin, scale = [], []
        for name in numbers:
            seen = _as_numbers(name, pool[name])
            seen = seen[~np.isnan(seen)]
            # Differences from a value that occurs are exact for whole numbers, so that ties of
            # distances are ties: a mean would blur them.
            first = float(seen.min()) if len(seen) else 0.0
            spread = float((seen - first).std()) if len(seen) else 0.0
            origin.append(first)
            scale.append(spread if spread > 0 else 1.0)
        levels = {name: pc.unique(_as_levels(pool[name]).drop_null()) for name in categories}
        return cls(numbers, categories, tuple(origin), tuple(scale), levels)

    def place(self, table: pa.Table) -> Places:
        """Return where the people of a table stand."""
        for name in (*self.numbers, *self.categories):
            if name not in table.column_names:
                hint = nearest(name, table.column_names)
                raise InvalidData(f"The people audited have no column {name!r}.{hint}")
        codes = np.zeros((len(table), len(self.categories) + len(self.numbers)), dtype=np.int64)
        values = np.zeros((len(table), len(self.numbers)))
        for j, name in enumerate(self.categories):
            codes[:, j] = _codes(name, table[name], self.levels[name])
        for j, name in enumerate(self.numbers):
            if not _is_number(table[name].type) and kind(table[name].type) != "text":
                raise _no_number(name, table[name])
            values[:, j] = _as_numbers(name, table[name]) - self.origin[j]
            codes[:, len(self.categories) + j] = np.isnan(values[:, j])
        return Places(codes, values)

    def squared(
        self, one: Float[np.ndarray, "*#n d"], other: Float[np.ndarray, "*#n d"]
    ) -> Float[np.ndarray, "..."]:
        """Return squared distances over numbers, column by column; missing ones add nothing."""
        total = np.zeros(np.broadcast_shapes(one.shape, other.shape)[:-1])
        for j, scale in enumerate(self.scale):
            gap = (one[..., j] - other[..., j]) / scale
            total += np.where(np.isnan(gap), 0.0, gap * gap)
        return total


def cells(*codes: Int[np.ndarray, "_ c"]) -> list[Int[np.ndarray, " _"]]:
    """Return a number for each row, equal where all categories are, across all arrays."""
    joined = np.concatenate(codes)
    cell = np.zeros(len(joined), dtype=np.int64)
    for column in joined.T:
        if len(column) and (column != column[0]).any():
            level = np.unique(column, return_inverse=True)[1].reshape(-1)
            combined = cell * (level.max() + 1) + level
            cell = np.unique(combined, return_inverse=True)[1].reshape(-1)
    return np.split(cell, np.cumsum([len(part) for part in codes])[:-1])


def _is_number(column_type: Any) -> bool:
    if pa.types.is_dictionary(column_type):
        return False
    return kind(column_type) == "numbers" or pa.types.is_temporal(column_type)


def _as_numbers(name: str, column: Any) -> Float[np.ndarray, " n"]:
    """Return numbers as they are, and dates and times in days, also if they are text."""
    if kind(column.type) == "text":
        try:
            return days(column)
        except pa.ArrowInvalid:
            raise _no_number(name, column) from None
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        moments = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
        column = moments.cast(pa.int64())
        unit = MICROSECONDS_A_DAY
    else:
        unit = 1
        if pa.types.is_temporal(column.type):
            wide = pa.int64() if column.type.bit_width == 64 else pa.int32()
            column = column.cast(wide)
    found = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64) / unit
    check_finite(name, found)
    return found


def _no_number(name: str, column: Any) -> InvalidData:
    found = kind(column.type)
    return InvalidData(f"Column {name!r} holds {found}, but numbers or dates in the pool.")


def _as_levels(column: Any) -> Any:
    column = without_dictionary(column)
    return column if kind(column.type) in ("text", "true/false") else column.cast(pa.large_string())


def _codes(name: str, column: Any, levels: Any) -> Int[np.ndarray, " n"]:
    """Return the place among the levels; one more if missing, -1 for a value not in the pool."""
    if _is_number(column.type):
        found = kind(column.type)
        raise InvalidData(f"Column {name!r} holds {found}, but categories in the pool.")
    column = _as_levels(column)
    places = pc.index_in(column.cast(levels.type), value_set=levels)
    codes = places.fill_null(-1).to_numpy().astype(np.int64)
    return np.where(is_missing(column), len(levels), codes)
