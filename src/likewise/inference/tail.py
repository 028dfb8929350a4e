"""How heavy the tail of the loss ratios is, and whether the intervals can cope with it."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float


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


def tail_of(ratio: Float[np.ndarray, " n"]) -> Tail:
    r"""Return the tail diagnostics of finite loss ratios.

    Hill (1975): one over the mean of :math:`\log(R_{(i)}/R_{(k+1)})` over the k largest; k is
    the larger of 10 and :math:`n^{1/2}`, at most a tenth of the sample.
    """
    n, mean = len(ratio), float(ratio.mean())
    wanted = largest_needed(n)
    largest = np.partition(ratio, n - wanted)[n - wanted :]
    return tail_from(largest, n, mean, float(np.square(ratio - mean).sum()))


def largest_needed(n: int) -> int:
    """Return how many of the largest of n ratios the tail is judged by."""
    return max(_hill_count(n) + 1, _top_count(n))


def tail_from(largest: Float[np.ndarray, " m"], n: int, mean: float, squares: float) -> Tail:
    """Return the tail diagnostics of n ratios from the largest of them, in whatever order.

    Parameters
    ----------
    largest
        The `largest_needed` largest ratios.
    mean, squares
        Of all ratios: their mean, and the sum of squared distances from it.
    """
    ordered = np.sort(largest)[::-1]
    k, threshold = _hill_count(n), float(ordered[_hill_count(n)])
    excess = float(np.log(ordered[:k] / threshold).mean()) if threshold > 0 else 0.0
    top = float(np.square(ordered[: _top_count(n)] - mean).sum())
    index = 1 / excess if excess > 0 else math.inf
    return Tail(index, top / squares if squares else 0.0, k)


def _hill_count(n: int) -> int:
    return max(1, min(n // 10, max(10, round(math.sqrt(n)))))


def _top_count(n: int) -> int:
    return max(1, n // 100)
