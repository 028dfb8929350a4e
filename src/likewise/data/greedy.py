"""Greedy matching of two groups, from the closest pair on, without replacement."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from likewise.data.positions import Positions, nearest_one
from likewise.data.ruler import Ruler


@dataclasses.dataclass(frozen=True)
class Matched:
    """Who is matched with whom: row numbers within each group, and their distances."""

    first: Int[np.ndarray, " q"]
    second: Int[np.ndarray, " q"]
    distance: Float[np.ndarray, " q"]


def match(ruler: Ruler, first: Positions, second: Positions, caliper: float) -> Matched:
    r"""Match two groups 1:1, always taking the closest pair that is left, up to the caliper.

    Two positions that are each other's nearest among those left are taken by the greedy rule
    whatever happens elsewhere (Preis 1999), so all of them are taken at once, round by round: the
    result is that of going through all pairs in order of distance, in memory for the positions
    alone. People at the same two positions tie, and are matched in the order of their hashes.
    """
    sides = (first, second)
    left = [first.count.copy(), second.count.copy()]
    alive = [np.ones(len(side), dtype=bool) for side in sides]
    best = [np.full(len(side), -1) for side in sides]
    squared = [np.full(len(side), np.inf) for side in sides]
    rows: list[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]] = []
    gaps = []
    while alive[0].any() and alive[1].any():
        for own, other in ((0, 1), (1, 0)):
            known = best[own] >= 0
            known[known] = alive[other][best[own][known]]
            asking = np.flatnonzero(alive[own] & ~known)
            found, gap = nearest_one(ruler, sides[own], sides[other], asking, alive[other], caliper)
            best[own][asking], squared[own][asking] = found, gap
            alive[own][asking[found < 0]] = False
        p = np.flatnonzero(alive[0])
        p = p[best[1][best[0][p]] == p]
        q = best[0][p]
        taken = np.minimum(left[0][p], left[1][q])
        rows.append((_next(first, left[0], p, taken), _next(second, left[1], q, taken)))
        gaps.append(np.repeat(np.sqrt(squared[0][p]), taken))
        left[0][p] -= taken
        left[1][q] -= taken
        alive[0][p[left[0][p] == 0]] = False
        alive[1][q[left[1][q] == 0]] = False
    if not rows:
        nobody = np.zeros(0, dtype=np.int64)
        return Matched(nobody, nobody, np.zeros(0))
    one, two = (np.concatenate(side) for side in zip(*rows, strict=True))
    return Matched(one, two, np.concatenate(gaps))


def _next(
    side: Positions,
    left: Int[np.ndarray, " p"],
    at: Int[np.ndarray, " r"],
    taken: Int[np.ndarray, " r"],
) -> Int[np.ndarray, " q"]:
    """Return the next people in the queue at each position."""
    begin = side.start[at] + side.count[at] - left[at]
    within = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
    return side.order[np.repeat(begin, taken) + within]
