"""Distributionally robust fairness: how much the mean loss can rise if everybody moves a little.

Definition 2.1 of the paper. Where the audit gives each person the same price for moving, this
gives the whole population one budget, and spends it where it hurts most.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSettings
from likewise.stats.estimate import ONE_MORE, Estimate, check_alpha, from_terms, hall
from likewise.stats.sample import Design

BISECTIONS = 60


@dataclasses.dataclass(frozen=True)
class RobustValue:
    r"""The largest rise of the mean loss within a budget of fair distance.

    Parameters
    ----------
    value
        :math:`\min_\lambda \{\lambda \epsilon + \text{mean } \ell^c_\lambda\} - \text{mean } \ell`.
    std_error, interval
        From the influence function :math:`\ell^c_{\lambda^*} - \ell`, corrected for skewness.
    lam
        The minimising :math:`\lambda^*`, which is the price of distance; 0 if the budget is more
        than anybody can use.
    """

    value: float
    std_error: float
    interval: tuple[float, float]
    lam: float
    n: int


def robust_fairness(
    loss: Float[np.ndarray, "n m"],
    cost: Float[np.ndarray, "n m"],
    epsilon: float,
    *,
    design: Design | None = None,
    alpha: float = 0.05,
) -> RobustValue:
    r"""Return the distributionally robust fairness value of a model (Definition 2.1).

    By duality (Blanchet and Murthy 2019) the supremum over all populations within ε of the
    sample is :math:`\min_{\lambda \ge 0} \{\lambda\epsilon + \text{mean }\ell^c_\lambda\}` with
    :math:`\ell^c_\lambda(x_i, y_i) = \max_x \{\ell(f(x), y_i) - \lambda d_x^2(x, x_i)\}`. That is
    convex in λ, and its slope is ε less the mean cost of the places that are best at λ: the root
    is found by bisection.

    Parameters
    ----------
    loss, cost
        The loss of each person at m places, the first of them their own, and :math:`d_x^2` of each.
    epsilon
        Budget, in units of :math:`d_x^2`; chosen by the auditor beforehand.
    design
        Weights and clusters, if there are any.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InvalidSettings(f"epsilon must be a positive number (got {epsilon:g}).")
    check_alpha(alpha)
    design = design or Design.make(len(loss))
    weights = design.total_weights
    row = np.arange(len(loss))

    def mean_cost(lam: float) -> float:
        best = (loss - lam * cost).argmax(axis=1)
        return float(design.totals(cost[row, best]).sum() / weights.sum())

    low, high = 0.0, 0.0
    if mean_cost(0.0) > epsilon:
        high = 1.0
        while mean_cost(high) > epsilon:
            low, high = high, 2 * high
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_cost(middle) > epsilon else (low, middle)
    rises = design.totals((loss - high * cost).max(axis=1) - loss[:, 0])
    degrees = design.degrees
    estimate = _mean(rises, weights, high * epsilon, design.n, degrees)
    # One more unit that is moved up more than any seen: the few who are decide the upper end.
    one, usual = ONE_MORE * float((rises / weights).max()), float(weights.mean())
    rises, weights = np.append(rises, one * usual), np.append(weights, usual)
    more = _mean(rises, weights, high * epsilon, design.n, degrees)
    lower, upper = hall(estimate).interval(alpha)
    upper = max(upper, hall(more).interval(alpha)[1])
    return RobustValue(estimate.value, estimate.std_error, (lower, upper), high, len(loss))


def _mean(
    rises: Float[np.ndarray, " g"],
    weights: Float[np.ndarray, " g"],
    spent: float,
    n: int,
    degrees: float,
) -> Estimate:
    total = float(weights.sum())
    mean = float(rises.sum()) / total
    return from_terms(spent + mean, (rises - mean * weights) * (len(rises) / total), n, degrees)
