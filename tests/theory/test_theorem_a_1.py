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
    how = {"method": likewise.GradientFlow(lam=LAM, time=TIME), "checks": "core"}
    return likewise.audit(model, AuditData.from_arrays(x, y), metric=sigma, **how).outcomes.ratio


@pytest.mark.parametrize("angle", [0.02, 0.1, 0.4])
def test_a_metric_that_is_a_little_off_changes_ratios_by_little(angle, rng):
    x, y = rng.uniform(-1, 1, (60, 2)), np.arange(60) % 2
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    exact = np.diag([0.05, 1.0])
    mistaken = turn @ exact @ turn.T
    found = np.abs(ratios(exact, x, y) - ratios(mistaken, x, y)).max()
    # Nobody gets farther than |θ| T: the penalty only pulls them back.
    slope = float(np.linalg.norm(THETA))
    farthest = float(np.linalg.norm(x, axis=1).max()) + slope * TIME
    bound = metric_error_bound(
        lam=LAM,
        time=TIME,
        metric_error=2 * float(np.linalg.norm(exact - mistaken, 2)),
        lipschitz=slope**2 / 4 + 2 * LAM * float(np.linalg.norm(exact, 2)),
        loss_lipschitz=slope,
        diameter=2 * farthest,
        smallest_loss=math.log1p(math.exp(-slope * farthest)),
    )
    assert 1e-6 < found <= bound
