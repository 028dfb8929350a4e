"""Sums of matched pairs: they add up, travel as bytes, and do not depend on blocks."""

import dataclasses
import functools
import operator
import pickle

import numpy as np
import pytest

from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import (
    ClusterPropensity,
    PairDesign,
    PeopleBlock,
    random_halves,
)
from likewise.methods.redraws import fit_propensity, stratified_folds
from likewise.packing import pack, unpack
from likewise.stats.decision import DecisionRule, assess


def people(seed, n, effect=0.8, levels=3):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, 2))
    category = rng.integers(0, levels, (n, 1))
    group = (rng.random(n) < 1 / (1 + np.exp(-numeric[:, 0]))).astype(np.int64)
    remaining = numeric[:, 0] + rng.normal(size=n) + effect * group
    return Covariates(numeric, category), group, remaining


class Audit:
    """People in blocks against a pool or in halves, with two measures."""

    def __init__(self, n=300, pool=600, halves=False, seed=0, **options):
        self.covariates, self.group, self.remaining = people(seed, n)
        self.pool = (
            (self.covariates, self.group, self.remaining) if halves else people(seed + 1, pool)
        )
        given = options.pop("pool_clusters", None)
        self.design = PairDesign.from_pool(
            self.pool[0],
            self.pool[1],
            (0, 1),
            (seed, "sex", "f", "m"),
            people=options.pop("people", None),
            clusters=given,
            halves=random_halves(seed, n, given) if halves else None,
        )
        self.weight, self.cluster = options.get("weight"), options.get("cluster")

    def block(self, rows):
        return PeopleBlock(
            rows,
            self.covariates.take(rows),
            self.group[rows],
            None if self.weight is None else self.weight[rows],
            None if self.cluster is None else self.cluster[rows],
        )

    def ask(self, rows):
        def answer(i, j):
            score = self.covariates.numeric[rows[i], 1] + self.pool[2][j]
            return np.column_stack([score > 1, score]).astype(np.float64)

        return answer

    def located(self, rows):
        return self.design.locate(self.block(rows))

    def parts(self, probe, blocks):
        return [probe.measure(self.ask(rows), self.located(rows)) for rows in blocks]

    def measure(self, probe, blocks):
        return functools.reduce(operator.add, self.parts(probe, blocks))

    def everything(self, blocks, count=3):
        probes = [self.design.comparison(2), *self.design.redraws(2, count)]
        return [self.measure(probe, blocks) for probe in probes]


def assert_same(one, two):
    assert pack(one, {}) == pack(two, {})


CLUSTERED = {"cluster": np.arange(300) // 2, "weight": np.linspace(0.5, 2, 300)}


@pytest.mark.parametrize(
    "options",
    [{}, CLUSTERED, {"halves": True}, {"pool_clusters": np.arange(600) // 3}],
    ids=["pool", "weights and clusters", "halves", "clusters of the pool"],
)
def test_sums_travel_as_bytes_and_add_up_to_the_same_digits(options):
    audit = Audit(**options)
    blocks = np.array_split(np.arange(300), [7, 8, 150, 150])
    for probe in (audit.design.comparison(2), *audit.design.redraws(2, 1)):
        parts = audit.parts(probe, blocks)
        total = functools.reduce(operator.add, parts)
        # Measured in another order elsewhere, written to a file, and added in the order of blocks.
        stored = {number: unpack(pack(parts[number], {}), {}) for number in (3, 0, 4, 2, 1)}
        again = functools.reduce(operator.iadd, (stored[number] for number in range(5)))
        assert_same(total, again)
        assert total.n == again.n


@pytest.mark.parametrize("halves", [False, True])
def test_blocks_and_their_order_change_nothing_but_rounding(halves):
    audit = Audit(halves=halves, people=None if halves else (3000, 3000))
    whole = audit.everything([np.arange(300)])
    rng = np.random.default_rng(0)
    pieces = audit.everything(np.array_split(rng.permutation(300), 9))
    for one, two in zip(whole, pieces, strict=True):
        assert one.kept.tolist() == two.kept.tolist()
        np.testing.assert_allclose(one.first, two.first, rtol=1e-12)
    for direction in (0, 1):
        for measure in (0, 1):
            one = whole[0].compared(direction, measure, whole[1:]).estimate
            two = pieces[0].compared(direction, measure, pieces[1:]).estimate
            d = np.array([0.8, 1.0, 1.25])
            np.testing.assert_allclose(one.spread(d).std_error, two.spread(d).std_error)
            np.testing.assert_allclose(one.spread(d).degrees, two.spread(d).degrees)


def test_a_probe_travels_to_another_process_with_or_without_its_pairs():
    audit = Audit()
    probe = audit.design.redraws(2, 1)[0]
    rows = np.arange(300)
    before = pickle.loads(pickle.dumps(probe))
    assert probe.pairs > 20
    after = pickle.loads(pickle.dumps(probe))
    want = audit.measure(probe, [rows])
    for copy in (before, after):
        assert_same(audit.measure(copy, [rows]), want)


def test_a_block_without_anyone_of_the_groups_adds_nothing():
    audit = Audit()
    probe = audit.design.comparison(2)
    nobody = dataclasses.replace(audit.block(np.arange(10)), group=np.full(10, 7))
    empty = probe.measure(audit.ask(np.arange(10)), audit.design.locate(nobody))
    whole = audit.measure(probe, [np.arange(300)])
    assert empty.n == 0
    assert_same((whole + empty), whole)
    assert_same((empty + whole), whole)
    assert empty.compared(0, 0, []).estimate is None


def test_shares_of_pairs_are_those_of_the_comparisons():
    audit, rows = Audit(), np.arange(300)
    probe = audit.design.comparison(2)
    plan = probe.plan(audit.located(rows))
    sums = probe.summed(plan.answers(audit.ask(rows), 2))
    for direction in (0, 1):
        mine = np.repeat(plan.part // 2 == direction, plan.count)
        estimate = sums.compared(direction, 0, []).estimate
        difference = estimate.other - estimate.own
        assert sums.pair_differences(direction, 0).sum() == pytest.approx(difference)
        # Members are of the groups they stand for, and of the person's own cell.
        assert (audit.pool[1][plan.own[mine]] == direction).all()
        assert (audit.pool[1][plan.other[mine]] == 1 - direction).all()
    cell = audit.covariates.category[plan.person, 0]
    assert (audit.pool[0].category[plan.own, 0] == cell).all()
    assert (audit.pool[0].category[plan.other, 0] == cell).all()


def test_in_halves_people_meet_pairs_of_the_other_half_and_share_units_with_their_pair():
    audit = Audit(halves=True)
    plan = audit.design.comparison(2).plan(audit.located(np.arange(300)))
    halves = audit.design.halves
    assert (halves[plan.person] != halves[plan.own]).all()
    assert (halves[plan.own] == halves[plan.other]).all()
    units = dict(zip(plan.people, plan.unit, strict=True))
    pairs = zip(plan.pair, plan.own, plan.other, strict=True)
    assert len({q for q, *members in pairs if all(units.get(row) == q for row in members)}) > 10


def test_people_with_clipped_propensities_leave_if_they_are_many():
    rng = np.random.default_rng(0)
    n = 1200
    numeric = rng.uniform(-1, 1, (n, 1))
    # Beyond .6 the attribute is certain.
    chance = np.clip(0.5 + numeric[:, 0] / 1.2, 0, 1)
    group = (rng.random(n) < chance).astype(np.int64)
    covariates = Covariates(numeric, np.zeros((n, 0), dtype=np.int64))
    pool, rest = np.arange(800), np.arange(800, n)
    design = PairDesign.from_pool(covariates.take(pool), group[pool], (0, 1), (0, "a", "b", "c"))
    located = design.locate(PeopleBlock(rest, covariates.take(rest), group[rest]))
    probe = design.comparison()
    sums = probe.measure(lambda i, j: numeric[pool][j], located)
    assert located.clipped.mean() > 0.05
    assert sums.dropped
    assert sums.parts(0) == [0]
    assert sums.parts(1) == [2]
    few = dataclasses.replace(sums, group_clipped=np.array([1, 1]))
    assert few.parts(1) == [2, 3]
    inside = int((~located.clipped & ~located.second).sum())
    assert sums.compared(0, 0, []).kept <= inside
    assert sums.compared(0, 0, []).people == int((~located.second).sum())


def test_a_rare_group_keeps_most_people_where_comparable_people_abound():
    rng = np.random.default_rng(0)
    covariates = Covariates(rng.normal(size=(14_000, 1)), np.zeros((14_000, 0), dtype=np.int64))
    pool, rest = np.arange(12_000), np.arange(12_000, 14_000)
    for every, least in ((125, 0.004), (50, 0.01)):  # .8 % and 2 %
        group = (np.arange(14_000) % every == 0).astype(np.int64)
        key = (0, "a", "b", "c")
        design = PairDesign.from_pool(covariates.take(pool), group[pool], (0, 1), key)
        located = design.locate(PeopleBlock(rest, covariates.take(rest), group[rest]))
        # Clipped at .01, three quarters of the people would be left out beside a group of .8 %.
        assert located.clipped.mean() < 0.35
        assert design.propensity.min() >= least
        assert design.limits == (least, 0.99)


def test_redraws_compare_about_two_thousand_people_of_a_group_and_always_the_same():
    audit = Audit(n=400, people=(20_000, 4_000))
    rows = np.arange(400)
    located = audit.located(rows)
    probes = audit.design.redraws(2, 6)
    plans = [probe.plan(located) for probe in probes]
    counts = np.array([np.bincount(plan.part // 2, minlength=2) for plan in plans])
    assert counts[:, 0].mean() == pytest.approx(0.1 * 200, abs=8)
    assert counts[:, 1].mean() == pytest.approx(0.5 * 200, abs=25)
    assert plans[0].people.tolist() != plans[1].people.tolist()
    halves = [probes[0].plan(audit.located(part)) for part in np.split(rows, 2)]
    together = [*halves[0].people, *(200 + halves[1].people)]
    assert together == plans[0].people.tolist()
    assert not probes[0].everyone


def test_an_attribute_constant_in_clusters_is_redrawn_for_whole_clusters():
    n = 240
    covariates, _, _ = people(3, n)
    clusters = np.arange(n) // 4
    group = (np.arange(n) // 4) % 2
    design = PairDesign.from_pool(covariates, group, (0, 1), (0, "a", "b", "c"), clusters=clusters)
    assert design.clusters_redrawn
    second = design.redrawn_pool(0)
    assert len(np.unique(np.column_stack([clusters, second]), axis=0)) == n // 4
    block = PeopleBlock(np.arange(n), covariates, group, None, clusters + 500)
    located = design.locate(block)
    summed = ClusterPropensity.from_people(located)
    assert summed.constant
    design = dataclasses.replace(design, people_clusters=summed)
    redrawn = design.redrawn_people(0, located)
    assert len(np.unique(np.column_stack([clusters, redrawn]), axis=0)) == n // 4
    mixed = dataclasses.replace(located, second=np.arange(n) % 2 == 0)
    assert not ClusterPropensity.from_people(mixed).constant


def test_folds_hold_whole_clusters_and_equal_shares():
    rng = np.random.default_rng(1)
    clusters = rng.integers(0, 60, 500)
    second = clusters % 3 == 0
    fold = stratified_folds(second, (0, "a"), clusters)
    assert len(np.unique(np.column_stack([clusters, fold]), axis=0)) == len(np.unique(clusters))
    shares = [len(np.unique(clusters[(fold == k) & second])) for k in range(5)]
    assert max(shares) - min(shares) <= 1
    plain = stratified_folds(second, (0, "a"))
    assert np.ptp([second[plain == k].sum() for k in range(5)]) <= 1


def test_propensities_use_categories_of_any_number_of_levels():
    rng = np.random.default_rng(2)
    level = rng.integers(0, 700, 4000)
    level[:2000] %= 2
    second = rng.random(4000) < np.where(level == 1, 0.9, 0.2)
    pool = Covariates(np.full((4000, 1), np.nan), level[:, None])
    fitted = fit_propensity(pool, second, (0, "a"))
    assert fitted.pool[level == 1].mean() == pytest.approx(0.9, abs=0.05)
    unseen = fitted.of_people(Covariates(np.array([[np.nan]]), np.array([[9999]])))
    assert 0.1 < unseen[0] < 0.4
    assert len(fitted.of_people(pool.take(np.arange(0)))) == 0


@pytest.mark.parametrize("rows", [0, 3, 4, 5])
def test_a_group_with_too_few_rows_in_the_pool_is_named(rows):
    covariates, group, _ = people(0, 200)
    kept = np.concatenate([np.flatnonzero(group == 0), np.flatnonzero(group == 1)[:rows]])
    design = PairDesign.from_pool(covariates.take(kept), group[kept], (0, 1), (0, "a", "b", "c"))
    probe = design.comparison()
    block = PeopleBlock(np.arange(200), covariates, group)
    sums = probe.measure(lambda i, j: np.zeros((len(i), 1)), design.locate(block))
    row = assess(sums.compared(0, 0, [], undecided=design.undecided), DecisionRule())
    if rows < 5:
        assert row.undecided == ("group", {"rows": rows, "needed": 5})
    else:
        assert row.undecided == ("pairs", {"pairs": 5, "needed": 20})


def test_an_attribute_that_the_propensity_cannot_follow_is_named():
    rng = np.random.default_rng(0)
    numeric = rng.normal(size=(2000, 3))
    board = np.floor(numeric[:, :2]).sum(axis=1) % 2 == 0
    group = (rng.random(2000) < np.where(board, 0.85, 0.15)).astype(np.int64)
    covariates = Covariates(numeric, np.zeros((2000, 0), dtype=np.int64))
    design = PairDesign.from_pool(covariates, group, (0, 1), (0, "a", "b", "c"))
    reason, numbers = design.undecided
    assert reason == "pattern"
    assert numbers["excess"] > 0.15
    smooth = (rng.random(2000) < 1 / (1 + np.exp(-2 * numeric[:, 0]))).astype(np.int64)
    design = PairDesign.from_pool(covariates, smooth, (0, 1), (0, "a", "b", "c"))
    assert design.undecided is None
    assert abs(design.unexplained[0]) < 0.1


def test_rows_that_are_repeated_without_saying_so_are_named():
    covariates, _, _ = people(0, 250)
    rows = np.repeat(np.arange(250), 8)
    group = np.random.default_rng(1).integers(0, 2, 250)[rows]
    for clusters, reason in ((None, "pattern"), (rows, None)):
        design = PairDesign.from_pool(
            covariates.take(rows), group, (0, 1), (0, "a", "b", "c"), clusters=clusters
        )
        assert (design.undecided or (None,))[0] == reason


def test_halves_are_random_and_hold_whole_clusters():
    halves = random_halves(0, 101)
    assert abs(halves.sum() - 50.5) <= 1
    clusters = np.arange(100) // 5
    together = random_halves(1, 100, clusters)
    assert len(np.unique(np.column_stack([clusters, together]), axis=0)) == 20
