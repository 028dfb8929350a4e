"""Subgroups that nobody named: found where they are, and rarely where they are not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import likewise
from checks.planted import audited, linear, population
from likewise.checks.subgroups import features, leaf_words
from likewise.methods.matching import Covariates
from likewise.methods.reference_sample import CovariateCoding


def test_words_of_a_leaf_hold_for_its_people():
    rng = np.random.default_rng(0)
    coding = CovariateCoding(("age", "size"), {"job": {"clerk": 0, "cook": 1}})
    numeric = np.column_stack([rng.integers(20, 65, 1000).astype(float), rng.normal(size=1000)])
    x = features(coding, Covariates(numeric, rng.integers(0, 2, (1000, 1))))
    target = ((x[:, 0] > 40) & (x[:, 3] == 1)).astype(float)
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=50, random_state=0).fit(x, target)
    leaves = leaf_words(tree, coding)
    assert set(leaves) == set(tree.apply(x))
    for leaf, words in leaves.items():
        mine = tree.apply(x) == leaf
        assert "age > 40.5" not in words or x[mine, 0].min() > 40
        assert not {"job cook", "job not clerk"} & {*words.split(", ")} or x[mine, 3].all()
        assert (target[mine] == target[mine][0]).all()


class OfficeOnly:
    """Decides by the zone, but for people whose office it looks at."""

    columns = ("skill", "office", "zone")

    def __call__(self, x: pd.DataFrame) -> np.ndarray:
        score = np.where(x["office"] == "north", x["zone"] - 0.6, x["skill"])
        p = 1 / (1 + np.exp(-4 * score.astype(float)))
        return np.column_stack([1 - p, p])


@pytest.fixture(scope="module")
def found():
    def people(n, seed):
        rng = np.random.default_rng(seed)
        return population(n, seed).assign(office=rng.choice(["north", "south", "west"], n))

    settings = likewise.Settings().changed(model__columns=OfficeOnly.columns)
    return audited(
        OfficeOnly(),
        people(2400, 1),
        people(5000, 2),
        "subgroups",
        may_matter=("skill", "office"),
        settings=settings,
    ).record


def test_the_people_whom_it_concerns_are_named_by_what_may_matter(found):
    worst = found.subgroups[0]
    assert worst.found
    assert worst.attribute == "group"
    assert "office north" in worst.words
    leading = found.matched_pairs.leading
    assert abs(np.log(worst.estimate)) > abs(np.log(leading.ratio))
    assert worst.lower_bound < worst.estimate < worst.upper_bound


def test_nobody_else_is_found(found):
    others = [one for one in found.subgroups if "office north" not in one.words]
    assert others
    assert not any(one.found for one in others)
    assert all(one.p_adjusted > 0.05 for one in others)


@pytest.mark.slow
def test_joint_false_alarms_are_rare_where_nobody_is_treated_otherwise():
    """Twelve draws held against 1.01; more than three alarms have probability .002 at .05."""
    alarms = 0
    for seed in range(12):
        people, pool = (population(n, seed + n, zone=0, car=0) for n in (1000, 2000))
        model = linear(zone=1.0, car=0.5)
        record = audited(model, people, pool, "subgroups", delta=1.01).record
        assert len(record.subgroups) > 1
        alarms += any(one.found for one in record.subgroups)
    assert alarms <= 3


def test_few_people_have_no_subgroups():
    record = audited(linear(zone=1.0), population(300, 5), population(900, 6), "subgroups").record
    assert record.subgroups == ()
    assert any("subgroups by group (too few people)" in words for words in record.skipped)
