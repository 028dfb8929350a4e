"""Wherever work is done: the same answers, nothing lost, an end in a sentence."""

import dataclasses
import gc
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from likewise.errors import (
    InvalidData,
    InvalidModel,
    InvalidSettings,
    LikewiseWarning,
    Untrustworthy,
)
from likewise.run.executors import Inline, Processes, Ray, Threads, run_blocks

EXECUTORS = [Inline(), Threads(3), pytest.param(Processes(2), marks=pytest.mark.slow)]


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
                if self.how == "half":  # killed as it writes its reply: a length, and no content
                    (end,) = (e for e in gc.get_objects() if type(e) is Connection)
                    os.write(end.fileno(), struct.pack("!i", 1000) + b"half")
                if self.how in ("kill", "half"):
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.how == "leave":
                    sys.exit(0)
                if self.how == "refuse":
                    raise InvalidData("Row 3 is bad.")
                raise RuntimeError("the wire was cut")
            return task.start

        return work


@dataclasses.dataclass(frozen=True)
class Endless:
    """Works for two minutes, as a block with very many steps does."""

    def begin(self) -> Callable[[range], None]:
        def work(task: range) -> None:
            end = time.monotonic() + 120
            while time.monotonic() < end:
                time.sleep(0.001)

        return work


def test_an_interrupt_ends_threads_that_are_at_work():
    def interrupted():
        with Threads(2).pool(Endless()) as pool:
            pool.submit(range(1))
            time.sleep(0.3)
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < 30


@dataclasses.dataclass(frozen=True)
class FailsAtStart:
    dies: bool = False

    def begin(self) -> Callable[[range], int]:
        if self.dies:
            os._exit(7)
        raise InvalidData("There is no model.")


@dataclasses.dataclass(frozen=True)
class CountsThreads:
    def begin(self) -> Callable[[range], list[int]]:
        import threadpoolctl

        np.zeros((2, 2)) @ np.zeros((2, 2))
        return lambda task: [lib["num_threads"] for lib in threadpoolctl.threadpool_info()]


def tasks(n: int) -> list[range]:
    return [range(k, k + 1) for k in range(n)]


def outcome(run, job):
    """Return what became of eight tasks: all answers, or the error."""
    try:
        return {task.start: answer for task, answer in run.map(job, iter(tasks(8)))}
    except (Untrustworthy, InvalidData, InvalidModel) as error:
        return error


@pytest.mark.parametrize("run", EXECUTORS, ids=repr)
def test_every_task_is_answered_once_or_the_run_ends_in_a_sentence(run, tmp_path):
    def failing(times, how):
        (tmp_path / how).mkdir()
        return outcome(run, Moody(tmp_path / how, times, how))

    begun = tmp_path / "begun"
    begun.mkdir()
    assert list(run.map(Square(begun), [])) == []
    assert not list(begun.iterdir())
    assert outcome(run, Square(begun)) == {k: float(k) ** 2 for k in range(8)}
    workers = {"Inline": 1, "Threads": 3, "Processes": 2}[type(run).__name__]
    assert 1 <= len(list(begun.iterdir())) <= workers
    assert failing(2, "raise") == {k: k for k in range(8)}
    for job in (*(tmp_path / "raise").iterdir(),):
        job.unlink()
    lost = outcome(run, Moody(tmp_path / "raise", 9, "raise"))
    assert re.search("Block 3 failed 3 times .*the wire was cut", str(lost))
    assert lost.exit_code == 3
    assert "Row 3 is bad" in str(failing(9, "refuse"))
    assert len(list((tmp_path / "refuse").iterdir())) == 1  # it is not tried again
    assert "The model called sys.exit(0)" in str(failing(9, "leave"))
    assert "There is no model" in str(outcome(run, FailsAtStart()))


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_one_that_is_always_killed_ends_the_run(tmp_path):
    for times in (2, 99):
        (tmp_path / str(times)).mkdir()
    found = outcome(Processes(2), Moody(tmp_path / "2", 2, "half"))
    assert found == {k: k for k in range(8)}
    always = outcome(Processes(2), Moody(tmp_path / "99", 99, "kill"))
    assert re.search("Block 3 failed 3 times .*process was lost", str(always))
    assert outcome(Processes(2), FailsAtStart(dies=True)).exit_code == 3


OPENMP = """
import sklearn.ensemble
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as threads
from likewise.run.executors import Inline, Threads

class Ask:
    def begin(self):
        return lambda task: threads()

print(threads(), *(n for run in (Inline(), Threads(2)) for _, n in run.map(Ask(), [range(2)])))
"""


@pytest.mark.slow
def test_libraries_of_a_worker_have_one_thread():
    for run in (Inline(), Threads(2), Processes(1)):
        for _, found in run.map(CountsThreads(), tasks(2)):
            assert set(found) == {1}
    # OpenMP counts threads for each caller apart.
    two = {**os.environ, "OMP_NUM_THREADS": "2"}
    said = subprocess.run(
        [sys.executable, "-P", "-c", OPENMP], env=two, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["2", "1", "1"]


def test_what_cannot_be_run_is_refused():
    class Local(Square):
        pass

    with pytest.raises(InvalidSettings, match="cannot be sent"):
        list(Processes(1).map(Local(), tasks(2)))
    for run in (Inline(max_memory=1000), Processes(1, max_memory=1000)):
        with pytest.raises(InvalidSettings, match="more than --run allows"):
            list(run.map(Square(), tasks(2)))
    for kind in (Threads, Processes):
        with pytest.raises(InvalidSettings, match="at least one worker"):
            kind(0)


SCRIPT = """
    import dataclasses, os, sys, time
    from likewise.run.executors import Processes

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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_workers_end_with_a_killed_parent(tmp_path, ended):
    process, ids = start(tmp_path, wait_for=2)
    process.kill()
    process.communicate()
    assert all(map(ended, ids))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("early", [False, True])
def test_control_c_ends_all_without_a_word(tmp_path, ended, early):
    process, ids = start(tmp_path, wait_for=0 if early else 2)
    if early:  # while workers start and import
        time.sleep(1.2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    if not early:
        assert process.returncode == 130
        assert said == ""
    assert "SpawnProcess" not in said
    assert all(map(ended, ids))


@pytest.mark.slow
def test_ray_gives_the_same_answers_and_warns(tmp_path):
    pytest.importorskip("ray")
    with pytest.warns(LikewiseWarning, match="firewall"):
        done = dict(Ray(workers=2).map(Square(), tasks(10)))
    assert done == {task: float(task.start) ** 2 for task in tasks(10)}
    with pytest.warns(LikewiseWarning), pytest.raises(InvalidData, match="no model"):
        list(Ray(workers=1).map(FailsAtStart(), tasks(2)))
    with pytest.warns(LikewiseWarning):
        done = dict(Ray(workers=2).map(Moody(tmp_path, 1, "kill"), tasks(6)))
    assert done == {task: task.start for task in tasks(6)}


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_come_in_order_with_the_same_digits_and_settings_are_restored(threads, rng):
    import torch  # not at the top: processes import this file

    a, x = rng.normal(size=(300, 300)), rng.normal(size=(500, 300))
    found = []

    def block(rows):
        time.sleep(0.01 if rows.start % 128 == 0 else 0)  # later blocks finish first
        found.append((torch.get_num_threads(), *pools()))
        return np.tanh(x[rows] @ a) @ a.T

    def pools():
        about = threadpoolctl.threadpool_info()
        return {pool["num_threads"] for pool in about if pool["user_api"] == "blas"}

    torch.set_num_threads(2)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        more = np.concatenate(run_blocks(block, 500, size=64, threads=threads))
        assert pools() == {2}
    assert set(found) == {(1, 1)}
    assert torch.get_num_threads() == 2
    assert np.array_equal(more, np.concatenate(run_blocks(block, 500, size=64)))
    assert run_blocks(block, 0, size=10, threads=threads) == []
