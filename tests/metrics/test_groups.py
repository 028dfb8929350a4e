import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.metrics.traits import delete_groups


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 300), st.integers(2, 12), st.integers(0, 2**31))
def test_groups_are_equal_and_every_stratum_is_spread_over_them(n, groups, seed):
    rng = np.random.default_rng(seed)
    strata = [rng.integers(2, size=n), rng.integers(3, size=n)]
    dealt = delete_groups(strata, None, groups, rng)

    sizes = np.bincount(dealt)
    assert len(sizes) == min(groups, n)
    assert np.ptp(sizes) <= 1
    for sex in (0, 1):
        for race in (0, 1, 2):
            members = dealt[(strata[0] == sex) & (strata[1] == race)]
            assert np.ptp(np.bincount(members, minlength=len(sizes))) <= 1


def test_clusters_stay_whole_and_sizes_nearly_equal(rng):
    sizes = rng.integers(1, 8, size=300)
    cluster = np.repeat([f"house {i}" for i in range(300)], sizes)
    order = rng.permutation(len(cluster))
    dealt = delete_groups([rng.integers(2, size=len(cluster))], cluster[order], 10, rng)

    for name in np.unique(cluster):
        assert len(set(dealt[cluster[order] == name])) == 1
    assert np.ptp(np.bincount(dealt)) <= 7  # at most the largest cluster


def test_there_are_never_more_groups_than_clusters(rng):
    cluster = np.repeat([1, 2, 3], 20)
    assert set(delete_groups([np.zeros(60, dtype=int)], cluster, 10, rng)) == {0, 1, 2}


def test_the_seed_decides():
    def deal(seed):
        strata = [np.arange(100) % 2]
        return delete_groups(strata, None, 10, np.random.default_rng(seed)).tolist()

    assert deal(1) == deal(1)
    assert deal(1) != deal(2)


@pytest.mark.parametrize("groups", [2, 10])
def test_a_group_is_a_random_sample(groups):
    # The mean row number of a group is near that of all: the chance that any of the groups is
    # more than five standard errors away is below 1e-5.
    n = 5000
    dealt = delete_groups([np.zeros(n, dtype=int)], None, groups, np.random.default_rng(20210330))
    error = n / np.sqrt(12 * n / groups)
    for g in range(groups):
        assert abs(np.flatnonzero(dealt == g).mean() - n / 2) < 5 * error
