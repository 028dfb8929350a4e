"""Sums of blocks, merged, are the sums of all rows."""

import functools
import math
import operator
from collections import Counter

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from likewise.stats.estimate import ratio_of_sums
from likewise.stats.frame import AttributeLevels
from likewise.stats.sums import QuantileSketch, RatioSums


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1e-4, 5.0]))
def test_merged_blocks_give_the_estimate_of_all_rows(seed, weighted, offset):
    rng = np.random.default_rng(seed)
    n = 300
    ratio = offset + rng.exponential(size=n)
    weight = rng.lognormal(size=n) if weighted else np.ones(n)
    cuts = np.unique(rng.integers(1, n, size=rng.integers(1, 9)))
    parts = np.split(rng.permutation(n), cuts)
    merged = functools.reduce(
        operator.add, (RatioSums.from_units((ratio * weight)[rows], weight[rows]) for rows in parts)
    )
    estimate = ratio_of_sums(merged, n)
    mean = np.average(ratio, weights=weight)
    terms = weight * (ratio - mean)
    assert estimate.value == pytest.approx(mean, rel=1e-12)
    linear = math.sqrt(n / (n - 1) * np.square(terms).sum()) / weight.sum()
    assert estimate.std_error == pytest.approx(linear, rel=1e-12)


@hypothesis.given(
    values=st.lists(st.floats(1e-250, 1e250), min_size=1, max_size=200),
    share=st.floats(0, 1),
)
@hypothesis.settings(max_examples=40)
def test_quantiles_of_the_sketch_are_within_one_per_cent(values, share):
    sketch = QuantileSketch.from_values(np.array(values[::2])) + QuantileSketch.from_values(
        np.array(values[1::2])
    )
    assert sketch.n == len(values)
    ordered = np.sort(values)
    place = share * (len(values) - 1)
    low, high = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    assert low * 0.99 <= sketch.quantile(share) <= high * 1.01
    assert sketch.quantile(0) == ordered[0]
    assert sketch.quantile(1) == ordered[-1]


def test_a_histogram_of_the_sketch_counts_everyone(rng):
    values = rng.lognormal(0.2, 1.0, 5000)
    edges, counts = QuantileSketch.from_values(values).histogram(40)
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
    levels = AttributeLevels.from_counts({value: values.count(value) for value in values})
    names = np.array([levels.names[levels.code[value]] for value in values], dtype=object)
    again = AttributeLevels.from_counts(Counter(names.tolist()))
    codes = levels.codes(np.array(values, dtype=object))
    assert [levels.names[code] for code in codes] == names.tolist()
    assert levels.codes(np.array([None], dtype=object)).tolist() == [-1]
    assert [again.groups[c] for c in again.codes(names)] == [levels.groups[c] for c in codes]
