"""From rows to estimates: the mean of ratios, and the ratio of means."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Shaped

from likewise.inference.design import Design
from likewise.inference.estimate import Estimate


def mean_of_ratios(ratio: Float[np.ndarray, " n"], design: Design | None = None) -> Estimate:
    r"""Estimate the audit value by the mean loss ratio, equation (13): :math:`S_n, V_n`.

    With weights it is Hájek's mean :math:`S_w = \sum w R / \sum w`; with clusters its standard
    error is the cluster-robust CR1,
    :math:`\frac{G}{G-1} \sum_g (\sum_{i \in g} w_i (R_i - S_w))^2 / (\sum w)^2`.
    Without either both are the paper's.

    Parameters
    ----------
    ratio
        :math:`\ell(f(\Phi(x_i, y_i)), y_i) / \ell(f(x_i), y_i)`, all finite.
    design
        Weights and clusters, if there are any.
    """
    design = design or Design.make(len(ratio))
    weights = design.total_weights
    value = float(design.totals(ratio).sum() / weights.sum())
    return from_terms(value, design.totals(ratio - value) * (len(weights) / weights.sum()), design)


def ratio_of_means(
    before: Shaped[np.ndarray, " n"],
    after: Shaped[np.ndarray, " n"],
    design: Design | None = None,
) -> Estimate:
    r"""Estimate the ratio of error rates (or mean losses), equations (21)--(22): :math:`A_n/B_n`.

    The paper writes the variance with uncentred second moments :math:`\tilde V_n`. Centring would
    change nothing, since the gradient :math:`(B_n, -A_n)` is orthogonal to the means
    :math:`(A_n, B_n)`; so we sum the squares of :math:`B_n a_i - A_n b_i`, which is exact and
    cannot come out negative. With weights or clusters these terms are added up within units,
    and the variance is CR1.

    Parameters
    ----------
    before, after
        Errors (or losses) of each person before and after the unfair map. With none before, the
        ratio is infinite, or not defined, and has no standard error.
    """
    design = design or Design.make(len(before))
    a, b = float(design.totals(after).sum()), float(design.totals(before).sum())
    if b == 0:
        return Estimate(math.inf if a else math.nan, math.nan, design.n)
    value = a / b
    terms = design.totals(after - value * before) * (design.units / b)
    estimate = from_terms(value, terms, design)
    if not design.simple:
        return estimate
    # (22) divides by n where a variance would divide by n - 1.
    return dataclasses.replace(
        estimate, std_error=float(np.sqrt(np.square(terms).sum()) / design.n)
    )


def from_terms(value: float, terms: Float[np.ndarray, " g"], design: Design) -> Estimate:
    r"""Return the estimate whose error is the mean of ``terms``, one for each independent unit.

    The terms are the :math:`u_g` of the linearised estimate: their mean is zero, their standard
    deviation over :math:`\sqrt G` is the standard error, and their third moment says how skewed
    the estimate is.
    """
    squares, cubes = float(np.square(terms).sum()), float((terms**3).sum())
    std_error, skewness = error_and_skewness(len(terms), squares, cubes)
    return Estimate(
        value, std_error, design.n, skewness, design.degrees, effective_n=design.effective_n
    )


def error_and_skewness(units: int, squares: float, cubes: float) -> tuple[float, float]:
    r"""Return :math:`V/\sqrt G` and :math:`\gamma/\sqrt G` of terms that sum to zero."""
    spread = math.sqrt(squares / (units - 1))
    skewness = cubes / units / spread**3 / math.sqrt(units) if spread > 0 else 0.0
    return spread / math.sqrt(units), skewness


def design_effect(ratio: Float[np.ndarray, " n"], estimate: Estimate) -> float:
    r"""Return how many times larger the variance is than that of as many independent people.

    The total design effect, :math:`\text{se}^2 / (V^2/n)`: clustering and weights together.
    """
    return float(estimate.std_error**2 * len(ratio) / ratio.var(ddof=1))
