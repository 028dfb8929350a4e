"""A hidden factor of known odds explains a difference at its Γ, and not before."""

import numpy as np
import pytest
from scipy.stats import binom

from checks.planted import audited, linear, population
from likewise.checks.hidden_factor import largest_odds


def test_a_factor_of_known_odds_breaks_the_finding_at_its_gamma():
    # The model decides by the factor alone, among people of equal skill.
    people, pool = (population(n, seed, odds=3.0) for n, seed in ((4000, 1), (9000, 2)))
    result = audited(linear(skill=0.0, zone=1.0, intercept=0.0), people, pool, "hidden_factor")
    found = {(h.group, h.other): h.gamma for h in result.record.matched_pairs.hidden_factor}
    assert set(found) == {("a", "b"), ("b", "a")}
    # Discordant pairs have these odds; the sampling error of four standard deviations is 15 %.
    for gamma in found.values():
        assert gamma == pytest.approx(3.0, rel=0.2)


def test_with_equal_pairs_it_is_rosenbaums_sign_test():
    """Of 400 discordant pairs 280 favour one side: the normal and the exact test agree."""
    shares = np.repeat([1.0, -1.0, 0.0], [280, 120, 600]) / 1000
    gamma = largest_odds(shares, 0.0, 0.05)
    assert binom.sf(279, 400, gamma / (1 + gamma)) == pytest.approx(0.025, abs=0.003)


def test_odds_are_mirrored_fall_with_the_bias_and_are_bounded():
    shares = np.random.default_rng(0).normal(0.2, 1, 500) / 500
    assert largest_odds(shares, 0.02, 0.05) == largest_odds(-shares, -0.02, 0.05) > 1
    assert largest_odds(shares, 0.0, 0.05) > largest_odds(shares, 0.02, 0.05)
    assert largest_odds(np.full(50, 0.02), -0.5, 0.05) == 100.0
    assert largest_odds(np.zeros(50), 0.0, 0.05) == 1.0
