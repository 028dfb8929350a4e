"""The command line of audits in pieces: when they begin, what they ask for, what they show."""

import importlib.util
import json
import os

import pytest

import likewise
from likewise.cli.job import AuditJob
from likewise.cli.stream import Pieces
from likewise.errors import InvalidFile


@pytest.mark.parametrize(
    "pieces",
    [Pieces(workers=2), Pieces(ray="local"), Pieces(max_memory="4GB"), Pieces(resume=True)],
)
def test_asking_for_workers_memory_or_resumption_means_pieces(pieces, world):
    assert pieces.chosen(world.files) == pieces


def test_a_small_table_is_audited_in_memory_and_a_large_one_in_pieces(world, monkeypatch):
    assert Pieces().chosen(world.files) is None
    monkeypatch.setattr("likewise.cli.stream.MANY", 2999)
    assert Pieces().chosen(world.files).workers >= 1


def test_the_journal_is_beside_the_result_unless_said_otherwise(tmp_path):
    result = tmp_path / "result.json"
    assert Pieces().folder(None, result) == tmp_path / "result.json.journal"
    assert Pieces(journal=tmp_path / "here").folder(result) == tmp_path / "here"
    assert Pieces().folder(None, None).name == "likewise.journal"


@pytest.fixture
def job(world, tmp_path):
    likewise.save_metric(world.metric, tmp_path / "metric.safetensors")
    files = [world.folder / "part-*.parquet"]
    metric = tmp_path / "metric.safetensors"
    return AuditJob(world.model, files, metric, None, world.settings, quiet=True)


def test_a_result_that_cannot_be_written_loses_no_piece(job, tmp_path, monkeypatch, capsys):
    result, folder = tmp_path / "result.json", tmp_path / "result.json.journal"

    def full(*args, **kwargs):
        raise InvalidFile("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr("likewise.report.outputs.write_outputs", full)
        with pytest.raises(InvalidFile):
            job.run(None, {"json": result}, Pieces(workers=0))
    assert list(folder.glob("part-*"))
    # Nothing is left to be done: moving anybody of everyone now would fail.
    monkeypatch.setattr("likewise.engine.block_job.MoveBlocks._table", None)
    job.run(None, {"json": result}, Pieces(workers=0, resume=True))
    assert json.loads(result.read_text())["rows"]["n"] == 3000
    assert not folder.exists()


def test_resuming_what_was_never_begun_begins_anew_and_says_so(job, tmp_path, capsys):
    result = tmp_path / "result.json"
    job.run(None, {"json": result}, Pieces(workers=0, resume=True))
    said = [line for line in capsys.readouterr().err.splitlines() if "anew" in line]
    folder = str(tmp_path / "result.json.journal")
    assert said == [f"There is no unfinished audit in {folder!r}: this one begins anew."]
    assert json.loads(result.read_text())["rows"]["n"] == 3000


@pytest.mark.parametrize("late", [0.0, 0.3, 0.9, 2.5])
@pytest.mark.parametrize("pieces", [10, 20, 41])
def test_the_benchmark_never_makes_two_workers_more_than_twice_as_fast(root, late, pieces):
    module = importlib.util.spec_from_file_location("scale", root / "benchmarks" / "scale.py")
    benchmark = importlib.util.module_from_spec(module)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.environ", dict(os.environ))  # it sets threads for its own processes
        module.loader.exec_module(benchmark)
    # Perfect workers, a second a piece; the second one starts late.
    free = [0.0, late]
    moments = [(-3.0, 0)]
    for _ in range(pieces):
        worker = free.index(min(free))
        free[worker] += 1
        moments.append((free[worker], 0))
    moments = [(moment, 100 * k) for k, (moment, _) in enumerate(sorted(moments))]
    one = [(-3.0, 0), *((k, 100 * k) for k in range(1, pieces + 1))]
    assert benchmark.rate(one, 1) == 100
    assert 1.6 * 100 * (1 - 3 / pieces) < benchmark.rate(moments, 2) <= 200
