"""Theorem A.1: ratios differ by at most √(λ δ_d / L) L₀ D e^{LT} / c between two near metrics."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.audit_data import AuditData
from likewise.stats.ratio_test import metric_error_bound

LAM, TIME = 0.5, 1.0
THETA = np.array([1.0, 0.5])


def ratios(sigma, x, y):
    """Return everyone's loss ratio under one metric, for a logistic model that is known."""
    model = LogisticRegression().fit(np.eye(2), [0, 1])
    model.coef_, model.intercept_ = THETA[None], np.zeros(1)
    people = AuditData.from_arrays(x, y)
    flow = likewise.GradientFlow(lam=LAM, time=TIME)
    metric = likewise.metrics.QuadraticMetric(sigma)
    settings = likewise.Settings(checks="core")
    return likewise.audit(
        model, people, metric=metric, method=flow, settings=settings
    ).outcomes.ratio


@pytest.mark.parametrize("angle", [0.02, 0.1, 0.4])
def test_a_metric_that_is_a_little_off_changes_ratios_by_little(angle, rng):
    x = rng.uniform(-1, 1, (60, 2))
    y = np.arange(60) % 2
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    exact = np.diag([0.05, 1.0])
    mistaken = turn @ exact @ turn.T

    found = np.abs(ratios(exact, x, y) - ratios(mistaken, x, y)).max()

    # Nobody gets farther than |θ| T: the penalty only pulls them back.
    slope = float(np.linalg.norm(THETA))
    farthest = float(np.linalg.norm(x, axis=1).max()) + slope * TIME
    lipschitz = slope**2 / 4 + 2 * LAM * np.linalg.norm(exact, 2)
    smallest = math.log1p(math.exp(-slope * farthest))
    off = 2 * np.linalg.norm(exact - mistaken, 2)
    bound = metric_error_bound(
        lam=LAM,
        time=TIME,
        metric_error=float(off),
        lipschitz=float(lipschitz),
        loss_lipschitz=slope,
        diameter=2 * farthest,
        smallest_loss=smallest,
    )
    assert 1e-6 < found <= bound


def test_the_bound_is_never_exceeded_where_everything_is_known():
    r"""A flow that is solved exactly under two metrics, and every constant in closed form.

    Loss c + x² (so its gradient is 2x), metrics d² = s·(x - x0)²: the flow of
    x' = 2x - 2λs(x - x0) is linear. On the ball that holds both paths the constants are
    L = |2 - 2λs₁|, L₀ = 2·radius, D = 2·radius, δ_d = 2|s₁ - s₂|.
    """
    lam, time, x0, smallest = 2.0, 1.0, 0.5, 0.3

    def moved(s):
        rate, pull = 2 - 2 * lam * s, 2 * lam * s * x0
        return (x0 + pull / rate) * math.exp(rate * time) - pull / rate

    for first, second in [(0.9, 1.0), (1.2, 1.21), (0.2, 0.4)]:
        ends = moved(first), moved(second)
        radius = max(abs(v) for v in (*ends, x0))
        actual = abs(ends[0] ** 2 - ends[1] ** 2) / (smallest + x0**2)
        bound = metric_error_bound(
            lam=lam,
            time=time,
            metric_error=2 * abs(first - second),
            lipschitz=abs(2 - 2 * lam * first),
            loss_lipschitz=2 * radius,
            diameter=2 * radius,
            smallest_loss=smallest,
        )
        assert 0 < actual <= bound
