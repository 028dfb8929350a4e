import math

import numpy as np
import pytest
from scipy import stats

from likewise.inference import hall as module
from likewise.inference.estimate import Estimate, Unknown
from likewise.inference.hall import BootstrapT, Hall, bootstrap_t
from likewise.inference.sampling import Design, mean_of_ratios


def resampled(ratio, design, seed=1, repetitions=999):
    rng = np.random.default_rng(seed)
    return bootstrap_t(ratio, mean_of_ratios(ratio, design), design, rng, repetitions)


def linear(estimate):
    return estimate.std_error if np.isnan(estimate.linear_error) else estimate.linear_error


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_each_value_is_that_of_a_sample_drawn_by_hand(weighted, clustered, rng):
    n = 30
    ratio = 1 + rng.exponential(size=n)
    design = Design.make(
        n, rng.lognormal(size=n) if weighted else None, np.arange(n) // 3 if clustered else None
    )
    bounds = resampled(ratio, design, repetitions=5)
    drawn = np.random.default_rng(1).integers(design.units, size=(5, design.units))
    value = mean_of_ratios(ratio, design).value
    unit = np.arange(n) if design.unit is None else design.unit
    expected = []
    for units in drawn:
        rows = np.concatenate([np.flatnonzero(unit == u) for u in units])
        labels = np.repeat(np.arange(len(units)), [int((unit == u).sum()) for u in units])
        weight = None if design.weight is None else design.weight[rows]
        again = mean_of_ratios(ratio[rows], Design.make(len(rows), weight, labels))
        # Samples are studentised by linearised terms, bounds by the jackknife, which is wider.
        expected.append((again.value - value) / linear(again))
    assert bounds.resampled == pytest.approx(np.sort(expected), rel=1e-9)


def test_normal_samples_have_students_quantiles(rng):
    # Over 60 samples of 20, resampled quantiles average to those of t with 19 degrees: their
    # spread between samples is about .25, so one alarm in 10 000 beyond .13.
    design = Design.make(20)
    bounds = [resampled(rng.normal(5, 1, 20), design, seed) for seed in range(60)]
    quantiles = [np.quantile(b.resampled, 0.95) for b in bounds]
    assert np.mean(quantiles) == pytest.approx(stats.t.ppf(0.95, 19), abs=0.13)


def test_it_agrees_with_hall_on_skewed_ratios(rng):
    ratio = 1 + rng.exponential(size=2000)
    design = Design.make(2000)
    estimate = mean_of_ratios(ratio, design)
    bounds, hall = resampled(ratio, design, repetitions=9999), Hall(estimate)
    # A quantile of 9999 values has a standard error of .02; one alarm in 10 000.
    for one, other in zip(bounds.interval(0.1), hall.interval(0.1), strict=True):
        assert one == pytest.approx(other, abs=0.1 * estimate.std_error)
    assert bounds.p_value(1.98) == pytest.approx(hall.p_value(1.98), abs=0.02)


def test_memory_stays_bounded_by_drawing_in_parts(rng, monkeypatch):
    ratio = 1 + rng.exponential(size=40)
    sizes = []
    draw = module._studentised
    monkeypatch.setattr(module, "CELLS", 400)
    monkeypatch.setattr(
        module, "_studentised", lambda c, r, count: sizes.append(count) or draw(c, r, count)
    )
    bounds = resampled(ratio, Design.make(40), repetitions=95)
    assert sizes == [10] * 9 + [5]
    assert len(bounds.resampled) == 95


def test_p_values_and_bounds_never_disagree(rng):
    ratio = 1 + rng.exponential(size=60)
    bounds = resampled(ratio, Design.make(60))
    for delta in np.linspace(1.5, 2.5, 301):
        for alpha in (0.01, 0.05, 0.2):
            assert (bounds.p_value(delta) <= alpha) == (bounds.lower_bound(alpha) > delta)


def test_too_few_resamples_give_no_bound():
    bounds = BootstrapT(Estimate(1.5, 0.1, 30), np.array([-1.0, 0.0, 1.0]))
    assert bounds.interval(0.05) == (0.0, math.inf)


def test_without_spread_nothing_is_known():
    assert resampled(np.full(30, 1.5), Design.make(30)) == Unknown()
