"""Distributionally robust fairness: how much the mean loss can rise if everybody moves a little.

Definition 2.1 of the paper. Where the audit gives each person the same penalty on moving, this
gives the whole population one budget of fair distance, and spends it where it hurts most.
"""

import dataclasses
import math
from typing import ClassVar, cast, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.checks.reach_crosscheck import with_region
from likewise.errors import InvalidSettings
from likewise.method import Check, Finding, Sums
from likewise.methods.metric import QuadraticForm
from likewise.methods.perturbation import BoundPerturbation
from likewise.methods.reach import NUMBERS, BoundReach, Reach, candidate_losses
from likewise.record import Measure
from likewise.stats.estimate import hall, ratio_of_sums
from likewise.stats.sums import RatioSums
from likewise.stats.tally import effective_units
from likewise.verdict import Verdict

MEASURE = "distributionally_robust_fairness"

SAMPLE = (1000, 3)
"""People on whom the value is computed."""

LENGTHS = np.geomspace(1 / 30, 30, 121)
"""How far people are sent off the free directions, in units of what the budget allows."""

BISECTIONS = 60


@final
@dataclasses.dataclass(frozen=True)
class Robust(Check):
    r"""How far the mean loss can rise if people move by little.

    Parameters
    ----------
    epsilon
        The mean :math:`d_x^2` that people may be moved by, besides what is free.
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "robust"
    default: ClassVar[bool] = False

    epsilon: float = 0.01

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        if not method.metric.quadratic:
            return Finding()
        rows = method.setup.drawn(*SAMPLE)
        people, metric = method.people.take(rows), cast(QuadraticForm, method.metric)
        search = Reach(60).bind(method.model, with_region(method))
        found = robust_fairness(
            *tried_places(search, metric, method.x[rows], method.y[rows], self.epsilon),
            self.epsilon,
            weight=people.weight,
            cluster=people.cluster,
            alpha=method.settings.alpha,
        )
        lower, upper = found.interval
        measure = Measure(name=MEASURE, value=found.value, lower=lower, upper=upper, n=len(rows))
        return Finding({"measures": (measure,)})


@dataclasses.dataclass(frozen=True)
class RobustValue:
    r"""The largest rise of the mean loss within a budget of fair distance.

    The interval comes from the influence function :math:`\ell^c_{\lambda^*} - \ell`, corrected for
    skewness; ``lam`` is the minimising :math:`\lambda^*`, 0 if the budget is more than can be used.
    """

    value: float
    std_error: float
    interval: tuple[float, float]
    lam: float


def robust_fairness(
    loss: Float[np.ndarray, "n m"],
    cost: Float[np.ndarray, "n m"],
    epsilon: float,
    *,
    weight: Float[np.ndarray, " n"] | None = None,
    cluster: Shaped[np.ndarray, " n"] | None = None,
    alpha: float = 0.05,
) -> RobustValue:
    r"""Return the distributionally robust fairness value of a model (Definition 2.1).

    By duality (Blanchet and Murthy 2019) the supremum over all populations within ε of the
    sample is :math:`\min_{\lambda \ge 0} \{\lambda\epsilon + \text{mean }\ell^c_\lambda\}` with
    :math:`\ell^c_\lambda(x_i, y_i) = \max_x \{\ell(f(x), y_i) - \lambda d_x^2(x, x_i)\}`. That is
    convex in λ, and its slope is ε less the mean cost of the places that are best at λ: the root
    is found by bisection.

    ``loss`` is that of each person at m places, the first of them their own, ``cost`` the
    :math:`d_x^2` of each; ``epsilon`` the budget, in units of :math:`d_x^2`, chosen by the auditor
    beforehand; people may have a ``weight`` and a ``cluster``.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InvalidSettings(f"epsilon must be a positive number (got {epsilon:g}).")
    row = unit = np.arange(len(loss))
    if cluster is not None:
        unit = np.unique(cluster.astype(str), return_inverse=True)[1]
    each = np.ones(len(loss)) if weight is None else weight

    def totals(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " g"]:
        return np.bincount(unit, weights=values * each)

    def mean_cost(lam: float) -> float:
        best = (loss - lam * cost).argmax(axis=1)
        return float(np.average(cost[row, best], weights=each))

    low, high = 0.0, 0.0
    if mean_cost(0.0) > epsilon:
        high = 1.0
        while mean_cost(high) > epsilon:
            low, high = high, 2 * high
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_cost(middle) > epsilon else (low, middle)

    rises = totals((loss - high * cost).max(axis=1) - loss[:, 0])
    weights = totals(np.ones(len(row)))
    plain = weight is None and cluster is None
    estimate = ratio_of_sums(RatioSums.from_units(rises, weights), len(loss))
    estimate = dataclasses.replace(
        estimate,
        value=high * epsilon + estimate.value,
        degrees=math.inf if plain else max(1.0, effective_units(weights) - 1),
    )
    interval = hall(estimate).interval(alpha)
    return RobustValue(estimate.value, estimate.std_error, interval, high)


def tried_places(
    search: BoundReach,
    metric: QuadraticForm,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    epsilon: float,
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Return each person's loss and squared fair distance at their own place and at others.

    Everyone's worst place within reach is searched for, and steps of many lengths lead on from
    there, where the loss rises most for the fair distance it costs. What the search misses makes
    the value smaller, and so does a model without gradients: there nobody leaves the free
    directions.
    """
    worst = search(x, y).x
    step = _uphill(search, metric, worst, y)
    far = np.sqrt(epsilon) * np.array([0.0, *LENGTHS])
    (n, d), places = x.shape, 1 + len(far)
    size = max(1, NUMBERS // (d * places))
    losses, costs = [], []
    for rows in np.split(np.arange(n), np.arange(size, n, size)):
        beyond = worst[rows, None] + far[:, None] * step[rows, None]
        tried = np.concatenate([x[rows, None], beyond], axis=1)
        losses.append(candidate_losses(search.model, tried, y[rows]))
        cost = metric.squared_distance(tried.reshape(-1, d), np.repeat(x[rows], places, axis=0))
        costs.append(cost.reshape(len(rows), places))
    return np.concatenate(losses), np.concatenate(costs)


def _uphill(
    search: BoundReach,
    metric: QuadraticForm,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
) -> Float[np.ndarray, "n d"]:
    r"""Return :math:`\Sigma^{+} g`, of fair length one; zero where the loss has no gradient g."""
    if not search.model.card.differentiable:
        return np.zeros_like(x)
    slope = search.model.loss_gradient(x, y)
    way = metric.function(lambda e: np.where(e > 0, 1 / np.maximum(e, 1e-300), 0.0), slope)
    length = np.sqrt(metric.squared_distance(way, np.zeros_like(way)))[:, None]
    return np.where(length > 0, way / np.maximum(length, 1e-300), 0.0)
