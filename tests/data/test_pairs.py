"""Pairs are the greedy ones, within the caliper, and do not depend on the order of rows."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from likewise.data.pairs import Pairs, find_pairs, pair_places
from likewise.data.pairs_file import KEY
from likewise.data.ruler import Ruler
from likewise.data.visits import find_visits
from likewise.errors import InvalidData, InvalidFile, InvalidSettings

L = ["age", "score", "job", "seen"]


def people(rng: np.random.Generator, n: int, groups: int = 2) -> pa.Table:
    score = rng.normal(size=n)
    score[rng.random(n) < 0.1] = np.nan
    days = rng.integers(0, 30, n).astype("datetime64[D]")
    job = [None if j == 3 else f"job {j}" for j in rng.integers(0, 4, n)]
    return pa.table(
        {
            "age": rng.integers(20, 30, n),
            "score": pa.array(score.round(1), from_pandas=True),
            "job": job,
            "seen": pa.array(days),
            "zone": rng.normal(size=n),
            "sex": [f"g{g}" for g in rng.integers(0, groups, n)],
        }
    )


def squared_and_cells(pool: pa.Table, columns: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Distances and equality of categories of everyone with everyone, written plainly."""
    n = len(pool)
    squared, equal = np.zeros((n, n)), np.ones((n, n), dtype=bool)
    for name in columns:
        if pa.types.is_string(pool[name].type):
            values = np.array([str(v) for v in pool[name].to_pylist()])
            equal &= values[:, None] == values
            continue
        raw = pool[name].cast(pa.int32()) if name == "seen" else pool[name]
        values = raw.to_numpy(zero_copy_only=False).astype(float)
        gone = np.isnan(values)
        equal &= gone[:, None] == gone
        gap = (values[:, None] - values) / values[~gone].std()
        squared += np.where(np.isnan(gap), 0, gap) ** 2
    return squared, equal


def test_dates_that_are_text_are_as_far_apart_as_dates(rng):
    pool = people(rng, 200)
    days = pa.array(rng.integers(0, 900, 200).astype("datetime64[D]"))
    there = pool.column_names.index("seen")
    dated, texts = (
        pool.set_column(there, "seen", column) for column in (days, days.cast(pa.string()))
    )
    one, other = (find_pairs(table, "sex", may_matter=["seen"]) for table in (dated, texts))
    np.testing.assert_array_equal(one.rows, other.rows)
    ruler = Ruler.fit(texts, ["seen"])
    np.testing.assert_array_equal(ruler.place(dated).values, ruler.place(texts).values)
    words = texts.set_column(there, "seen", pa.array(["yesterday"] * 200))
    with pytest.raises(InvalidData, match="'seen' holds text, but numbers or dates in the pool"):
        ruler.place(words)


@pytest.mark.parametrize("columns", [L, ["age", "seen"], ["job"], []])
def test_pairs_are_those_of_going_through_all_distances_in_order(rng, columns):
    pool = people(rng, 150)
    pairs = find_pairs(pool, "sex", may_matter=columns)
    squared, equal = squared_and_cells(pool, columns)
    sex = np.array(pool["sex"].to_pylist())
    edges = [
        (squared[i, j], i, j)
        for i, j in itertools.product(np.flatnonzero(sex == "g0"), np.flatnonzero(sex == "g1"))
        if equal[i, j] and squared[i, j] <= 0.25 + 1e-12
    ]
    # The distances of a greedy matching can depend on how ties are broken; the number of pairs at
    # the smallest distance, and that no closer pair was left, cannot.
    taken = set(pairs.rows.reshape(-1).tolist())
    assert len(taken) == 2 * len(pairs)
    at = {int(i): d for row, d in zip(pairs.rows, pairs.distance, strict=True) for i in row}
    for d2, i, j in edges:
        # Greedy and maximal: of every possible pair, a member is in a pair at least as close.
        assert min(at.get(int(i), np.inf), at.get(int(j), np.inf)) <= np.sqrt(d2) + 1e-9
    for (i, j), d in zip(pairs.rows, pairs.distance, strict=True):
        assert equal[i, j]
        assert d == pytest.approx(np.sqrt(squared[i, j]), abs=1e-9)
        assert (sex[i], sex[j]) == ("g0", "g1")


def test_pairs_do_not_depend_on_the_order_of_rows(rng):
    pool = people(rng, 400, groups=3)
    order = rng.permutation(len(pool))
    one = find_pairs(pool, "sex", may_matter=L)
    two = find_pairs(pool.take(pa.array(order)), "sex", may_matter=L)
    assert {tuple(row) for row in one.rows} == {tuple(order[row]) for row in two.rows}
    other = find_pairs(pool, "sex", may_matter=["job"], seed=1)
    assert len({tuple(row) for row in other.rows} & {tuple(row) for row in one.rows}) < len(one)


def test_with_three_groups_nobody_is_in_two_pairs_and_every_pairing_is_there(rng):
    pool = people(rng, 900, groups=3)
    pairs = find_pairs(pool, "sex", may_matter=["age", "job"])
    assert len(np.unique(pairs.rows)) == 2 * len(pairs)
    counts = [len(pairs.across(g, h)) for g, h in ((0, 1), (0, 2), (2, 1))]
    assert sum(counts) == len(pairs)
    # 150 people on each side of each pairing, almost all of whom find somebody.
    assert min(counts) > 100


def test_free_names_the_other_columns(rng):
    pool = people(rng, 100)
    one = find_pairs(pool, "sex", may_matter=["age", "job"])
    two = find_pairs(pool, "sex", free=["score", "seen", "zone"])
    np.testing.assert_array_equal(one.rows, two.rows)
    assert set(two.free) == {"score", "seen", "zone", "sex"}


def test_pairs_come_back_from_a_file_and_know_their_pool(rng, tmp_path):
    pool = people(rng, 200)
    pairs = find_pairs(pool, "sex", may_matter=L, clusters=None)
    path = tmp_path / "pairs.parquet"
    pairs.save(path)
    again = Pairs.load(path, pool)
    for name in ("rows", "between", "distance", "cluster"):
        np.testing.assert_array_equal(getattr(again, name), getattr(pairs, name))
    assert again.ruler.scale == pairs.ruler.scale
    assert again.may_matter == pairs.may_matter
    with pytest.raises(InvalidData, match="another pool"):
        Pairs.load(path, pool.slice(1))
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidFile, match="cannot be read as pairs"):
        Pairs.load(path, pool)


@pytest.mark.parametrize(
    "forge",
    [
        lambda table, about: (table, b"not json"),
        lambda table, about: (table, json.dumps({**about, "groups": 3}).encode()),
        lambda table, about: (table, json.dumps({**about, "may_matter": ["ages"]}).encode()),
        lambda table, about: (table.drop_columns(["second"]), json.dumps(about).encode()),
        lambda table, about: (_with(table, "first", 10**9), json.dumps(about).encode()),
        lambda table, about: (_with(table, "second_group", 77), json.dumps(about).encode()),
        lambda table, about: (_with(table, "distance", float("nan")), json.dumps(about).encode()),
    ],
)
def test_forged_pairs_are_refused_in_a_sentence(rng, tmp_path, forge):
    pool, path = people(rng, 100), tmp_path / "pairs.parquet"
    find_pairs(pool, "sex", may_matter=L).save(path)
    table = pq.read_table(path)
    table, about = forge(table, json.loads(table.schema.metadata[KEY]))
    pq.write_table(table.replace_schema_metadata({KEY: about}), path)
    words = r"cannot be read as pairs|pairs that cannot be|found in another pool"
    with pytest.raises((InvalidData, InvalidFile), match=words):
        Pairs.load(path, pool)


def _with(table, name, value):
    place, column = table.column_names.index(name), table[name].to_pylist()
    return table.set_column(place, name, pa.array([value, *column[1:]]))


def test_clusters_of_the_pool_are_kept_with_the_pairs_and_are_no_column(rng):
    pool = people(rng, 200).append_column("home", pa.array(np.arange(200) // 4))
    pairs = find_pairs(pool, "sex", may_matter=["age"], clusters="home")
    home = pool["home"].to_numpy()[pairs.rows]
    same = home[:, :1] == home.T[1]
    np.testing.assert_array_equal(pairs.cluster[:, :1] == pairs.cluster.T[1], same)
    assert "home" not in pairs.free


@pytest.mark.parametrize(
    ("choices", "error", "words"),
    [
        ({"may_matter": ["age", "sex"]}, InvalidSettings, "is the trait"),
        ({"may_matter": ["age"], "free": ["age"]}, InvalidSettings, "not both"),
        ({"may_matter": ["agee"]}, InvalidData, "Did you mean 'age'"),
        ({"may_matter": ["code"]}, InvalidData, "determine 'sex'"),
        ({"may_matter": ["age", "wide"], "caliper": 0.0}, InvalidData, "Widen the caliper"),
    ],
)
def test_what_cannot_be_paired_is_refused_in_a_sentence(rng, choices, error, words):
    pool = people(rng, 40)
    pool = pool.append_column("code", pool["sex"]).append_column("wide", pa.array(np.arange(40.0)))
    with pytest.raises(error, match=words):
        find_pairs(pool, "sex", **choices)


def test_a_trait_needs_two_groups_and_not_too_many(rng):
    pool = people(rng, 40, groups=1)
    with pytest.raises(InvalidData, match="one group of 'sex'"):
        find_pairs(pool, "sex", may_matter=["age"])
    with pytest.raises(InvalidData, match="Cut it into a few groups"):
        find_pairs(pool, "zone", may_matter=["age"])


@pytest.mark.parametrize("columns", [L, ["age", "seen"], ["job"], []])
def test_visits_are_the_nearest_pairs(rng, columns):
    pool, audited = people(rng, 300), people(rng, 40)
    pairs = find_pairs(pool, "sex", may_matter=columns, seed=3)
    visits = find_visits(audited, pairs, pool, m=6)
    ruler = Ruler.fit(pool, columns)
    stands, places = pair_places(pairs, pool), ruler.place(audited)
    for i in range(len(audited)):
        differing = (stands.codes != places.codes[i]).sum(axis=1)
        squared = ruler.squared(places.values[i][None], stands.values)
        chosen = visits.pair[i, 0]
        assert len(set(chosen.tolist())) == 6
        ranked = sorted(zip(differing.tolist(), squared.tolist(), strict=True))[:6]
        found = list(zip(differing[chosen].tolist(), squared[chosen].tolist(), strict=True))
        assert found == ranked
        assert (visits.differing[i, 0], visits.distance[i, 0] ** 2) == pytest.approx(found[-1])


def test_visits_do_not_depend_on_blocks_or_on_the_order_of_people(rng):
    pool, audited = people(rng, 600, 3), people(rng, 80, 3)
    pairs = find_pairs(pool, "sex", may_matter=["age", "job"])
    whole = find_visits(audited, pairs, pool, m=4)
    order = rng.permutation(80)
    parts = [audited.take(pa.array(part)) for part in np.split(order, [7, 30])]
    found = np.concatenate([find_visits(part, pairs, pool, m=4).pair for part in parts])
    np.testing.assert_array_equal(found, whole.pair[order])


def test_a_person_from_nowhere_changes_nothing_for_others(rng):
    pool, audited = people(rng, 600), people(rng, 80)
    pairs = find_pairs(pool, "sex", may_matter=["age", "seen", "job"])
    alone = find_visits(audited, pairs, pool, m=6)
    stranger = audited.slice(0, 1).set_column(2, "job", pa.array(["a new job"]))
    stranger = stranger.set_column(0, "age", pa.array([10**6]))
    found = find_visits(pa.concat_tables([stranger, audited]), pairs, pool, m=6)
    np.testing.assert_array_equal(found.pair[1:], alone.pair)
    assert found.far[0]
    # Far from everyone in numbers, and in a known cell: the nearest are still found exactly.
    old = audited.set_column(0, "age", pa.array(np.full(80, 10**6)))
    stands, places = pair_places(pairs, pool), pairs.ruler.place(old)
    for i, chosen in enumerate(find_visits(old, pairs, pool, m=6).pair[:, 0]):
        differing = (stands.codes != places.codes[i]).sum(axis=1)
        squared = pairs.ruler.squared(places.values[i][None], stands.values)
        ranked = sorted(zip(differing.tolist(), squared.tolist(), strict=True))[:6]
        assert sorted(zip(differing[chosen], squared[chosen], strict=True)) == ranked


def test_nobody_is_visited_by_themselves(rng):
    pool = people(rng, 300)
    pairs = find_pairs(pool, "sex", may_matter=["age"])
    visits = find_visits(pool, pairs, pool, m=20)
    members = pairs.rows[visits.pair[:, 0]].reshape(len(pool), -1)
    assert not (members == np.arange(len(pool))[:, None]).any()


def test_ties_are_shared_evenly_among_pairs(rng):
    pool, audited = people(rng, 400), people(rng, 3000)
    pairs = find_pairs(pool, "sex", may_matter=[])
    visits = find_visits(audited, pairs, pool, m=4)
    often = np.bincount(visits.pair.reshape(-1), minlength=len(pairs))
    # 12000 visits over about 190 pairs: 63 each with sd 16 (people start anywhere on a circle and
    # take four in a row, so counts vary by 2 sd of a fair draw at most).
    assert often.min() > 15
    assert often.max() < 150


def test_a_group_without_enough_pairs_has_no_counterpart(rng):
    pool, audited = people(rng, 60), people(rng, 20)
    pairs = find_pairs(pool, "sex", may_matter=[])
    visits = find_visits(audited, pairs, pool, m=40)
    assert visits.no_counterpart.all()
    assert not visits.far.any()
