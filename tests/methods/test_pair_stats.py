"""Sums of matched pairs: they add up, travel as bytes, and do not depend on blocks."""

import dataclasses
import functools
import operator

import numpy as np
import pytest

from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import pair_design, random_halves
from likewise.methods.redraws import fit_propensity, stratified_folds
from likewise.packing import pack, unpack
from likewise.stats.decision import DecisionRule, assess

KEY = (0, "a", "b", "c")


def people(seed, n, effect=0.8, levels=3):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, 2))
    category = rng.integers(0, levels, (n, 1))
    group = (rng.random(n) < 1 / (1 + np.exp(-numeric[:, 0]))).astype(np.int64)
    remaining = numeric[:, 0] + rng.normal(size=n) + effect * group
    return Covariates(numeric, category), group, remaining


def numbers(*columns):
    return Covariates(np.column_stack(columns), np.zeros((len(columns[0]), 0), dtype=np.int64))


class Audit:
    """People in blocks against a pool or in halves, with two measures."""

    def __init__(self, n=300, halves=False, clusters=None, people_counts=None, **weights):
        self.covariates, self.group, self.remaining = people(0, n)
        own = self.covariates, self.group, self.remaining
        self.pool = own if halves else people(1, 600)
        self.design = pair_design(
            *self.pool[:2],
            (0, 1),
            (0, "sex", "f", "m"),
            people=people_counts,
            clusters=clusters,
            halves=random_halves(0, n, clusters) if halves else None,
            measures=2,
            redraw_count=3,
        )
        self.weights = weights

    def located(self, rows, group=None):
        group = self.group[rows] if group is None else group
        more = {name: values[rows] for name, values in self.weights.items()}
        return self.design.locate(rows, self.covariates.take(rows), group, **more)

    def ask(self, rows):
        def answer(i, j):
            score = self.covariates.numeric[rows[i], 1] + self.pool[2][j]
            return np.column_stack([score > 1, score]).astype(np.float64)

        return answer

    def parts(self, blocks, design=None):
        design = design or self.design
        return [design.measure(self.ask(rows), self.located(rows)) for rows in blocks]

    def measure(self, blocks, design=None):
        return functools.reduce(operator.add, self.parts(blocks, design))


def assert_same(one, two):
    assert pack(one, {}) == pack(two, {})


CLUSTERED = {"cluster": np.arange(300) // 2, "weight": np.linspace(0.5, 2, 300)}


@pytest.mark.parametrize(
    "options",
    [{}, CLUSTERED, {"halves": True}, {"clusters": np.arange(600) // 3}],
    ids=["pool", "weights and clusters", "halves", "clusters of the pool"],
)
def test_sums_travel_as_bytes_and_add_up_to_the_same_digits(options):
    audit = Audit(**options)
    parts = audit.parts(np.array_split(np.arange(300), [7, 8, 150, 150]))
    total = functools.reduce(operator.add, parts)
    # Measured in another order elsewhere, written to a file, and added in the order of blocks.
    stored = {number: unpack(pack(parts[number], {}), {}) for number in (3, 0, 4, 2, 1)}
    again = functools.reduce(operator.iadd, (stored[number] for number in range(5)))
    assert_same(total, again)


@pytest.mark.parametrize("halves", [False, True])
def test_blocks_and_their_order_change_nothing_but_rounding(halves):
    audit = Audit(halves=halves, people_counts=None if halves else (3000, 3000))
    whole = audit.measure([np.arange(300)])
    pieces = audit.measure(np.array_split(np.random.default_rng(0).permutation(300), 9))
    for name in ("kept", "redrawn_kept"):
        assert getattr(whole, name).tolist() == getattr(pieces, name).tolist()
    for name in ("first", "redrawn"):
        np.testing.assert_allclose(getattr(whole, name), getattr(pieces, name), rtol=1e-12)
    for direction, measure in ((0, 0), (0, 1), (1, 0), (1, 1)):
        one, two = (sums.compared(direction, measure).estimate for sums in (whole, pieces))
        d = np.array([0.8, 1.0, 1.25])
        np.testing.assert_allclose(one.spread(d).std_error, two.spread(d).std_error)
        np.testing.assert_allclose(one.spread(d).degrees, two.spread(d).degrees)


def test_a_block_without_anyone_of_the_groups_adds_nothing():
    audit, few = Audit(), np.arange(10)
    empty = audit.design.measure(audit.ask(few), audit.located(few, group=np.full(10, 7)))
    whole = audit.measure([np.arange(300)])
    assert empty.group_size.sum() == 0
    assert_same((whole + empty), whole)
    assert_same((empty + whole), whole)
    assert empty.compared(0, 0).estimate is None


def test_people_with_clipped_propensities_leave_if_they_are_many():
    rng = np.random.default_rng(0)
    covariates = numbers(rng.uniform(-1, 1, 1200))
    # Beyond .6 the attribute is certain.
    chance = np.clip(0.5 + covariates.numeric[:, 0] / 1.2, 0, 1)
    group = (rng.random(1200) < chance).astype(np.int64)
    pool, rest = np.arange(800), np.arange(800, 1200)
    design = pair_design(covariates.take(pool), group[pool], (0, 1), KEY, redraw_count=0)
    located = design.locate(rest, covariates.take(rest), group[rest])
    sums = design.measure(lambda i, j: covariates.numeric[pool][j], located)
    assert located.clipped.mean() > 0.05
    assert sums.dropped
    assert [sums.parts(0), sums.parts(1)] == [[0], [2]]
    assert dataclasses.replace(sums, group_clipped=np.array([1, 1])).parts(1) == [2, 3]
    found = sums.compared(0, 0)
    assert found.kept <= int((~located.clipped & ~located.second).sum())
    assert found.people == int((~located.second).sum())


def test_a_rare_group_keeps_most_people_where_comparable_people_abound():
    covariates = numbers(np.random.default_rng(0).normal(size=14_000))
    pool, rest = np.arange(12_000), np.arange(12_000, 14_000)
    for every, least in ((125, 0.004), (50, 0.01)):  # .8 % and 2 %
        group = (np.arange(14_000) % every == 0).astype(np.int64)
        design = pair_design(covariates.take(pool), group[pool], (0, 1), KEY)
        located = design.locate(rest, covariates.take(rest), group[rest])
        # Clipped at .01, three quarters of the people would be left out beside a group of .8 %.
        assert located.clipped.mean() < 0.35
        assert design.propensity.min() >= least
        assert design.limits == (least, 0.99)


def test_redraws_compare_about_two_thousand_people_of_a_group_and_always_the_same():
    audit, rows = Audit(n=400, people_counts=(20_000, 4_000)), np.arange(400)
    pairs = audit.design.redraws
    plans = [one.plan(audit.located(rows)) for one in pairs]
    counts = np.array([np.bincount(plan.part // 2, minlength=2) for plan in plans])
    assert counts[:, 0].mean() == pytest.approx(0.1 * 200, abs=8)
    assert counts[:, 1].mean() == pytest.approx(0.5 * 200, abs=25)
    assert plans[0].people.tolist() != plans[1].people.tolist()
    halves = [pairs[0].plan(audit.located(part)) for part in np.split(rows, 2)]
    together = [*halves[0].people, *(200 + halves[1].people)]
    assert together == plans[0].people.tolist()


def test_folds_hold_whole_clusters_and_equal_shares():
    clusters = np.random.default_rng(1).integers(0, 60, 500)
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


@pytest.mark.parametrize(("rows", "reason"), [(0, "group"), (4, "group"), (5, "pairs")])
def test_a_group_with_too_few_rows_in_the_pool_is_named(rows, reason):
    covariates, group, _ = people(0, 200)
    kept = np.concatenate([np.flatnonzero(group == 0), np.flatnonzero(group == 1)[:rows]])
    design = pair_design(covariates.take(kept), group[kept], (0, 1), KEY, redraw_count=0)
    located = design.locate(np.arange(200), covariates, group)
    sums = design.measure(lambda i, j: np.zeros((len(i), 1)), located)
    assert assess(sums.compared(0, 0), DecisionRule()).undecided == reason


def test_an_attribute_that_the_propensity_cannot_follow_is_named():
    rng = np.random.default_rng(0)
    covariates = numbers(rng.normal(size=(2000, 3)))
    board = np.floor(covariates.numeric[:, :2]).sum(axis=1) % 2 == 0
    smooth = 1 / (1 + np.exp(-2 * covariates.numeric[:, 0]))
    for chance, reason in ((np.where(board, 0.85, 0.15), "pattern"), (smooth, None)):
        group = (rng.random(2000) < chance).astype(np.int64)
        design = pair_design(covariates, group, (0, 1), KEY)
        assert design.undecided == reason
        excess = design.unexplained()[0]
        assert excess > 0.15 if reason else abs(excess) < 0.1


def test_rows_that_are_repeated_without_saying_so_are_named():
    rows = np.repeat(np.arange(250), 8)
    covariates = people(0, 250)[0].take(rows)
    group = np.random.default_rng(1).integers(0, 2, 250)[rows]
    for clusters, reason in ((None, "pattern"), (rows, None)):
        design = pair_design(covariates, group, (0, 1), KEY, clusters=clusters)
        assert design.undecided == reason


def test_halves_are_random_and_hold_whole_clusters():
    assert abs(random_halves(0, 101).sum() - 50.5) <= 1
    clusters = np.arange(100) // 5
    together = random_halves(1, 100, clusters)
    assert len(np.unique(np.column_stack([clusters, together]), axis=0)) == 20
