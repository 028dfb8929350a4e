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
from likewise.models.base import Model
from likewise.record import Measure
from likewise.stats.estimate import hall, ratio_of_sums
from likewise.stats.sums import RatioSums
from likewise.stats.tally import effective_units
from likewise.verdict import Verdict

MEASURE = "distributionally_robust_fairness"

SAMPLE = (1000, 3)
"""People on whom the value is computed."""

COARSE = np.geomspace(1 / 30, 30, 25)
"""How far people are first sent off the free directions, in units of what the budget allows."""

FINE = np.geomspace(0.8, 1.25, 9)
"""And how far after that, in units of what suited each of them best."""

BISECTIONS = 60
PROBE = 0.5
"""Length of the probes for a model without gradients, in standardised features."""


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
        rows = method.drawn(*SAMPLE)
        people = method.people.take(rows)
        found = robust_value(
            Reach(60).bind(method.model, with_region(method)),
            cast(QuadraticForm, method.metric),
            method.x[rows],
            method.y[rows],
            self.epsilon,
            method.settings.alpha,
            people.weight,
            people.cluster,
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

    rises, weights = (
        totals((loss - high * cost).max(axis=1) - loss[:, 0]),
        totals(np.ones(len(row))),
    )
    plain = weight is None and cluster is None
    estimate = ratio_of_sums(RatioSums.of(rises, weights), len(loss))
    estimate = dataclasses.replace(
        estimate,
        value=high * epsilon + estimate.value,
        degrees=math.inf if plain else max(1.0, effective_units(weights) - 1),
    )
    interval = hall(estimate).interval(alpha)
    return RobustValue(estimate.value, estimate.std_error, interval, high)


def robust_value(
    search: BoundReach,
    metric: QuadraticForm,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    epsilon: float,
    alpha: float,
    weight: Float[np.ndarray, " n"] | None = None,
    cluster: Shaped[np.ndarray, " n"] | None = None,
) -> RobustValue:
    r"""Return the distributionally robust fairness value (Definition 2.1), within the reach.

    The mean loss can rise by this much if people move by a mean squared fair distance of
    :math:`\epsilon`, and along free directions anywhere within reach. Everyone's worst place
    within reach is searched for, and steps of many lengths lead on from there, where the loss
    rises most for the fair distance it costs; what the search misses makes the value smaller.
    """
    worst = search(x, y).x
    step = _uphill(search, metric, worst, y)
    far = np.tile(np.sqrt(epsilon) * np.array([0.0, *COARSE]), (len(x), 1))
    loss, cost = _along(search.model, metric, x, y, worst, step, far)
    lam = robust_fairness(loss, cost, epsilon, weight=weight).lam
    best = (loss - lam * cost).argmax(axis=1)
    far = np.hstack([np.zeros((len(x), 1)), far])[np.arange(len(x)), best, None] * FINE
    more = _along(search.model, metric, x, y, worst, step, far)
    loss, cost = np.hstack([loss, more[0]]), np.hstack([cost, more[1]])
    return robust_fairness(loss, cost, epsilon, weight=weight, cluster=cluster, alpha=alpha)


def _along(
    model: Model,
    metric: QuadraticForm,
    x0: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    worst: Float[np.ndarray, "n d"],
    step: Float[np.ndarray, "n d"],
    far: Float[np.ndarray, "n m"],
) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
    """Return losses and costs where people are, and some distances beyond their worst places."""
    n, d = x0.shape
    size = max(1, NUMBERS // (d * far.shape[1]))
    losses, costs = [], []
    for rows in np.split(np.arange(n), np.arange(size, n, size)):
        x = worst[rows, None] + far[rows][:, :, None] * step[rows, None]
        x = np.concatenate([x0[rows, None], x], axis=1)
        losses.append(candidate_losses(model, x, y[rows]))
        home = np.repeat(x0[rows], x.shape[1], axis=0)
        cost = metric.squared_distance(x.reshape(len(home), d), home)
        costs.append(cost.reshape(len(rows), -1))
    return np.concatenate(losses), np.concatenate(costs)


def _uphill(
    search: BoundReach,
    metric: QuadraticForm,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
) -> Float[np.ndarray, "n d"]:
    r"""Return :math:`\Sigma^{+} g`, of fair length one; zero where the loss does not change.

    The gradient g of a model that has none is estimated from fixed random directions.
    """
    if search.model.card.differentiable:
        slope = search.model.loss_gradient(x, y)
    else:
        d = x.shape[1]
        drawn = np.random.default_rng(0).normal(size=(search.budget, d))
        units = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        loss = candidate_losses(search.model, x[:, None] + PROBE * units, y)
        here = candidate_losses(search.model, x[:, None], y)
        slope = (loss - here) / PROBE @ units * (d / search.budget)
    way = metric.function(lambda e: np.where(e > 0, 1 / np.maximum(e, 1e-300), 0.0), slope)
    length = np.sqrt(metric.squared_distance(way, np.zeros_like(way)))[:, None]
    return np.where(length > 0, way / np.maximum(length, 1e-300), 0.0)
