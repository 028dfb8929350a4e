"""Theorem A.1: ratios differ by at most √(λ δ_d / L) L₀ D e^{LT} / c between two near metrics."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise

LAM, TIME = 0.5, 1.0
THETA = np.array([1.0, 0.5])


def ratios(sigma, x, y):
    """Return everyone's loss ratio under one metric, for a logistic model that is known."""
    model = LogisticRegression().fit(np.eye(2), [0, 1])
    model.coef_, model.intercept_ = THETA[None], np.zeros(1)
    people = likewise.AuditData.from_arrays(x, y)
    flow = likewise.GradientFlow(lam=LAM, time=TIME)
    metric = likewise.QuadraticMetric(sigma)
    settings = likewise.Settings(checks="core")
    return likewise.audit(model, people, metric=metric, map=flow, settings=settings).outcomes.ratio


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
    bound = math.sqrt(LAM * off / lipschitz) * slope * 2 * farthest / smallest
    assert 1e-6 < found <= bound * math.exp(lipschitz * TIME)
