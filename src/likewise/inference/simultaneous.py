"""Many questions at once: what to believe when the best of several answers is shown.

The best of seven horizons accuses a model at the tolerance in 8 to 14 % of cases instead of 5 %.
Unrelated tests (models, traits, groups) take Holm's correction; estimates from the same people
(horizons of one flow) are so alike that a band of their own costs much less.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample
from likewise.inference.estimate import Estimate, check_alpha
from likewise.inference.hall import restored, transformed
from likewise.inference.loss_ratio import mean_ratio
from likewise.inference.mean_loss_ratio import mean_loss_ratio
from likewise.statistics.tally import Tally

CELLS = 2_000_000
"""Numbers drawn at a time: memory stays at a few megabytes however many draws are asked for."""


@dataclasses.dataclass(frozen=True)
class Largest:
    """The law of the largest of several studentised errors, by simulation.

    Parameters
    ----------
    draws
        Draws of the largest error, in increasing order.
    """

    draws: Float[np.ndarray, " b"]

    def critical(self, alpha: float) -> float:
        """Return what the largest error exceeds with probability ``alpha``."""
        return float(np.quantile(self.draws, 1 - alpha))

    def p_value(self, t: float) -> float:
        """Return how often the largest error reaches ``t`` by chance, never zero."""
        reached = len(self.draws) - int(np.searchsorted(self.draws, t))
        return (1 + reached) / (1 + len(self.draws))


def largest_error(
    products: Float[np.ndarray, "m m"],
    *,
    two_sided: bool = False,
    rng: np.random.Generator,
    draws: int = 50_000,
    degrees: float = math.inf,
) -> Largest:
    r"""Sup-t: how large the largest of m studentised errors gets by chance.

    The multiplier bootstrap takes the maximum over k of
    :math:`\sum_g \xi_g u_{gk} / (\sum_g u_{gk}^2)^{1/2}` with :math:`\xi_g \sim N(0, 1)` (no
    absolute value if bounds are one-sided). Given the data these sums are exactly normal with the
    correlations of the columns, so that is what is drawn: the same law, from an m × m matrix
    instead of one multiplier for each of n people and draws.

    Parameters
    ----------
    products
        :math:`\sum_g u_{gj} u_{gk}`: products of the linearised estimates, summed over independent
        units (weights and clusters summed up within them).
    degrees
        Degrees of freedom of the standard errors, if clusters are few: Student's t then.
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
    return Largest(np.sort(largest))


Side = Literal["lower", "upper", "both"]


@dataclasses.dataclass(frozen=True)
class Holm:
    """Tests that stand together: p-values, corrected for their number, and what follows.

    Parameters
    ----------
    p_values, adjusted
        By name, as they came and after Holm's correction.
    alpha
        How often *any* true hypothesis among them may be rejected by chance.
    """

    p_values: Mapping[str, float]
    adjusted: Mapping[str, float]
    alpha: float

    @property
    def rejected(self) -> dict[str, bool]:
        """Which hypotheses are rejected, all of them together at level ``alpha``."""
        return {name: p <= self.alpha for name, p in self.adjusted.items()}


def holm(p_values: Mapping[str, float], alpha: float = 0.05) -> Holm:
    r"""Correct p-values for their number (Holm 1979); valid whatever their dependence.

    In increasing order, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`.

    Examples
    --------
    >>> holm({"sex": 0.01, "race": 0.04, "age": 0.03}).adjusted
    {'sex': 0.03, 'race': 0.06, 'age': 0.06}
    """
    check_alpha(alpha)
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InvalidSample(
                f"The p-value of {name!r} is {p:g}. A test that could not be made counts as p = 1."
            )
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = largest
    return Holm(dict(p_values), {name: adjusted[name] for name in p_values}, alpha)


@dataclasses.dataclass(frozen=True)
class Band:
    r"""Bounds that hold for several estimates at the same time.

    Parameters
    ----------
    labels
        What each estimate is of: the horizons, say.
    estimates
        Each with its own standard error.
    lower, upper
        All of them hold together with confidence :math:`1 - \alpha`; 0 and infinity where a side
        was not asked for, or people do not differ: nothing is known there.
    critical
        How many standard errors the band is wide, before the correction for skewness.
    p_values
        Of "at most ``delta``", adjusted for the number of estimates.
    """

    labels: tuple[float | str, ...]
    estimates: tuple[Estimate, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    critical: float
    p_values: tuple[float, ...]
    side: Side
    delta: float
    alpha: float

    @property
    def rejected(self) -> tuple[bool, ...]:
        """Where the band lies above the tolerance."""
        return tuple(low > self.delta for low in self.lower)


def band(
    labels: Sequence[float | str],
    estimates: Sequence[Estimate],
    products: Float[np.ndarray, "m m"],
    *,
    rng: np.random.Generator,
    delta: float = 1.25,
    alpha: float = 0.05,
    side: Side = "lower",
    interval: Literal["hall", "paper"] = "hall",
    draws: int = 50_000,
) -> Band:
    r"""Return a sup-t band: :math:`S_k - c \, \text{se}_k` for all k, with one critical value c.

    With ``interval="hall"`` the critical value goes through each estimate's own transformation:
    transformed errors are nearly normal and keep their correlations, so c is the same; the band
    of a single estimate is Hall's bound.

    Parameters
    ----------
    products
        See `largest_error`; in the order of ``estimates``.
    side
        ``lower`` to find unfairness (the most powerful), ``both`` to show a range.
    rng, draws
        Randomness of the critical value, and how much of it.
    """
    check_alpha(alpha)
    degrees = min(estimate.degrees for estimate in estimates)
    law = largest_error(products, two_sided=side == "both", rng=rng, draws=draws, degrees=degrees)
    critical = law.critical(alpha)
    skew = [estimate.skewness if interval == "hall" else 0.0 for estimate in estimates]

    def bounds(c: float, unknown: float, asked: bool) -> tuple[float, ...]:
        return tuple(
            e.value - e.std_error * restored(c, s) if asked and e.std_error > 0 else unknown
            for e, s in zip(estimates, skew, strict=True)
        )

    return Band(
        labels=tuple(labels),
        estimates=tuple(estimates),
        lower=bounds(critical, 0.0, side != "upper"),
        upper=bounds(-critical, math.inf, side != "lower"),
        critical=critical,
        p_values=tuple(
            law.p_value(transformed(e.studentised(delta), s)) if e.std_error > 0 else 1.0
            for e, s in zip(estimates, skew, strict=True)
        ),
        side=side,
        delta=float(delta),
        alpha=float(alpha),
    )


def horizon_band(
    tally: Tally,
    *,
    rng: np.random.Generator,
    delta: float = 1.25,
    alpha: float = 0.05,
    side: Side = "lower",
    interval: Literal["hall", "paper"] = "hall",
    draws: int = 50_000,
) -> Band:
    """Return a band of the audit value over all horizons of one flow.

    The mean loss ratio at every time that the outcomes hold; the ratio of mean losses for a
    regression. Whatever horizon is chosen after looking, its bound holds.
    """
    times = tally.frame.horizons
    if not times:
        raise InvalidSample("There are no outcomes at other horizons to draw a band over.")
    estimates = [audit_value(tally.at(time)) for time in times]
    values = np.array([estimate.value for estimate in estimates])
    known = np.isfinite(values)
    values = np.where(known, values, 0.0)
    if tally.clustered:
        base = tally.by_cluster("before" if tally.frame.regression else "weight")
        column = "after" if tally.frame.regression else "ratio"
        terms = np.stack(
            [tally.at(t).by_cluster(column) - v * base for t, v in zip(times, values, strict=True)]
        )
        products = terms @ terms.T
    else:
        products = tally.horizons.crossed_terms(values)
    return band(
        times,
        estimates,
        products * np.outer(known, known),
        rng=rng,
        delta=delta,
        alpha=alpha,
        side=side,
        interval=interval,
        draws=draws,
    )


def audit_value(tally: Tally) -> Estimate:
    """Return the audit value of everyone: not a number if somebody has no finite ratio."""
    if tally.ratio.undefined:
        return Estimate(math.nan, math.nan, tally.ratio.n)
    return mean_loss_ratio(tally) if tally.frame.regression else mean_ratio(tally)
