"""People alike in the columns that may matter, in a frame or an array of features."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidSettings, nearest
from likewise.training.frame_features import days, is_calendar


def is_frame(X: Any) -> bool:
    """Tell whether X has columns of its own types (a pandas DataFrame)."""
    return hasattr(X, "iloc")


def column_names(X: Any) -> list[Any]:
    """Return what columns are called by: names, or their numbers."""
    return list(X.columns) if is_frame(X) else list(range(X.shape[1]))


def split_columns(X: Any, may_matter: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    """Return the columns that may matter, and the free ones; without names all may matter."""
    names = column_names(X)
    if may_matter is None:
        return names, []
    for name in may_matter:
        if name not in names:
            hint = nearest(str(name), [str(n) for n in names])
            raise InvalidSettings(f"There is no column {name!r} that could matter.{hint}")
    kept = list(may_matter)
    return kept, [name for name in names if name not in kept]


def take(X: Any, rows: Int[np.ndarray, " m"]) -> Any:
    """Return some rows."""
    return X.iloc[rows].reset_index(drop=True) if is_frame(X) else X[rows]


def lend(
    X: Any, i: Int[np.ndarray, " m"], pool: Any, j: Int[np.ndarray, " m"], free: Sequence[Any]
) -> Any:
    """Return people i of X with the free columns of people j of the pool."""
    if is_frame(X):
        mine, theirs = take(X, i), take(pool, j)
        for name in free:
            mine[name] = theirs[name]
        return mine
    rows = X[i].copy()
    rows[:, list(free)] = pool[j][:, list(free)]
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """Where people stand in the columns that may matter: numbers in units of the pool, categories.

    Parameters
    ----------
    numbers, categories
        Names of the columns.
    centre, scale
        Of the numbers, in the pool.
    """

    numbers: tuple[Any, ...]
    categories: tuple[Any, ...]
    centre: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " k"]

    @classmethod
    def fit(cls, X: Any, columns: Sequence[Any]) -> "Standing":
        """Learn the units from a pool."""
        numbers = tuple(name for name in columns if _numeric(X, name))
        values = np.column_stack([_column(X, name) for name in numbers]) if numbers else None
        if values is None:
            empty = np.zeros(0)
            return cls((), tuple(columns), empty, empty)
        spread = np.nanstd(values, axis=0)
        return cls(
            numbers,
            tuple(name for name in columns if name not in numbers),
            np.nan_to_num(np.nanmean(values, axis=0)),
            np.where(spread > 0, spread, 1.0),
        )

    def __call__(self, X: Any) -> tuple[Float[np.ndarray, "n k"], Shaped[np.ndarray, " n"]]:
        """Return everyone's numbers, and one text for all their categories and gaps."""
        n = len(X)
        if not self.numbers and not self.categories:
            return np.zeros((n, 1)), np.zeros(n, dtype="<U1")
        values = (
            np.column_stack([_column(X, name) for name in self.numbers])
            if self.numbers
            else np.zeros((n, 0))
        )
        gaps = np.isnan(values)
        texts = [np.array([str(v) for v in X[name]]) for name in self.categories]
        texts += [gap.astype(str) for gap in gaps.T if gap.any()]
        cell = texts[0] if texts else np.zeros(n, dtype="<U1")
        for text in texts[1:]:
            cell = np.char.add(np.char.add(cell, "\x1f"), text)
        placed = np.where(gaps, 0.0, (values - self.centre) / self.scale)
        return (placed if placed.shape[1] else np.zeros((n, 1))), cell


def _numeric(X: Any, name: Any) -> bool:
    return not is_frame(X) or X[name].dtype.kind in "biuf" or is_calendar(X[name])


def _column(X: Any, name: Any) -> Float[np.ndarray, " n"]:
    if not is_frame(X):
        return np.asarray(X[:, name], dtype=np.float64)
    if X[name].dtype.kind in "biuf":
        return np.asarray(X[name].to_numpy(np.float64, na_value=np.nan))
    return days(X[[name]])[:, 0]


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbours:
    """Finds the people of a pool who are nearest: equal categories first, then near in numbers.

    Where too few have equal categories, numbers alone decide. A person's neighbours depend on the
    columns that may matter alone.
    """

    places: Standing
    rows: Int[np.ndarray, " p"]
    everyone: Any
    by_cell: dict[str, tuple[Int[np.ndarray, " c"], Any]]

    @classmethod
    def among(cls, X: Any, rows: Int[np.ndarray, " p"], places: Standing, m: int) -> "Neighbours":
        """Prepare some rows of a pool for questions about at most m neighbours."""
        from scipy.spatial import cKDTree

        x, cell = places(take(X, rows))
        order = np.argsort(cell, kind="stable")
        names, starts = np.unique(cell[order], return_index=True)
        parts = np.split(order, starts[1:])
        by_cell = {
            str(name): (part, cKDTree(x[part]))
            for name, part in zip(names, parts, strict=True)
            if len(part) >= m
        }
        return cls(places, rows, cKDTree(x), by_cell)

    def __call__(self, X: Any, m: int) -> tuple[Int[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
        """Return rows of the pool, nearest first, and how far they are."""
        x, cell = self.places(X)
        m = min(m, len(self.rows))
        found = np.zeros((len(x), m), dtype=np.int64)
        distance = np.zeros((len(x), m))
        for name in np.unique(cell):
            who = np.flatnonzero(cell == name)
            part, tree = self.by_cell.get(str(name), (np.arange(len(self.rows)), self.everyone))
            far, near = tree.query(x[who], k=[*range(1, m + 1)])
            found[who], distance[who] = self.rows[part[near]], far
        return found, distance
