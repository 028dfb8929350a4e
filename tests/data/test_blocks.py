"""Reading block by block gives the same people as reading at once."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from likewise import Encoder, read
from likewise.data.source import as_source
from likewise.errors import InvalidData, InvalidFile


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
    folder = tmp_path_factory.mktemp("blocks")
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
    except InvalidData:  # too few people
        return
    source = as_source(files, **roles)
    cut = source.blocks(rows)
    blocks = [block for _, block in cut.read(range(len(cut)))]

    total = sum(sizes)
    assert len(blocks) == -(-total // rows)
    for name in ("x", "y", "weight", "row"):
        joined = np.concatenate([getattr(block, name) for block in blocks])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert pa.concat_tables([block.table for block in blocks]).equals(whole.table)
    sexes = [value for block in blocks for value in block.protected["sex"].tolist()]
    assert sexes == whole.protected["sex"].tolist()
    dropped = source.survey().dropped
    assert dropped == whole.dropped
    assert sum(dropped.values()) == total - len(whole)


def test_a_missing_value_is_located_by_its_rows():
    frame = made_up(5000).assign(a=1.0)
    frame.loc[4133, "a"] = np.nan
    blocks = as_source(frame, label="y").blocks(2048)
    assert [len(block) for _, block in blocks.read(range(2))] == [2048, 2048]
    with pytest.raises(InvalidData, match=r"'a' \(1\): 1 of 904 rows \(of rows 4097 to 5000\)"):
        list(blocks.read(range(2, 3)))


def test_a_damaged_file_among_good_ones_is_found_at_once(tmp_path):
    for k in range(3):
        made_up(20).assign(a=0.0).to_parquet(tmp_path / f"{k}.parquet")
    (tmp_path / "1.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-30])
    with pytest.raises(InvalidFile, match=r"1\.parquet"):
        as_source(tmp_path, label="y")


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
        blocks = as_source(path, label="y").blocks(10_000)
        held = [
            (pa.total_allocated_bytes() - before, len(block))
            for _, block in blocks.read(range(len(blocks)))
        ]
        assert sum(rows for _, rows in held) == n
        return max(held)[0]

    short, long = (300_000, 900_000) if suffix == "csv" else (100_000, 300_000)
    assert peak(long) < 1.2 * peak(short)
