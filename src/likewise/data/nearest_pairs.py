"""The pairs nearest to each person, exactly, in bounded memory."""

import dataclasses
import functools
import itertools
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


Candidates = tuple[
    Int[np.ndarray, " r"],
    Int[np.ndarray, "r c"],
    Float[np.ndarray, "r c"],
    Int[np.ndarray, "r c"],
]
"""Some people, and for each of them positions, squared distances, and categories that differ."""


@dataclasses.dataclass(frozen=True)
class NearestPairs:
    """Finds the pairs nearest to people, exactly: fewest categories that differ, then distance.

    Nothing about the people is kept, so that what one person gets depends on nobody else.

    Parameters
    ----------
    ruler
        Units of distances.
    stands, codes
        The different places of pairs, and their categories.
    """

    ruler: Ruler
    stands: Positions
    codes: Int[np.ndarray, "p c"]

    @classmethod
    def of(cls, ruler: Ruler, pairs: Places, hash: UInt64[np.ndarray, " q"]) -> "NearestPairs":
        """Gather pairs that stand at the same place, in the order of their ``hash``."""
        cell = cells(pairs.codes)[0]
        place = mixed(cell.astype(np.uint64))
        for column in np.nan_to_num(pairs.values).T:
            place = mixed(place ^ np.ascontiguousarray(column + 0.0).view(np.uint64))
        stands = Positions.of(cell, pairs.values, place, hash)
        return cls(ruler, stands, pairs.codes[stands.order[stands.start]])

    @functools.cached_property
    def _spacing(self) -> float:
        """How far cells are apart in the tree: the farther, the fewer strangers it returns."""
        scaled = np.nan_to_num(self.stands.values) / np.array(self.ruler.scale).reshape(1, -1)
        return 4 * float(np.linalg.norm(np.ptp(scaled, axis=0))) + 1 if scaled.size else 1.0

    @functools.cached_property
    def _tree(self) -> Any:
        return tree_type()(self.stands.coordinates(self.ruler, self._spacing))

    @functools.cached_property
    def _first_of_cell(self) -> Int[np.ndarray, " cells"]:
        return np.unique(self.stands.cell, return_index=True)[1]

    def nearest(self, people: Places, hash: UInt64[np.ndarray, " n"], k: int) -> FoundPairs:
        """Return the k nearest pairs of everyone; there must be so many."""
        n = len(people)
        found = FoundPairs(np.zeros((n, k), int), np.zeros((n, k)), np.zeros((n, k), int))
        # Cells of people who have no pair in theirs get numbers that no pair has.
        known, joint = cells(self.codes[self._first_of_cell], people.codes)
        number = np.full(int(max(known.max(), joint.max(initial=0))) + 1, -1)
        number[known] = np.arange(len(known))
        cell = number[joint]
        there = np.append(np.bincount(self.stands.cell, self.stands.count), 0)[cell]
        for rows, place, squared, differing in itertools.chain(
            self._at_home(people, cell, np.flatnonzero(there >= k), k),
            self._abroad(people, joint, np.flatnonzero(there < k), k),
        ):
            self._fill(found, hash, rows, place, squared, differing)
        return found

    def _at_home(
        self, people: Places, cell: Int[np.ndarray, " n"], rows: Int[np.ndarray, " r"], k: int
    ) -> Iterator[Candidates]:
        """Yield candidate positions for people whose own cell holds enough pairs."""
        wanted = k + 3
        block = max(1, NUMBERS // (wanted * 8))
        waiting = [(rows[start : start + block], wanted) for start in range(0, len(rows), block)]
        while waiting:
            some, ask = waiting.pop()
            ask = min(ask, len(self.stands))
            values = people.values[some]
            points = coordinates(self.ruler, cell[some], values, self._spacing)
            distance, place = self._tree.query(points, k=range(1, ask + 1))
            squared = self.ruler.squared(values[:, None], self.stands.values[place])
            away = self.stands.cell[place] != cell[some][:, None]
            squared[away] = np.inf
            order = np.argsort(squared, axis=1, kind="stable")
            ranked = np.take_along_axis(squared, order, axis=1)
            count = np.take_along_axis(np.where(away, 0, self.stands.count[place]), order, axis=1)
            enough = np.cumsum(count, axis=1) >= k
            last = np.take_along_axis(ranked, enough.argmax(axis=1)[:, None], axis=1)[:, 0]
            # Whoever the tree has not returned must be farther than all that could be taken.
            limit = np.sqrt(last) * (1 + SLACK) + SLACK
            complete = (enough[:, -1] & (distance[:, -1] > limit)) | (ask == len(self.stands))
            yield some[complete], place[complete], squared[complete], away[complete].astype(int)
            if not complete.all():
                waiting.append((some[~complete], 2 * ask))

    def _abroad(
        self, people: Places, cell: Int[np.ndarray, " n"], rows: Int[np.ndarray, " r"], k: int
    ) -> Iterator[Candidates]:
        """Yield candidate positions for people who need pairs of other cells too."""
        rows = rows[np.argsort(cell[rows], kind="stable")]
        for same in np.split(rows, np.flatnonzero(np.diff(cell[rows])) + 1):
            if not len(same):
                continue
            differing = (self.codes != people.codes[same[0]]).sum(axis=1)
            reached = np.cumsum(np.bincount(differing, self.stands.count))
            level = int(np.searchsorted(reached, k))
            inner, rim = np.flatnonzero(differing < level), np.flatnonzero(differing == level)
            block = max(1, NUMBERS // len(rim))
            for start in range(0, len(same), block):
                some = same[start : start + block]
                values = people.values[some][:, None]
                squared = self.ruler.squared(values, self.stands.values[rim])
                place = np.tile(rim, (len(some), 1))
                if k < len(rim):
                    last = np.partition(squared, k - 1, axis=1)[:, k - 1]
                    most = int((squared <= last[:, None]).sum(axis=1).max())
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
