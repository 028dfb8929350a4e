"""Workers as processes of this machine, replaced when they die."""

import concurrent.futures
import contextlib
import dataclasses
import mmap
import multiprocessing
import multiprocessing.connection
import multiprocessing.reduction
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, final

from typing_extensions import override

from likewise.errors import InvalidSettings, in_short
from likewise.run.executors import (
    LOST,
    Executor,
    Job,
    Pool,
    Reply,
    Work,
    Worker,
    check_workers,
    child_environment,
    processors,
)

PATIENCE = 10.0
"""Seconds without any reply after which it is looked whether processes are alive."""


@final
@dataclasses.dataclass(frozen=True)
class Processes(Executor):
    """Processes of this machine, one thread each; the job begins once in each.

    When a process dies, all of them are replaced. Nobody can tell whose task killed it, so the
    tasks under way are tried again one at a time; a task during which processes die three times
    while it is alone (at start-up, for one) ends the run.

    Parameters
    ----------
    workers
        How many; by default as many as there are processors to use.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    @property
    @override
    def processes(self) -> int:
        return self.workers or processors()

    @override
    @contextlib.contextmanager
    def pool(self, job: Job) -> Iterator[Pool]:
        pool = ProcessPool(job, self.processes)
        try:
            yield pool
        finally:
            pool.end()


class _JobFile:
    """A job in a file without a name, which every worker reads for itself.

    Among the arguments of a process it would go through a pipe, which nobody empties if that
    process is killed as it starts: this one would wait for ever.
    """

    def __init__(self, content: bytes) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the pool
        self._file.write(content)
        self._file.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_job, (multiprocessing.reduction.DupFd(self._file.fileno()),)


def _read_job(file: Any) -> bytes:
    with (
        open(file.detach(), "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content[:]


class ProcessPool(Pool):
    """Processes that are started as they are needed, and all anew after one was lost."""

    def __init__(self, job: Job, size: int) -> None:
        self.room = 2 * size
        self._job, self._size = _JobFile(_packed(job)), size
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None

    def end(self) -> None:
        """End all processes, whatever they are doing."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for process in self._running(pool):
            process.kill()
        # One that was killed while it wrote leaves half a reply, and whoever reads it would wait
        # for the rest: with this last writer gone, there is none to wait for.
        if (replies := getattr(pool, "_result_queue", None)) is not None:
            replies._writer.close()
        pool.shutdown(wait=True, cancel_futures=True)

    @override
    def first_done(self, futures: Iterable[Any]) -> Iterable[Any]:
        first = concurrent.futures.FIRST_COMPLETED
        while not (done := concurrent.futures.wait(futures, PATIENCE, first).done):
            # A lost process is noticed at once, unless it left half a reply.
            if any(process.exitcode is not None for process in self._running(self._pool)):
                self.end()
        return done

    @staticmethod
    def _running(pool: concurrent.futures.ProcessPoolExecutor | None) -> list[Any]:
        return list((getattr(pool, "_processes", None) or {}).values())

    @override
    def submit(self, task: Any) -> Any:
        # Spawned, never forked: a fork would copy the threads of libraries half-dead.
        with _starting():
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = concurrent.futures.ProcessPoolExecutor(
                    self._size, context, initializer=_begin, initargs=(self._job,)
                )
            try:
                return self._pool.submit(_answer, task)
            except BrokenProcessPool as error:  # it broke since the last reply
                future: concurrent.futures.Future[Reply] = concurrent.futures.Future()
                future.set_exception(error)
                return future

    @override
    def reply(self, future: Any) -> Reply:
        try:
            return super().reply(future)
        except (BrokenProcessPool, concurrent.futures.CancelledError):
            self.end()
            return LOST


@dataclasses.dataclass(frozen=True)
class _PackedJob:
    """A job that is unpacked in its worker: what goes wrong is said when the first task comes."""

    content: bytes

    def begin(self) -> Work:
        """Begin the job."""
        job: Job = pickle.loads(self.content)
        return job.begin()


_worker: Worker


def _begin(content: Any) -> None:
    """Prepare a process."""
    global _worker
    if os.name == "posix":
        # Ctrl-C reaches the whole process group; the parent decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = Worker(_PackedJob(content), whole=True)


def _answer(task: Any) -> Reply:
    return _worker.answer(task)


def _end_with_parent() -> None:
    """End this process when its parent is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _packed(job: Job) -> bytes:
    try:
        return pickle.dumps(job)
    except Exception as error:
        raise InvalidSettings(
            f"The work cannot be sent to other processes ({in_short(error)}). Save the model to a "
            "file and name that, or run in threads."
        ) from None


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Let a process that starts now have its own environment, and no Ctrl-C.

    The parent's own Ctrl-C waits a moment, and is not lost.
    """
    posix = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if posix else set()
    try:
        with child_environment():
            yield
    finally:
        if posix:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
