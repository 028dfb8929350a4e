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
    """

    hill_index: float
    top_share: float

    @property
    def notes(self) -> tuple[str, ...]:
        """What to warn about, in sentences."""
        index = self.hill_index
        if index < 2:
            return (
                f"The tail of the loss ratios is so heavy (Hill index {index:.1f}, below 2) that "
                "their variance may not exist: no interval for the mean can be relied on; use the "
                "error-rate ratio.",
            )
        if index < 3:
            return (
                f"The tail of the loss ratios is heavy (Hill index {index:.1f}, below 3): bounds "
                "may be somewhat off; compare the bootstrap-t and the error-rate ratio.",
            )
        return ()


def tail_of(ratio: Float[np.ndarray, " n"]) -> Tail:
    r"""Return the tail diagnostics of finite loss ratios.

    Hill (1975): one over the mean of :math:`\log(R_{(i)}/R_{(k+1)})` over the k largest; k is
    the larger of 10 and :math:`n^{1/2}`, at most a tenth of the sample.
    """
    n = len(ratio)
    spread = np.square(ratio - ratio.mean())
    top = max(1, n // 100)
    k = max(1, min(n // 10, max(10, round(math.sqrt(n)))))
    ordered = np.partition(ratio, [n - k - 1, n - top])
    threshold = ordered[n - k - 1]
    excess = 0.0
    if threshold > 0:
        excess = float(np.log(ordered[n - k :] / threshold).mean())
    largest = np.square(ordered[n - top :] - ratio.mean()).sum()
    total = float(spread.sum())
    return Tail(1 / excess if excess > 0 else math.inf, float(largest / total) if total else 0.0)
