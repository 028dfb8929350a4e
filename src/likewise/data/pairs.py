"""Matched pairs: two people of different groups who are alike in the columns that may matter."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from likewise.data.arrow import is_missing, without_dictionary
from likewise.data.greedy import match
from likewise.data.positions import Positions
from likewise.data.row_hash import mixed, row_hashes, table_fingerprint
from likewise.data.ruler import Places, Ruler, cells
from likewise.errors import InvalidData, InvalidSettings, nearest

MOST_GROUPS = 20


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs across the groups of one trait, found in a pool of people without any model.

    Parameters
    ----------
    rows
        Row numbers of the two members in the pool; nobody is in two pairs.
    between
        For each pair, the groups of its members, as places in ``groups``.
    distance
        How far apart the members are, in standard deviations; their categories are equal.
    cluster
        For each member, the number of their cluster in the pool; everyone is their own cluster
        where none are known.
    trait, groups, group_sizes
        The trait, its groups (as text, sorted), and how many people of the pool are in each.
    may_matter, free
        The columns in which members are alike, and all others.
    caliper, seed
        Largest distance within a pair, and the seed of all ties.
    ruler
        Units of distances.
    pool_fingerprint, pool_size
        What the pool was in the trait and the columns that may matter, which decide who is paired:
        rows are looked up in it again, so these must be the same.
    """

    rows: Int[np.ndarray, "q 2"]
    between: Int[np.ndarray, "q 2"]
    distance: Float[np.ndarray, " q"]
    cluster: Int[np.ndarray, "q 2"]
    trait: str
    groups: tuple[str, ...]
    group_sizes: tuple[int, ...]
    may_matter: tuple[str, ...]
    free: tuple[str, ...]
    caliper: float
    seed: int
    ruler: Ruler
    pool_fingerprint: str
    pool_size: int

    def __len__(self) -> int:
        return len(self.rows)

    def across(self, one: int, other: int) -> Int[np.ndarray, " r"]:
        """Return the numbers of the pairs between two groups."""
        low, high = min(one, other), max(one, other)
        return np.flatnonzero((self.between[:, 0] == low) & (self.between[:, 1] == high))

    def check_pool(self, pool: pa.Table) -> None:
        """Refuse a pool that these pairs were not found in."""
        needed = (self.trait, *self.may_matter)
        there = len(pool) == self.pool_size and {*needed} <= {*pool.column_names}
        if not there or table_fingerprint(pool.select(needed)) != self.pool_fingerprint:
            raise InvalidData(
                f"These pairs were found in another pool: {self.pool_size} people with other "
                f"values in {', '.join(needed)}, or in another order. Give that pool, or find the "
                "pairs again."
            )

    def save(self, path: str | Path) -> None:
        """Write the pairs to a Parquet file. It holds row numbers, and nobody's values."""
        from likewise.data.pairs_file import write_pairs

        write_pairs(self, path)

    @classmethod
    def load(cls, path: str | Path, pool: pa.Table) -> "Pairs":
        """Read pairs from a file, for the pool that they were found in."""
        from likewise.data.pairs_file import read_pairs

        return read_pairs(path, pool)


def find_pairs(
    pool: pa.Table,
    trait: str,
    *,
    may_matter: Sequence[str] | None = None,
    free: Sequence[str] | None = None,
    clusters: str | None = None,
    caliper: float = 0.5,
    seed: int = 0,
) -> Pairs:
    """Pair people of different groups who are alike in the columns that may matter.

    1:1, without replacement, from the closest pair on; ties are broken by seeded hashes of both
    rows. With more than two groups, each person is first assigned by a seeded hash to one other
    group, so that nobody is in two pairs. People whose trait is missing are in no group.

    Parameters
    ----------
    pool
        People other than those audited, in original columns.
    trait
        Column with the groups.
    may_matter, free
        The columns that may matter, or else the others; give one of the two. The trait is free.
    clusters
        Column of the pool that says who belongs together; no column of the model, so not free.
    caliper
        Largest distance within a pair: categories equal, and at most this many standard
        deviations apart over all numbers together.
    seed
        Seed of the hashes.
    """
    legitimate, others = split_columns(pool.column_names, trait, may_matter, free, clusters)
    if not 0 <= caliper < np.inf or seed < 0:
        raise InvalidSettings(f"caliper and seed must not be negative (got {caliper:g}, {seed}).")
    group, groups = groups_of(pool, trait)
    ruler = Ruler.fit(pool, legitimate)
    places = ruler.place(pool)
    cell = cells(places.codes)[0]
    where = row_hashes(pool, legitimate, seed)
    who = row_hashes(pool, pool.column_names, seed)
    share = (mixed(who) % np.uint64(len(groups) - 1)).astype(np.int64)
    rows, between, distance = [], [], []
    for one, other in itertools.combinations(range(len(groups)), 2):
        sides = [
            np.flatnonzero((group == own) & (share == _turn(own, to)))
            for own, to in ((one, other), (other, one))
        ]
        stand = [Positions.of(cell[s], places.values[s], where[s], who[s]) for s in sides]
        found = match(ruler, stand[0], stand[1], caliper)
        rows.append(np.column_stack([sides[0][found.first], sides[1][found.second]]))
        between.append(np.tile(np.array([[one, other]]), (len(rows[-1]), 1)))
        distance.append(found.distance)
    everyone = np.concatenate(rows)
    sizes = tuple(int(size) for size in np.bincount(group[group >= 0], minlength=len(groups)))
    if not len(everyone):
        raise InvalidData(_no_pairs(trait, legitimate, caliper, cell, group))
    cluster = cluster_numbers(pool, clusters)
    return Pairs(
        rows=everyone,
        between=np.concatenate(between),
        distance=np.concatenate(distance),
        cluster=cluster[everyone],
        trait=trait,
        groups=groups,
        group_sizes=sizes,
        may_matter=legitimate,
        free=others,
        caliper=float(caliper),
        seed=seed,
        ruler=ruler,
        pool_fingerprint=table_fingerprint(pool.select([trait, *legitimate])),
        pool_size=len(pool),
    )


def cluster_numbers(pool: pa.Table, clusters: str | None) -> Int[np.ndarray, " n"]:
    """Return everyone's cluster in the pool; everyone is their own where none are known."""
    if clusters is None:
        return np.arange(len(pool))
    known = row_hashes(pool, [clusters])
    return np.unique(known, return_inverse=True)[1].reshape(-1).astype(np.int64)


def split_columns(
    names: Sequence[str],
    trait: str,
    may_matter: Sequence[str] | None,
    free: Sequence[str] | None,
    *apart: str | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that may matter, and the free ones, of which the trait is one."""
    if (may_matter is None) == (free is None):
        raise InvalidSettings("Name the columns that may matter, or else the free ones: not both.")
    named = may_matter if may_matter is not None else (free or ())
    for name in (trait, *named):
        if name not in names:
            raise InvalidData(f"The pool has no column {name!r}.{nearest(name, names)}")
    if may_matter is not None and trait in may_matter:
        raise InvalidSettings(
            f"{trait!r} is the trait, so it is free and cannot be among the columns that may "
            "matter."
        )
    known = [name for name in names if name not in apart]
    chosen = tuple(name for name in known if name in set(named))
    rest = tuple(name for name in known if name not in set(named))
    if may_matter is not None:
        return chosen, rest
    return tuple(name for name in rest if name != trait), (
        *chosen,
        *((trait,) if trait not in chosen else ()),
    )


def groups_of(pool: pa.Table, trait: str) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    """Return everyone's group (-1 if missing) and the names of the groups, sorted."""
    names = group_names(pool, trait)
    groups = tuple(sorted(set(names[names != ""].tolist())))
    if len(groups) < 2:
        only = f" ({groups[0]!r})" if groups else ""
        raise InvalidData(
            f"Everyone in the pool is in one group of {trait!r}{only}, so there are no "
            "counterparts. Give a pool with people of at least two groups."
        )
    if len(groups) > MOST_GROUPS:
        raise InvalidData(
            f"{trait!r} has {len(groups)} different values in the pool, more than {MOST_GROUPS} "
            "groups. Cut it into a few groups first."
        )
    return places_among(names, groups), groups


def group_names(table: pa.Table, trait: str) -> np.ndarray:
    """Return everyone's group as text, empty where it is missing."""
    if trait not in table.column_names:
        hint = nearest(trait, table.column_names)
        raise InvalidData(f"The table has no column {trait!r} for the trait.{hint}")
    column = without_dictionary(table[trait])
    gone = is_missing(column)
    if pa.types.is_floating(column.type) and pc.all(pc.equal(column, pc.round(column))).as_py():
        column = column.cast(pa.int64(), safe=False)
    text = column.cast(pa.string()).fill_null("").to_numpy().astype(str)
    return np.where(gone, "", text)


def places_among(names: np.ndarray, groups: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return the place of each name among the groups, or -1."""
    known = np.array(groups)
    place = np.minimum(np.searchsorted(known, names), len(known) - 1)
    return np.where(known[place] == names, place, -1)


def pair_places(pairs: Pairs, pool: pa.Table) -> Places:
    """Return where the pairs stand: their categories, and the midpoint of their numbers."""
    places = pairs.ruler.place(pool)
    one, two = places.take(pairs.rows[:, 0]), places.take(pairs.rows[:, 1])
    return Places(one.codes, (one.values + two.values) / 2)


def _turn(own: int, to: int) -> int:
    """Return the number of group ``to`` among the groups other than ``own``."""
    return to if to < own else to - 1


def _no_pairs(
    trait: str,
    columns: Sequence[str],
    caliper: float,
    cell: Int[np.ndarray, " n"],
    group: Int[np.ndarray, " n"],
) -> str:
    known = group >= 0
    different = len(np.unique(np.column_stack([cell, group])[known], axis=0))
    if different == len(np.unique(cell[known])) and different > 1:
        return (
            f"The columns that may matter ({', '.join(columns)}) determine {trait!r}: no two "
            "people of different groups agree in their categories. Name fewer columns."
        )
    return (
        f"No two people of different groups of {trait!r} are within {caliper:g} standard "
        f"deviations in {', '.join(columns)}. Widen the caliper, or name fewer columns."
    )
