"""Bad input is refused in one sentence that says what is wrong, where, and what to do."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import survey_of
from likewise import read
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.data.source import as_source
from likewise.errors import InvalidData, InvalidFile

GOOD = pd.DataFrame({"a": [1.0, 2.0, 3.0], "t": ["u", "v", "u"], "w": [1, 1, 2], "y": [0, 1, 0]})
FITTED = Encoder.fit(GOOD, inputs=["a"])


def refusal(error, source, **roles):
    """Return the one message with which both ways of reading refuse a source."""
    roles = {"label": "y", "ignore": ["t"], **roles}
    with pytest.raises(error) as caught:
        read(source, **roles)
    with pytest.raises(error):
        survey_of(as_source(source, **roles))
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


def test_a_missing_file_is_named_and_its_neighbour_suggested(tmp_path):
    GOOD.to_csv(tmp_path / "people.csv")
    message = refusal(InvalidFile, tmp_path / "poeple.csv")
    assert "There is no file" in message
    assert "Did you mean 'people.csv'?" in message
    # Files that have nothing but their ending in common are not alike.
    assert "Did you mean" not in refusal(InvalidFile, tmp_path / "nosuch.csv")


@pytest.mark.parametrize("n", [0, 1])
def test_a_table_needs_two_rows(tmp_path, n):
    GOOD[:n].to_csv(tmp_path / "a.csv", index=False)
    GOOD[:n].to_parquet(tmp_path / "a.parquet")
    for source in (GOOD[:n], tmp_path / "a.csv", tmp_path / "a.parquet"):
        words = f"needs at least 2 people, and there are {n}: the table has {n} rows"
        assert words in refusal(InvalidData, source)


@pytest.mark.parametrize("cut", [10, 100, -20])
def test_a_truncated_parquet_file_and_one_of_no_text_are_refused(tmp_path, cut):
    GOOD.to_parquet(tmp_path / "good.parquet")
    content = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "bad.parquet").write_bytes(content[:cut])
    files = [tmp_path / "good.parquet", tmp_path / "bad.parquet"]
    assert "bad.parquet' cannot be read as Parquet" in refusal(InvalidFile, files)
    words = pa.array([b"c\xffok"] * len(GOOD)).view(pa.string())
    pq.write_table(pa.Table.from_pandas(GOOD).append_column("job", words), files[1])
    assert "bad.parquet' holds text that is not UTF-8" in refusal(InvalidFile, files[1])


@pytest.mark.parametrize(
    ("code", "rows", "words"),
    [(122, 61, "fewer rows than it says"), (121, -61, "its number of rows is negative")],
)
def test_a_parquet_file_with_a_forged_number_of_rows_is_refused(tmp_path, code, rows, words):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [0.5] * 60, "t": ["u", "v"] * 30, "y": [0, 1] * 30}), path)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # The footer says 60, as the number 120: of the file first, of columns, of the row group last.
    first, last = content.index(b"\x16\x78", begin), content.rindex(b"\x16\x78")
    forged = bytearray(content)
    forged[first + 1] = forged[last + 1] = code
    path.write_bytes(forged)
    assert pq.ParquetFile(path).metadata.row_group(0).num_rows == rows
    assert words in refusal(InvalidFile, path)


@pytest.mark.parametrize("checksum", [False, True])
def test_a_parquet_file_damaged_inside_is_refused(tmp_path, checksum):
    rng = np.random.default_rng(0)
    # Whole numbers are compressed, so damage shows; it shows in random bytes by checksum only.
    column = rng.normal(size=5000) if checksum else rng.integers(0, 9, 5000)
    big = pa.table({"a": column, "t": ["u"] * 5000, "y": rng.integers(0, 2, 5000)})
    path = tmp_path / "bad.parquet"
    pq.write_table(big, path, use_dictionary=False, write_page_checksum=checksum)
    content = bytearray(path.read_bytes())
    content[200:2000] = bytes(1800)
    path.write_bytes(content)
    assert "cannot be read as Parquet" in refusal(InvalidFile, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,t,y\n1,u\n", "cannot be read as CSV"),
        (b"\n\n\n", "cannot be read as CSV"),
        (b"a,t,y\n1,\xff\xfe,0\n2,u,1\n", "text that is not UTF-8"),
        (b"\x1f\x8b\x08\x00damaged", "CSV"),
    ],
    ids=["short", "blank", "latin", "gzip"],
)
def test_a_damaged_csv_file_is_refused(tmp_path, content, words):
    name = "a.csv.gz" if content[:2] == b"\x1f\x8b" else "a.csv"
    (tmp_path / name).write_bytes(content)
    assert words in refusal(InvalidFile, tmp_path / name)


def test_files_that_do_not_fit_each_other_are_refused(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    GOOD.to_csv(files[0], index=False)
    GOOD.assign(z=1).to_csv(files[1], index=False)
    for order in (files, files[::-1]):
        message = refusal(InvalidData, order)
        assert re.search(r"a.csv' has no column 'z', which '.*b.csv' has", message)
    GOOD.to_parquet(tmp_path / "a.parquet")
    GOOD.assign(a="x").to_parquet(tmp_path / "b.parquet")
    message = refusal(InvalidData, str(tmp_path / "*.parquet"))
    assert re.search("another type in another file .*Field a .*double vs large_string", message)


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,a,y\n1,2,3,0\n1,2,3,1\n")
    arrow = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["a", "a"])
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    for source in (tmp_path / "a.csv", arrow, frame):
        assert re.search("twice|2 times", refusal(InvalidData, source))


@pytest.mark.parametrize("source", [{"a": [1]}, np.zeros((2, 2)), 7, None, [1, 2]])
def test_what_is_neither_file_nor_frame_is_refused(source):
    assert "give a file, several files, or a data frame" in refusal(InvalidData, source)


@pytest.mark.parametrize("hole", [None, float("nan")])
def test_missing_values_are_listed_with_their_counts(hole):
    frame = GOOD.assign(a=[hole, 2.0, hole], y=[0.0, hole, 1.0], w=[1.0, 1.0, hole])
    message = refusal(InvalidData, frame, weight="w")
    assert "missing in 'y' (1), 'w' (1) and 'a' (2): 3 of 3 rows" in message
    assert "--set columns.drop_missing=true" in message
    with pytest.raises(InvalidData, match="there are 1: the table has 3 rows"):
        read(GOOD.assign(a=[hole, hole, 1.0]), label="y", ignore=["t"], drop_missing=True)


@pytest.mark.parametrize(
    ("change", "roles", "words"),
    [
        ({"w": ["1", "2", "x"]}, {"weight": "w"}, "Column 'w' (weight) holds text, not numbers"),
        ({"w": [1.0, -1.0, np.inf]}, {"weight": "w"}, "2 of 3 weights are not positive"),
        ({"id": [2**53 + 1, 2**60, 3]}, {}, "Column 'id' holds integers beyond 2^53"),
        ({"d": pd.Timestamp(2020, 1, 1)}, {"protected": "d"}, "'d' (protected) holds dates"),
        ({"a": "x"}, {"inputs": None}, "Column 'a' holds text"),
        ({"m": [1, "x", 2.5]}, {}, "name of its own (ArrowInvalid: (\"Could not convert 'x'"),
        ({"a": [np.inf, 2.0, -np.inf]}, {}, "'a' has infinite values in 2 of 3 rows"),
        ({"tags": [[1, 2]] * 3}, {"raw": True}, "Column 'tags' is nested"),
        ({}, {"label": "yy"}, "no column 'yy', named as label. Did you mean 'y'?"),
        ({}, {"protected": "sex"}, "named as protected. Its columns: a, t, w and y."),
        ({}, {"inputs": ["b"]}, "named as input"),
        ({}, {"ignore": [], "inputs": ["a", "t"]}, "Column 't' holds text, which a model can read"),
        ({}, {"protected": ["y"]}, "Column 'y' is named as label and as protected"),
        ({}, {"protected": ["t"]}, "Column 't' is named as protected and as ignored"),
        ({}, {"inputs": ["y"]}, "'y' is named as label, so it cannot be an input"),
        ({}, {"inputs": ["a", "a"]}, "Column 'a' occurs twice in the inputs"),
        ({}, {"encoder": FITTED, "label": "a"}, "Column 'a' is an input of the encoder"),
        ({}, {"encoder": FITTED, "inputs": ["w"]}, "the encoder knows them"),
        ({}, {"encoder": FITTED, "raw": True}, "needs no encoder"),
    ],
)
def test_columns_that_cannot_be_what_they_are_named_as_are_refused(change, roles, words):
    frame = GOOD.assign(**change)
    frame = frame.drop(columns="w") if roles == {"inputs": None} else frame
    assert words in refusal(InvalidData, frame, **roles)


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        (([["a", "b"]] * 3, [0, 1, 0]), {}, "not a number"),
        ((np.zeros((3, 2)), [0, None, 1]), {}, "1 of 3 labels are missing"),
        ((np.zeros(2), [0]), {}, "two dimensions"),
        ((np.full((3, 2), np.nan), [0, 1, 0]), {}, "NaN or infinite"),
        ((np.zeros((3, 2)), [0, 1, 0]), {"features": ("f", "f")}, "Two features are called 'f'"),
        ((np.zeros((3, 2)), [0, 1, 0]), {"weight": [1, 0, 1]}, "not positive"),
    ],
)
def test_arrays_are_checked_too(arguments, more, words):
    with pytest.raises(InvalidData, match=words):
        AuditData.from_arrays(*arguments, **more)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("*.parquet", "There is no file"),
        ("nowhere/*.csv", "There is no file"),
        (".", "The folder holds no Parquet or CSV"),
        ("table.xlsx", "neither Parquet .* nor CSV"),
        ("empty.csv", "cannot be read as CSV"),
        ("empty.parquet", "cannot be read as Parquet"),
        ("x" * 5000 + ".csv", ""),
    ],
)
def test_what_names_no_table_is_refused(tmp_path, name, words):
    (tmp_path / "other.txt").touch()
    if name.startswith(("table", "empty")):
        (tmp_path / name).touch()
    assert re.search(words, refusal(InvalidFile, tmp_path / name))
    assert "No file is named" in refusal(InvalidData, [])
    GOOD.to_csv(tmp_path / "a.csv", index=False)
    files = [tmp_path / "a.csv", str(tmp_path / "a*.csv")]
    assert "named twice" in refusal(InvalidFile, files)
