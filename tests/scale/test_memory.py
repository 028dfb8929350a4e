"""Memory is predicted, checked and honoured."""

from unittest import mock

import pytest

from likewise.errors import InvalidSettings
from likewise.scale.blocks import block_size
from likewise.scale.memory import parse_memory, plan_pieces, resident_memory
from likewise.streaming import Means, audit_stream


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


def test_an_audit_that_takes_more_than_allowed_stops_and_can_be_resumed(world, tmp_path):
    folder = tmp_path / "journal"
    means = Means(piece_rows=512, max_memory=10 * 2**40)
    with (
        mock.patch("likewise.checks.means.peak_memory", return_value=11 * 2**40),
        pytest.raises(InvalidSettings, match="continue with --resume"),
    ):
        audit_stream(
            world.model,
            world.files,
            metric=world.metric,
            settings=world.settings,
            journal=folder,
            means=means,
        )
    assert list(folder.glob("piece-*"))
