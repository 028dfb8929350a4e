import math

import numpy as np
import pytest

from likewise.checks.placebo_traits import PlaceboComparison


def test_the_p_value_counts_placebos_that_do_at_least_as_much():
    drawn = (1.0, 2.0, 1.5, *[1.1] * 36)
    assert PlaceboComparison(3.0, drawn, 39).p_value == pytest.approx(1 / 40)
    assert PlaceboComparison(2.0, drawn, 39).p_value == pytest.approx(2 / 40)
    assert PlaceboComparison(1.4, drawn, 39).p_value == pytest.approx(3 / 40)
    assert PlaceboComparison(3.0, drawn, 39).range == (1.0, 2.0)


def test_it_ends_at_the_eighth_placebo_that_does_at_least_as_much():
    drawn = (*[1.0, 3.0] * 6, 9.0, 3.0, 3.0, 3.0, 0.0)
    compared = PlaceboComparison(2.0, drawn, 39)
    assert compared.complete
    assert len(compared.needed) == 14
    assert compared.p_value == pytest.approx(8 / 14)
    assert compared.range == (1.0, 9.0)
    # What was drawn beyond that, in the same wave, changes nothing.
    assert PlaceboComparison(2.0, drawn[:14], 39).p_value == compared.p_value
    assert not PlaceboComparison(2.0, drawn[:13], 39).complete


def test_what_is_not_finite_counts_against_the_accusation():
    assert PlaceboComparison(2.0, (math.nan, math.inf, *[1.0] * 37), 39).p_value == 3 / 40
    assert PlaceboComparison(math.nan, (1.0,) * 39, 39).p_value == 1.0
    assert PlaceboComparison(2.0, (2.0,) * 39, 39).p_value == 1.0  # ties, a constant model
    assert PlaceboComparison(2.0, (), 0).p_value == 1.0


def test_under_exchangeability_p_is_small_no_more_often_than_it_says(rng):
    draws = rng.integers(0, 50, size=(3000, 40)).astype(float)  # with ties
    p = np.array([PlaceboComparison(row[0], tuple(row[1:]), 39).p_value for row in draws])
    for level in (0.025, 0.05, 0.1, 0.25, 0.5):
        # Four standard errors: all five levels hold but for one run in 6000.
        assert np.mean(p <= level) <= level + 4 * math.sqrt(level * (1 - level) / 3000)
