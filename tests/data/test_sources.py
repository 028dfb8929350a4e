"""The same people however they are stored; parts read by anyone; changes noticed."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import likewise
from helpers import survey_of
from likewise.audit_data import AuditData, missing
from likewise.data.source import Blocks, as_source
from likewise.errors import InvalidData

N = 9000
ROLES = {"label": "y", "protected": ["sex", "age"], "weight": "w", "drop_missing": True}


@pytest.fixture
def table(rng):
    x = rng.normal(size=(N, 3))
    x[rng.random(N) < 0.01, 1] = np.nan
    age = rng.integers(18, 80, N).astype(object)
    age[rng.random(N) < 0.001] = None
    return pa.table(
        {
            "a": x[:, 0],
            "b": pa.array(x[:, 1], from_pandas=True),
            "c": x[:, 2],
            "sex": pa.array(rng.choice(["f", "m", None], N, p=[0.5, 0.45, 0.05]).tolist()),
            "age": pa.array(age.tolist()),
            "w": rng.uniform(0.5, 2, N),
            "y": rng.choice(["no", "yes"], N),
        }
    )


def write(folder, table, cuts, group):
    folder.mkdir()
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        path = folder / f"part-{k}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=group)
    return str(folder)


def everyone(source, size):
    blocks = Blocks(source, size)
    return list(blocks.read(range(len(blocks))))


def assert_same_people(one, two):
    assert one.x.tobytes() == two.x.tobytes()
    assert one.y.tolist() == two.y.tolist()
    np.testing.assert_array_equal(one.row, two.row)
    np.testing.assert_array_equal(one.weight, two.weight)
    assert one.features == two.features
    for name, column in one.protected.items():
        np.testing.assert_array_equal(pa.array(column, from_pandas=True), two.protected[name])


@pytest.fixture
def forms(table, tmp_path):
    """The same rows in every form that people are kept in."""
    seven = [13, 500, 2048, 5000, 5001, 8999]
    one_file = write(tmp_path / "one", table, [], 10**6)
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    return {
        "one file": one_file,
        "seven files": write(tmp_path / "seven", table, seven, 777),
        "pattern": str(tmp_path / "seven" / "part-*.parquet"),
        "csv": str(tmp_path / "people.csv"),
        "arrow": table,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "people": likewise.read(one_file, **ROLES),
    }


def test_people_are_the_same_in_every_form(forms):
    sources = {name: as_source(people, **ROLES) for name, people in forms.items()}
    surveys = {name: survey_of(source, seed=3, size=500) for name, source in sources.items()}
    known, people = surveys["one file"], forms["people"]
    assert known.labels == {v: int((people.y == v).sum()) for v in ("no", "yes")}
    assert known.gaps == {k: missing(v).sum() for k, v in people.protected.items()}
    assert known.weights == (people.weight.min(), people.weight.max())
    assert known.n < N
    assert known.n + sum(known.dropped.values()) == N
    for name, source in sources.items():
        assert source.n_rows == N
        found = surveys[name]
        assert list(found.attributes["age"]) == list(known.attributes["age"])
        for field in ("fingerprint", "labels", "attributes", "gaps", "weights", "dropped"):
            assert getattr(found, field) == getattr(known, field), name
        np.testing.assert_array_equal(found.sketch, known.sketch)
        assert_same_people(found.sample, known.sample)
        for size in (311, 2048, 5000):
            first = everyone(sources["one file"], size)
            blocks = everyone(source.knowing(known), size)
            assert [number for number, _ in blocks] == [number for number, _ in first]
            for (_, one), (_, two) in zip(blocks, first, strict=True):
                assert_same_people(one, two)


def test_people_are_read_elsewhere_and_not_sent(forms, tmp_path):
    for form in ("seven files", "csv", "arrow"):
        source = as_source(forms[form], **ROLES)
        source = source.knowing(survey_of(source)).shared(tmp_path)
        sent = pickle.dumps(source)
        assert len(sent) < 10_000
        again = everyone(pickle.loads(sent), 2048)
        for (_, one), (_, two) in zip(again, everyone(source, 2048), strict=True):
            assert_same_people(one, two)
            assert one.table.equals(two.table)


def change(table, row, column, value):
    values = table[column].to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values))


@pytest.mark.parametrize(
    ("column", "value"), [("y", "maybe"), ("sex", "x"), ("a", 7.0), ("w", 1.0), ("age", 17)]
)
def test_data_that_change_after_the_survey_are_refused(table, tmp_path, column, value):
    folder = write(tmp_path / "data", table, [], 3000)
    source = as_source(folder, **ROLES)
    source = source.knowing(survey_of(source))
    other = change(table, 5000, column, value)
    pq.write_table(other, f"{folder}/part-0.parquet", row_group_size=3000)
    blocks = Blocks(source, 2048)
    assert len(list(blocks.read(range(0, 2)))) == 2
    with pytest.raises(InvalidData, match=r"Rows 4097 to 6144 of .* changed .*--resume") as caught:
        list(blocks.read(range(2, 3)))
    assert caught.value.exit_code == 2
    pq.write_table(table, f"{folder}/part-0.parquet", row_group_size=3000)
    assert len(list(blocks.read(range(2, 3)))) == 1


def test_arrays_are_the_same_people_as_a_table_of_them(rng):
    x, y, g = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000), rng.integers(0, 2, 3000)
    arrays = AuditData.from_arrays(x, y, {"g": g}, features=("a", "b"))
    table = pa.table({"y": y, "a": x[:, 0], "g": g, "b": x[:, 1]})
    one = survey_of(as_source(arrays))
    assert one.fingerprint == survey_of(as_source(table, label="y", protected="g")).fingerprint


def test_a_missing_value_is_located_by_its_rows():
    frame = pd.DataFrame({"a": 1.0, "y": np.arange(5000) % 2})
    frame.loc[4133, "a"] = np.nan
    blocks = Blocks(as_source(frame, label="y"), 2048)
    assert [len(block) for _, block in blocks.read(range(2))] == [2048, 2048]
    with pytest.raises(InvalidData, match=r"'a' \(1\): 1 of 904 rows from 4097 to 5000"):
        list(blocks.read(range(2, 3)))


def test_memory_does_not_grow_with_a_parquet_file(tmp_path):
    def peak(n: int) -> int:
        path = tmp_path / f"{n}.parquet"
        table = pa.table({**{f"c{j}": np.arange(n) / 7 for j in range(10)}, "y": np.arange(n) % 2})
        pq.write_table(table, path, row_group_size=20_000)
        del table
        before = pa.total_allocated_bytes()
        blocks = Blocks(as_source(path, label="y"), 10_000)
        held = [
            (pa.total_allocated_bytes() - before, len(block))
            for _, block in blocks.read(range(len(blocks)))
        ]
        assert sum(rows for _, rows in held) == n
        return max(held)[0]

    assert peak(300_000) < 1.2 * peak(100_000)
