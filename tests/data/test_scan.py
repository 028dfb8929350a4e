"""Reading block by block gives the same people as reading at once."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from likewise.data import Encoder, read, scan
from likewise.errors import InvalidData, InvalidFile, InvalidSettings


def made_up(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "b": rng.integers(0, 5, n),
            "job": rng.choice(["cook", "judge"], n),
            "sex": rng.choice(np.array(["f", "m", None], dtype=object), n),
            "w": rng.random(n) + 0.1,
            "y": rng.integers(0, 2, n),
        }
    )


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    rows=st.integers(1, 60),
    kinds=st.lists(st.sampled_from(["csv", "parquet"]), min_size=4, max_size=4),
    group=st.integers(1, 25),
    encoded=st.booleans(),
)
def test_blocks_joined_are_the_whole(tmp_path_factory, sizes, rows, kinds, group, encoded):
    folder = tmp_path_factory.mktemp("scan")
    files = []
    for k, (n, suffix) in enumerate(zip(sizes, kinds, strict=False)):
        path = folder / f"{k}.{suffix}"
        frame = made_up(n, seed=k)
        if suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, row_group_size=group)
        files.append(path)
    roles = {"label": "y", "protected": ["sex"], "weight": "w", "drop_missing": True}
    if encoded:
        roles["encoder"] = Encoder.fit(
            made_up(200), label="y", protected="sex", weight="w", drop_missing=True
        )
    try:
        whole = read(files, **roles)
    except InvalidData:  # Too few people: then the blocks must say so too.
        with pytest.raises(InvalidData):
            list(scan(files, **roles, rows=rows))
        return
    blocks = list(scan(files, **roles, rows=rows))

    total = sum(sizes)
    kept = [len(block) + sum(block.dropped.values()) for block in blocks]
    assert kept == [rows] * (total // rows) + [total % rows] * (total % rows > 0)
    for name in ("x", "y", "weight", "row"):
        joined = np.concatenate([getattr(block, name) for block in blocks])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert pa.concat_tables([block.table for block in blocks]).equals(whole.table)
    sexes = [value for block in blocks for value in block.protected["sex"].tolist()]
    assert sexes == whole.protected["sex"].tolist()
    dropped = sum(block.dropped.get("missing a", 0) for block in blocks)
    assert dropped == whole.dropped.get("missing a", 0) == total - len(whole)


def test_mistakes_in_roles_are_found_before_the_first_block():
    with pytest.raises(InvalidData, match="no column 'z'"):
        scan(made_up(10), label="z")


def test_a_block_holds_at_least_one_row():
    with pytest.raises(InvalidSettings, match="not 0"):
        scan(made_up(10), label="y", rows=0)


def test_a_missing_value_is_located_by_its_block():
    frame = made_up(50).assign(a=1.0)
    frame.loc[33, "a"] = np.nan
    blocks = scan(frame, label="y", rows=10)
    assert [len(next(blocks)) for _ in range(3)] == [10, 10, 10]
    with pytest.raises(InvalidData, match=r"'a' \(1\): 1 of 10 rows \(of rows 31 to 40\)"):
        next(blocks)


def test_a_damaged_file_among_good_ones_is_found_at_once(tmp_path):
    for k in range(3):
        made_up(20).assign(a=0.0).to_parquet(tmp_path / f"{k}.parquet")
    (tmp_path / "1.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-30])
    with pytest.raises(InvalidFile, match=r"1\.parquet"):
        scan(tmp_path, label="y")


def test_ignored_columns_are_not_even_read(tmp_path):
    pq.write_table(
        pa.table({"a": [1, 2], "y": [0, 1], "big": ["x" * 1_000_000] * 2}), tmp_path / "a.parquet"
    )
    (data,) = scan(tmp_path / "a.parquet", label="y", ignore="big")
    assert data.table.column_names == ["a"]


@pytest.mark.parametrize("suffix", [pytest.param("csv", marks=pytest.mark.slow), "parquet"])
def test_memory_does_not_grow_with_the_table(tmp_path, suffix):
    def peak(n: int) -> int:
        path = tmp_path / f"{n}.{suffix}"
        table = pa.table({**{f"c{j}": np.arange(n) / 7 for j in range(10)}, "y": np.arange(n) % 2})
        if suffix == "csv":
            csv.write_csv(table, path)
        else:
            pq.write_table(table, path, row_group_size=20_000)
        del table
        before = pa.total_allocated_bytes()
        held = [
            (pa.total_allocated_bytes() - before, len(block))
            for block in scan(path, label="y", rows=10_000)
        ]
        assert sum(rows for _, rows in held) == n
        return max(held)[0]

    # Long enough for Arrow's reader of CSV files to have read ahead as far as it ever does.
    short, long = (300_000, 900_000) if suffix == "csv" else (100_000, 300_000)
    assert peak(long) < 1.2 * peak(short)
