"""Distributionally robust fairness within reach, against what can be computed by hand."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import expit

import likewise
from likewise.audit_data import AuditData
from likewise.checks import robust as room
from likewise.methods.plausible_region import Ellipsoid
from likewise.models import as_model

THETA = np.array([1.0, -0.7, 0.5, 0.3])
FREE = np.array([0.6, 0.8, 0.0, 0.0])
N = 400


@pytest.fixture(scope="module")
def who():
    """A logistic model, and people it fits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4))
    y = (x @ THETA + rng.logistic(size=N) > 0).astype(int)
    return introduced(x, y, THETA)


@pytest.fixture(scope="module")
def metric(who):
    reach = Ellipsoid.from_sample(who.data.x @ FREE[:, None])
    return likewise.metrics.ProjectionMetric(FREE[None], reach=reach)


def introduced(x, y, theta, **about):
    layer = torch.nn.Linear(4, 1, bias=False).double()
    layer.weight.data = torch.from_numpy(theta[None].copy())
    data = AuditData.from_arrays(x, y, **about)
    return World(as_model(layer), data)


class World(NamedTuple):
    """A model, and people."""

    model: Any
    data: AuditData


def robust_value(who, metric, epsilon=0.01):
    bound = likewise.Reach().bind(who.model, metric)
    places = room.tried_places(bound, metric, who.data.x, who.data.y, epsilon)
    return room.robust_fairness(*places, epsilon, weight=who.data.weight)


def by_hand(who, metric, epsilon):
    r"""Return :math:`\min_\lambda \{\lambda\epsilon + E \ell^c_\lambda\} - E \ell`.

    The margin is worst at an end of the interval that is the reach (or at home); from there it
    falls by t |Pθ| at the price λt², and σ(−m + t|Pθ|)|Pθ| = 2λt at the best t.
    """
    x, y = who.data.x, who.data.y
    sign, along = 2 * y - 1, THETA @ FREE
    home = sign * (x @ THETA)
    half = float(np.abs(metric.reach.axes)[0, 0])
    ends = [float(metric.reach.mean[0]) + side * half for side in (-1, 1)]
    worst = np.min([home, *(home + sign * along * (end - x @ FREE) for end in ends)], axis=0)
    slope = np.linalg.norm(THETA - along * FREE)

    def height(log_price):
        price = np.exp(log_price)
        low, high = np.zeros(N), np.full(N, slope / (2 * price))
        for _ in range(100):  # the derivative changes sign once: its own is below 2λ here
            t = (low + high) / 2
            rising = expit(-worst + t * slope) * slope > 2 * price * t
            low, high = np.where(rising, t, low), np.where(rising, high, t)
        lifted = np.logaddexp(0, -worst + t * slope) - price * t**2
        return price * epsilon + lifted.mean()

    # Above λ = |Pθ|²/8 the bracket is concave in t.
    lowest = np.log(slope**2 / 8)
    best = minimize_scalar(height, bounds=(lowest, 6), method="bounded")
    return best.fun - np.logaddexp(0, -home).mean(), np.exp(best.x)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.1])
def test_a_logistic_model_has_the_value_that_can_be_computed_by_hand(who, metric, epsilon):
    value, price = by_hand(who, metric, epsilon)
    found = robust_value(who, metric, epsilon)
    # Lengths of steps are 1.06 apart (an error of second order), and λ is known to a thousandth.
    assert found.value == pytest.approx(value, rel=1e-3)
    assert found.lam == pytest.approx(price, rel=0.05)
    assert found.interval[0] < value < found.interval[1]


def test_with_the_free_directions_alone_it_is_the_rise_to_the_worst_within_reach(who, metric):
    # Where everything is free there is nothing to buy, and the search finds what there is.
    free = likewise.metrics.ignoring(np.eye(4))
    free = likewise.metrics.ProjectionMetric(free.free, reach=Ellipsoid.from_sample(who.data.x))
    found = robust_value(who, free)
    bound = likewise.Reach().bind(who.model, free)
    before, after = (
        who.model.loss(who.model(x), who.data.y).mean()
        for x in (who.data.x, bound(who.data.x, who.data.y).x)
    )
    assert found.value == pytest.approx(after - before, rel=1e-9)
    assert found.lam == 0


def test_a_model_without_gradients_has_what_free_directions_give(who, metric):
    box = who._replace(model=as_model(lambda rows: expit(rows @ THETA)))
    constant = introduced(who.data.x, who.data.y, np.zeros(4))
    assert robust_value(constant, metric).value == 0
    assert 0 < robust_value(box, metric).value < robust_value(who, metric).value


def test_an_audit_carries_the_value_if_it_is_asked_for_and_blocks_change_nothing(
    who, metric, monkeypatch
):
    monkeypatch.setattr(room, "NUMBERS", 4 * 60 * 37)
    result = likewise.audit(
        who.model, who.data, metric=metric, method=likewise.Reach(), checks=["robust"]
    )
    found = {m.name: m for m in result.record.measures}["distributionally_robust_fairness"]
    assert found.value == pytest.approx(by_hand(who, metric, 0.01)[0], rel=1e-3)
