import math

import numpy as np
import pytest

from likewise.inference.loss_ratio import tail_from
from likewise.statistics.order_statistics import TopK, largest_needed


def tail_of(ratio):
    mean, largest = ratio.mean(), TopK.of(ratio, largest_needed(len(ratio))).values
    return tail_from(largest, len(ratio), float(mean), float(np.square(ratio - mean).sum()))


@pytest.mark.parametrize("index", [1.5, 2.5, 6.0])
def test_hills_index_finds_that_of_a_pareto(index, rng):
    ratio = 2 + rng.pareto(index, size=20_000)
    # R - 1 is exactly Pareto, so only chance is left: 1/√141 = 8 %, and beyond 33 % once in 10 000.
    assert tail_of(ratio).hill_index == pytest.approx(index, rel=0.33)


@pytest.mark.parametrize(
    ("index", "words"), [(1.2, "variance may not"), (2.4, "somewhat off"), (6.0, None)]
)
def test_heavy_tails_are_warned_about(index, words, rng):
    notes = tail_of(2 + rng.pareto(index, size=20_000)).notes
    assert notes == () if words is None else words in notes[0]


def test_the_share_of_the_largest_hundredth(rng):
    ratio = np.ones(1000)
    ratio[:10] = 11.0
    # Ten of a thousand hold .99 of the variance: p(1 - p) split as (1 - p) to p.
    assert tail_of(ratio).top_share == pytest.approx(0.99)
    assert tail_of(1 + rng.random(10_000)).top_share < 0.05


def test_nothing_is_wrong_with_equal_or_few_ratios():
    for ratio in (np.ones(50), np.array([1.0, 2.0]), np.array([0.0, 0.0, 1.0])):
        tail = tail_of(ratio)
        assert tail.hill_index > 0
        assert 0 <= tail.top_share <= 1
    assert tail_of(np.ones(50)).hill_index == math.inf


def test_a_tail_is_not_hidden_by_the_ones_that_ratios_start_from(rng):
    # A small excess of index 2.2: ratios themselves hardly leave 1, and their index looked like 6.
    noticed = [bool(tail_of(1 + 0.05 * (1 + rng.pareto(2.2, 1000))).notes) for _ in range(100)]
    # Noticed in 96 of 100; fewer than 85 once in 10 000 seeds.
    assert sum(noticed) >= 85
