"""Decision flips, against statsmodels."""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from likewise.errors import InvalidSample
from likewise.inference.group_metrics import flip_rates
from likewise.outcomes import Outcomes
from likewise.statistics.tally import Tally


def moved(y, before, after, **extra):
    n = len(y)
    ones, codes = np.ones(n), np.zeros(n, dtype=np.int64)
    return Outcomes(np.arange(n), y, ones, ones, before, after, ones, ones, ones, codes, **extra)


def test_flips_have_the_interval_of_clopper_and_pearson():
    y = np.zeros(100, dtype=int)
    before = np.repeat([0, 1], [80, 20])
    after = np.repeat([0, 1, 0, 1], [70, 10, 5, 15])
    flips = flip_rates(Tally.of(moved(y, before, after)), alpha=0.1)
    for got, count in ((flips.changed, 15), (flips.newly_wrong, 10), (flips.newly_right, 5)):
        expected = proportion_confint(count, 100, alpha=0.1, method="beta")
        assert (got.value, got.n) == (count / 100, 100)
        assert (got.lower, got.upper) == pytest.approx(expected, rel=1e-12)


def test_nobody_flipping_is_still_not_never():
    y = np.zeros(59, dtype=int)
    flips = flip_rates(Tally.of(moved(y, y, y)))
    assert (flips.changed.value, flips.changed.lower) == (0, 0)
    # Closed form: 1 - (alpha/2)^(1/n).
    assert flips.changed.upper == pytest.approx(1 - 0.025 ** (1 / 59), rel=1e-12)


def test_among_three_classes_a_wrong_decision_may_change_and_stay_wrong():
    y, before, after = np.array([0, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0])
    flips = flip_rates(Tally.of(moved(y, before, after)))
    assert flips.changed.value == pytest.approx(1 / 3)
    assert flips.newly_wrong.value == flips.newly_right.value == 0


def test_weights_shift_the_share_and_widen_the_interval(rng):
    y = np.zeros(500, dtype=int)
    after = (rng.random(500) < 0.3).astype(int)
    weight = rng.exponential(size=500) + 0.01
    plain, weighted = (
        flip_rates(Tally.of(moved(y, y, after))),
        flip_rates(Tally.of(moved(y, y, after, weight=weight))),
    )
    assert weighted.changed.value == pytest.approx(weight @ after / weight.sum(), rel=1e-12)
    width = [q.changed.upper - q.changed.lower for q in (plain, weighted)]
    # Exponential weights have a design effect near 2.
    assert width[1] / width[0] == pytest.approx(2**0.5, rel=0.1)


def test_a_regression_decides_nothing():
    y = np.zeros(5)
    with pytest.raises(InvalidSample, match="regression"):
        flip_rates(Tally.of(moved(y, y, y, about={"task": "regression"})))
