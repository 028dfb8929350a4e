"""Who visits whom: for each person the nearest pairs of their own and another group."""

import dataclasses

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

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
    in_pool
        Who has the same row as somebody in the pool, and so may be in it.
    """

    own: Int[np.ndarray, " n"]
    other: Int[np.ndarray, "n h"]
    pair: Int[np.ndarray, "n h m"]
    distance: Float[np.ndarray, "n h"]
    differing: Int[np.ndarray, "n h"]
    in_pool: Bool[np.ndarray, " n"]

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


def find_visits(people: pa.Table, pairs: Pairs, pool: pa.Table, m: int = 20) -> Visits:
    """Find, for each person and each other group, the m nearest pairs of the two groups.

    Nearest: fewest categories that differ, then the distance from the person to the midpoint of
    the pair. Among pairs at one place, laid out on a circle by their hashes, the person takes
    those at a start and a step set by the hash of the person: so no pair is favoured, and nothing
    depends on the order of rows or blocks. A person who may be a member (the same values
    in all shared columns but the trait) does not take the first pair in which that is so.
    """
    names = places_among(group_names(people, pairs.trait), pairs.groups)
    shared = [name for name in people.column_names if name in pool.column_names]
    others = [name for name in shared if name != pairs.trait]
    self_hash = row_hashes(people, others, pairs.seed)
    member_hash = row_hashes(pool, others, pairs.seed)[pairs.rows]
    places, stands = pairs.ruler.place(people), pair_places(pairs, pool)
    pair_hash = together(member_hash[:, 0], member_hash[:, 1])
    known = np.unique(row_hashes(pool, shared, pairs.seed))
    n, count = len(people), len(pairs.groups) - 1
    pair = np.full((n, count, m), -1)
    distance = np.full((n, count), np.inf)
    differing = np.zeros((n, count), dtype=np.int64)
    groups = np.arange(len(pairs.groups))
    other = np.array([groups[groups != own] for own in groups])
    for own in groups:
        mine = np.flatnonzero(names == own)
        for h, to in enumerate(other[own]):
            across = pairs.across(int(own), int(to))
            if len(across) < m or not len(mine):
                continue
            # One more than asked for, in case one of them is the person.
            search = NearestPairs.of(
                pairs.ruler, places.take(mine), stands.take(across), pair_hash[across]
            )
            found = search.nearest(self_hash[mine], min(m + 1, len(across)))
            twin = (member_hash[across[found.pair]] == self_hash[mine][:, None, None]).any(axis=2)
            keep = _without_first(twin, m)
            pick = np.take_along_axis
            pair[mine, h] = across[pick(found.pair, keep, axis=1)]
            distance[mine, h] = np.sqrt(pick(found.squared, keep[:, -1:], axis=1)[:, 0])
            differing[mine, h] = pick(found.differing, keep[:, -1:], axis=1)[:, 0]
    in_pool = np.isin(row_hashes(people, shared, pairs.seed), known)
    return Visits(names, other[np.maximum(names, 0)], pair, distance, differing, in_pool)


def _without_first(drop: Bool[np.ndarray, "n k"], m: int) -> Int[np.ndarray, "n m"]:
    """Return the first m places of each row, less the first that is to be dropped."""
    if drop.shape[1] == m:
        return np.tile(np.arange(m), (len(drop), 1))
    first = np.where(drop.any(axis=1), drop.argmax(axis=1), m)
    return np.arange(m) + (np.arange(m) >= first[:, None])
