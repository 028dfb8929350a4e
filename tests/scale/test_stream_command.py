"""The command line of audits in pieces: when they begin, what they ask for, what they show."""

import pytest

from likewise.cli.stream import Meter, Pieces


@pytest.mark.parametrize(
    "pieces",
    [Pieces(workers=2), Pieces(ray="local"), Pieces(max_memory="4GB"), Pieces(resume=True)],
)
def test_asking_for_workers_memory_or_resumption_means_pieces(pieces, world):
    assert pieces.wanted(world.files)


def test_a_small_table_is_audited_in_memory_and_a_large_one_in_pieces(world, monkeypatch):
    assert not Pieces().wanted(world.files)
    monkeypatch.setattr("likewise.cli.stream.MANY", 2999)
    assert Pieces().wanted(world.files)


def test_the_journal_is_beside_the_result_unless_said_otherwise(tmp_path):
    result = tmp_path / "result.json"
    assert Pieces().folder(None, result) == tmp_path / "result.json.journal"
    assert Pieces(journal=tmp_path / "here").folder(result) == tmp_path / "here"
    assert Pieces().folder(None, None).name == "likewise.journal"


def test_progress_shows_speed_and_time_left_of_this_run():
    clock = [0.0]
    meter = Meter(now=lambda: clock[0])
    meter("moving people", 4_000_000, 10_000_000)  # done by an earlier run
    clock[0] = 100.0
    meter("moving people", 5_000_000, 10_000_000)
    line = meter.line("moving people", 5_000_000, 10_000_000)
    assert line == "moving people: 5,000,000 of 10,000,000 (50%), 10,000/s, 8 min left"


def test_progress_before_anything_is_done_promises_nothing():
    meter = Meter(now=lambda: 1.0)
    meter("moving people", 0, 100)
    assert meter.line("moving people", 0, 100) == "moving people: 0 of 100 (0%)"
