"""Matching on covariates: ranked coordinates, exact greedy pairs, and each person's nearest pairs.

Distance is the root mean square over numeric columns, each by its rank in the pool scaled to a
standard deviation of 1; categories have to be equal. Row numbers decide what random numbers a row
gets, so that nothing depends on the blocks in which people arrive.
"""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64
from scipy.spatial import cKDTree
from scipy.special import ndtri

CALIPER = 0.5
"""Largest distance between the two members of a pair."""

FARTHEST = 0.8
"""Largest median distance of a person to their pairs; those beyond are without overlap."""

LEAST_NEIGHBOURS, MOST_NEIGHBOURS = 4, 20
JITTER = 1e-3
ROOT_TWELVE = math.sqrt(12.0)
"""What a rank between 0 and 1 is multiplied by for a standard deviation of 1."""

CELL_SPACING = 16.0
"""Distance between cells of categories in the trees: more than two rows of one cell can have."""

LEAF = 32


@dataclasses.dataclass(frozen=True)
class Covariates:
    """The columns that may matter, as numbers.

    ``numeric`` columns are those whose order counts, nan where a value is missing; values of a
    ``category`` have to be equal, and a missing one has a code of its own.
    """

    numeric: Float[np.ndarray, "n p"]
    category: Int[np.ndarray, "n c"]

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: Int[np.ndarray, " r"]) -> "Covariates":
        """Return some of the rows."""
        return Covariates(self.numeric[rows], self.category[rows])


Points = Float[np.ndarray, "n d"]
"""Coordinates of rows: ranks, scaled."""

Cells = Int[np.ndarray, " n"]
"""Numbers that are equal where all categories are; −1 for a cell that the pool does not have."""

Key = tuple[int | str, ...]
"""What random numbers are for: seed, attribute, two groups, purpose, number of the redraw."""


def seed_sequence(key: Key) -> np.random.SeedSequence:
    """Return the seed for one purpose; other attributes and purposes do not change it."""
    # A leading 1 keeps texts of different length apart.
    return np.random.SeedSequence(
        [k if isinstance(k, int) else int.from_bytes(b"\1" + k.encode(), "big") for k in key]
    )


def uniforms(key: Key, positions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Uniform random numbers by position: SplitMix64 (Steele, Lea and Flood 2014) as a counter.

    The number of a row depends on the key and its position alone, whatever rows come with it.
    """
    with np.errstate(over="ignore"):
        state = seed_sequence(key).generate_state(1, np.uint64)[0]
        z: UInt64[np.ndarray, " n"] = state + positions.astype(np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


@dataclasses.dataclass(frozen=True)
class RankScale:
    """Coordinates and cells of rows, by their ranks and categories in a pool.

    ``columns`` are the pool's values of every numeric column, in increasing order; ``levels`` the
    values of each step in forming cells: of every column, then of its combination with the columns
    before it.
    """

    columns: tuple[Float[np.ndarray, " _"], ...]
    levels: tuple[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]], ...]

    @classmethod
    def from_pool(cls, pool: Covariates) -> "RankScale":
        """Learn ranks and cells from the rows of a pool."""
        columns = tuple(np.sort(column[~np.isnan(column)]) for column in pool.numeric.T)
        levels = []
        cell = np.zeros(len(pool), dtype=np.int64)
        for column in _exact(pool):
            values, code = np.unique(column, return_inverse=True)
            combined, cell = np.unique(cell * len(values) + code, return_inverse=True)
            levels.append((values, combined))
        return cls(columns, tuple(levels))

    def cells(self, rows: Covariates) -> Cells:
        """Return the cell of categories of each row; −1 if no row of the pool is in it."""
        cell = np.zeros(len(rows), dtype=np.int64)
        known = np.ones(len(rows), dtype=bool)
        for column, (values, combined) in zip(_exact(rows), self.levels, strict=True):
            if not len(values):
                return np.full(len(rows), -1)
            code, seen = look_up(values, column)
            cell, met = look_up(combined, cell * len(values) + code)
            known &= seen & met
        return np.where(known, cell, -1)

    def points(self, rows: Covariates, key: Key, positions: Int[np.ndarray, " n"]) -> Points:
        """Return the coordinates of rows, with a jitter that keeps ties apart."""
        width = max(len(self.columns), 1)
        counter = positions[:, None] * width + np.arange(width)
        points = JITTER * ndtri(uniforms(key, counter.ravel())).reshape(-1, width)
        for at, (column, values) in enumerate(zip(self.columns, rows.numeric.T, strict=True)):
            below = np.searchsorted(column, values, side="left")
            up_to = np.searchsorted(column, values, side="right")
            rank = (below + up_to) / (2 * max(len(column), 1))
            rank[np.isnan(values)] = 0.5
            points[:, at] += ROOT_TWELVE * rank / math.sqrt(width)
        return points


def _exact(rows: Covariates) -> list[Int[np.ndarray, " n"]]:
    """Return what has to be equal: categories, and which numbers are missing."""
    missing = np.isnan(rows.numeric).astype(np.int64)
    return [*rows.category.T.astype(np.int64), *missing.T]


def look_up(
    values: Int[np.ndarray, " v"], wanted: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return the places of numbers in a sorted array, and whether they are there."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return at, values[at] == wanted


def _with_cells(points: Points, cells: Cells) -> Float[np.ndarray, "n e"]:
    """Add a coordinate that keeps cells apart: differences within a cell are exactly zero."""
    return np.column_stack([points, CELL_SPACING * cells])


def greedy_pairs(
    points: Points, cells: Cells, second: Bool[np.ndarray, " n"]
) -> Int[np.ndarray, "2 q"]:
    """Pair two groups 1:1 without replacement, always the closest two that are left.

    Returns the rows of their members, of the first and of the second group, the closest pair first.
    Exact over all candidates of one cell within the caliper. Two rows that are each other's nearest
    are a pair whatever comes before, so that all such pairs are taken at once, again and again.
    """
    places = _with_cells(points, cells)
    groups = np.flatnonzero(~second), np.flatnonzero(second)
    smaller = int(len(groups[1]) < len(groups[0]))
    small, large = (places[groups[which]] for which in (smaller, 1 - smaller))
    bound = np.nextafter(CALIPER, math.inf)
    # Each tree is asked once: it has to be built quickly.
    tree = functools.partial(cKDTree, leafsize=LEAF, balanced_tree=False, compact_nodes=False)
    left, free = np.arange(len(small)), np.arange(len(large))
    distance, nearest = np.zeros(len(small)), np.zeros(len(small), dtype=np.int64)
    asking = left
    first, other = [asking[:0]], [asking[:0]]
    while len(left) and len(free):
        if len(asking):
            found, at = tree(large[free]).query(small[asking], distance_upper_bound=bound)
            distance[asking], nearest[asking] = found, np.append(free, -1)[at]
            left = left[np.isfinite(distance[left])]
            if not len(left):
                break
        wanted = np.unique(nearest[left])
        _, at = tree(small[left]).query(large[wanted])
        mutual = nearest[left[at]] == wanted
        i, j = left[at][mutual], wanted[mutual]
        if not len(i):
            # Only where distances are equal; the first of the closest is as good as any.
            i = left[[int(np.argmin(distance[left]))]]
            j = nearest[i]
        first.append(i)
        other.append(j)
        left, free = np.setdiff1d(left, i, True), np.setdiff1d(free, j, True)
        asking = left[np.isin(nearest[left], j)]
    i, j = np.concatenate(first), np.concatenate(other)
    order = np.argsort(np.linalg.norm(small[i] - large[j], axis=1), kind="stable")
    rows = groups[smaller][i[order]], groups[1 - smaller][j[order]]
    return np.stack([rows[smaller], rows[1 - smaller]])


def cell_tree(points: Points, cells: Cells) -> cKDTree:
    """Return a tree of points, to find the nearest ones of the same cell."""
    return cKDTree(_with_cells(points, cells), leafsize=LEAF)


def nearest_pairs(
    tree: cKDTree, points: Points, cells: Cells, count: int
) -> tuple[Float[np.ndarray, "n m"], Int[np.ndarray, "n m"]]:
    """Return the distances to the nearest pairs of the same cell, and the numbers of these pairs.

    Where a cell has fewer pairs, distances are infinite.
    """
    distance, number = tree.query(
        _with_cells(points, cells), k=range(1, count + 1), distance_upper_bound=CELL_SPACING / 2
    )
    return np.asarray(distance), np.asarray(number, dtype=np.int64)


def has_overlap(distance: Float[np.ndarray, "n m"]) -> Bool[np.ndarray, " n"]:
    """Return who has at least four pairs, at a median distance within the limit."""
    count = np.isfinite(distance).sum(axis=1)
    enough = count >= LEAST_NEIGHBOURS
    people = np.arange(len(count))
    upper, lower = (np.where(enough, at // 2, 0) for at in (count, count - 1))
    return enough & ((distance[people, lower] + distance[people, upper]) / 2 <= FARTHEST)


def nearest_others(
    points: Points,
    cells: Cells,
    asking: Int[np.ndarray, " a"],
    clusters: Int[np.ndarray, " n"] | None = None,
) -> Int[np.ndarray, " a"]:
    """Return the nearest other row of the same cell, and of another cluster; −1 if none is near."""
    tree = cell_tree(points, cells)
    count = 2 if clusters is None else 32
    distance, at = nearest_pairs(tree, points[asking], cells[asking], count)
    units = np.arange(len(points)) if clusters is None else clusters
    found = np.isfinite(distance)
    at[~found] = 0
    other = found & (units[at] != units[asking][:, None])
    first = at[np.arange(len(asking)), other.argmax(axis=1)]
    return np.where(other.any(axis=1), first, -1)
