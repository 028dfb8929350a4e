"""The pairs nearest to each person, exactly, in bounded memory."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt64

from likewise.data.positions import SLACK, Positions, coordinates, tree_type
from likewise.data.row_hash import mixed, together
from likewise.data.ruler import Places, Ruler, cells

NUMBERS = 2_000_000
"""Distances that are held in memory at a time."""


@dataclasses.dataclass(frozen=True)
class FoundPairs:
    """The nearest pairs of each person, and how far they are."""

    pair: Int[np.ndarray, "n k"]
    squared: Float[np.ndarray, "n k"]
    differing: Int[np.ndarray, "n k"]


@dataclasses.dataclass(frozen=True)
class NearestPairs:
    """Finds the pairs nearest to people, exactly: fewest categories that differ, then distance.

    Parameters
    ----------
    ruler, people
        Units, and where people stand.
    person_cell, stands, codes
        Everyone's combination of categories; the different places of pairs, and their categories.
    """

    ruler: Ruler
    people: Places
    person_cell: Int[np.ndarray, " n"]
    stands: Positions
    codes: Int[np.ndarray, "p c"]

    @classmethod
    def of(
        cls, ruler: Ruler, people: Places, pairs: Places, hash: UInt64[np.ndarray, " q"]
    ) -> "NearestPairs":
        """Gather pairs that stand at the same place, in the order of their ``hash``."""
        person_cell, pair_cell = cells(people.codes, pairs.codes)
        place = mixed(pair_cell.astype(np.uint64))
        for column in np.nan_to_num(pairs.values).T:
            place = mixed(place ^ np.ascontiguousarray(column + 0.0).view(np.uint64))
        stands = Positions.of(pair_cell, pairs.values, place, hash)
        first = stands.order[stands.start]
        return cls(ruler, people, person_cell, stands, pairs.codes[first])

    def nearest(self, hash: UInt64[np.ndarray, " n"], k: int) -> FoundPairs:
        """Return the k nearest pairs of everyone."""
        n = len(self.people)
        found = FoundPairs(np.zeros((n, k), int), np.zeros((n, k)), np.zeros((n, k), int))
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
        scaled = [
            np.nan_to_num(x) / np.array(self.ruler.scale)
            for x in (self.people.values, self.stands.values)
        ]
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
        found: FoundPairs,
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
        offset = ((np.arange(k) - before) * _stride(mixed(mixed(tie)), count) + turn) % count
        start = self.stands.start[pick(place, slot, axis=1)]
        found.pair[rows] = self.stands.order[start + offset]
        chosen = pick(order, slot, axis=1)
        found.squared[rows] = pick(squared, chosen, axis=1)
        found.differing[rows] = pick(differing, chosen, axis=1)


def _stride(bits: UInt64[np.ndarray, "n k"], count: Int[np.ndarray, "n k"]) -> Any:
    """Return random steps that visit everyone on a circle of ``count`` before anyone twice.

    Not steps of one: people at one place would then share all their visitors or none, and what
    happens to one would happen to all.
    """
    step = (bits % count.astype(np.uint64)).astype(np.int64)
    while (common := np.gcd(step, count) > 1).any():
        step = np.where(common, step + 1, step)
    return step
