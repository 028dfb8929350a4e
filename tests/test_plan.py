"""How many people an audit needs: formulas, and sizes that cannot be planned."""

import numpy as np
import pytest
from scipy.stats import norm

import likewise
from likewise.errors import InvalidSettings


def only(**given):
    (row,) = likewise.plan(**given).rows
    return row


def test_a_loss_ratio_needs_what_the_normal_formula_says():
    row = only(effect=1.4, sd=0.9)
    assert row.people == np.ceil(((norm.ppf(0.95) + norm.ppf(0.8)) * 0.9 / 0.15) ** 2)


def test_matched_pairs_are_planned_for_two_shares_of_people_and_of_pairs(rng):
    row = only(rate=0.25, ratio=2.0)
    n = row.people
    # Independent decisions of n people through as many pairs: the largest variance there is.
    people, pairs = (
        [rng.binomial(n, rate, 20_000) / n - rate for rate in (0.25, 0.5)] for _ in range(2)
    )
    own, other = 0.25 + people[0] + pairs[0], 0.5 + people[1] + pairs[1]
    spread = np.sqrt((0.25 + 1.25**2 * 0.1875) * 2 / n)
    found = np.mean((other - 1.25 * own) / spread > norm.ppf(1 - 0.05 / 4))
    assert found == pytest.approx(0.8, abs=0.02)
    assert row.pool == np.ceil(2 * n / 0.7)
    assert only(rate=0.25, ratio=0.5).people > 20
    assert f"ratio 2: at most {n:,} people of each group" in str(
        likewise.plan(rate=0.25, ratio=2.0)
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Say what is to be found"),
        ({"rate": 0.2}, "two numbers: rate and ratio"),
        ({"rate": 0.7, "ratio": 1.4}, "rarer outcome"),
        ({"rate": 0.2, "ratio": 1.1}, "within the limits"),
        ({"rate": 0.2, "ratio": 1.5, "comparisons": 0}, "at least one comparison"),
        ({"effect": 1.2, "sd": 1.0}, "above delta"),
        ({"effect": 1.4, "sd": 0.0}, "positive"),
        ({"effect": 1.2500001, "sd": 9.0}, "more than 1,000,000,000 people"),
        ({"rate": 0.2, "ratio": 1.5, "power": 0.01}, "power must lie"),
    ],
)
def test_what_cannot_be_planned_is_refused(given, says):
    with pytest.raises(InvalidSettings, match=says):
        likewise.plan(**given)
