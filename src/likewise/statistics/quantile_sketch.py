"""The spread of numbers too many to keep: quantiles to one per cent, the ends exactly."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

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
