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
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import likewise
from likewise.errors import InvalidFile, Untrustworthy
from likewise.scale.journal import Journal
from likewise.streaming import Means, audit_stream

RUN = """
import sys
import likewise.scale.memory as memory
memory.MOST_BLOCKS = 1   # pieces of one block, so that a small table has many
from likewise.cli import main
sys.argv[0] = "likewise"
main()
"""


@pytest.fixture(scope="module")
def large(make_world: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As many people as ten blocks hold, and a bit."""
    world = make_world(tmp_path_factory.mktemp("large"), n=42_000)
    likewise.save_metric(world.metric, world.folder / "metric.safetensors")
    return world


def start(world: Any, result: Path, *more: str, steps: int = 24, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", RUN, "audit", world.model, *world.files]
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


def wait_for_pieces(folder: Path, process: subprocess.Popen, count: int) -> None:
    while process.poll() is None and not (
        folder.is_dir() and len(list(folder.glob("piece-*"))) >= count
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
        before = len(list(folder.glob("piece-*"))) if folder.is_dir() else 0
        # Anywhere between starting Python and the next few pieces.
        wait_for_pieces(folder, process, min(before + moments.randrange(3), 10))
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
    wait_for_pieces(folder, process, 2)
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
        audit_stream(
            world.model,
            sorted(folder.glob("part-*.parquet")),
            metric=world.metric,
            settings=world.settings,
            journal=tmp_path / "journal",
        )
    assert not (tmp_path / "journal").exists()


def audit(world: Any, **more):
    known = {"means": Means(piece_rows=256, workers=2), **more}
    return audit_stream(
        world.model, world.files, metric=world.metric, settings=world.settings, **known
    )


@pytest.mark.slow
def test_a_lost_worker_is_replaced_and_its_people_are_not_lost(world):
    expected = audit(world, means=Means(piece_rows=256))
    killed = []

    def progress(what: str, done: int, total: int) -> None:
        if what == "moving people" and done > 0 and not killed:
            victim = multiprocessing.active_children()[0]
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    found = audit(world, progress=progress)
    assert killed
    exclude = {"created", "seconds"}
    assert repr(found.model_dump(exclude=exclude)) == repr(expected.model_dump(exclude=exclude))


@pytest.mark.slow
def test_workers_that_always_die_end_the_audit_with_the_rows_they_died_on(world, tmp_path):
    over = threading.Event()

    def kill_everyone() -> None:
        while not over.is_set():
            for child in multiprocessing.active_children():
                child.kill()
            time.sleep(0.05)

    killer = threading.Thread(target=kill_everyone)
    killer.start()
    try:
        with pytest.raises(Untrustworthy, match=r"Rows \d+ to \d+ failed 3 times.*code -9"):
            audit(world, journal=tmp_path / "journal")
    finally:
        over.set()
        killer.join()
    assert Journal.begun(tmp_path / "journal")  # it can still be resumed


@pytest.mark.slow
def test_ray_gives_the_same_numbers_and_replaces_a_worker_that_is_killed(world, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (likewise[ray])")
    from likewise.scale.ray_crew import RayCrew

    expected = audit(world, means=Means(piece_rows=256))
    killed = []
    submit = RayCrew.submit

    def submit_and_kill(self, number, content):
        if number == 4 and not killed:
            killed.append(self.process_ids()[-1])
            os.kill(killed[0], signal.SIGKILL)
        submit(self, number, content)

    monkeypatch.setattr(RayCrew, "submit", submit_and_kill)
    with pytest.warns(likewise.LikewiseWarning, match="Ray"):
        found = audit(world, means=Means(piece_rows=256, workers=2, ray="local"))
    assert killed
    exclude = {"created", "seconds", "warnings"}
    assert repr(found.model_dump(exclude=exclude)) == repr(expected.model_dump(exclude=exclude))
