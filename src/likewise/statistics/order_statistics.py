"""What is kept of many numbers: the largest exactly, and quantiles to one per cent."""

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


def largest_needed(n: int) -> int:
    """Return how many of the largest of n ratios their tail is judged by."""
    return min(n, max(hill_count(n) + 1, top_count(n)))


def hill_count(n: int) -> int:
    """Return how many of the largest ratios give Hill's index: √n, but 10 to a tenth of all."""
    return max(1, min(n // 10, max(10, round(n**0.5))))


def top_count(n: int) -> int:
    """Return how many people the top 1 % are, one at least."""
    return max(1, n // 100)


RATIO = 1.02
"""Ends of a bin, upper over lower: its geometric middle is within 1 % of all that is in it."""


@dataclasses.dataclass(frozen=True)
class QuantileSketch:
    r"""Counts of positive numbers in bins of fixed ratio; sketches of parts add up exactly.

    A quantile is the geometric middle of the bin that holds it, so its relative error is at most
    :math:`\sqrt{1.02} - 1 < 1\,\%`; the smallest and the largest number are exact.

    Parameters
    ----------
    first
        Number of the first bin: bin k holds what lies between :math:`1.02^k` and
        :math:`1.02^{k+1}`.
    counts
        Numbers in it and in the bins after it.
    least, greatest
        The smallest and the largest number.
    """

    first: int
    counts: Int[np.ndarray, " b"]
    least: float = np.inf
    greatest: float = -np.inf

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> "QuantileSketch":
        """Count some positive, finite numbers."""
        if not len(values):
            return cls(0, np.zeros(0, dtype=np.int64))
        place = np.floor(np.log(values) / np.log(RATIO)).astype(np.int64)
        first = int(place.min())
        return cls(first, np.bincount(place - first), float(values.min()), float(values.max()))

    def __add__(self, other: "QuantileSketch") -> "QuantileSketch":
        if not (len(self.counts) and len(other.counts)):
            return self if len(self.counts) else other
        first = min(self.first, other.first)
        last = max(part.first + len(part.counts) for part in (self, other))
        counts = np.zeros(last - first, dtype=np.int64)
        for part in (self, other):
            counts[part.first - first : part.first - first + len(part.counts)] += part.counts
        least, greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        return QuantileSketch(first, counts, least, greatest)

    @property
    def n(self) -> int:
        """How many numbers were counted."""
        return int(self.counts.sum())

    def quantile(self, share: float) -> float:
        """Return the number below which this share of all lies, to one per cent."""
        if share <= 0:
            return self.least
        if share >= 1:
            return self.greatest
        rank = share * (self.n - 1)
        place = int(np.searchsorted(np.cumsum(self.counts), rank, side="right"))
        middle = float(RATIO ** (self.first + place + 0.5))
        return min(max(middle, self.least), self.greatest)

    def histogram(self, bins: int) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " b"]]:
        """Return the ends of wider bins, evenly spaced in logarithms, and the counts in them.

        Narrow bins count where their middle lies, so wide ones are right to one per cent.
        """
        low, high = np.log10(self.least), np.log10(self.greatest)
        edges = np.linspace(low, max(high, low + 1e-6), bins + 1)
        middles = (self.first + np.arange(len(self.counts)) + 0.5) * np.log10(RATIO)
        counts, _ = np.histogram(
            np.clip(middles, edges[0], edges[-1]), edges, weights=self.counts.astype(np.float64)
        )
        return 10**edges, counts
