"""Exact nearest neighbours among places that people share, found with a k-d tree."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from likewise.data.row_hash import together
from likewise.data.ruler import Ruler

SLACK = 1e-9
"""Distances of the tree may be wrong in their last digits; exact ones are computed again."""


@dataclasses.dataclass(frozen=True)
class Positions:
    """Different places in the columns that may matter, and who stands there.

    Parameters
    ----------
    cell, values, hash
        For each position: its combination of categories, its numbers, a number that stands for it.
    start, count, order
        The people at position p are ``order[start[p] : start[p] + count[p]]``.
    """

    cell: Int[np.ndarray, " p"]
    values: Float[np.ndarray, "p d"]
    hash: UInt64[np.ndarray, " p"]
    start: Int[np.ndarray, " p"]
    count: Int[np.ndarray, " p"]
    order: Int[np.ndarray, " n"]

    @classmethod
    def of(
        cls,
        cell: Int[np.ndarray, " n"],
        values: Float[np.ndarray, "n d"],
        place: UInt64[np.ndarray, " n"],
        queue: UInt64[np.ndarray, " n"],
    ) -> "Positions":
        """Gather people who stand at the same place, in the order of their hash ``queue``."""
        filled = np.nan_to_num(values)
        order = np.lexsort((queue, *filled.T, cell))
        new = np.ones(len(order), dtype=bool)
        same = cell[order][1:] == cell[order][:-1]
        for column in filled.T:
            same &= column[order][1:] == column[order][:-1]
        new[1:] = ~same
        start = np.flatnonzero(new)
        first = order[start]
        count = np.diff(np.append(start, len(order)))
        return cls(cell[first], values[first], place[first], start, count, order)

    def __len__(self) -> int:
        return len(self.cell)

    def coordinates(self, ruler: Ruler, spacing: float) -> Float[np.ndarray, "p e"]:
        """Return points for a tree in which different cells are at least ``spacing`` apart."""
        return coordinates(ruler, self.cell, self.values, spacing)


def coordinates(
    ruler: Ruler, cell: Int[np.ndarray, " n"], values: Float[np.ndarray, "n d"], spacing: float
) -> Float[np.ndarray, "n e"]:
    """Return points for a tree: the cell, then the numbers in standard deviations."""
    scaled = np.nan_to_num(values) / np.array(ruler.scale).reshape(1, -1)
    return np.column_stack([cell * spacing, scaled])


@functools.cache
def tree_type() -> Any:
    """Return scipy's k-d tree, imported when it is needed."""
    from scipy.spatial import cKDTree

    return cKDTree


def nearest_one(
    ruler: Ruler,
    people: Positions,
    others: Positions,
    asking: Int[np.ndarray, " a"],
    present: Bool[np.ndarray, " o"],
    caliper: float,
) -> tuple[Int[np.ndarray, " a"], Float[np.ndarray, " a"]]:
    """Return for each asking position the nearest one present, and the squared distance.

    Only the same cell counts, and only distances up to ``caliper``: otherwise -1. Ties are broken
    by a number that stands for both positions.
    """
    found = np.full(len(asking), -1)
    squared = np.full(len(asking), np.inf)
    kept = np.flatnonzero(present)
    if not len(kept) or not len(asking):
        return found, squared
    spacing = 4 * caliper + 1
    tree = tree_type()(others.coordinates(ruler, spacing)[kept])
    points = coordinates(ruler, people.cell[asking], people.values[asking], spacing)
    pending, k = np.arange(len(asking)), 4
    while len(pending):
        k = min(k, len(kept))
        reach = caliper * (1 + SLACK) + SLACK
        distance, place = tree.query(points[pending], k=range(1, k + 1), distance_upper_bound=reach)
        inside = place < len(kept)
        other = kept[np.where(inside, place, 0)]
        mine = asking[pending]
        exact = ruler.squared(people.values[mine][:, None], others.values[other])
        exact[~inside | (exact > caliper**2)] = np.inf
        best = exact.min(axis=1)
        tie = together(people.hash[mine][:, None], others.hash[other])
        tie[exact > best[:, None]] = np.iinfo(np.uint64).max
        chosen = tie.argmin(axis=1)
        # A position that the tree has not returned must be farther away than the best.
        limit = np.sqrt(np.minimum(best, caliper**2)) * (1 + SLACK) + SLACK
        complete = (distance[:, -1] > limit) | (k == len(kept))
        done = complete & np.isfinite(best)
        found[pending[done]] = other[done, chosen[done]]
        squared[pending[done]] = best[done]
        pending, k = pending[~complete], 4 * k
    return found, squared
