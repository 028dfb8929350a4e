"""Simultaneous bounds: a sup-t band for several estimates from the same people.

The best of seven stopping times flags a model at the limit in 8 to 14 % of cases instead of 5 %.
Holm's correction (`likewise.stats.multiplicity`) is for unrelated tests; stopping times of one flow
are so alike that a band of their own costs much less.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample
from likewise.stats.estimate import Estimate, check_alpha, restored
from likewise.stats.tally import Sample, Tally

CELLS = 2_000_000
"""Numbers drawn at a time: memory stays at a few megabytes however many draws are asked for."""

Side = Literal["lower", "both"]


def largest_error(
    products: Float[np.ndarray, "m m"],
    *,
    two_sided: bool = False,
    rng: np.random.Generator,
    draws: int = 50_000,
    degrees: float = math.inf,
) -> Float[np.ndarray, " b"]:
    r"""Sup-t: draws of the largest of m studentised errors, in increasing order.

    The multiplier bootstrap takes the maximum over k of
    :math:`\sum_g \xi_g u_{gk} / (\sum_g u_{gk}^2)^{1/2}` with :math:`\xi_g \sim N(0, 1)` (no
    absolute value if bounds are one-sided). Given the data these sums are exactly normal with the
    correlations of the columns, so that is what is drawn: the same law, from an m × m matrix
    instead of one multiplier for each of n people and draws.

    ``products`` are :math:`\sum_g u_{gj} u_{gk}`, of the linearised estimates, summed over
    independent units; finite ``degrees`` of freedom, if clusters are few, mean Student's t.
    """
    length = np.sqrt(np.maximum(np.diag(products), 0))
    scale = np.outer(length, length)
    correlation = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    values, vectors = np.linalg.eigh(correlation)
    # The symmetric root: unlike eigenvectors it has no sign and no order, so that sums added up in
    # another order draw the same errors.
    root = (vectors * np.sqrt(np.where(values > 1e-12, values, 0.0))) @ vectors.T
    largest = np.empty(draws)
    block = max(1, CELLS // len(products))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        errors = rng.standard_normal((size, len(products))) @ root
        if math.isfinite(degrees):
            errors /= np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)
        largest[start : start + size] = (np.abs(errors) if two_sided else errors).max(axis=1)
    return np.sort(largest)


@dataclasses.dataclass(frozen=True)
class Band:
    r"""Bounds that hold for several estimates together, with confidence :math:`1 - \alpha`.

    They are 0 and infinity where a side was not asked for, or people do not differ: nothing is
    known there. ``critical`` is how many standard errors the band is wide, before the correction
    for skewness.
    """

    estimates: tuple[Estimate, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    critical: float


def band(
    estimates: Sequence[Estimate],
    products: Float[np.ndarray, "m m"],
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    side: Side = "lower",
    interval: Literal["hall", "paper"] = "hall",
    draws: int = 50_000,
) -> Band:
    r"""Sup-t band: :math:`S_k - c \, \text{se}_k` for all k, with one critical value c.

    With ``interval="hall"`` the critical value goes through each estimate's own transformation:
    transformed errors are nearly normal and keep their correlations, so c is the same; the band
    of a single estimate is Hall's bound.

    ``products`` are those of `largest_error`. The ``lower`` side is the most powerful to find
    unfairness, ``both`` show a range.
    """
    check_alpha(alpha)
    two_sided, degrees = side == "both", min(estimate.degrees for estimate in estimates)
    law = largest_error(products, two_sided=two_sided, rng=rng, draws=draws, degrees=degrees)
    critical = float(np.quantile(law, 1 - alpha))
    skewed = [(e, e.skewness if interval == "hall" else 0.0) for e in estimates]

    def bounds(c: float, unknown: float) -> tuple[float, ...]:
        return tuple(
            e.value - e.std_error * restored(c, skew) if e.std_error > 0 else unknown
            for e, skew in skewed
        )

    upper = bounds(-critical, math.inf) if two_sided else (math.inf,) * len(estimates)
    return Band(tuple(estimates), bounds(critical, 0.0), upper, critical)


def horizon_band(tally: Tally, **options: Any) -> Band:
    """Band of the audit value over all stopping times of one flow, in the order of the frame's.

    The mean loss ratio at every time that the outcomes hold; the ratio of mean losses for a
    regression. Whatever time is chosen after looking, its bound holds. Options are those of `band`.
    """
    if not tally.horizons:
        raise InvalidSample("There are no outcomes at other stopping times to draw a band over.")
    estimates = [Sample(then).estimate() for then in tally.horizons.values()]
    values = np.array([estimate.value for estimate in estimates])
    known = np.isfinite(values)
    products = tally.crossed_terms(np.where(known, values, 0.0)) * np.outer(known, known)
    return band(estimates, products, **options)
