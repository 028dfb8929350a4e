import math

import numpy as np
import pytest

from likewise.errors import InvalidSettings
from likewise.inference.ratio_test import delta_curve, metric_error_bound
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest


@pytest.fixture
def evidences(rng, outcomes_of):
    ratio = 1 + rng.exponential(0.3, size=400)
    wrong = rng.random(400) < 0.2
    outcomes = outcomes_of(
        ratio, wrong_before=wrong, wrong_after=wrong | (rng.random(400) < 0.05), monotone=True
    )
    few = outcomes_of(ratio[:120])
    return [
        LossRatioTest().evidence_of(outcomes),
        LossRatioTest(interval="paper").evidence_of(few),
        ErrorRateRatioTest().evidence_of(outcomes),
    ]


def test_the_curve_is_the_test_at_every_tolerance(evidences):
    for evidence in evidences:
        curve = delta_curve(evidence, 0.05)
        assert curve.points[0].delta == 1
        p_values = [point.p_value for point in curve.points]
        assert p_values == sorted(p_values)
        for point in curve.points:
            assert point.outcome == evidence.verdict(point.delta, 0.05).outcome


def test_the_turning_points_are_where_the_verdict_turns(evidences):
    for evidence in evidences:
        curve = delta_curve(evidence, 0.05)
        below, above = curve.unfair_below, curve.tolerable_from
        assert 1 < below < above < math.inf
        around = [below * (1 - 1e-9), below * (1 + 1e-9), above * (1 - 1e-9), above * (1 + 1e-9)]
        outcomes = [evidence.verdict(delta, 0.05).outcome for delta in around]
        assert outcomes == [
            "evidence_of_unfairness",
            "inconclusive",
            "inconclusive",
            "within_tolerance",
        ]


def test_nothing_is_tolerable_where_nothing_is_known(outcomes_of):
    curve = delta_curve(LossRatioTest().evidence_of(outcomes_of(np.full(200, 1.5))), 0.05)
    assert curve.tolerable_from == math.inf
    assert {point.outcome for point in curve.points} == {"inconclusive"}
    undefined = delta_curve(
        LossRatioTest().evidence_of(outcomes_of([1.0, math.inf])), 0.05, [1.0, 2.0]
    )
    assert undefined.tolerable_from == math.inf
    assert len(undefined.points) == 2


def test_the_bound_of_theorem_a_1_is_never_exceeded_where_everything_is_known():
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


def test_the_bound_of_theorem_a_1_needs_positive_constants():
    with pytest.raises(InvalidSettings, match="smallest_loss must be positive"):
        metric_error_bound(
            lam=50,
            time=5,
            metric_error=0.1,
            lipschitz=1,
            loss_lipschitz=1,
            diameter=1,
            smallest_loss=0,
        )
