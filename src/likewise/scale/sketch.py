"""The spread of numbers too many to keep: quantiles to one per cent, the largest exactly."""

import numpy as np
from jaxtyping import Float

RATIO = 1.02
"""Ends of a bin, upper over lower: its geometric middle is within 1 % of all that is in it."""

LIMIT = 35_000
"""Bins on either side of 1: up to 1.02 to this power, more than a float can hold."""


class LogHistogram:
    r"""Counts of positive numbers in bins of fixed ratio; sketches of parts add up exactly.

    A quantile is the geometric middle of the bin that holds it, so its relative error is at most
    :math:`\sqrt{1.02} - 1 < 1\,\%`; the smallest and the largest number are exact.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(2 * LIMIT + 1, dtype=np.int64)
        self.least, self.greatest = np.inf, -np.inf

    def add(self, values: Float[np.ndarray, " n"]) -> None:
        """Count some positive, finite numbers."""
        if not len(values):
            return
        place = np.floor(np.log(values) / np.log(RATIO)).astype(np.int64) + LIMIT
        low = int(place.min())
        found = np.bincount(place - low)
        self.counts[low : low + len(found)] += found
        self.least = min(self.least, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))

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
        middle = float(RATIO ** (place - LIMIT + 0.5))
        return min(max(middle, self.least), self.greatest)


class Largest:
    """The largest of many numbers, in memory for twice as many as are wanted."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._kept = np.zeros(0)

    def add(self, values: Float[np.ndarray, " n"]) -> None:
        """Consider some numbers."""
        if len(self._kept) == self.wanted:
            values = values[values > self._kept.min()]
        joined = np.concatenate([self._kept, values])
        if len(joined) > self.wanted:
            joined = np.partition(joined, len(joined) - self.wanted)[-self.wanted :]
        self._kept = joined

    @property
    def values(self) -> Float[np.ndarray, " m"]:
        """The largest numbers so far, in no particular order."""
        return self._kept
