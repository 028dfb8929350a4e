"""Who visits whom: for each person the nearest pairs of their own and another group."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, UInt64

from likewise.data.nearest_pairs import NearestPairs
from likewise.data.pairs import Pairs, group_names, pair_places, places_among
from likewise.data.row_hash import row_hashes, together


@dataclasses.dataclass(frozen=True)
class Visits:
    """The pairs that visit each person, nearest first.

    Parameters
    ----------
    own
        Everyone's group, as a place in the groups of the pairs; -1 if it is not one of them.
    other
        For each person, the other groups.
    pair
        For each person and other group, the numbers of the visiting pairs; -1 where there is no
        counterpart: the pool has fewer pairs than are asked for.
    distance, differing
        From the person to the farthest of these pairs: the distance over numbers, and in how many
        categories they differ.
    """

    own: Int[np.ndarray, " n"]
    other: Int[np.ndarray, "n h"]
    pair: Int[np.ndarray, "n h m"]
    distance: Float[np.ndarray, "n h"]
    differing: Int[np.ndarray, "n h"]

    @property
    def far(self) -> Bool[np.ndarray, " n"]:
        """Who has a visitor that differs in a category, or is more than 1 away."""
        visited = self.pair[:, :, 0] >= 0
        away = visited & ((self.differing > 0) | (self.distance > 1))
        return np.asarray(away.any(axis=1))

    @property
    def no_counterpart(self) -> Bool[np.ndarray, " n"]:
        """Who is visited by nobody."""
        return np.asarray((self.pair[:, :, 0] < 0).all(axis=1))


@dataclasses.dataclass(frozen=True)
class Visitors:
    """Pairs made ready to visit any number of blocks of people.

    Parameters
    ----------
    pairs
        The pairs.
    columns
        The columns that people and pool share, in which a person is recognised.
    member
        Numbers that stand for the members of each pair, without the trait.
    search
        For two groups that have pairs, the numbers of these pairs, and a search among them.
    """

    pairs: Pairs
    columns: tuple[str, ...]
    member: UInt64[np.ndarray, "q 2"]
    search: Mapping[tuple[int, int], tuple[Int[np.ndarray, " _"], NearestPairs]]

    @classmethod
    def of(cls, pairs: Pairs, pool: pa.Table, columns: Sequence[str]) -> "Visitors":
        """Prepare the pairs of a pool; ``columns`` are those of the people to be visited."""
        shared = tuple(name for name in columns if name in pool.column_names)
        others = [name for name in shared if name != pairs.trait]
        member = row_hashes(pool, others, pairs.seed)[pairs.rows]
        stands, queue = pair_places(pairs, pool), together(member[:, 0], member[:, 1])
        search = {}
        for one, other in itertools.combinations(range(len(pairs.groups)), 2):
            across = pairs.across(one, other)
            if len(across):
                near = NearestPairs.of(pairs.ruler, stands.take(across), queue[across])
                search[one, other] = across, near
        return cls(pairs, shared, member, search)

    def __call__(self, people: pa.Table, m: int = 20) -> Visits:
        """Find, for each person and each other group, the m nearest pairs of the two groups."""
        pairs = self.pairs
        names = places_among(group_names(people, pairs.trait), pairs.groups)
        others = [name for name in self.columns if name != pairs.trait]
        who = row_hashes(people, others, pairs.seed)
        places = pairs.ruler.place(people)
        n, count = len(people), len(pairs.groups) - 1
        pair = np.full((n, count, m), -1)
        distance = np.full((n, count), np.inf)
        differing = np.zeros((n, count), dtype=np.int64)
        groups = np.arange(len(pairs.groups))
        other = np.array([groups[groups != own] for own in groups])
        pick = np.take_along_axis
        for (one, two), (across, near) in self.search.items():
            mine = np.flatnonzero((names == one) | (names == two))
            if len(across) < m or not len(mine):
                continue
            # One more than asked for, in case one of them is the person.
            found = near.nearest(places.take(mine), who[mine], min(m + 1, len(across)))
            twin = (self.member[across[found.pair]] == who[mine][:, None, None]).any(axis=2)
            keep = _without_first(twin, m)
            # The place of the other group among all but the own.
            h = np.where(names[mine] == one, two - 1, one)
            pair[mine, h] = across[pick(found.pair, keep, axis=1)]
            distance[mine, h] = np.sqrt(pick(found.squared, keep[:, -1:], axis=1)[:, 0])
            differing[mine, h] = pick(found.differing, keep[:, -1:], axis=1)[:, 0]
        return Visits(names, other[np.maximum(names, 0)], pair, distance, differing)


def find_visits(people: pa.Table, pairs: Pairs, pool: pa.Table, m: int = 20) -> Visits:
    """Find, for each person and each other group, the m nearest pairs of the two groups.

    Nearest: fewest categories that differ, then the distance from the person to the midpoint of
    the pair. Among pairs at one place, laid out on a circle by their hashes, the person takes
    those at a start and a step set by the hash of the person: so no pair is favoured, and nothing
    depends on the order of rows or blocks. A person who may be a member (the same values
    in all shared columns but the trait) does not take the first pair in which that is so.
    """
    return Visitors.of(pairs, pool, people.column_names)(people, m)


def _without_first(drop: Bool[np.ndarray, "n k"], m: int) -> Int[np.ndarray, "n m"]:
    """Return the first m places of each row, less the first that is to be dropped."""
    if drop.shape[1] == m:
        return np.tile(np.arange(m), (len(drop), 1))
    first = np.where(drop.any(axis=1), drop.argmax(axis=1), m)
    return np.arange(m) + (np.arange(m) >= first[:, None])
