"""What happens to long jobs: killed processes, lost workers, damaged files, full disks, Ctrl-C."""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import likewise
from likewise.errors import InvalidData, InvalidFile


@pytest.fixture(scope="module")
def large(make_world: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As many people as twenty blocks hold, and a bit."""
    world = make_world(tmp_path_factory.mktemp("large"), n=42_000)
    likewise.save_metric(world.metric, world.folder / "metric.safetensors")
    return world


def start(world: Any, result: Path, *more: str, steps: int = 24, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "likewise", "audit", world.model, *world.files]
    command += ["--label", "y", "--protected", "group", "--ignore", "w,household,age"]
    command += ["--metric", str(world.folder / "metric.safetensors"), "--checks", "core"]
    command += [
        "--set",
        "map.solver=exponential4",
        "--set",
        f"map.steps={steps}",
        "-o",
        str(result),
        *more,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finished(process: subprocess.Popen) -> str:
    _, stderr = process.communicate(timeout=300)
    assert process.returncode in (0, 1), stderr
    assert "Traceback" not in stderr
    return stderr


def numbers(result: Path) -> dict:
    record = json.loads(result.read_text())
    return {name: record[name] for name in record if name not in ("created", "seconds", "command")}


def wait_for_parts(folder: Path, process: subprocess.Popen, count: int) -> None:
    while process.poll() is None and not (
        folder.is_dir() and len(list(folder.glob("part-*"))) >= count
    ):
        time.sleep(0.02)


@pytest.fixture(scope="module")
def clean(large: Any, tmp_path_factory: pytest.TempPathFactory) -> dict:
    result = tmp_path_factory.mktemp("clean") / "result.json"
    finished(start(large, result, "--run", "processes:1"))
    return numbers(result)


@pytest.mark.slow
def test_killed_ten_times_and_resumed_an_audit_ends_as_if_nothing_had_happened(
    large, clean, tmp_path
):
    result = tmp_path / "result.json"
    folder = tmp_path / "result.json.journal"
    moments = random.Random(20210330)
    kills = 0
    for _ in range(10):
        process = start(large, result, "--run", "processes:0", "--resume", steps=24)
        before = len(list(folder.glob("part-*"))) if folder.is_dir() else 0
        # Anywhere between starting Python and the next few pieces.
        wait_for_parts(folder, process, min(before + moments.randrange(3), 20))
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    if not result.exists():
        finished(start(large, result, "--run", "processes:2", "--resume"))
    assert kills >= 5
    assert numbers(result) == clean
    assert not folder.exists()


@pytest.mark.slow
def test_ctrl_c_leaves_a_state_that_can_be_resumed(large, clean, tmp_path):
    result = tmp_path / "result.json"
    folder = tmp_path / "result.json.journal"
    process = start(large, result, "--run", "processes:2", start_new_session=True)
    wait_for_parts(folder, process, 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everyone gets it
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with --resume" in stderr
    assert "Traceback" not in stderr
    finished(start(large, result, "--run", "processes:2", "--resume"))
    assert numbers(result) == clean


@pytest.mark.slow
def test_a_quota_that_is_hit_is_one_sentence_and_can_be_resumed(large, clean, tmp_path):
    result = tmp_path / "result.json"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    process = start(large, result, "--run", "processes:0", preexec_fn=small_files)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 2, stderr
    (line,) = [line for line in stderr.splitlines() if line.startswith("Error")]
    assert "cannot be written" in line
    assert "continue with --resume" in line
    assert "Traceback" not in stderr
    finished(start(large, result, "--run", "processes:0", "--resume"))
    assert numbers(result) == clean


def test_a_truncated_file_among_good_ones_is_named_before_anybody_is_moved(world, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(world.folder, folder)
    bad = folder / "part-2.parquet"
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
    with pytest.raises(InvalidFile, match=r"part-2\.parquet.*cannot be read"):
        likewise.audit(
            world.model,
            sorted(folder.glob("part-*.parquet")),
            metric=world.metric,
            settings=world.settings,
            store=likewise.Folder(tmp_path / "journal"),
        )
    assert not (tmp_path / "journal").exists()


def audit(world: Any, **how):
    return likewise.audit(
        world.model, world.files, metric=world.metric, settings=world.settings, **how
    ).record


@pytest.mark.slow
def test_a_lost_worker_is_replaced_and_its_people_are_not_lost(world, monkeypatch, tmp_path):
    monkeypatch.setattr("likewise.engine.plan.block_size", lambda d: 256)
    expected = audit(world)
    killed = []

    def progress(what: str, done: int, total: int) -> None:
        if what == "moving people" and done > 0 and not killed:
            victim = multiprocessing.active_children()[0]
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    store = likewise.Folder(tmp_path / "journal")
    found = audit(world, run=likewise.Processes(2), store=store, progress=progress)
    assert killed
    exclude = {"created", "seconds"}
    assert repr(found.model_dump(exclude=exclude)) == repr(expected.model_dump(exclude=exclude))


@pytest.fixture(scope="module")
def few(make_world: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Seven blocks of people, and what an audit of them finds."""
    world = make_world(tmp_path_factory.mktemp("few"), n=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("likewise.engine.plan.block_size", lambda d: 64)
        yield world, audit(world, run=likewise.Inline())


@pytest.mark.parametrize(("column", "value"), [("y", 1), ("y", 7), ("group", "violet")], ids=str)
def test_data_that_change_under_an_audit_are_noticed_and_it_goes_on_when_restored(
    few, tmp_path, column, value
):
    world, expected = few
    folder, last = tmp_path / "journal", Path(world.files[-1])
    good = last.read_bytes()

    def change(what: str, done: int, total: int) -> None:
        if what == "moving people" and last.read_bytes() == good:
            table = pq.read_table(last)
            values = table[column].to_pylist()
            # A label that occurs, but not here; or a value that the survey has never seen.
            values[-1] = 1 - values[-1] if value == 1 else value
            place = table.column_names.index(column)
            pq.write_table(table.set_column(place, column, pa.array(values)), last)

    with pytest.raises(InvalidData, match=r"changed while they were audited\..*--resume"):
        audit(world, run=likewise.Inline(), store=likewise.Folder(folder), progress=change)
    last.write_bytes(good)
    found = audit(world, run=likewise.Inline(), store=likewise.Folder(folder, resume=True))
    exclude = {"created", "seconds"}
    assert repr(found.model_dump(exclude=exclude)) == repr(expected.model_dump(exclude=exclude))
