"""Workers as processes of this machine: one thread each, replaced when they die."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Iterator
from typing import Any, final

from typing_extensions import override

from likewise.errors import LikewiseError, in_short
from likewise.scale.crew import Answer, Crew, Job, attempt

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Worker:
    """A process, the pipe to it, and the number of the task it has."""

    def __init__(self, job: Job) -> None:
        # Spawned, never forked: a fork would copy the threads of libraries half-dead.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        with _one_thread_inherited():
            self.process.start()
        theirs.close()
        self.number: int | None = None

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


@final
class Processes(Crew):
    """Local processes; the job begins once in each."""

    def __init__(self, job: Job, size: int) -> None:
        self.size = size
        self._job = job
        self._workers = [_Worker(job) for _ in range(size)]

    @property
    def ids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    @override
    def submit(self, number: int, content: Any) -> None:
        worker = next(worker for worker in self._workers if worker.number is None)
        worker.number = number
        # A worker that is already dead is found in wait(), where its task is given back.
        with contextlib.suppress(OSError):
            worker.pipe.send((number, content))

    @override
    def wait(self) -> list[Answer]:
        busy = {worker.pipe: worker for worker in self._workers if worker.number is not None}
        ready = multiprocessing.connection.wait(list(busy))
        return [self._receive(busy[pipe]) for pipe in ready]  # type: ignore[index]

    def _receive(self, worker: _Worker) -> Answer:
        number = worker.number
        assert number is not None
        worker.number = None
        try:
            answer: Answer = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            code = worker.process.exitcode
            worker.end()
            self._workers[self._workers.index(worker)] = _Worker(self._job)
            return Answer(number, failure=f"its process ended with code {code}")
        return answer

    @override
    def close(self) -> None:
        for worker in self._workers:
            worker.end()


def _serve(pipe: Any, job: Job) -> None:
    """Answer tasks until the other end is gone."""
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    refusal: LikewiseError | None = None
    failure = ""
    try:
        work = job.begin()
    except LikewiseError as error:
        refusal = error
    except Exception as error:
        failure = in_short(error)
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, content = pipe.recv()
            if refusal is not None or failure:
                pipe.send(Answer(number, error=refusal, failure=failure))
            else:
                pipe.send(attempt(work, number, content))
            del content


@contextlib.contextmanager
def _one_thread_inherited() -> Iterator[None]:
    """Let a child that starts now find one thread a library in its environment."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
