"""CSV files are read with the separator, decimal mark and encoding that are named."""

import gzip

import pytest

from likewise.data.rows import open_rows
from likewise.errors import InvalidFile

GERMAN = "age;income;job\n30;1234,5;Köchin\n40;900,25;clerk\n;12,1;\n"
PLAIN = [
    {"age": 30, "income": 1234.5, "job": "Köchin"},
    {"age": 40, "income": 900.25, "job": "clerk"},
    {"age": None, "income": 12.1, "job": None},
]


@pytest.fixture
def opened(tmp_path):
    def read(content, name="people.csv", **csv):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
        rows = open_rows(str(tmp_path / name), csv=csv)
        return rows.table().to_pylist(), rows.notes

    return read


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("people.csv", GERMAN.encode(), {}),
        ("people.csv", GERMAN.replace("\n", "\r\n").encode("utf-8-sig"), {}),
        ("people.csv", GERMAN.encode("utf-16"), {"encoding": "utf-16"}),
        ("people.csv", GERMAN.encode("latin-1"), {"encoding": "latin-1"}),
        ("people.csv.gz", gzip.compress(GERMAN.encode()), {}),
        ("people.tsv", GERMAN.replace(";", "\t").encode(), {"separator": None}),
        ("people.csv", GERMAN.replace(";", "\t").encode(), {"separator": "tab"}),
        ("people.csv", GERMAN.replace(";", "|").encode(), {"separator": "|"}),
    ],
    ids=["plain", "windows", "utf-16", "latin-1", "packed", "tsv", "tabs", "bars"],
)
def test_options_say_how_a_file_is_written(opened, name, content, options):
    assert opened(content, name, **{"separator": ";", "decimal": ",", **options}) == (PLAIN, ())


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("a;b;c\n1;2;3\n", {}, "single column, 'a;b;c'.* --set 'columns.csv.separator=;'"),
        (GERMAN, {}, "Values are separated by ',' .*unless columns.csv.separator"),
        ('a,b\n1,"2,5"\n2,"1.234,25"\n', {}, "is that a decimal comma.*columns.csv.decimal=,"),
        ("job\nKöchin\n".encode("latin-1"), {}, "is not UTF-8.*unless.* columns.csv.encoding"),
        (GERMAN.encode("utf-16"), {}, "columns.csv.encoding"),
        (GERMAN, {"encoding": "ascii"}, "text that is not ascii. Values are"),
        (GERMAN, {"encoding": "klingon"}, "unknown encoding: klingon.*unless .*csv.encoding"),
    ],
    ids=["semicolons", "rows of two", "decimal commas", "latin-1", "utf-16", "ascii", "none"],
)
def test_a_file_that_is_written_otherwise_is_refused(opened, content, options, words):
    with pytest.raises(InvalidFile, match=words):
        opened(content, **options)


def test_a_mark_that_is_named_is_not_asked_for_again(opened):
    rows, _ = opened('a,b\n1,"2,5"\n2,"4,25"\n', decimal=",")
    assert [row["b"] for row in rows] == [2.5, 4.25]
    rows, _ = opened('a,b\n1,"2,5"\n2,"4,25"\n', decimal=".")
    assert [row["b"] for row in rows] == ["2,5", "4,25"]
    assert opened("a;b\n1;2\n", separator=",")[0] == [{"a;b": "1;2"}]
    rows, notes = opened("a;b\n1;1.5\n2;1,5\n3;7\n", separator=";", decimal=",")
    assert [row["b"] for row in rows] == ["1.5", "1,5", "7"]
    assert notes[0].endswith(".csv is read as text, because row 1 holds '1.5' among its numbers.")


@pytest.mark.parametrize("content", ["a,b,\n1,2,\n", ",a,b\n0,1,2\n"])
def test_a_column_without_a_name_is_left_out_and_that_is_said(opened, content):
    rows, notes = opened(content)
    assert rows == [{"a": 1, "b": 2}]
    assert notes == ("A column of people.csv has no name and is not read.",)
