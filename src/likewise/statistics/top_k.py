"""The largest of many numbers, and the people harmed most: kept exactly, in any grouping."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int


@dataclasses.dataclass(frozen=True)
class TopK:
    """The largest of many numbers, in memory for at most twice as many as are wanted.

    Parameters
    ----------
    wanted
        How many are to be kept.
    kept
        The largest so far, and perhaps some more, in no particular order.
    floor
        What the largest ones are known not to fall below.
    """

    wanted: int
    kept: Float[np.ndarray, " m"]
    floor: float = -np.inf

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"], wanted: int) -> "TopK":
        """Consider some numbers."""
        return cls(wanted, values)._trimmed(wanted)

    def __add__(self, other: "TopK") -> "TopK":
        floor = max(self.floor, other.floor)
        parts = [part.kept if part.floor == floor else part.kept[part.kept >= floor]
                 for part in (self, other)]  # fmt: skip
        # Trimming costs as much as the list is long, so it waits until that has doubled.
        return TopK(self.wanted, np.concatenate(parts), floor)._trimmed(2 * self.wanted)

    def _trimmed(self, most: int) -> "TopK":
        if len(self.kept) <= most:
            return self
        if not self.wanted:
            return TopK(0, self.kept[:0])
        kept = np.partition(self.kept, len(self.kept) - self.wanted)[-self.wanted :]
        return TopK(self.wanted, kept, float(kept.min()))

    @property
    def values(self) -> Float[np.ndarray, " m"]:
        """The largest numbers, largest first."""
        return np.sort(self._trimmed(self.wanted).kept)[::-1]


@dataclasses.dataclass(frozen=True)
class WorstCases:
    """The people harmed most: how much, who, and where they were before and after the move.

    In order of harm, ties by row number, so that it does not matter how people were grouped.
    """

    wanted: int
    harm: Float[np.ndarray, " m"]
    row: Int[np.ndarray, " m"]
    before: Float[np.ndarray, "m d"]
    after: Float[np.ndarray, "m d"]

    @classmethod
    def of(
        cls,
        harm: Float[np.ndarray, " n"],
        row: Int[np.ndarray, " n"],
        before: Float[np.ndarray, "n d"],
        after: Float[np.ndarray, "n d"],
        wanted: int,
    ) -> "WorstCases":
        """Keep the people of a block who are harmed most."""
        order = np.lexsort((row, -harm))[:wanted]
        return cls(wanted, harm[order], row[order], before[order], after[order])

    def __add__(self, other: "WorstCases") -> "WorstCases":
        mine = (self.harm, self.row, self.before, self.after)
        theirs = (other.harm, other.row, other.before, other.after)
        joined = [np.concatenate(pair) for pair in zip(mine, theirs, strict=True)]
        harm, row, before, after = joined
        return WorstCases.of(harm, row, before, after, self.wanted)


def largest_needed(n: int) -> int:
    """Return how many of the largest of n ratios their tail is judged by."""
    return min(n, max(hill_count(n) + 1, top_count(n)))


def hill_count(n: int) -> int:
    """Return how many of the largest ratios give Hill's index: √n, but 10 to a tenth of all."""
    return max(1, min(n // 10, max(10, round(n**0.5))))


def top_count(n: int) -> int:
    """Return how many people the top 1 % are, one at least."""
    return max(1, n // 100)
