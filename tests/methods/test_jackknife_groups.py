import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.audit_data import AuditData
from likewise.methods.jackknife import cut_points, groups_between, unit_hashes


def people(n, seed=0, **more):
    rng = np.random.default_rng(seed)
    return AuditData.from_arrays(rng.normal(size=(n, 2)), np.arange(n) % 2, **more)


def dealt(data, groups):
    units = unit_hashes([data])
    return groups_between(units, cut_points(units, groups))


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 300), st.integers(2, 25), st.integers(0, 2**31))
def test_groups_are_equal_and_never_more_than_people(n, groups, seed):
    sizes = np.bincount(dealt(people(n, seed), groups))
    assert len(sizes) == min(groups, n)
    assert np.ptp(sizes) <= 1


def test_the_order_of_rows_and_the_blocks_they_are_read_in_change_no_group(rng):
    data = people(500)
    order = rng.permutation(500)
    groups = dealt(data, 20)
    np.testing.assert_array_equal(dealt(data.take(order), 20), groups[order])
    parts = [data.take(slice(0, 200)), data.take(slice(200, 500))]
    np.testing.assert_array_equal(unit_hashes(parts), unit_hashes([data]))


def test_clusters_stay_whole_and_sizes_nearly_equal(rng):
    sizes = rng.integers(1, 8, size=300)
    cluster = np.repeat([f"house {i}" for i in range(300)], sizes)
    order = rng.permutation(len(cluster))
    groups = dealt(people(len(cluster), cluster=cluster[order]), 10)
    for name in np.unique(cluster):
        assert len(set(groups[cluster[order] == name])) == 1
    assert np.ptp(np.bincount(groups)) <= 14  # at most one of the largest clusters on either side


def test_there_are_never_more_groups_than_clusters():
    cluster = np.repeat([1, 2, 3], 20)
    assert set(dealt(people(60, cluster=cluster), 10)) == {0, 1, 2}


def test_equal_rows_are_dealt_at_random_not_together_nor_evenly(rng):
    # One in ten rows is the same: 400 people in 20 groups. Together they would all be in one
    # group; evenly they would be 20 in each. At random the variance of their number is 20 · .9.
    n = 4000
    x = rng.normal(size=(n, 1))
    x[: n // 10] = 0.0
    groups = dealt(AuditData.from_arrays(x, (x[:, 0] == 0) * 1), 20)
    count = np.bincount(groups[: n // 10], minlength=20)
    assert count.sum() == 400
    # A chi-squared of 19 degrees divided by 19 lies in here but for one draw in 10 000.
    assert 0.25 < count.var(ddof=1) / 18 < 2.6


def test_people_who_were_not_learned_from_are_dealt_out_in_proportion():
    units = unit_hashes([people(400)])
    strangers = unit_hashes([people(4000, seed=1)])
    cuts = cut_points(units, 10)
    # 400 expected in each; the cuts themselves have a standard error of 5 %.
    sizes = np.bincount(groups_between(strangers, cuts), minlength=10)
    assert sizes.min() > 200
    assert sizes.max() < 650
