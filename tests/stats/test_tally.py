"""Sums over any blocks, in any order and grouping; who is in which group."""

import dataclasses
from collections import Counter

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pydantic
import pytest

from helpers import outcomes_of
from likewise.audit_data import missing
from likewise.errors import InvalidSample
from likewise.methods.decide import by_group
from likewise.settings import Settings
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.frame import AttributeLevels, Frame
from likewise.stats.groups import group_metrics
from likewise.stats.loss_ratio import LossRatioTest, MeanLossRatioTest
from likewise.stats.tally import Tally, groups_of


def people(seed, *, n=None, weighted=False, clustered=False, regression=False, classes=2):
    """Outcomes with everything: groups, missing attributes, weights, clusters."""
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
    return outcomes_of(
        before=before,
        after=before * (1 + harm),
        y=y,
        decision_before=first,
        decision_after=second,
        fair_distance=rng.random(n),
        weight=rng.uniform(0.2, 3, n) if weighted else None,
        cluster=cluster if clustered else None,
        groups={"sex": rng.choice(["F", "M"], n).astype(object), "race": race},
        about={"task": "regression" if regression else "classification", "monotone": False},
    )


def in_blocks(outcomes, frame, seed):
    """Cut at random, shuffle, and add up neighbours in a random order."""
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(1, len(outcomes), size=rng.integers(1, 9)))
    rows = rng.permutation(len(outcomes)) if rng.random() < 0.5 else np.arange(len(outcomes))
    tallies = [Tally.from_outcomes(outcomes.take(part), frame) for part in np.split(rows, cuts)]
    rng.shuffle(tallies)
    while len(tallies) > 1:
        at = int(rng.integers(len(tallies) - 1))
        tallies[at : at + 2] = [tallies[at] + tallies[at + 1]]
    return tallies[0]


def agree(one, other):
    """Compare numbers to 1e-11 (their own scale), and everything else exactly."""
    if isinstance(one, pydantic.BaseModel):
        agree(one.model_dump(), other.model_dump())
    elif dataclasses.is_dataclass(one):
        agree(vars(one), vars(other))
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


@pytest.mark.slow
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
    frame = Frame.from_outcomes(outcomes)
    whole, merged = Tally.from_outcomes(outcomes, frame), in_blocks(outcomes, frame, seed)
    tests = [LossRatioTest(), LossRatioTest(interval="paper"), ErrorRateRatioTest()]
    if regression:
        tests = [MeanLossRatioTest(), MeanLossRatioTest(interval="paper")]
    for test in tests:
        found = [test.evidence(tally).result(1.25, 0.05) for tally in (whole, merged)]
        agree(*found)
        agree(found[0], test(outcomes))
    agree(by_group(whole, Settings()), by_group(merged, Settings()))
    if not regression:
        agree(group_metrics(whole), group_metrics(merged))
    assert merged.status == outcomes.counts()
    assert merged.fair_distance == pytest.approx(outcomes.fair_distance.sum())
    assert merged.spread.quantile(1) == outcomes.ratio.max()


def test_clusters_of_one_are_none_and_a_single_cluster_is_no_sample():
    outcomes = people(4, n=60)
    alone = dataclasses.replace(outcomes, cluster=np.arange(60))
    assert LossRatioTest()(alone) == LossRatioTest()(outcomes)
    together = dataclasses.replace(outcomes, cluster=np.zeros(60))
    with pytest.raises(InvalidSample, match="one cluster"):
        LossRatioTest()(together)


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


def counts(**groups):
    columns = {name: np.array(values, dtype=object) for name, values in groups.items()}
    some = next(iter(groups.values()))
    tally = Tally.from_outcomes(outcomes_of(np.ones(len(some)), groups=columns))
    found = groups_of(tally.cells.kinds, tally.frame)
    count = tally.cells.sums[:, 0]
    return {f"{g.attribute}: {g.name}": int(count[g.members].sum()) for g in found}


def test_numbers_with_few_levels_stay_and_stand_in_their_order():
    assert list(counts(age=["10", "9", "100", "9"])) == ["age: 9", "age: 10", "age: 100"]


def test_of_many_names_the_rarest_are_pooled():
    names = [f"level {k:02d}" for k in range(50) for _ in range(50 - k)]
    got = counts(town=names)
    assert len(got) == 20
    assert got["town: 31 other levels"] == sum(50 - k for k in range(19, 50))
    assert sum(got.values()) == len(names)


def as_levels(column):
    """Return the level of everyone in a column, None where it is missing."""
    levels = AttributeLevels.from_counts(Counter(column[~missing(column)].tolist()))
    return np.array([*levels.names, None], dtype=object)[levels.codes(column)]


def test_missing_values_stay_missing_and_whole_numbers_look_whole():
    assert as_levels(np.array([1.0, np.nan, 0.0])).tolist() == ["1", None, "0"]
    assert as_levels(np.array(["a", None], dtype=object)).tolist() == ["a", None]
    assert as_levels(np.array([True, False])).tolist() == ["True", "False"]
    # A column in single precision holds 0.1 as 0.10000000149011612, and nobody calls it so.
    column = np.array([0.1, 0.25, 3.0], dtype=np.float32)
    assert as_levels(column).tolist() == ["0.1", "0.25", "3"]


@pytest.mark.parametrize(
    "values",
    [
        [1000001, 1000002],
        [0.12345671, 0.12345672],
        [2**60, 2**60 + 1],
        [1e300, 1e300 * (1 + 2**-52)],
    ],
)
def test_numbers_that_differ_are_levels_that_differ(values):
    column = np.array(values + values[:1])
    names = as_levels(column).tolist()
    assert names[0] == names[2] != names[1]
