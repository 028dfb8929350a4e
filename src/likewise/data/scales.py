"""Columns on scales that differ wildly."""

import math
import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from likewise.errors import ScaleWarning

FAR_FROM_ONE = 30.0
FAR_APART = 100.0
SAMPLE = 10_000


def warn_about_scales(
    x: Float[np.ndarray, "n d"], features: Sequence[str], lam: float = 50.0
) -> None:
    r"""Warn when the penalty :math:`\lambda d_x^2` means very different things for two columns.

    The penalty prices a move of one *unit* alike in all columns, so a move of one standard
    deviation :math:`s` costs :math:`\lambda s^2`. The paper's :math:`\lambda = 50` is meant for
    standardised features. A warning is due when some standard deviation is above 30 or below
    1/30, or two of them differ by more than a factor of 100. Constant columns and columns of
    zeros and ones (one-hot features) do not count.

    Parameters
    ----------
    x, features
        What the model sees, and the names of its columns.
    lam
        The price of a squared unit, chosen by the auditor; without one (nan) units do not matter.
    """
    if math.isnan(lam):
        return
    # Evenly spaced rows: scales that differ by 30 show in any ten thousand people.
    sample = x[:: max(1, len(x) // SAMPLE)]
    spread = sample.std(axis=0)
    two_valued = ((sample == 0) | (sample == 1)).all(axis=0)
    counted = np.flatnonzero((spread > 0) & ~two_valued)
    if not len(counted):
        return
    order = counted[np.argsort(spread[counted])]
    low, high = float(spread[order[0]]), float(spread[order[-1]])
    if high <= FAR_FROM_ONE and low >= 1 / FAR_FROM_ONE and high <= FAR_APART * low:
        return
    ends = dict.fromkeys([int(order[-1]), int(order[0])])
    found = " and ".join(
        f"{features[j]!r} (standard deviation {spread[j]:.3g}) costs {lam * spread[j] ** 2:.3g}"
        for j in ends
    )
    warnings.warn(
        f"The features are not on one scale: at lam = {lam:g} a move of one standard deviation "
        f"in {found}. Standardise them with an encoder, or choose lam for these units.",
        ScaleWarning,
        stacklevel=2,
    )
