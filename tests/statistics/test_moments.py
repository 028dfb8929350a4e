"""Moments of blocks, merged, are the moments of all rows."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidSample
from likewise.inference.estimators import mean_of_moments
from likewise.inference.sampling import Design, mean_of_ratios
from likewise.statistics.moments import CoMoments, Moments, RatioMoments

FIELDS = ("value", "std_error", "skewness", "effective_n", "degrees", "n")


def merge(parts):
    return functools.reduce(operator.add, parts)


def blocks(rng, n):
    """Cut n rows into blocks at random places, in random order."""
    cuts = np.unique(rng.integers(1, n, size=rng.integers(1, 9)))
    parts = np.split(np.arange(n), cuts)
    rng.shuffle(parts)
    return parts


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1e-4, 5.0, 1e3]))
def test_merged_blocks_give_the_estimate_of_all_rows(seed, weighted, offset):
    rng = np.random.default_rng(seed)
    n = 300
    ratio = offset + rng.exponential(size=n)
    weight = rng.lognormal(size=n) if weighted else None
    whole = mean_of_ratios(ratio, Design.make(n, weight))
    merged = mean_of_moments(
        merge(
            RatioMoments.of(ratio[rows], None if weight is None else weight[rows])
            for rows in blocks(rng, n)
        ),
        weighted=weighted,
    )
    for name in FIELDS:
        # Rounding of the mean, relative to the spread, is what an offset of 1000 costs.
        assert getattr(merged, name) == pytest.approx(
            getattr(whole, name), rel=1e-12 + 1e-15 * offset
        )


def test_merging_does_not_cancel_where_everybody_is_nearly_the_same(rng):
    ratio = 7.0 + 1e-7 * rng.exponential(size=1000)
    merged = mean_of_moments(merge(RatioMoments.of(part) for part in np.split(ratio, 10)))
    whole = mean_of_ratios(ratio)
    # Ratios of 7 carry 1e-15, that is 1e-8 of their spread.
    assert merged.std_error == pytest.approx(whole.std_error, rel=1e-7)


def test_moments_about_another_centre(rng):
    values, weight = rng.normal(size=50), rng.random(50)
    squares, cubes = Moments.of(values, weight).about(0.3)
    assert squares == pytest.approx((weight * (values - 0.3) ** 2).sum(), rel=1e-12)
    assert cubes == pytest.approx((weight * (values - 0.3) ** 3).sum(), rel=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_moments_by_cell_merge_whichever_cells_a_block_has(seed):
    rng = np.random.default_rng(seed)
    values, weight, cell = rng.lognormal(size=90), rng.random(90), rng.integers(5, size=90)
    cell[:30] = 1
    parts = [
        Moments.by_cell(values[rows], cell[rows], 5, weight[rows])
        for rows in (np.arange(30), np.arange(30, 60), np.arange(60, 90))
    ]
    for merged in (parts[0] + parts[1] + parts[2], parts[2] + (parts[1] + parts[0])):
        for k in range(5):
            one = Moments.of(values[cell == k], weight[cell == k])
            assert merged.mean[k] == pytest.approx(one.mean, rel=1e-12)
            assert merged.cubes[k] == pytest.approx(one.cubes, rel=1e-9, abs=1e-12)
        together = merged.of_cells(np.array([True, False, True, False, True]))
        rows = cell % 2 == 0
        assert together.squares == pytest.approx(
            Moments.of(values[rows], weight[rows]).squares, rel=1e-11
        )


def test_products_of_combinations_merge(rng):
    columns, weight = rng.normal(5, 1, size=(60, 3)), rng.random(60)
    parts = [CoMoments.of(columns[a:b], weight[a:b]) for a, b in ((0, 10), (10, 45), (45, 60))]
    coefficients = rng.normal(size=(3, 2))
    mixed = columns @ coefficients
    expected = (mixed * weight[:, None]).T @ mixed
    for merged in (merge(parts), parts[2] + (parts[0] + parts[1])):
        np.testing.assert_allclose(merged.of_combinations(coefficients), expected, rtol=1e-11)


def test_one_person_is_no_sample():
    with pytest.raises(InvalidSample, match="at least 2"):
        mean_of_moments(RatioMoments.of(np.array([1.0])))
