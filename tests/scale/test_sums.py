"""Sums over any pieces, in any order, are the sums over everyone."""

import dataclasses
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from likewise.checks.levels import as_levels
from likewise.checks.trait_levels import TraitLevels
from likewise.inference.cells import cells
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest
from likewise.scale.sketch import Largest, LogHistogram
from likewise.scale.sums import Sums

LOSS, ERRORS = LossRatioTest(), ErrorRateRatioTest()


def outcomes(n: int, seed: int, weighted: bool = False, clustered: bool = False) -> Outcomes:
    rng = np.random.default_rng(seed)
    before = rng.lognormal(size=n)
    y, first, second = (rng.integers(0, 2, n) for _ in range(3))
    nothing = np.full(n, np.nan)
    return Outcomes(
        row=np.arange(n),
        y=y,
        loss_before=before,
        loss_after=before * rng.lognormal(0.1, 0.5, n),
        decision_before=first,
        decision_after=second,
        probability_before=nothing,
        probability_after=nothing,
        fair_distance=np.zeros(n),
        status=np.zeros(n, dtype=np.int64),
        weight=rng.uniform(0.2, 3, n) if weighted else None,
        cluster=rng.integers(0, max(2, n // 4), n) if clustered else None,
    )


@hypothesis.given(
    n=st.integers(20, 300),
    cuts=st.lists(st.integers(1, 299), max_size=6),
    order=st.randoms(use_true_random=False),
    weighted=st.booleans(),
    clustered=st.booleans(),
)
@hypothesis.settings(max_examples=20)
def test_any_cut_and_any_order_give_the_same_evidence(n, cuts, order, weighted, clustered):
    people = outcomes(n, n, weighted, clustered)
    ends = sorted({0, n, *(cut for cut in cuts if cut < n)})
    parts = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    order.shuffle(parts)
    sums = Sums(n, regression=False, weighted=weighted, cap=10.0)
    for rows in parts:
        sums.add(people.take(rows))
    for test in (LOSS, ERRORS):
        found, expected = sums.evidence(test, monotone=False), test.evidence(people)
        assert found.estimate.value == pytest.approx(expected.estimate.value, rel=1e-12)
        assert found.estimate.std_error == pytest.approx(expected.estimate.std_error, rel=1e-11)
        one, other = (e.verdict(1.25, 0.05) for e in (found, expected))
        assert one.outcome == other.outcome
        assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-9)
        assert (one.method, one.notes) == (other.method, other.notes)
        assert one.details == pytest.approx(other.details, rel=1e-9, nan_ok=True)


def test_somebody_without_a_ratio_makes_the_mean_undefined_as_in_memory():
    people = outcomes(50, 1)
    people = dataclasses.replace(people, loss_before=np.where(people.row == 7, 0.0, 1.0))
    sums = Sums(50, regression=False, weighted=False, cap=10.0)
    for rows in np.split(np.arange(50), [20, 30]):
        sums.add(people.take(rows))
    found, expected = sums.loss_ratio(LOSS), LOSS.evidence(people)
    assert found.bounds is None
    assert (found.notes, found.method) == (expected.notes, expected.method)


@hypothesis.given(
    values=st.lists(st.floats(1e-250, 1e250), min_size=1, max_size=200),
    share=st.floats(0, 1),
)
@hypothesis.settings(max_examples=40)
def test_quantiles_of_the_sketch_are_within_one_per_cent(values, share):
    sketch = LogHistogram()
    for half in (values[::2], values[1::2]):
        sketch.add(np.array(half))
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
    kept = Largest(wanted)
    for part in np.array_split(np.array(values), 4):
        kept.add(part)
    np.testing.assert_array_equal(np.sort(kept.values), np.sort(values)[-wanted:])


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
def test_levels_from_counts_are_the_levels_of_the_column(values):
    is_text = isinstance(values[0], str)
    column = np.array(values, dtype=object if is_text else None)
    expected = as_levels(column)
    counts = {value: values.count(value) for value in values}
    levels = TraitLevels.of(counts)
    found = [levels.names[levels.code[value]] for value in values]
    assert found == expected.tolist()
    # And the groups that tables show, where rare levels are pooled.
    people = dataclasses.replace(outcomes(len(values), 0), groups={"trait": expected})
    pooled = np.array([levels.groups[levels.code[value]] for value in values])
    for cell in cells(people, intersections=()):
        np.testing.assert_array_equal(pooled == cell.group, cell.rows)
