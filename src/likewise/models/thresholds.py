"""Counts the thresholds below numbers that move a little: on which side of each they are."""

import dataclasses
from typing import Literal, final

import numpy as np
from jaxtyping import Float, Int

Side = Literal["left", "right"]
"""Whether a number at a threshold counts as above it (right), or not (left)."""

FEW = 8
"""Thresholds on somebody's way up to which comparing them one by one is the fastest."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Thresholds:
    """How many thresholds lie below some numbers, each of which stays within a range of its own.

    Parameters
    ----------
    cuts
        The thresholds, ascending.
    side
        Where a number at a threshold belongs.
    first
        How many lie below everybody's range.
    within
        The thresholds after that, as many as somebody has in range; nothing if these are too many.
    """

    cuts: Float[np.ndarray, " c"]
    side: Side
    first: Int[np.ndarray, " n"]
    within: Float[np.ndarray, "t n"] | None

    @classmethod
    def of(
        cls,
        cuts: Float[np.ndarray, " c"],
        low: Float[np.ndarray, " n"],
        high: Float[np.ndarray, " n"],
        side: Side,
    ) -> "Thresholds":
        """Find what is between the lowest and the highest that everybody's number can be."""
        first = np.searchsorted(cuts, low, side)
        most = int((np.searchsorted(cuts, high, side) - first).max(initial=0))
        within = None
        if most <= FEW:
            padded = np.concatenate([cuts, np.full(most, np.inf)])
            within = padded[first + np.arange(most)[:, None]]
        return cls(cuts, side, first, within)

    @property
    def moves(self) -> bool:
        """Whether any threshold is in anybody's range."""
        return self.within is None or len(self.within) > 0

    def below(
        self, x: Float[np.ndarray, " q"], who: Int[np.ndarray, " q"]
    ) -> Int[np.ndarray, " q"]:
        """Return how many thresholds are below numbers, each one of somebody's."""
        if self.within is None:
            return np.searchsorted(self.cuts, x, self.side)
        found = self.first[who]
        for cuts in self.within:
            found += x >= cuts[who] if self.side == "right" else x > cuts[who]
        return found
