"""CSV files as they come: separators, decimal marks, thousands, UTF-16, trailing commas."""

import contextvars
import gzip

import pytest

from likewise.data.csv_format import SAID, say_csv
from likewise.data.rows import open_rows
from likewise.errors import InvalidData, InvalidFile, InvalidSettings

GERMAN = "age;income;job\n30;1.234,5;cook\n40;900,25;clerk\n;12,1;\n"
PLAIN = [
    {"age": 30, "income": 1234.5, "job": "cook"},
    {"age": 40, "income": 900.25, "job": "clerk"},
    {"age": None, "income": 12.1, "job": None},
]


@pytest.fixture
def opened(tmp_path):
    def read(text, name="people.csv"):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(content)
        rows = open_rows(str(tmp_path / name))
        return rows.table(rows.schema.names).to_pylist(), rows.notes

    return read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("people.csv", GERMAN.encode()),
        ("people.csv", GERMAN.replace("\n", "\r\n").encode("utf-8-sig")),
        ("people.csv", GERMAN.encode("utf-16")),
        ("people.csv.gz", gzip.compress(GERMAN.encode())),
        ("people.tsv", GERMAN.replace(";", "\t").encode()),
        ("people.csv", GERMAN.replace("1.234,5", "1 234,5").replace(";", "|").encode()),
    ],
    ids=["semicolons", "windows", "utf-16", "packed", "tabs", "bars and spaces"],
)
def test_a_european_file_is_read_as_it_is_meant_and_that_is_said(opened, name, content):
    rows, notes = opened(content, name)
    assert rows == PLAIN
    assert any("decimal commas" in note for note in notes)
    assert "Column 'income' is read as numbers with marks between thousands." in notes
    # A note is shown even where single people are hidden.
    assert "234" not in str(notes)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('a,b\n1,"1,234"\n2,"12,345,678"\n3,999\n', [1234, 12345678, 999]),
        ("a;b\n1;1'234.5\n2;5'678.0\n", [1234.5, 5678.0]),
        ('a,b\n1,"2,5"\n2,"4,25"\n', [2.5, 4.25]),
        ("a,b,\n1,2,\n3,4,\n", [2, 4]),
        ("a,b\n1,2,\n3,4,\n", [2, 4]),
        ("d;b\n31.12.2020;1,5\n01.02.2021;2,5\n", [1.5, 2.5]),
        ("a,b\n1.234,2.5\n1.235,2.5\n", [2.5, 2.5]),
    ],
    ids=["thousands", "swiss", "quoted", "comma at the end", "of rows only", "dates", "usual"],
)
def test_numbers_are_read_as_they_are_meant(opened, text, values):
    rows, _ = opened(text)
    assert [row["b"] for row in rows] == values
    assert rows[0].keys() in ({"a", "b"}, {"d", "b"})


@pytest.mark.parametrize("text", ["a,b,\n1,2,\n", "a,b\n1,2,\n3,4,\n"])
def test_an_empty_field_at_the_end_of_lines_is_left_out_and_that_is_said(opened, text):
    _, notes = opened(text)
    assert [note.partition(" ")[2] for note in notes] == [
        "is read without the empty field at the end of its lines."
    ]


def test_a_usual_file_is_read_without_a_word(opened):
    rows, notes = opened("a,b,c\n1,2.5,x;y\n3,1.234,z\n")
    assert rows[1] == {"a": 3, "b": 1.234, "c": "z"}
    assert notes == ()


@pytest.mark.parametrize("text", ["a;b\n1;1,234\n2;5,678\n", "a;b\n1.5;1,5\n2.25;2,5\n"])
def test_what_may_mean_two_things_is_asked_for(opened, text):
    with pytest.raises(InvalidFile, match=r"is that a decimal comma\? Say so with --csv-decimal"):
        opened(text)


def test_what_the_user_says_counts(opened):
    text = "a;b\n1;1,234\n2;5,678\n"

    def said(separator, decimal):
        say_csv(separator, decimal)
        return [row["b"] for row in opened(text)[0]]

    assert contextvars.copy_context().run(said, None, ",") == [1.234, 5.678]
    assert contextvars.copy_context().run(said, "semicolon", ".") == [1234, 5678]
    assert SAID.get(None) is None


def test_a_column_of_points_and_commas_is_no_column_of_numbers(opened):
    def said():
        say_csv(";", ",")
        return opened("a;b\n1;1.5\n2;1.234\n3;7\n")

    rows, notes = contextvars.copy_context().run(said)
    assert [row["b"] for row in rows] == ["1.5", "1.234", "7"]
    assert "read as text" in str(notes)


def test_values_without_a_name_are_not_dropped(opened):
    with pytest.raises(InvalidData, match="has values but no name"):
        opened("a,b,\n1,2,3\n3,4,\n")


@pytest.mark.parametrize(
    ("separator", "decimal", "words"),
    [
        ("ab", None, "one character"),
        ("\n", None, "one character"),
        (None, ";", "is '.' or ','"),
        (",", ",", "cannot be separated by the decimal mark"),
    ],
)
def test_impossible_marks_are_refused(separator, decimal, words):
    with pytest.raises(InvalidSettings, match=words):
        say_csv(separator, decimal)
