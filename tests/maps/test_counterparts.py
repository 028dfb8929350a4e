"""Visits to a model: what it is asked, and that the answers do not depend on how."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from likewise.data.visits import find_visits
from likewise.errors import InvalidData, InvalidSettings
from likewise.maps.ask_visits import ask_visits
from likewise.maps.counterparts import Counterparts
from likewise.statistics.donors import Donors

L = ("age", "job")


def people(rng: np.random.Generator, n: int) -> pa.Table:
    zone = rng.normal(size=n).round(1)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "age": rng.integers(20, 30, n),
            "job": [None if j == 2 else f"job {j}" for j in rng.integers(0, 3, n)],
            "zone": pa.array(np.where(rng.random(n) < 0.1, np.nan, zone), from_pandas=True),
            "since": [day + datetime.timedelta(int(d)) for d in rng.integers(0, 9, n)],
            "kind": pa.array([f"k{k}" for k in rng.integers(0, 3, n)]).dictionary_encode(),
            "sex": rng.random(n) < 0.4,
        }
    )


def zone_of(table: pa.Table) -> np.ndarray:
    zone = np.nan_to_num(table["zone"].to_numpy(zero_copy_only=False).astype(float))
    return (zone + 0.1 * table["age"].to_numpy())[:, None]


def squared(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (out[:, 0] - y) ** 2


def test_a_visitor_row_is_the_person_with_all_free_columns_of_one_member(rng):
    pool, audited = people(rng, 300), people(rng, 15)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")
    asked: list[dict] = []

    def ask(table: pa.Table) -> np.ndarray:
        assert table.schema == audited.schema
        asked.extend(table.to_pylist())
        return np.zeros((len(table), 1))

    question.visit(ask, squared, audited, pairs, pool, label=np.zeros(15))
    visits = find_visits(audited, pairs, pool, 4)
    own, others = audited.to_pylist(), pool.to_pylist()
    expected = [
        {**others[int(j)], **{name: own[i][name] for name in L}}
        for i in range(15)
        for q in visits.pair[i, 0]
        for j in pairs.rows[q]
    ]

    def freeze(rows: list[dict]) -> set:
        return {tuple(sorted((k, str(v)) for k, v in row.items())) for row in rows}

    assert freeze(asked) == freeze(expected + own)


def test_the_yardstick_is_the_member_of_the_own_group(rng):
    pool, audited = people(rng, 300), people(rng, 40)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")

    def ask(table: pa.Table) -> np.ndarray:
        return table["sex"].to_numpy(zero_copy_only=False).astype(float)[:, None]

    sex = audited["sex"].to_numpy(zero_copy_only=False).astype(float)
    found = question.visit(ask, squared, audited, pairs, pool, label=sex)
    assert not found.before.any()
    assert (found.after == 1).all()


def test_losses_do_not_depend_on_blocks_or_on_asking_twice(rng, monkeypatch):
    pool, audited = people(rng, 400), people(rng, 30)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")
    y = rng.normal(size=30)
    whole = question.visit(zone_of, squared, audited, pairs, pool, label=y)
    monkeypatch.setattr("likewise.maps.ask_visits.ROWS", 24)
    small = question.visit(zone_of, squared, audited, pairs, pool, label=y)
    np.testing.assert_array_equal(small.after, whole.after)
    part = question.visit(zone_of, squared, audited.slice(10, 7), pairs, pool, label=y[10:17])
    np.testing.assert_array_equal(part.before, whole.before[10:17])


def test_encoded_people_are_visited_like_tables(rng):
    pool, audited = people(rng, 400), people(rng, 30)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")
    y = rng.normal(size=30)
    whole = question.visit(zone_of, squared, audited, pairs, pool, label=y)

    def encoded(table: pa.Table) -> np.ndarray:
        zone = np.nan_to_num(table["zone"].to_numpy(zero_copy_only=False).astype(float))
        return np.column_stack([zone, 0.1 * table["age"].to_numpy()])

    x, lent = encoded(audited), encoded(pool)
    found = ask_visits(
        lambda i, j: lent[j][:, :1] + x[i][:, 1:],
        squared,
        find_visits(audited, pairs, pool, 4),
        pairs,
        keys=None,
        own_outputs=encoded(audited).sum(axis=1, keepdims=True),
        label=y,
    )
    np.testing.assert_allclose(found.after, whole.after, rtol=1e-12)
    np.testing.assert_allclose(found.before, whole.before, rtol=1e-12)


def test_a_decision_needs_no_label(rng):
    pool, audited = people(rng, 300), people(rng, 20)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")
    found = question.visit(
        zone_of, lambda out, y: (out[:, 0] < 2.5).astype(float), audited, pairs, pool
    )
    assert set(np.unique(found.after)) == {0.0, 1.0}
    assert Donors.of(found, question.design(pairs)).person["before"].max() <= 1


def test_each_column_that_may_matter_can_be_left_out(rng):
    pool = people(rng, 300)
    question = Counterparts(free=("zone", "since", "kind"), m=4)
    pairs = question.pairs(pool, "sex")
    assert question.without("age", pairs).pairs(pool, "sex").may_matter == ("job",)


@pytest.mark.parametrize(
    "choices",
    [{}, {"may_matter": L, "free": L}, {"may_matter": L, "m": 5}, {"may_matter": L, "swaps": 3}],
)
def test_choices_out_of_range_are_refused(choices):
    with pytest.raises(InvalidSettings):
        Counterparts(**choices)


def test_a_pool_read_in_another_way_is_refused(rng):
    pool, audited = people(rng, 300), people(rng, 20)
    question = Counterparts(may_matter=L, m=4)
    pairs = question.pairs(pool, "sex")
    other = audited.set_column(2, "zone", audited["zone"].cast(pa.float32()))
    with pytest.raises(InvalidData, match="'zone' is double in the pool and float"):
        question.visit(zone_of, squared, other, pairs, pool, label=np.zeros(20))
    with pytest.raises(InvalidData, match="not finite"):
        question.visit(
            lambda t: np.full((len(t), 1), np.nan),
            squared,
            audited,
            pairs,
            pool,
            label=np.zeros(20),
        )
