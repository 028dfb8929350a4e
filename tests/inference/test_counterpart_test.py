"""What the counterpart test concludes: nothing about coins, something about planted unfairness."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import binom

from likewise.errors import InvalidSettings
from likewise.inference.counterpart_test import CounterpartTest
from likewise.inference.counterpart_verdict import TraitEvidence
from likewise.statistics.donors import DonorDesign, Donors
from likewise.statistics.visit_losses import VisitLosses

PAIRS = 600


def visited(
    rng: np.random.Generator,
    n: int = 400,
    *,
    harm: float = 0.0,
    groups: int = 2,
    m: int = 20,
    spread: float = 0.5,
    cluster: np.ndarray | None = None,
    far: float = 0.0,
    swaps: int = 199,
) -> Donors:
    """People whose loss depends on the pair's members; ``harm`` is what other groups add."""
    own = rng.integers(0, groups, n)
    everyone = np.arange(groups)
    other = np.array([everyone[everyone != g] for g in own])
    level = rng.exponential(size=(n, 1, 1)) + 0.5
    members = np.exp(spread * rng.normal(size=(PAIRS, 2)))
    start = rng.integers(0, PAIRS, (n, groups - 1, 1))
    pair = (start + np.arange(m)) % PAIRS
    losses = VisitLosses(
        after=level * members[pair, 1] * (1 + harm),
        before=level * members[pair, 0],
        pair=pair,
        own=own,
        other=other,
        loss=level[:, 0, 0],
        far=rng.random(n) < far,
        weight=np.ones(n),
        cluster=np.arange(n) if cluster is None else cluster,
        row=np.arange(n),
    )
    return Donors.of(losses, DonorDesign(groups, PAIRS, m, swaps=swaps))


def evidence(donors: Donors, test: CounterpartTest, pool: int = 5000) -> TraitEvidence:
    groups = tuple("abc"[: donors.design.groups])
    return test.evidence(donors, "trait", groups, [pool] * len(groups))


def test_planted_unfairness_is_found_in_every_group_and_a_fair_model_is_certified(rng):
    test = CounterpartTest()
    harmed = evidence(visited(rng, harm=0.6), test)
    verdict = test.decide([harmed], {})
    assert verdict.outcome == "evidence_of_unfairness"
    assert [group.outcome for group in verdict.groups] == ["evidence_of_unfairness"] * 2
    assert 1.5 < harmed.overall.estimate < 1.7
    fair = evidence(visited(rng, 1000, spread=0.05), test)
    assert test.decide([fair], {}).outcome == "within_tolerance"


def test_the_p_value_is_the_larger_of_two(rng):
    test = CounterpartTest(delta=1.0)
    found = evidence(visited(rng), test).groups[0]
    assert found.p_value(1.0) == max(found.bounds.p_value(1.0), found.swap_p_value)
    assert found.p_value(1.25) >= found.p_value(1.0)


def test_nothing_is_certified_before_every_column_was_left_out_once(rng):
    test = CounterpartTest()
    fair = evidence(visited(rng, 1000, spread=0.05), test)
    unknown = test.decide([fair])
    assert unknown.outcome == "inconclusive"
    assert "not tried" in unknown.groups[0].reasons[0]
    accused = test.decide([fair], {"trait": {"age": 0.01, "job": 0.3}})
    assert accused.outcome == "inconclusive"
    assert "without 'age'" in accused.groups[0].reasons[0]
    assert test.decide([fair], {"trait": {"age": 0.06}}).outcome == "within_tolerance"
    assert test.smallest_p_value(fair) == min(g.p_value(1.25) for g in fair.groups)


def test_traits_and_groups_share_one_error_rate(rng):
    test = CounterpartTest()
    one = evidence(visited(rng, harm=0.6), test)
    alone, both = test.decide([one]), test.decide([one, dataclasses.replace(one, trait="other")])
    assert both.groups[0].adjusted_p_value == pytest.approx(2 * alone.groups[0].adjusted_p_value)
    assert set(both.by_trait) == {"trait", "other"}


@pytest.mark.parametrize(
    ("donors", "pool", "words"),
    [
        (lambda rng: visited(rng, harm=0.6), 199, "199 people of this group, and 200 are needed"),
        (lambda rng: visited(rng, harm=0.6, spread=4.0), 5000, "pairs' worth of evidence"),
    ],
)
def test_what_cannot_be_decided_says_why(rng, donors, pool, words):
    test = CounterpartTest()
    verdict = test.decide([evidence(donors(rng), test, pool)], {})
    assert verdict.outcome == "inconclusive"
    assert words in verdict.groups[0].reasons[0]
    assert verdict.groups[0].doubtful


def test_a_bound_just_above_the_tolerance_is_told_with_digits_enough_to_see_it(rng):
    fair = evidence(visited(rng, spread=0.05), CounterpartTest())
    found = CounterpartTest().decide([fair], {}).groups[0]
    delta = max(found.worst_upper_bound, found.capped_upper_bound) - 4e-6
    group = CounterpartTest(delta=delta).decide([fair], {}).groups[0]
    said = group.reasons[0].split()
    assert float(said[7].rstrip(",")) > delta
    assert not group.doubtful


def test_where_no_visit_changes_anything_only_rare_harm_is_to_be_feared(rng):
    test = CounterpartTest()
    still = test.decide([evidence(visited(rng, spread=0.0), test)], {})
    assert still.outcome == "within_tolerance"
    assert {g.upper_bound for g in still.groups} == {
        1 + np.log(20) * 9 / g.evidence.clusters for g in still.groups
    }
    few = test.decide([evidence(visited(rng, 80, spread=0.0), test)], {})
    assert few.outcome == "inconclusive"
    assert "fewer than the 108 needed" in " ".join(few.groups[0].reasons)


def test_few_people_can_be_accused_and_not_certified(rng):
    test = CounterpartTest()
    few = evidence(visited(rng, 80, spread=0.05), test)
    assert "fewer than the 108 needed" in " ".join(test.decide([few], {}).groups[0].reasons)


def test_one_huge_cluster_says_nothing(rng):
    test = CounterpartTest()
    cluster = np.where(np.arange(400) < 380, 0, np.arange(400))
    found = evidence(visited(rng, harm=0.6, cluster=cluster), test)
    assert found.groups[0].clusters < 20
    # A single independent household carries it: one degree of freedom, and no accusation.
    assert test.decide([found], {}).outcome != "evidence_of_unfairness"
    alone = evidence(visited(rng, harm=0.6, cluster=np.zeros(400, dtype=int)), test)
    assert test.decide([alone], {}).outcome == "inconclusive"
    assert math.isinf(alone.groups[0].bounds.upper_bound(0.05))


def test_near_and_far_people_must_agree(rng):
    test = CounterpartTest(delta=1.5)
    donors = visited(rng, harm=0.6, far=0.5)
    mild = donors.person["far"] & True
    person = dict(donors.person)
    person["after"] = np.where(mild, 3 * person["after"], 0.8 * person["after"])
    found = evidence(dataclasses.replace(donors, person=person), test)
    verdict = test.decide([found], {})
    assert found.groups[0].estimate > 1.5 > found.groups[0].near_estimate
    assert "on two sides of 1.5" in verdict.groups[0].reasons[-1]
    assert verdict.outcome == "inconclusive"


def test_pairs_that_differ_in_what_may_matter_decide_nothing(rng):
    test = CounterpartTest()
    one = evidence(visited(rng, harm=1.0), test)
    assert test.decide([one]).outcome == "evidence_of_unfairness"
    doubted = dataclasses.replace(one, unbalanced={"a": "a is above b", "b": "a is above b"})
    verdict = test.decide([doubted])
    assert verdict.outcome == "inconclusive"
    assert verdict.groups[0].reasons == ("a is above b",)


def test_the_worst_served_are_shown_with_their_pair(rng):
    test = CounterpartTest(most=3)
    donors = visited(rng, harm=0.6)
    worst = evidence(donors, test).worst
    gap = donors.person["after"] - donors.person["before"]
    assert [one.row for one in worst] == np.argsort(-gap)[:3].tolist()
    assert worst[0].own != worst[0].other
    assert worst[0].after > worst[0].before
    assert 0 <= worst[0].pair < PAIRS


def test_unknown_groups_are_counted_and_left_out_of_sums(rng):
    test = CounterpartTest()
    donors = visited(rng)
    person = dict(donors.person)
    person["own"] = np.where(np.arange(400) < 10, -1, person["own"])
    found = evidence(dataclasses.replace(donors, person=person), test)
    assert found.without_group == 10
    assert found.overall.n == 390


def test_numbers_out_of_range_are_refused():
    for choices in ({"delta": 0.9}, {"alpha": 0.6}, {"cap": 1.0}):
        with pytest.raises(InvalidSettings):
            CounterpartTest(**choices)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 3])
def test_a_coin_is_accused_at_most_five_times_in_a_hundred(groups):
    rng = np.random.default_rng(20210330)
    test = CounterpartTest(delta=1.0)
    runs, accused, means = 150, 0, []
    for _ in range(runs):
        found = evidence(visited(rng, 150, groups=groups), test)
        accused += test.decide([found]).outcome == "evidence_of_unfairness"
        means.append(found.overall.estimate)
    # False alarm of this test: one in ten thousand if the rate is exactly .05.
    assert accused <= binom.ppf(0.9999, runs, 0.05)
    assert np.mean(means) == pytest.approx(1, abs=4 * np.std(means) / math.sqrt(runs) + 0.002)
