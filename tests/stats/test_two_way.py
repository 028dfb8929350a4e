"""The adjusted ratio: reference cases, the interval and the test that agree, pseudo-people."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.stats.decision import Compared, DecisionRule, assess, decide, rarer_outcome
from likewise.stats.two_way import EvenPowers, TwoWay


def statistic(own, other, pair, pairs, kappa=0.0, redrawn=(), weight=None):
    """The statistic from comparisons, n × m."""
    n, m = own.shape
    w = np.ones(n) if weight is None else weight
    o, p = other.mean(1), own.mean(1)
    a, b = np.zeros(pairs), np.zeros(pairs)
    np.add.at(a, pair, w[:, None] * (other - o[:, None]) / (m - 1))
    np.add.at(b, pair, w[:, None] * (own - p[:, None]) / (m - 1))
    return TwoWay(
        own=float(w @ p / w.sum()),
        other=float(w @ o / w.sum()),
        kappa=kappa,
        redrawn=np.asarray(redrawn, dtype=float),
        n=float(w.sum() ** 2 / (w @ w)),
        total=float(w.sum()),
        people=EvenPowers.from_rows(np.column_stack([w, w * o, w * p])),
        pairs=EvenPowers.from_rows(np.column_stack([a, b])),
        exact_degrees=weight is None,
    )


def drawn(seed, n=120, m=10, pairs=100, own=0.25, other=0.4, bias=0.02):
    rng = np.random.default_rng(seed)
    return statistic(
        (rng.random((n, m)) < own).astype(float),
        (rng.random((n, m)) < other).astype(float),
        np.argsort(rng.random((n, pairs)), axis=1)[:, :m],
        pairs,
        kappa=0.1,
        redrawn=rng.normal(bias, 0.02, 19),
    )


@pytest.mark.parametrize("case", ["ordinary", "confounded", "no_effect", "pairs_agree"])
def test_reference_cases(case, reference):
    path = reference / "matched_pairs.json"
    if not path.is_file():
        pytest.skip("the reference cases of matched pairs are not here")
    want = json.loads(path.read_text())[case]
    with np.load(path.with_suffix(".npz")) as given:
        parts = ("own", "other", "pair", "n_pairs", "kappa", "redrawn")
        own, other, pair, pairs, kappa, redrawn = (given[f"{case}_{part}"] for part in parts)
    found = statistic(own, other, pair, int(pairs), float(kappa), redrawn)
    names = {"own": "own_rate", "other": "other_raw", "difference": "D"}
    for name in ("own", "other", "difference", "other_corrected", "ratio"):
        assert getattr(found, name) == pytest.approx(want[names.get(name, name)], abs=1e-10)
    assert found.interval() == pytest.approx(tuple(want["interval"]), abs=1e-10)
    assert found.p_value(1.25) == pytest.approx(want["p_at_1_25"], abs=1e-10)
    for d, at in want["at"].items():
        spread = found.spread(np.array([float(d)]))
        values = {
            "T": found.statistic(np.array([float(d)]), "up")[0],
            "v_people": spread.people[0],
            "v_pairs": spread.pairs[0],
            "v_redraw": spread.redraw,
            "se": spread.std_error[0],
            "allowance": found.allowance,
        }
        assert values == pytest.approx({name: at[name] for name in values}, abs=1e-10)
        assert spread.degrees[0] == pytest.approx(at["df"], rel=1e-10)
        effective = math.inf if at["J"] is None else at["J"]
        assert spread.effective_pairs[0] == pytest.approx(effective, rel=1e-10)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.1, 0.9), st.floats(0.02, 0.9), st.floats(0.3, 3.0))
def test_the_interval_ends_where_the_test_rejects(seed, own, other, d):
    found = drawn(seed, n=40, m=5, pairs=30, own=own, other=other)
    low, high = found.interval()
    assert 0 <= low <= max(found.ratio, 0) <= high
    p = found.p_one_sided(d, "up" if d < found.ratio else "down")
    if low < d < high:
        assert p >= 0.025 - 1e-9
    if low > 0 and d == low:
        assert p == pytest.approx(0.025)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_complement_is_the_statistic_of_the_other_outcome(seed):
    rng = np.random.default_rng(seed)
    own, other = (rng.random((2, 50, 6)) < 0.4).astype(float)
    pair = np.argsort(rng.random((50, 40)), axis=1)[:, :6]
    redrawn = rng.normal(0.01, 0.02, 19)
    weight = rng.random(50) + 0.1
    flipped = statistic(1 - own, 1 - other, pair, 40, 0.2, -redrawn, weight)
    complement = statistic(own, other, pair, 40, 0.2, redrawn, weight).complement()
    assert complement.interval() == pytest.approx(flipped.interval())
    assert complement.p_value(1.1) == pytest.approx(flipped.p_value(1.1))
    d = np.array([-1.0, 0.8, 1.0, 1.3])
    assert complement.spread(d).degrees == pytest.approx(flipped.spread(d).degrees)


def test_repeating_a_person_is_giving_them_weight():
    rng = np.random.default_rng(5)
    own, other = (rng.random((2, 60, 5)) < 0.3).astype(float)
    pair = np.argsort(rng.random((60, 50)), axis=1)[:, :5]
    weight = np.full(60, 3.0)
    plain, heavy = statistic(own, other, pair, 50), statistic(own, other, pair, 50, weight=weight)
    d = np.array([0.8, 1.0, 1.25])
    assert heavy.spread(d).std_error == pytest.approx(plain.spread(d).std_error)
    assert heavy.n == pytest.approx(60)


@pytest.fixture
def chosen():
    """Return a statistic of people of whom a share is chosen, or nobody, by either group."""
    rng = np.random.default_rng(3)
    pair = np.argsort(rng.random((100, 80)), axis=1)[:, :8]
    own, other = (rng.random((2, 100, 8)) < 0.3).astype(float)
    redrawn = rng.normal(0, 0.001, 19)
    return lambda a, b: statistic(a * own, b * other, pair, 80, 0.0, redrawn * (a + b))


def test_rates_of_exactly_zero_have_a_finite_end_by_one_pseudo_person(chosen):
    found = chosen(1, 0)
    assert found.pseudo
    low, high = found.interval()
    assert low == 0
    assert 0 < high < 0.3
    # Downwards a person with own 0 and other 1 was added: the mean rises by 1/(n + 1).
    moved = (1 - found.own * 100) / 101 - found.bias
    assert found.statistic(np.ones(1), "down")[0] == pytest.approx(moved)
    assert found.difference == pytest.approx(-found.own - found.bias)


def test_nobody_of_the_own_group_chosen_leaves_only_a_lower_end(chosen):
    found = chosen(0, 1)
    low, high = found.interval()
    assert low > 2
    assert high == math.inf
    assert math.isnan(found.ratio)
    assert found.p_one_sided(low, "up") == pytest.approx(0.025)
    assert chosen(0, 0).interval() == (0, math.inf)
    assert chosen(0, 0).p_value(1.25) == 1


def compared(estimate, people=None, kept=None, pairs=200):
    n = round(estimate.n)
    return Compared(estimate, people or n, kept or n, pairs, 100.0)


def test_a_row_is_evidence_only_outside_the_band_and_after_correction():
    strong = assess(compared(drawn(1, n=400, own=0.2, other=0.5)), DecisionRule())
    weak = assess(compared(drawn(2, n=400, own=0.4, other=0.4, bias=0.0)), DecisionRule(delta=2.0))
    assert decide({"a": strong, "b": weak}).outcome == "evidence"
    assert decide({"b": weak}).outcome == "within_tolerance"
    few = assess(compared(drawn(1, own=0.2, other=0.5), pairs=19), DecisionRule())
    assert few.p_value == 1
    assert decide({"a": few, "b": weak}).outcome == "inconclusive"
    # Outside the band but not after the correction is inconclusive.
    for seed in range(200):
        row = assess(compared(drawn(seed, n=60, own=0.25, other=0.42)), DecisionRule())
        if row.outside and row.p_value > 0.01:
            break
    decided = decide(dict.fromkeys(range(6), row)).rows[0]
    assert (decided.outcome, decided.reason) == ("inconclusive", "holm")
    assert 60 < decided.people_needed < 600


@pytest.mark.parametrize(
    ("change", "numbers", "reason"),
    [
        ({"kappa": 0.6}, {}, "kappa"),
        ({"redrawn": np.zeros(9)}, {}, "redraws"),
        ({"n": 19.0}, {}, "people"),
        ({}, {"people": 1000}, "overlap"),
        ({}, {"pairs": 19}, "pairs"),
    ],
)
def test_what_forbids_a_decision_is_named(change, numbers, reason):
    estimate = dataclasses.replace(drawn(1, own=0.2, other=0.5), **change)
    row = assess(compared(estimate, **{"people": 120, "kept": 120, **numbers}), DecisionRule())
    assert decide({"a": row}).rows["a"].reason == reason


def test_too_few_events_forbid_within_tolerance_and_nothing_else():
    alike = drawn(3, n=600, own=0.4, other=0.4, bias=0.0)
    row = assess(Compared(alike, 600, 600, 200, 5.0), DecisionRule(delta=3))
    assert decide({"a": row}).rows["a"].reason == "events"
    evidence = Compared(drawn(1, n=400, own=0.2, other=0.5), 400, 400, 200, 5.0)
    assert decide({"a": assess(evidence, DecisionRule())}).outcome == "evidence"


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_calling_the_other_outcome_favourable_changes_nothing(seed, own, other):
    estimate = drawn(seed, own=own, other=other)
    rule = DecisionRule(delta=1.1)
    one = assess(compared(estimate), rule)
    two = assess(compared(estimate.complement()), rule)
    assert one.p_value == pytest.approx(two.p_value, abs=1e-12)
    assert (one.inside, one.outside) == (two.inside, two.outside)
    rates = [o.estimate.own + o.estimate.other_corrected for o in one.tested]
    assert len(rates) == 2 or rates[0] <= 1
    # Where it is open which outcome is rarer, both are tested, and p is doubled.
    smallest = min(o.p_value for o in one.tested)
    assert one.p_value == pytest.approx(min(1, len(rarer_outcome(estimate)) * smallest))


def test_a_difference_needs_a_limit_and_is_judged_against_it():
    estimate = drawn(1, n=400, own=0.2, other=0.5)
    rule = DecisionRule(kind="difference", binary=False)
    assert decide({"a": assess(compared(estimate), rule)}).rows["a"].reason == "limit"
    for limit, outcome in ((0.1, "evidence"), (0.6, "within_tolerance"), (0.3, "inconclusive")):
        rule = DecisionRule(kind="difference", limit=limit, binary=False)
        assert decide({"a": assess(compared(estimate), rule)}).outcome == outcome


def test_how_many_people_would_settle_it_is_about_right():
    row = assess(compared(drawn(11, n=100, own=0.25, other=0.35, bias=0.0)), DecisionRule())
    # Too few people to compare are no more easily settled than more of them.
    few = assess(compared(drawn(11, n=15, own=0.25, other=0.35, bias=0.0)), DecisionRule())
    for one, reason in ((row, "too_few"), (few, "people")):
        decided = decide({"a": one}).rows["a"]
        assert decided.reason == reason
        assert 100 < decided.people_needed < math.inf
    biased = assess(compared(drawn(11, own=0.25, other=0.6, bias=0.3)), DecisionRule())
    assert decide({"a": biased}).rows["a"].reason == "matching"


def test_a_small_reference_sample_is_what_must_grow():
    large, rule = drawn(2, n=400, own=0.4, other=0.4, bias=0.0), DecisionRule()

    def decided(times):
        second, fourth = large.pairs.second / times, large.pairs.fourth / times**2
        pairs = EvenPowers(large.pairs.count, second, fourth)
        row = assess(compared(dataclasses.replace(large, pairs=pairs)), rule)
        return decide({"a": row}).rows["a"]

    small = decided(1 / 40)
    assert small.reason == "too_few"
    assert small.people_needed == 400
    assert 1 < small.pool_times < 40
    assert decided(small.pool_times / 40).outcome == "within_tolerance"


def test_people_needed_are_more_than_there_are_with_weights_too():
    rng = np.random.default_rng(5)
    weight = rng.pareto(2.5, 200) + 0.1
    own, other = ((rng.random((200, 10)) < rate).astype(float) for rate in (0.25, 0.33))
    pair = np.argsort(rng.random((200, 2000)), axis=1)[:, :10]
    found = statistic(own, other, pair, 2000, redrawn=rng.normal(0, 0.001, 19), weight=weight)
    assert found.n < 120
    row = assess(Compared(found, 500, 200, 2000, 1000.0), DecisionRule())
    assert decide({"a": row}).rows["a"].people_needed > 500


def test_a_decision_that_is_never_made_lacks_events_and_not_people():
    never = statistic(
        np.zeros((200, 4)), np.zeros((200, 4)), np.tile(np.arange(4), (200, 1)), 4, redrawn=[0] * 19
    )
    halves = dataclasses.replace(
        never,
        pairs=None,
        exact_degrees=False,
        people=EvenPowers(0, np.zeros((3, 3)), np.zeros((6, 6))),
    )
    row = assess(compared(halves), DecisionRule())
    assert row.p_value == 1
    assert decide({"a": row}).rows["a"].reason == "events"
