"""Sums of blocks, merged, are the sums of all rows."""

import functools
import operator
from collections import Counter

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from helpers import mean_of_ratios
from likewise.stats.estimate import mean_of_moments
from likewise.stats.frame import TraitLevels
from likewise.stats.sample import Design
from likewise.stats.sums import CoMoments, Moments, QuantileSketch, RatioMoments, TopK

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


@hypothesis.given(
    values=st.lists(st.floats(1e-250, 1e250), min_size=1, max_size=200),
    share=st.floats(0, 1),
)
@hypothesis.settings(max_examples=40)
def test_quantiles_of_the_sketch_are_within_one_per_cent(values, share):
    sketch = QuantileSketch.of(np.array(values[::2])) + QuantileSketch.of(np.array(values[1::2]))
    assert sketch.n == len(values)
    ordered = np.sort(values)
    place = share * (len(values) - 1)
    low, high = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    assert low * 0.99 <= sketch.quantile(share) <= high * 1.01
    assert sketch.quantile(0) == ordered[0]
    assert sketch.quantile(1) == ordered[-1]


@hypothesis.given(
    values=st.lists(st.floats(-1e9, 1e9), min_size=5, max_size=100), wanted=st.integers(1, 5)
)
@hypothesis.settings(max_examples=30)
def test_the_largest_are_kept(values, wanted):
    parts = [TopK.of(part, wanted) for part in np.array_split(np.array(values), 4)]
    for kept in (
        functools.reduce(operator.add, parts),
        parts[3] + (parts[1] + parts[0]) + parts[2],
    ):
        np.testing.assert_array_equal(kept.values, np.sort(values)[::-1][:wanted])


def test_a_histogram_of_the_sketch_counts_everyone(rng):
    values = rng.lognormal(0.2, 1.0, 5000)
    edges, counts = QuantileSketch.of(values).histogram(40)
    assert counts.sum() == 5000
    exact, _ = np.histogram(values, edges * np.r_[1 - 1e-12, np.ones(39), 1 + 1e-12])
    # Bins are 20 % wide, and nobody is more than 1 % from where they are counted.
    assert np.abs(counts - exact).max() < 0.1 * exact.max()


@hypothesis.given(
    st.one_of(
        st.lists(st.integers(0, 60), min_size=1, max_size=300),
        st.lists(st.floats(-5, 5).map(lambda v: round(v, 1) + 0.0), min_size=1, max_size=300),
        st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=300),
        st.lists(st.integers(0, 40).map(str), min_size=1, max_size=300),
        st.lists(st.booleans(), min_size=1, max_size=50),
    )
)
@hypothesis.settings(max_examples=40)
def test_codes_of_names_are_those_of_values(values):
    levels = TraitLevels.of({value: values.count(value) for value in values})
    names = np.array([levels.names[levels.code[value]] for value in values], dtype=object)
    codes = levels.codes_of(names)
    assert [levels.names[code] for code in codes] == names.tolist()
    assert levels.codes_of(np.array([None], dtype=object)).tolist() == [-1]
    again = TraitLevels.of(Counter(names.tolist()))
    assert [again.groups[c] for c in again.codes_of(names)] == [levels.groups[c] for c in codes]
