"""Reading people from files and data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from likewise import read
from likewise.audit_data import AuditData, missing
from likewise.data.encoder import Encoder

FRAME = pd.DataFrame(
    {
        "age": [31, 44, 25, 60],
        "job": ["cook", "judge", "cook", "smith"],
        "sex": ["f", "m", None, "f"],
        "member": [True, False, True, True],
        "paid": [0, 1, 1, 0],
        "weight": [1.0, 2.0, 0.5, 1.5],
        "home": [7, 7, 8, 9],
        "note": ["a", "b", "c", "d"],
    }
)
ROLES = {
    "label": "paid",
    "protected": ["sex"],
    "weight": "weight",
    "cluster": "home",
    "ignore": ["note"],
}


def check_people(data: AuditData) -> None:
    assert data.features == ("age", "member")
    assert data.x.tolist() == [[31, 1], [44, 0], [25, 1], [60, 1]]
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.protected["sex"].tolist() == ["f", "m", None, "f"]
    assert missing(data.protected["sex"]).sum() == 1
    assert data.weight.tolist() == [1.0, 2.0, 0.5, 1.5]
    assert data.cluster.tolist() == [7, 7, 8, 9]
    assert data.table.column_names == ["age", "job", "sex", "member"]
    assert data.table["job"].to_pylist() == ["cook", "judge", "cook", "smith"]
    assert data.row.tolist() == [0, 1, 2, 3]
    assert data.dropped == {}


class OfAnotherMake:
    """A data frame that nobody has heard of, but that hands out its columns as Arrow does."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.Table.from_pandas(FRAME).__arrow_c_stream__(requested_schema)


def test_every_kind_of_table_gives_the_same_people(tmp_path):
    arrow, other = pa.Table.from_pandas(FRAME), pl.from_pandas(FRAME)
    indexed, coded = FRAME.set_index(pd.Index([9, 8, 7, 6])), FRAME.astype({"job": "category"})
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    FRAME.to_parquet(tmp_path / "people.parquet")
    coded.to_parquet(tmp_path / "dictionary.parquet")
    frames = (FRAME, coded, indexed, other, other.lazy(), arrow, arrow.to_batches()[0])
    for source in (*frames, OfAnotherMake(), *tmp_path.iterdir()):
        check_people(read(source, **ROLES))


def test_several_files_are_read_in_order(tmp_path):
    FRAME[:1].to_parquet(tmp_path / "part-0.parquet")
    FRAME[1:3][FRAME.columns[::-1]].to_csv(tmp_path / "part-1.csv", index=False)
    FRAME[3:].to_parquet(tmp_path / "part-2.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    named = [tmp_path / f"part-{k}" for k in ("0.parquet", "1.csv", "2.parquet")]
    for source in (named, str(tmp_path / "part-*"), tmp_path):
        data = read(source, **ROLES)
        check_people(data)
        assert data.source == f"3 files, {named[0]} to {named[2]}"


def test_whole_numbers_in_one_file_and_fractions_in_another_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,y\n1,,7,0\n2,,8,1\n")
    (tmp_path / "b.csv").write_text("a,b,c,y\n1.5,3,9x,1\n")
    data = read(tmp_path, label="y", inputs=["a"])
    assert data.x.tolist() == [[1.0], [2.0], [1.5]]
    # What looks like a number in one file and not in the other is text in both, as written.
    assert data.table["c"].to_pylist() == ["7", "8", "9x"]
    assert data.table["b"].to_pylist() == [None, None, 3]


def test_types_may_become_clear_only_late_in_a_file(tmp_path):
    late = 100_000  # lines of more than a megabyte, which Arrow reads at a time
    lines = [f"{i},,{i},{i % 2}" for i in range(late)] + ["0.5,x,oops,1"]
    (tmp_path / "late.csv").write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    data = read(tmp_path / "late.csv", label="y")
    assert data.features == ("a",)
    assert data.x[-1, 0] == 0.5
    assert data.table["c"].to_pylist()[:2] == ["0", "1"]
    about = "is read as text, because row 100001 holds 'oops' among its numbers."
    assert data.notes == (f"Column 'c' of late.csv {about}",)


def test_csv_says_missing_where_pandas_does(tmp_path):
    path = tmp_path / "missing.csv"
    markers = ["", "NA", "nan", "null", "None", "n/a", "<NA>", '""']
    path.write_text("t,a,y\n" + "".join(f"{m},1,0\n" for m in markers) + "x,1,1\n")
    attribute = read(path, label="y", protected="t").protected["t"]
    assert attribute.tolist() == [None] * len(markers) + ["x"]
    assert pd.read_csv(path)["t"].isna().sum() == len(markers)


def test_text_of_a_csv_file_is_kept_as_it_is_and_blanks_around_numbers_are_not(tmp_path):
    path = tmp_path / "adult.csv"
    path.write_text('age,sex,y\n 39, Male, 0\n50,"p,\nq",1\n')
    data = read(path, label="y", protected="sex")
    assert data.x.tolist() == [[39], [50]]
    assert data.y.tolist() == [0, 1]
    assert data.protected["sex"].tolist() == [" Male", "p,\nq"]


def test_traits_of_every_type_keep_their_missing_values():
    frame = pa.table(
        {
            "text": ["a", None, "b"],
            "flag": [True, None, False],
            "whole": [1, None, 2],
            "real": [0.5, float("nan"), None],
            "code": pa.array(["u", None, "v"]).dictionary_encode(),
            "nothing": pa.nulls(3),
            "x": [1, 2, 3],
            "y": [0, 1, 0],
        }
    )
    attributes = ["text", "flag", "whole", "real", "code", "nothing"]
    data = read(frame, label="y", protected=attributes)
    assert len(data) == 3
    gone = [missing(data.protected[name]).sum() for name in attributes]
    assert gone == [1, 1, 1, 2, 1, 3]
    assert data.protected["flag"].tolist() == [True, None, False]
    np.testing.assert_array_equal(data.protected["whole"], [1.0, np.nan, 2.0])
    assert data.protected["code"].tolist() == ["u", None, "v"]


def test_inputs_give_the_models_own_order_and_may_be_protected():
    frame = FRAME.assign(old=[0, 1, 0, 1])
    roles = {"label": "paid", "protected": ["old"], "ignore": ["sex"]}
    assert "old" not in read(frame, **roles).features
    data = read(frame, **roles, inputs=["member", "old", "age"])
    assert data.features == ("member", "old", "age")
    assert data.x[1].tolist() == [0, 1, 44]


def test_a_pipeline_gets_original_columns_missing_values_included():
    frame = FRAME.assign(age=[31, None, 25, 60])
    data = read(frame, **ROLES, raw=True)
    assert data.x.shape == (4, 0)
    assert data.features == ()
    assert data.table.column_names == ["age", "job", "sex", "member"]
    assert data.table["age"].to_pylist() == [31, None, 25, 60]
    dropped = read(frame, **ROLES, raw=True, drop_missing=True)
    assert dropped.table["age"].to_pylist() == [31, 25, 60]
    assert dropped.dropped == {"missing age": 1}


def test_dropped_rows_are_counted_once_and_the_others_keep_their_numbers():
    frame = FRAME.assign(age=[None, 44, None, 60], paid=[0, 1, None, 0])
    data = read(frame, **ROLES, drop_missing=True)
    assert data.row.tolist() == [1, 3]
    assert data.dropped == {"missing paid": 1, "missing age": 1}
    assert data.x.tolist() == [[44, 0], [60, 1]]
    assert data.table["job"].to_pylist() == ["judge", "smith"]
    assert data.cluster.tolist() == [7, 9]


def test_text_codes_of_an_encoder_stay_text_in_a_csv_file(tmp_path):
    train = pd.DataFrame({"zip": ["007", "7", "7a"], "y": [0, 1, 0]})
    encoder = Encoder.fit(train, label="y")
    (tmp_path / "audit.csv").write_text("zip,y\n007,0\n7,1\n")
    data = read(tmp_path / "audit.csv", label="y", encoder=encoder)
    assert data.x.tolist() == [[1, 0, 0], [0, 1, 0]]
