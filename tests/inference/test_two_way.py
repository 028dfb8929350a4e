"""Bounds for ratios that are random in two ways, against loops and other methods."""

import math

import numpy as np
import pytest

from likewise.inference.estimate import Unknown
from likewise.inference.two_way import TwoWay, effective, two_way


def test_without_pairs_it_is_the_delta_method(rng):
    a, b = rng.exponential(size=(2, 400)) + 1
    nothing = np.zeros(1)
    bounds = TwoWay(a, b, nothing, nothing, 1.0)
    s = a.sum() / b.sum()
    people, pairs = bounds.std_errors
    assert people == pytest.approx((a - s * b).std(ddof=1) * math.sqrt(400) / b.sum())
    assert pairs == 0
    assert math.isinf(bounds.degrees)
    # Fieller's interval and the plain one agree to the order of the error's square.
    assert bounds.lower_bound(0.05) == pytest.approx(s - 1.645 * people, abs=0.2 * people)


def test_pairs_add_their_variance_and_set_the_degrees(rng):
    a, b = rng.exponential(size=(2, 200)) + 1
    n, d = rng.normal(size=(2, 50))
    bounds = TwoWay(a, b, n, d, 10 / 9)
    s = a.sum() / b.sum()
    u = n - s * d
    assert bounds.std_errors[1] == pytest.approx(math.sqrt(10 / 9 * (u**2).sum()) / b.sum())
    assert bounds.degrees == pytest.approx((u**2).sum() ** 2 / (u**4).sum() - 1)
    wide, narrow = bounds.interval(0.05), TwoWay(a, b, n * 0, d * 0, 1.0).interval(0.05)
    assert wide[0] < narrow[0] < s < narrow[1] < wide[1]


def test_exchanged_members_set_the_least_variance(rng):
    a, b = rng.exponential(size=(2, 200)) + 1
    n, d = rng.normal(size=(2, 50)) / 100
    assert TwoWay(a, b, n, d, 1.0, least=0.3**2).std_errors[1] == pytest.approx(0.3)


def test_pairs_that_share_a_cluster_vary_together(rng):
    a, b = rng.exponential(size=(2, 100)) + 1
    n = rng.normal(size=60) + 1
    cluster = rng.integers(0, 15, (60, 2))
    cluster[:, 1] = np.where(cluster[:, 1] == cluster[:, 0], 15, cluster[:, 1])
    bounds = TwoWay(a, b, n, np.zeros(60), 1.0, pair_cluster=cluster)
    shared = [len(set(p) & set(q)) for p in cluster.tolist() for q in cluster.tolist()]
    # A pair shares both of its clusters with itself, and counts once.
    total = (np.outer(n, n).reshape(-1) * shared).sum() - (n**2).sum()
    assert bounds.variances(1.0)[1] == pytest.approx(total)


def test_each_member_in_a_cluster_of_their_own_changes_nothing(rng):
    a, b = rng.exponential(size=(2, 100)) + 1
    n, d = rng.normal(size=(2, 60))
    alone = TwoWay(a, b, n, d, 1.0, pair_cluster=np.arange(120).reshape(60, 2))
    plain = TwoWay(a, b, n, d, 1.0)
    assert alone.variances(1.1) == pytest.approx(plain.variances(1.1))
    # Each pair stands in two clusters, so the number of effective units is doubled.
    assert alone.effective_pairs == pytest.approx(2 * plain.effective_pairs)


def test_without_spread_or_with_a_single_cluster_nothing_is_known():
    ones, nothing = np.ones(10), np.zeros(3)
    assert isinstance(two_way(TwoWay(ones, ones, nothing, nothing, 1.0)), Unknown)
    assert isinstance(two_way(TwoWay(ones[:1], ones[:1], nothing, nothing, 1.0)), Unknown)


def test_units_of_equal_size_count_in_full():
    assert effective(np.full(7, 3.0)) == pytest.approx(7)
    assert effective(np.array([1e300, 0.0])) == pytest.approx(1)
    assert effective(np.zeros(4)) == 0
