"""Subgroups that nobody named: found where they are, and rarely where they are not."""

import numpy as np
import pyarrow as pa
import pytest

from likewise.engine.subgroups import SubgroupTree, halves, moved_worst


def people(n, rng):
    return pa.table(
        {
            "age": rng.integers(20, 65, n).astype(float),
            "job": rng.choice(["clerk", "cook"], n),
            "size": rng.normal(size=n),
        }
    )


def judged(table, ratio, *, delta, seed=0, cluster=None):
    n = len(table)
    return moved_worst(
        table, ratio, np.ones(n), np.ones(n), cluster, delta=delta, alpha=0.05, seed=seed
    )


def test_the_people_who_fare_worst_are_named_in_their_own_columns():
    rng = np.random.default_rng(0)
    table = people(1200, rng)
    age, job = table["age"].to_numpy(), np.array(table["job"].to_pylist())
    hurt = (age > 50) & (job == "cook")
    found = judged(table, np.exp(0.3 * rng.normal(size=1200) + 0.8 * hurt), delta=1.25)
    worst = found[0]
    assert worst.found
    assert "age > 5" in worst.words
    assert "job cook" in worst.words or "job not clerk" in worst.words
    assert worst.lower_bound < worst.estimate == pytest.approx(np.exp(0.845), rel=0.1)
    assert not found[-1].found


def test_leaves_are_judged_on_people_the_tree_has_not_seen():
    rng = np.random.default_rng(1)
    one, other = halves(np.repeat(np.arange(200), 3), 600, rng)
    assert not set(one // 3) & set(other // 3)
    assert len(one) + len(other) == 600


def test_few_people_have_no_subgroups():
    rng = np.random.default_rng(2)
    assert judged(people(300, rng), np.ones(300), delta=1.25) == ()


def test_everyone_alike_is_one_subgroup_without_a_finding():
    rng = np.random.default_rng(3)
    found = judged(people(600, rng), np.ones(600), delta=1.25)
    assert [(one.words, one.found) for one in found] == [("everyone", False)]


def test_words_of_a_leaf_hold_for_its_people():
    rng = np.random.default_rng(4)
    table = people(1000, rng)
    age = table["age"].to_numpy()
    tree = SubgroupTree.grow(table, (age > 40).astype(float), np.ones(1000), 0)
    for leaf in np.unique(tree.leaves(table)):
        mine = age[tree.leaves(table) == leaf]
        said = tree.words(int(leaf))
        assert ("age > 40.5" in said) == (mine.min() > 40) or "age ≤ 40.5" in said


def test_joint_false_alarms_are_rare_where_everyone_is_at_the_tolerance():
    """150 draws at .05; more than .12 has probability 3e-4."""
    rng = np.random.default_rng(5)
    alarms = 0
    for seed in range(150):
        ratio = np.exp(0.7 * rng.normal(size=420))
        found = judged(people(420, rng), ratio, delta=float(np.exp(0.245)), seed=seed)
        alarms += any(one.found for one in found)
    assert alarms / 150 <= 0.12
