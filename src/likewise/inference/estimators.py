"""From sums to estimates: the mean of ratios, and the ratio of means."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample
from likewise.inference.estimate import ROUNDING, Estimate
from likewise.statistics.moments import ErrorTable, RatioMoments
from likewise.statistics.ratio import UnitSums

ONE_MORE = 1.5
"""How much more than the largest excess one more person is allowed for."""


def mean_of_moments(moments: RatioMoments, *, weighted: bool = False) -> Estimate:
    r"""Estimate the audit value by the mean loss ratio, equation (13): :math:`S_n, V_n`.

    With weights it is Hájek's mean :math:`S_w = \sum w R / \sum w`, and its standard error the
    jackknife's: the terms :math:`w_i (R_i - S_w)/(W - w_i)` have the squares of the linearised ones
    but for a factor :math:`(1 - h)^{-2}`, h the share of the weight that a person holds, averaged
    over those squares. Without weights both are the paper's.
    """
    n = moments.n
    if n < 2:
        raise InvalidSample(f"There are {n} people; a test needs at least 2.")
    value, total = float(moments.plain.mean), float(moments.plain.weight)
    scale = n / total
    squares = float(moments.squared.about(value)[0])
    third, cubes = (float(power) for power in moments.cubed.about(value))
    effective_n = total**2 / float(moments.squared.weight)
    estimate = from_powers(
        value, n, n, squares * scale**2, cubes * scale**3, effective_n=effective_n
    )
    leverage = third / (total * squares) if squares > 0 else 0.0
    return on_design(estimate, n, leverage) if weighted else estimate


def ratio_of_sums(
    sums: UnitSums, n: int, *, printed: bool = False, effective_n: float = math.nan
) -> Estimate:
    r"""Estimate the ratio of error rates (or mean losses), equations (21)--(22): :math:`A_n/B_n`.

    The paper writes the variance with uncentred second moments :math:`\tilde V_n`. Centring would
    change nothing, since the gradient :math:`(B_n, -A_n)` is orthogonal to the means
    :math:`(A_n, B_n)`; so we take the squares of :math:`B_n a_i - A_n b_i`, which cannot come out
    negative.

    Parameters
    ----------
    sums
        Of people, or of whole clusters. With nothing before the map the ratio is infinite, or not
        defined, and has no standard error.
    n
        Number of people.
    printed
        Whether to divide by n, as (22) does, where a variance would divide by n - 1.
    """
    before = sums.before
    if not before > 0:
        return Estimate(sums.ratio, math.nan, n)
    _, squares, cubes = sums.moments(sums.ratio)
    units = sums.units
    scale = units / before
    if printed:
        squares *= (units - 1) / units
    squares, cubes = squares * scale**2, cubes * scale**3
    return from_powers(sums.ratio, n, units, squares, cubes, effective_n=effective_n)


def error_rate_ratio(table: ErrorTable) -> Estimate:
    r"""Return the ratio of error rates with the standard error of (22), from four counts.

    Of :math:`a_i - S b_i` a person wrong both times holds :math:`1 - S`, a newly wrong one 1 and a
    newly right one :math:`-S`; its squares sum to (22) times :math:`B_n^2 n^2`.
    """
    if table.before == 0:
        return Estimate(table.ratio, math.nan, table.n)
    s = table.ratio
    squares = table.both * (1 - s) ** 2 + table.newly_wrong + table.newly_right * s**2
    return Estimate(s, math.sqrt(squares) / table.before, table.n)


def ratio_of_totals(
    after: Float[np.ndarray, " g"],
    before: Float[np.ndarray, " g"],
    n: int,
    effective_n: float = math.nan,
) -> Estimate:
    r"""Estimate a ratio of totals from those of each cluster, with the jackknife's error (CR3).

    Leaving out one cluster at a time,
    :math:`\text{se}^2 = \frac{G-1}{G} \sum_g (S_{(g)} - S)^2`, with
    :math:`G_\text{eff} - 1` degrees of freedom: unlike the linearised terms
    :math:`u_g = (a_g - S b_g) G / \sum b`, it does not forget that a large cluster draws the
    estimate to itself. With weights in the place of ``before`` it is the weighted mean of ratios.
    """
    total, units = float(before.sum()), len(before)
    if not total > 0:
        return Estimate(math.inf if after.sum() > 0 else math.nan, math.nan, n)
    value = float(after.sum()) / total
    estimate = from_terms(
        value, (after - value * before) * (units / total), n, effective_n=effective_n
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (after - value * before) / (total - before)
    # A ratio that hangs on a single cluster is not known at all.
    known = bool((before < total).all())
    spread = float(np.square(without).sum()) if known else math.inf
    return _jackknifed(estimate, math.sqrt((units - 1) / units * spread))


def with_one_more(moments: RatioMoments, largest: float, *, weighted: bool) -> Estimate:
    r"""Return the mean loss ratio with one more person, harmed more than anybody seen.

    Their excess is 1.5 times the largest. Upper ends that stay above it allow for a tail that the
    sample does not show: without it, intervals for eight groups of 60 people with lognormal
    ratios hold together in .78 of samples instead of .95.
    """
    one = np.array([1 + ONE_MORE * (max(largest, 1.0) - 1)])
    weight = float(moments.plain.weight) / moments.n
    return mean_of_moments(moments + RatioMoments.of(one, np.array([weight])), weighted=weighted)


def with_one_more_cluster(
    ratio: Float[np.ndarray, " g"],
    weight: Float[np.ndarray, " g"],
    n: int,
    effective_n: float,
) -> Estimate:
    """Return the same with one more cluster of people, harmed more than any seen."""
    excess = ONE_MORE * max(float((ratio / weight).max()) - 1, 0.0)
    usual = float(weight.mean())
    totals = np.append(ratio, usual * (1 + excess)), np.append(weight, usual)
    return ratio_of_totals(*totals, n, effective_n)


def on_design(estimate: Estimate, units: int, leverage: float) -> Estimate:
    """Return the estimate of weighted people with the jackknife's standard error.

    Parameters
    ----------
    leverage
        Share of the weight that a person holds, as it counts in the standard error.
    """
    without = estimate.std_error * (units - 1) / units / (1 - leverage)
    return _jackknifed(estimate, without)


def _jackknifed(estimate: Estimate, std_error: float) -> Estimate:
    if not estimate.std_error > 0:
        return estimate
    return dataclasses.replace(
        estimate,
        std_error=std_error,
        linear_error=estimate.std_error,
        degrees=max(1.0, estimate.effective_n - 1),
    )


def from_terms(
    value: float,
    terms: Float[np.ndarray, " g"],
    n: int,
    degrees: float = math.inf,
    effective_n: float = math.nan,
) -> Estimate:
    """Return the estimate whose error is the mean of ``terms``, one for each independent unit."""
    squares, cubes = float(np.square(terms).sum()), float((terms**3).sum())
    return from_powers(value, n, len(terms), squares, cubes, degrees, effective_n)


def from_powers(
    value: float,
    n: int,
    units: int,
    squares: float,
    cubes: float,
    degrees: float = math.inf,
    effective_n: float = math.nan,
) -> Estimate:
    r"""Return the estimate whose terms, of mean zero, have these sums of squares and cubes.

    Its standard error is :math:`V/\sqrt G` and its skewness :math:`\gamma/\sqrt G`. A spread that
    rounding explains is none.
    """
    spread = math.sqrt(max(squares, 0.0) / (units - 1))
    if spread == 0 or spread <= ROUNDING * abs(value):
        return Estimate(value, 0.0, n, 0.0, degrees, effective_n)
    skewness = cubes / units / spread**3 / math.sqrt(units)
    return Estimate(value, spread / math.sqrt(units), n, skewness, degrees, effective_n)
