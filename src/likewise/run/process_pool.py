"""Workers as processes of this machine, replaced when they die."""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from likewise.errors import InvalidSettings, in_short
from likewise.files import TemporaryFolder
from likewise.run.executors import (
    Executor,
    Job,
    Pool,
    Reply,
    Worker,
    check_workers,
    child_environment,
    processors,
)


@final
@dataclasses.dataclass(frozen=True)
class Processes(Executor):
    """Processes of this machine, one thread each; the job begins once in each.

    A process that dies is replaced, and its task tried again.

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
        try:
            content = pickle.dumps(job)
        except Exception as error:
            raise InvalidSettings(
                f"The work cannot be sent to other processes ({in_short(error)}). Save the model "
                "to a file and name that, or run in threads."
            ) from None
        # In a file: through a pipe it would have to wait until each process has started.
        with TemporaryFolder() as folder:
            path = Path(folder) / "job"
            path.write_bytes(content)
            pool = _ProcessPool(path, self.processes)
            try:
                yield pool
            finally:
                pool.end()


class _ProcessPool(Pool):
    """Processes with a pipe each: if one closes, it is known whose task was lost."""

    def __init__(self, job: Path, size: int) -> None:
        self.room = size
        self._job = job
        self._idle: list[tuple[Connection, Any]] = []
        self._busy: dict[Connection, Any] = {}

    @override
    def submit(self, task: Any) -> Any:
        end, process = self._idle.pop() if self._idle else self._start()
        with contextlib.suppress(OSError):  # it is gone, as will be seen when it is to reply
            end.send(task)
        self._busy[end] = process
        return end

    def _start(self) -> tuple[Connection, Any]:
        # Spawned, never forked: a fork would copy the threads of libraries half-dead.
        context = multiprocessing.get_context("spawn")
        own, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._job), daemon=True)
        # No Ctrl-C as it starts; the parent's own waits a moment, and is not lost.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with child_environment(), theirs:
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return own, process

    @override
    def first_done(self, futures: Iterable[Any]) -> Iterable[Any]:
        return multiprocessing.connection.wait(list(futures))

    @override
    def reply(self, future: Any) -> Reply:
        process = self._busy.pop(future)
        try:
            reply: Reply = future.recv()
        except (EOFError, OSError):
            _end(future, process)
            return Reply(failure="its process was lost")
        self._idle.append((future, process))
        return reply

    def end(self) -> None:
        """End all processes, whatever they are doing."""
        for end, process in (*self._idle, *self._busy.items()):
            _end(end, process)


def _end(end: Connection, process: Any) -> None:
    process.kill()
    process.join()
    end.close()


def _work(end: Connection, job: Path) -> None:
    """Answer tasks, in a process of its own."""
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Unpacked with the first task: what goes wrong is then said.
    worker = Worker(lambda: pickle.loads(job.read_bytes()).begin(), whole=True)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            end.send(worker.answer(end.recv()))


def _end_with_parent() -> None:
    """End this process when its parent is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
