"""Who visits whom: for each person the nearest pairs of their own and another group."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, UInt64

from likewise.data.pairs import Pairs, group_names, pair_places, places_among
from likewise.data.positions import SLACK, Positions, coordinates, tree_type
from likewise.data.row_hash import mixed, row_hashes, together
from likewise.data.ruler import Places, Ruler, cells

NUMBERS = 2_000_000
"""Distances that are held in memory at a time."""


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
        return (visited & ((self.differing > 0) | (self.distance > 1))).any(axis=1)

    @property
    def no_counterpart(self) -> Bool[np.ndarray, " n"]:
        """Who is visited by nobody."""
        return (self.pair[:, :, 0] < 0).all(axis=1)


def find_visits(people: pa.Table, pairs: Pairs, pool: pa.Table, m: int = 20) -> Visits:
    """Find, for each person and each other group, the m nearest pairs of the two groups.

    Nearest: fewest categories that differ, then the distance from the person to the midpoint of
    the pair. Among pairs at one place the person takes neighbours on a circle of pairs, laid out
    by their hashes, from a point set by the hash of the person: so no pair is favoured, and
    nothing depends on the order of rows or blocks. A person who may be a member (the same values
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
            search = _Search.of(pairs.ruler, places.take(mine), stands.take(across), pair_hash[across])
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


@dataclasses.dataclass(frozen=True)
class _Found:
    pair: Int[np.ndarray, "n k"]
    squared: Float[np.ndarray, "n k"]
    differing: Int[np.ndarray, "n k"]


@dataclasses.dataclass(frozen=True)
class _Search:
    """People and pairs of two groups, ready to be compared."""

    ruler: Ruler
    people: Places
    person_cell: Int[np.ndarray, " n"]
    stands: Positions
    codes: Int[np.ndarray, "p c"]

    @classmethod
    def of(
        cls, ruler: Ruler, people: Places, pairs: Places, hash: UInt64[np.ndarray, " q"]
    ) -> "_Search":
        person_cell, pair_cell = cells(people.codes, pairs.codes)
        place = mixed(pair_cell.astype(np.uint64))
        for column in np.nan_to_num(pairs.values).T:
            place = mixed(place ^ np.ascontiguousarray(column + 0.0).view(np.uint64))
        stands = Positions.of(pair_cell, pairs.values, place, hash)
        first = stands.order[stands.start]
        return cls(ruler, people, person_cell, stands, pairs.codes[first])

    def nearest(self, hash: UInt64[np.ndarray, " n"], k: int) -> _Found:
        """Return the k nearest pairs of everyone."""
        n = len(self.people)
        found = _Found(np.zeros((n, k), int), np.zeros((n, k)), np.zeros((n, k), int))
        size = int(max(self.person_cell.max(initial=0), self.stands.cell.max(initial=0))) + 1
        there = np.bincount(self.stands.cell, self.stands.count, size)[self.person_cell]
        for rows, place, squared, differing in (
            *self._at_home(np.flatnonzero(there >= k), k),
            *self._abroad(np.flatnonzero(there < k), k),
        ):
            self._fill(found, hash, rows, place, squared, differing)
        return found

    def _at_home(self, rows: Int[np.ndarray, " r"], k: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield candidate positions for people whose own cell holds enough pairs."""
        if not len(rows):
            return
        scaled = [np.nan_to_num(x) / np.array(self.ruler.scale) for x in (self.people.values, self.stands.values)]
        extent = np.concatenate(scaled)
        spacing = 4 * float(np.linalg.norm(np.ptp(extent, axis=0))) + 1 if extent.size else 1.0
        tree = tree_type()(self.stands.coordinates(self.ruler, spacing))
        wanted = k + 3
        block = max(1, NUMBERS // (wanted * 8))
        waiting = [rows[start : start + block] for start in range(0, len(rows), block)]
        asked = [wanted] * len(waiting)
        while waiting:
            some, ask = waiting.pop(), min(asked.pop(), len(self.stands))
            values = self.people.values[some]
            points = coordinates(self.ruler, self.person_cell[some], values, spacing)
            distance, place = tree.query(points, k=range(1, ask + 1))
            squared = self.ruler.squared(values[:, None], self.stands.values[place])
            away = self.stands.cell[place] != self.person_cell[some][:, None]
            squared[away] = np.inf
            near = np.sort(squared, axis=1)[:, min(k, ask) - 1]
            # Whoever the tree has not returned must be farther than all that could be taken.
            limit = np.sqrt(near) * (1 + SLACK) + SLACK
            complete = (distance[:, -1] > limit) | away[:, -1] | (ask == len(self.stands))
            yield some[complete], place[complete], squared[complete], away[complete].astype(int)
            if not complete.all():
                waiting.append(some[~complete])
                asked.append(2 * ask)

    def _abroad(self, rows: Int[np.ndarray, " r"], k: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield candidate positions for people who need pairs of other cells too."""
        order = np.argsort(self.person_cell[rows], kind="stable")
        rows = rows[order]
        for same in np.split(rows, np.flatnonzero(np.diff(self.person_cell[rows])) + 1):
            if not len(same):
                continue
            differing = (self.codes != self.people.codes[same[0]]).sum(axis=1)
            reached = np.cumsum(np.bincount(differing, self.stands.count))
            level = int(np.searchsorted(reached, k))
            inner, rim = np.flatnonzero(differing < level), np.flatnonzero(differing == level)
            block = max(1, NUMBERS // len(rim))
            for start in range(0, len(same), block):
                some = same[start : start + block]
                values = self.people.values[some][:, None]
                squared = self.ruler.squared(values, self.stands.values[rim])
                place = np.tile(rim, (len(some), 1))
                if k < len(rim):
                    last = np.partition(squared, k - 1, axis=1)[:, k - 1]
                    most = int((squared <= last[:, None]).sum(axis=1).max())
                    if most < len(rim):
                        part = np.argpartition(squared, most - 1, axis=1)[:, :most]
                        squared = np.take_along_axis(squared, part, axis=1)
                        place = rim[part]
                core = np.tile(inner, (len(some), 1))
                core_squared = self.ruler.squared(values, self.stands.values[inner])
                place = np.concatenate([core, place], axis=1)
                yield some, place, np.concatenate([core_squared, squared], axis=1), differing[place]

    def _fill(
        self,
        found: _Found,
        hash: UInt64[np.ndarray, " n"],
        rows: Int[np.ndarray, " r"],
        place: Int[np.ndarray, "r c"],
        squared: Float[np.ndarray, "r c"],
        differing: Int[np.ndarray, "r c"],
    ) -> None:
        """Turn candidate positions into the nearest pairs."""
        k = found.pair.shape[1]
        tie = together(hash[rows][:, None], self.stands.hash[place])
        order = np.lexsort((tie, squared, differing), axis=1)[:, :k]
        pick = np.take_along_axis
        place, tie = pick(place, order, axis=1), pick(tie, order, axis=1)
        count = self.stands.count[place]
        until = np.cumsum(count, axis=1)
        # Slot t belongs to the first position whose pairs, with those before it, exceed t.
        slot = (until[:, :, None] <= np.arange(k)).sum(axis=1)
        before = pick(until - count, slot, axis=1)
        count, tie = pick(count, slot, axis=1), pick(tie, slot, axis=1)
        turn = (mixed(tie) % count.astype(np.uint64)).astype(np.int64)
        offset = (np.arange(k) - before + turn) % count
        start = self.stands.start[pick(place, slot, axis=1)]
        found.pair[rows] = self.stands.order[start + offset]
        chosen = pick(order, slot, axis=1)
        found.squared[rows] = pick(squared, chosen, axis=1)
        found.differing[rows] = pick(differing, chosen, axis=1)
