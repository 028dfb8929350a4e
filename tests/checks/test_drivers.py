"""Shares of columns add up, fall on the columns that are used, and have honest intervals."""

import math

import numpy as np
import pyarrow as pa
import pytest

from checks.planted import audited, linear, population
from likewise.checks.drivers import PAIRS, column_shares, fold_sums, shapley_parts
from likewise.data.notes import predictive_area


def with_interactions(rng, n, groups):
    """Return a measure of rows, some of whose columns come from others."""
    x, other = rng.normal(size=(2, n, groups))

    def ask(mask):
        z = np.where(mask, other, x)
        return (np.exp(z.sum(axis=1) / 3) + z[:, 0] * z[:, -1])[:, None]

    return ask


@pytest.mark.parametrize("groups", [1, 2, 9])
def test_shares_of_every_row_add_up_to_the_whole_difference(groups):
    rng = np.random.default_rng(0)
    ask = with_interactions(rng, 30, groups)
    parts = shapley_parts(ask, 30, groups, rng)
    whole = ask(np.ones((30, groups), bool)) - ask(np.zeros((30, groups), bool))
    np.testing.assert_allclose(parts[:, 0], whole, atol=1e-12)
    np.testing.assert_allclose(parts[:, 1 : groups + 1].sum(axis=1), whole, atol=1e-12)
    if groups == 2:  # the textbook's values
        alone = parts[:, 3:5]
        np.testing.assert_allclose(parts[:, 1], (alone[:, 0] + whole - alone[:, 1]) / 2, atol=1e-12)
        np.testing.assert_allclose(parts[:, 5:7], np.abs(alone))


def shares(contributions, pairs):
    """Return the shares where the columns of every row contribute these numbers."""
    rows = len(contributions)
    parts = shapley_parts(
        lambda mask: (mask * contributions).sum(axis=1)[:, None],
        rows,
        contributions.shape[1],
        np.random.default_rng(0),
    )
    people = np.arange(rows) // PAIRS % 20
    return column_shares(fold_sums(parts[:, :, 0], np.ones(rows), people, pairs % 20), 0.05)


def test_the_interval_of_a_share_covers_it():
    """300 draws; with coverage .95 fewer than .91 covered has probability .002.

    People and pairs are random: 60 people, each compared through four of 60 pairs.
    """
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        pairs = rng.permuted(np.tile(np.arange(60), (60, 1)), axis=1)[:, :PAIRS].ravel()
        size = np.exp(rng.normal(size=(60, 2)))[pairs] * np.exp(
            np.repeat(rng.normal(size=(60, 2)), PAIRS, axis=0)
        )
        found = shares(size * [3.0, 1.0], pairs)
        covered += found["low"][0] <= 0.75 <= found["high"][0]
    assert covered / 300 >= 0.91


def test_a_column_that_works_the_other_way_has_a_negative_share_and_the_others_add_up():
    rng = np.random.default_rng(5)
    pairs = np.arange(400)
    values = shares(rng.normal([0.6, 0.3, -0.2, 0.0], 0.1, size=(400, 4)), pairs)["share"]
    assert sum(v for v in values if v > -0.1) == pytest.approx(1)
    assert values[0] == pytest.approx(2 / 3, abs=0.05)
    assert values[2] == pytest.approx(-2 / 9, abs=0.05)
    mirrored = shares(-rng.normal([0.6, 0.3], 0.1, size=(400, 2)), pairs)
    assert mirrored["share"] == pytest.approx([2 / 3, 1 / 3], abs=0.05)


def drivers(**weights):
    record = audited(linear(**weights), population(1500, 1), population(4000, 2), "drivers").record
    return record, {d.column: d for d in record.drivers}


def test_one_proxy_alone_has_all_of_it_predicts_the_attribute_and_moves_decisions():
    record, found = drivers(zone=1.0, size=0.5)
    assert record.drivers[0].column == "zone"
    assert found["zone"].share >= 0.9
    assert sum(d.share for d in record.drivers) == pytest.approx(1)
    # Columns that are not read have nothing, and size differs between nobody's groups.
    assert found["car"].share == 0
    assert found["size"].interval[0] < 0 < found["size"].interval[1]
    leading = record.matched_pairs.leading
    assert found["zone"].alone == pytest.approx(leading.ratio, rel=0.1)
    # A proxy predicts the attribute, two normals 1.2 apart by Φ(1.2/√2), and moves decisions.
    for name in ("zone", "car"):
        assert found[name].predicts == pytest.approx(0.80, abs=0.03)
    assert found["size"].predicts < 0.53
    assert found["zone"].moves > 0.2
    assert found["size"].moves > 0.05
    assert found["car"].moves == 0


def test_without_a_difference_there_is_nothing_to_share_out():
    record, found = drivers(size=1.0)
    assert len(found) == 3
    assert all(math.isnan(d.share) and math.isnan(d.alone) for d in record.drivers)
    assert found["zone"].predicts > 0.75


def test_the_area_is_that_of_a_cross_validated_column():
    rng = np.random.default_rng(9)
    n = 20_000
    group = rng.random(n) < 0.3
    table = pa.table(
        {
            "hump": np.where(group, 0.3, 1.0) * rng.normal(size=n),
            "code": pa.array([None if g and k % 2 else f"c{k % 7}" for k, g in enumerate(group)]),
            "name": [f"person {k}" for k in range(n)],
            "left": (group & (rng.random(n) < 0.5)).astype(int),
        }
    )
    assert predictive_area(table, ["hump"], group) > 0.7
    assert predictive_area(table, ["code"], group) > 0.7
    assert predictive_area(table, ["name"], group) < 0.52
    assert predictive_area(table, ["left"], group) == pytest.approx(0.75, abs=0.02)
