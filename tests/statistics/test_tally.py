"""Sums over any blocks, added in any order and grouping, are the sums over everyone."""

import dataclasses
import functools
import math
import operator

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from likewise.checks.group_tables import by_group
from likewise.errors import InvalidSample
from likewise.inference.group_metrics import flip_rates, group_metrics
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest, MeanLossRatioTest
from likewise.inference.simultaneous import horizon_band
from likewise.outcomes import AtHorizon, Outcomes
from likewise.statistics.frame import Frame
from likewise.statistics.tally import Tally

TIMES = (1.25, 2.5)


def people(seed, *, n=None, weighted=False, clustered=False, regression=False, classes=2):
    """Outcomes with everything: groups, missing traits, horizons, weights, clusters."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(40, 400))
    before = rng.exponential(size=n) + 0.05
    harm = rng.exponential(0.3, n) * (rng.random(n) < 0.8) + 8 * (rng.random(n) < 0.01)
    y = rng.integers(0, classes, n)
    first = np.where(rng.random(n) < 0.8, y, rng.integers(0, classes, n))
    second = np.where(rng.random(n) < 0.7, first, rng.integers(0, classes, n))
    race = rng.choice(["a", "b", "c"], n, p=[0.05, 0.25, 0.7]).astype(object)
    race[rng.random(n) < 0.05] = None
    cluster = np.array([f"house {k}" for k in rng.integers(0, n // 3, n)], dtype=object)
    return Outcomes(
        row=np.arange(n),
        y=y,
        loss_before=before,
        loss_after=before * (1 + harm),
        decision_before=first,
        decision_after=second,
        probability_before=np.full(n, 0.5),
        probability_after=np.full(n, 0.5),
        fair_distance=rng.random(n),
        status=np.zeros(n, dtype=np.int64),
        weight=rng.uniform(0.2, 3, n) if weighted else None,
        cluster=cluster if clustered else None,
        groups={"sex": rng.choice(["F", "M"], n).astype(object), "race": race},
        horizons={t: AtHorizon(before * (1 + harm * t / 5), second) for t in TIMES},
        about={"task": "regression" if regression else "classification", "monotone": False},
    )


def in_blocks(outcomes, frame, seed):
    """Cut at random, shuffle, and add up neighbours in a random order."""
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(1, len(outcomes), size=rng.integers(1, 9)))
    rows = rng.permutation(len(outcomes)) if rng.random() < 0.5 else np.arange(len(outcomes))
    tallies = [Tally.of(outcomes.take(part), frame) for part in np.split(rows, cuts)]
    rng.shuffle(tallies)
    while len(tallies) > 1:
        at = int(rng.integers(len(tallies) - 1))
        tallies[at : at + 2] = [tallies[at] + tallies[at + 1]]
    return tallies[0]


def agree(one, other):
    """Compare numbers to 1e-11 (their own scale), and everything else exactly."""
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        agree([getattr(one, k) for k in names], [getattr(other, k) for k in names])
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        agree(list(one.values()), list(other.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            agree(a, b)
    elif isinstance(one, float):
        # Bounds are roots, and p-values exponentials, of sums that agree to 1e-13.
        assert one == pytest.approx(other, rel=1e-10, abs=1e-12, nan_ok=True)
    else:
        assert one == other


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
    clustered=st.booleans(),
    regression=st.booleans(),
    classes=st.sampled_from([2, 3]),
)
@hypothesis.settings(max_examples=25, deadline=None)
def test_any_cut_order_and_grouping_say_the_same(seed, weighted, clustered, regression, classes):
    outcomes = people(
        seed, weighted=weighted, clustered=clustered, regression=regression, classes=classes
    )
    frame = Frame.of(outcomes)
    whole, merged = Tally.of(outcomes, frame), in_blocks(outcomes, frame, seed)
    tests = [LossRatioTest(), LossRatioTest(interval="paper"), ErrorRateRatioTest()]
    if regression:
        tests = [MeanLossRatioTest(), MeanLossRatioTest(interval="paper")]
    for test in tests:
        for one, other in ((whole, merged), (whole.at(2.5), merged.at(2.5))):
            found = [test.evidence(tally).verdict(1.25, 0.05) for tally in (one, other)]
            agree(*found)
        agree(found[0], test(outcomes.at(2.5)))
    few = {"draws": 2000, "rng": np.random.default_rng(1)}
    agree(by_group(whole, **few), by_group(merged, **few | {"rng": np.random.default_rng(1)}))
    bands = [horizon_band(t, draws=2000, rng=np.random.default_rng(1)) for t in (whole, merged)]
    agree(*bands)
    if not regression:
        agree(group_metrics(whole), group_metrics(merged))
        agree(flip_rates(whole), flip_rates(merged))
    assert merged.status.counts() == outcomes.counts()
    assert merged.fair_distance.value[0] == pytest.approx(outcomes.fair_distance.mean())
    assert merged.spread.quantile(1) == outcomes.ratio.max()


def test_somebody_without_a_ratio_makes_the_mean_undefined_wherever_they_are():
    outcomes = people(1, n=90)
    losses = np.where(outcomes.row == 7, np.nan, outcomes.loss_after)
    outcomes = dataclasses.replace(outcomes, loss_after=losses)
    merged = in_blocks(outcomes, Frame.of(outcomes), 5)
    evidence = LossRatioTest().evidence(merged)
    assert evidence.bounds is None
    assert "1 of 90 people have no finite loss ratio" in evidence.notes[0]
    own = str(outcomes.groups["sex"][7])
    for line in by_group(merged, rng=np.random.default_rng(1), draws=500):
        if line.trait == "sex":
            assert math.isnan(line.estimate) == (line.group == own)


def test_clusters_spread_over_many_blocks_are_added_up_at_little_cost():
    outcomes = people(3, n=3000, clustered=True)
    frame = Frame.of(outcomes).bare()
    tallies = [Tally.of(outcomes.take(rows), frame) for rows in np.split(np.arange(3000), 100)]
    merged = functools.reduce(operator.add, tallies)
    # Tables wait to be joined, but only so many that each is twice as long as the next.
    assert len(merged.clusters.parts) <= math.log2(3000) + 1
    assert merged.clusters.count == len(set(outcomes.cluster.tolist()))


def test_clusters_of_one_are_none_and_a_single_cluster_is_no_sample():
    outcomes = people(4, n=60)
    alone = dataclasses.replace(outcomes, cluster=np.arange(60))
    assert LossRatioTest()(alone) == LossRatioTest()(outcomes)
    together = dataclasses.replace(outcomes, cluster=np.zeros(60))
    with pytest.raises(InvalidSample, match="one cluster"):
        LossRatioTest()(together)


def test_sums_made_with_another_cap_are_refused():
    tally = Tally.of(people(2), Frame.of(people(2), cap=5.0))
    with pytest.raises(InvalidSample, match=r"capped at 5.*caps them at 10"):
        LossRatioTest().evidence(tally)


def test_a_test_that_needs_rows_says_so():
    test = LossRatioTest(interval="bootstrap_t")
    assert test.needs_rows
    assert not LossRatioTest().needs_rows
    with pytest.raises(InvalidSample, match="everyone's ratios"):
        test.evidence(Tally.of(people(2)))


@pytest.mark.parametrize("interval", ["hall", "paper"])
@pytest.mark.parametrize("spread", [0.0, 4e-18, 1e-15])
def test_a_spread_that_rounding_explains_is_no_evidence(interval, spread):
    rng = np.random.default_rng(1)
    outcomes = people(5, n=200)
    ratio = 1.5 * (1 + spread * rng.normal(size=200))
    outcomes = dataclasses.replace(outcomes, loss_after=outcomes.loss_before * ratio)
    verdict = LossRatioTest(interval=interval)(outcomes)
    assert verdict.outcome == "inconclusive"
    assert not verdict.rejected
    assert verdict.std_error == 0
    regression = dataclasses.replace(outcomes, about={"task": "regression"})
    assert MeanLossRatioTest(interval=interval)(regression).outcome == "inconclusive"
