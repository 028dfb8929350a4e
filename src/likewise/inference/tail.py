"""How heavy the tail of the loss ratios is, and whether the intervals can cope with it."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from likewise.statistics.top_k import hill_count, top_count


@dataclasses.dataclass(frozen=True)
class Tail:
    r"""Diagnostics of the largest loss ratios.

    Parameters
    ----------
    hill_index
        Hill's estimate of the tail index: moments of this order and above do not exist. Hall's
        interval needs three moments, the central limit theorem two.
    top_share
        Share of the variance that is held by the 1 % of people with the largest ratios.
    largest
        How many of the largest ratios the index was estimated from.
    """

    hill_index: float
    top_share: float
    largest: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What to warn about, in sentences."""
        index = f"Hill index {self.hill_index:.1f}, from the {self.largest} largest"
        if self.hill_index < 2:
            return (
                f"The tail of the loss ratios looks so heavy ({index}) that their variance may not "
                "exist, and with it no interval for their mean: compare the error-rate ratio.",
            )
        if self.hill_index < 3:
            return (
                f"The tail of the loss ratios looks heavy ({index}), so the bounds may be somewhat "
                "off: compare the bootstrap-t and the error-rate ratio.",
            )
        return ()


def tail_from(largest: Float[np.ndarray, " m"], n: int, mean: float, squares: float) -> Tail:
    r"""Return the tail diagnostics of n ratios from the largest of them.

    Hill (1975): one over the mean of :math:`\log\{(R_{(i)} - 1)/(R_{(k+1)} - 1)\}` over the k
    largest; k is the larger of 10 and :math:`n^{1/2}`, at most a tenth of the sample. Of R - 1, not
    of R: the one would make any tail look light until ratios are far above it.

    Parameters
    ----------
    largest
        The `largest_needed` largest ratios, largest first.
    mean, squares
        Of all ratios: their mean, and the sum of squared distances from it.
    """
    k = hill_count(n)
    threshold = float(largest[k]) - 1
    excess = float(np.log((largest[:k] - 1) / threshold).mean()) if threshold > 0 else 0.0
    top = float(np.square(largest[: top_count(n)] - mean).sum())
    index = 1 / excess if excess > 0 else math.inf
    return Tail(index, top / squares if squares else 0.0, k)
