"""The journal: nothing finished is lost, nothing foreign is mixed in."""

import pytest

from likewise.errors import InvalidFile
from likewise_studies.journal import Journal


def test_what_was_added_is_read_again(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl", "key")
    journal.add("a", {"value": 1.5})
    journal.add("b", [1, 2])

    assert Journal(journal.path, "key").read() == {"a": {"value": 1.5}, "b": [1, 2]}


def test_no_journal_is_an_empty_one(tmp_path):
    assert Journal(tmp_path / "none", "key").read() == {}


def test_pieces_of_other_choices_are_left_alone(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path, "old").add("a", 1)
    Journal(path, "new").add("a", 2)

    assert Journal(path, "old").read() == {"a": 1}
    assert Journal(path, "new").read() == {"a": 2}


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_a_line_cut_anywhere_costs_that_piece_alone(tmp_path, length):
    journal = Journal(tmp_path / "journal.jsonl", "key")
    journal.add("a", 1)
    whole = journal.path.read_bytes()
    journal.add("b", 2)
    cut = journal.path.read_bytes()[: len(whole) + length]
    journal.path.write_bytes(cut)

    journal.add("c", 3)

    found = journal.read()
    assert found["a"] == 1
    assert found["c"] == 3
    assert found.get("b") in (None, 2)


def test_a_journal_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(InvalidFile, match="cannot be read"):
        Journal(tmp_path, "key").read()
