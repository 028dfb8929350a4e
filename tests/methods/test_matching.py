"""Matching: ranks, cells, pairs that are exactly the greedy ones, and nearest pairs."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.methods.matching import (
    CALIPER,
    Covariates,
    RankScale,
    greedy_pairs,
    uniforms,
)
from likewise.methods.reference_sample import CovariateCoding


def brute_force(points, cells, second, caliper=CALIPER):
    """All candidates in order of distance."""
    rows = [(i, j) for i in np.flatnonzero(~second) for j in np.flatnonzero(second)]
    near = sorted((math.dist(points[i], points[j]), i, j) for i, j in rows if cells[i] == cells[j])
    taken, found = set(), set()
    for distance, i, j in near:
        if distance <= caliper and not {i, j} & taken:
            taken |= {i, j}
            found.add((i, j))
    return found


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(1, 160),
    st.integers(1, 4),
    st.sampled_from(["random", "boundary", "rare"]),
)
def test_pairs_are_the_greedy_ones(seed, n, width, kind):
    rng = np.random.default_rng(seed)
    points = rng.random((n, width)) * math.sqrt(12 / width)
    cells = rng.integers(0, 3, n)
    if kind == "boundary":
        # The closest are all taken first, and lists of candidates run out again and again.
        second, cells = points[:, 0] > np.median(points[:, 0]), np.zeros(n, dtype=np.int64)
    else:
        second = rng.random(n) < (0.5 if kind == "random" else 0.1)
    pairs = greedy_pairs(points, cells, second)
    assert set(zip(*pairs, strict=True)) == brute_force(points, cells, second)
    distance = np.linalg.norm(points[pairs[0]] - points[pairs[1]], axis=1)
    assert (np.diff(distance) >= -1e-12).all()


def test_nobody_to_pair_gives_no_pairs():
    points, cells = np.zeros((3, 1)), np.zeros(3, dtype=np.int64)
    for n in (3, 0):
        assert greedy_pairs(points[:n], cells[:n], np.zeros(n, dtype=bool)).shape == (2, 0)


def numbers(*columns):
    return Covariates(np.column_stack(columns).astype(float), np.zeros((len(columns[0]), 0), int))


@pytest.mark.parametrize(
    "write",
    [
        lambda times: times,
        lambda times: times.astype("datetime64[D]"),
        lambda times: times.astype(str),
        lambda times: np.char.replace(times.astype(str), "T", " "),
        lambda times: times.astype("datetime64[D]").astype(str),
    ],
    ids=["times", "dates", "times as text", "times with a blank", "dates as text"],
)
def test_dates_are_numbers_of_days_however_they_are_written(write):
    times = np.datetime64("2020-01-01T06:00:00") + np.arange(40) * np.timedelta64(1, "D")
    table = pa.table({"when": write(times)})
    coding = CovariateCoding.fit(["when"], table, table)
    assert coding.numeric == ("when",)
    np.testing.assert_allclose(np.diff(coding.covariates(table).numeric[:, 0]), 1)


def test_cells_of_many_columns_do_not_overflow():
    rng = np.random.default_rng(3)
    category = rng.integers(0, 10**9, (200, 12))
    pool = Covariates(np.zeros((200, 0)), category)
    scale = RankScale.from_pool(pool)
    assert len(set(scale.cells(pool))) == 200
    assert (scale.cells(Covariates(np.zeros((1, 0)), category[:1] + 1)) == -1).all()
    # Without numeric columns the jitter is the only coordinate.
    points = scale.points(pool, (0, "a"), np.arange(200))
    assert points.shape == (200, 1)
    assert 0 < points.std() < 2e-3


def test_random_numbers_depend_on_position_and_key_alone():
    positions = np.array([5, 1_000_000, 3])
    alone = [uniforms((1, "sex"), np.array([p]))[0] for p in positions]
    assert uniforms((1, "sex"), positions).tolist() == alone
    assert (uniforms((1, "race"), positions) != alone).all()
    many = uniforms((1, "sex"), np.arange(100_000))
    assert many.mean() == pytest.approx(0.5, abs=0.005)
    assert np.corrcoef(many[1:], many[:-1])[0, 1] == pytest.approx(0, abs=0.015)
    assert len(np.unique(many)) == 100_000
