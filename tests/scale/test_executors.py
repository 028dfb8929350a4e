"""Wherever work is done: the same answers, nothing lost, an end in a sentence."""

import dataclasses
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import CostWarning, InvalidData, InvalidSettings, Untrustworthy
from likewise.scale import process_pool
from likewise.scale.executors import Inline, Threads
from likewise.scale.process_pool import Processes
from likewise.scale.ray_pool import Ray

EXECUTORS = [Inline(), Threads(3), Processes(2)]


@dataclasses.dataclass(frozen=True)
class Square:
    """Squares the first block of a task; counts in a folder how often it began."""

    folder: Path | None = None

    def begin(self) -> Callable[[range], float]:
        if self.folder is not None:
            (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        return lambda task: float(task.start) ** 2


@dataclasses.dataclass(frozen=True)
class Moody:
    """Fails at task 3, as often as there are no marks in a folder yet."""

    folder: Path
    failures: int
    how: str

    def begin(self) -> Callable[[range], int]:
        def work(task: range) -> int:
            if task.start == 3 and len(list(self.folder.iterdir())) < self.failures:
                (self.folder / str(time.monotonic_ns())).touch()
                if self.how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.how == "refuse":
                    raise InvalidData("Row 3 is bad.")
                raise RuntimeError("the wire was cut")
            return task.start

        return work


@dataclasses.dataclass(frozen=True)
class Sleeping:
    """Says that it began, and sleeps."""

    mark: Path

    def begin(self) -> Callable[[range], None]:
        def work(task: range) -> None:
            self.mark.touch()
            time.sleep(600)

        return work


@dataclasses.dataclass(frozen=True)
class DiesAtStart:
    def begin(self) -> Callable[[range], int]:
        os._exit(7)


@dataclasses.dataclass(frozen=True)
class RefusesAtStart:
    def begin(self) -> Callable[[range], int]:
        raise InvalidData("There is no model.")


@dataclasses.dataclass(frozen=True)
class CountsThreads:
    def begin(self) -> Callable[[range], list[int]]:
        import threadpoolctl

        np.zeros((2, 2)) @ np.zeros((2, 2))
        return lambda task: [lib["num_threads"] for lib in threadpoolctl.threadpool_info()]


def tasks(n: int) -> list[range]:
    return [range(k, k + 1) for k in range(n)]


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_every_task_is_answered_once(run, tmp_path):
    done = list(run.map(Square(tmp_path), iter(tasks(20))))
    assert sorted((task.start, answer) for task, answer in done) == [
        (k, float(k) ** 2) for k in range(20)
    ]
    workers = {"Inline": 1, "Threads": 3, "Processes": 2}[type(run).__name__]
    assert 1 <= len(list(tmp_path.iterdir())) <= workers


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_without_tasks_nothing_begins(run, tmp_path):
    assert list(run.map(Square(tmp_path), [])) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_what_fails_twice_is_done_the_third_time(run, tmp_path):
    done = dict(run.map(Moody(tmp_path, 2, "raise"), tasks(6)))
    assert done == {task: task.start for task in tasks(6)}


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_what_fails_three_times_ends_the_run_with_code_3(run, tmp_path):
    with pytest.raises(Untrustworthy, match=r"Block 3 failed 3 times .*the wire was cut") as caught:
        list(run.map(Moody(tmp_path, 9, "raise"), tasks(6)))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_a_refusal_is_not_tried_again(run, tmp_path):
    with pytest.raises(InvalidData, match="Row 3 is bad"):
        list(run.map(Moody(tmp_path, 9, "refuse"), tasks(6)))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_process_is_replaced_and_nothing_is_lost(tmp_path):
    done = dict(Processes(2).map(Moody(tmp_path, 3, "kill"), tasks(8)))
    assert done == {task: task.start for task in tasks(8)}


def test_a_task_that_kills_every_process_ends_the_run(tmp_path):
    with pytest.raises(Untrustworthy, match=r"Block 3 failed 3 times .*process was lost"):
        list(Processes(2).map(Moody(tmp_path, 99, "kill"), tasks(8)))


def test_workers_that_die_at_start_up_end_the_run_by_themselves():
    with pytest.raises(Untrustworthy, match="process was lost") as caught:
        list(Processes(2).map(DiesAtStart(), tasks(8)))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("run", [Inline(), Threads(2), Processes(2)], ids=repr)
def test_workers_that_refuse_at_start_up_say_why(run):
    with pytest.raises(InvalidData, match="There is no model"):
        list(run.map(RefusesAtStart(), tasks(8)))


def test_libraries_of_a_worker_have_one_thread():
    for run in (Inline(), Threads(2), Processes(1)):
        for _, found in run.map(CountsThreads(), tasks(2)):
            assert set(found) == {1}


def test_a_job_that_cannot_travel_is_refused():
    class Local(Square):
        pass

    with pytest.raises(InvalidSettings, match="cannot be sent"):
        list(Processes(1).map(Local(), tasks(2)))


def test_too_much_memory_ends_the_run():
    for run in (Inline(max_memory=1000), Processes(1, max_memory=1000)):
        with pytest.raises(InvalidSettings, match="more than --run allows"):
            list(run.map(Square(), tasks(2)))


def test_fewer_than_one_worker_is_refused():
    for kind in (Threads, Processes):
        with pytest.raises(InvalidSettings, match="at least one worker"):
            kind(0)


SCRIPT = """
    import dataclasses, os, sys, time
    from likewise.scale.process_pool import Processes

    @dataclasses.dataclass
    class Slow:
        def begin(self):
            def work(task):
                with open(sys.argv[1], "a") as file:
                    file.write(f"{os.getpid()}\\n")
                time.sleep(60)
            return work

    if __name__ == "__main__":
        try:
            list(Processes(2).map(Slow(), [range(k, k + 1) for k in range(4)]))
        except KeyboardInterrupt:
            sys.exit(130)
"""


def start(tmp_path, *, wait_for: int):
    """Start two slow workers in a group of their own; return the process and the workers' ids."""
    (tmp_path / "slow.py").write_text(textwrap.dedent(SCRIPT))
    names = tmp_path / "ids"
    names.touch()
    command = [sys.executable, str(tmp_path / "slow.py"), str(names)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(names.read_text().split()) < wait_for:
        assert process.poll() is None
        time.sleep(0.05)
    return process, [int(name) for name in names.read_text().split()]


def gone(ids, seconds=20):
    """Tell whether all processes are gone, or will be soon."""
    for _ in range(seconds * 10):
        alive = [k for k in ids if Path(f"/proc/{k}").exists() and not zombie(k)]
        if not alive:
            return True
        time.sleep(0.1)
    return False


def zombie(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    process, ids = start(tmp_path, wait_for=2)
    process.kill()
    process.communicate()
    assert gone(ids)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("early", [False, True])
def test_control_c_ends_all_without_a_word(tmp_path, early):
    process, ids = start(tmp_path, wait_for=0 if early else 2)
    if early:  # while workers start and import
        time.sleep(1.2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    if not early:
        assert process.returncode == 130
        assert said == ""
    assert "SpawnProcess" not in said
    assert gone(ids)


@pytest.mark.slow
def test_ray_gives_the_same_answers_and_warns(tmp_path):
    pytest.importorskip("ray")
    with pytest.warns(CostWarning, match="firewall"):
        done = dict(Ray(workers=2).map(Square(), tasks(10)))
    assert done == {task: float(task.start) ** 2 for task in tasks(10)}
    with pytest.warns(CostWarning), pytest.raises(InvalidData, match="no model"):
        list(Ray(workers=1).map(RefusesAtStart(), tasks(2)))
    with pytest.warns(CostWarning):
        done = dict(Ray(workers=2).map(Moody(tmp_path, 1, "kill"), tasks(6)))
    assert done == {task: task.start for task in tasks(6)}


def half_a_reply(pool):
    """Leave what a worker leaves that is killed while it writes: a length, and no content."""
    os.write(pool._pool._result_queue._writer.fileno(), struct.pack("!i", 1000) + b"half")


@pytest.mark.parametrize("killed", [False, True])
def test_half_a_reply_of_a_killed_worker_is_not_waited_for(tmp_path, monkeypatch, killed):
    monkeypatch.setattr(process_pool, "PATIENCE", 0.2)
    with process_pool._Pool(pickle.dumps(Sleeping(tmp_path / "began")), 1) as pool:
        under_way = [pool.submit(range(1))]
        while not (tmp_path / "began").exists():
            time.sleep(0.02)
        half_a_reply(pool)
        if killed:
            for process in multiprocessing.active_children():
                process.kill()
            (future,) = pool.first_done(under_way)
            assert pool.reply(future) is process_pool.LOST
    # Without this, the end of the pool, or of Python, would never come.
    assert not multiprocessing.active_children()
