"""Memory is predicted, checked and honoured."""

import pytest

from likewise.errors import InvalidSettings
from likewise.scale.executors import block_size
from likewise.scale.memory import parse_memory, plan_pieces, resident_memory


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GB", 4 * 2**30), ("500M", 500 * 2**20), ("1.5 GiB", 3 * 2**29), ("2000000", 2_000_000)],
)
def test_amounts_of_memory_are_understood(text, count):
    assert parse_memory(text) == count


@pytest.mark.parametrize("text", ["", "much", "-1GB", "4 PB", "0", "1e9"])
def test_what_is_no_amount_of_memory_is_refused(text):
    with pytest.raises(InvalidSettings, match="no amount of memory"):
        parse_memory(text)


def test_pieces_shrink_to_fit_and_are_whole_blocks():
    d = 39
    free = plan_pieces(d, 2)
    tight = plan_pieces(d, 2, limit=free.memory - 10 * 2**20)
    assert tight.rows < free.rows
    assert tight.memory <= free.memory - 10 * 2**20
    assert free.rows % block_size(d) == tight.rows % block_size(d) == 0


def test_too_little_memory_is_one_sentence():
    with pytest.raises(InvalidSettings, match="Take fewer workers, or allow more"):
        plan_pieces(39, 2, limit=resident_memory())


def test_more_workers_and_wider_rows_need_more_memory():
    assert plan_pieces(39, 4).memory > plan_pieces(39, 1).memory
    assert plan_pieces(400, 1, rows=4096).memory > plan_pieces(40, 1, rows=4096).memory
