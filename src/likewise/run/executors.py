"""Where work is done: here, in threads, in processes, on Ray. None of it changes a result.

A job travels to its workers once; then tasks go out and answers come back, in any order. Both
should be small: a range of block numbers, a few sums.
"""

import abc
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import re
import resource
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, final, runtime_checkable

import threadpoolctl
from typing_extensions import override

from likewise.errors import InvalidModel, InvalidSettings, LikewiseError, Untrustworthy, in_short

ATTEMPTS = 3
"""How often a task is tried before the run gives up."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
ENVIRONMENT = {**dict.fromkeys(THREADS, "1"), "PYTHONSAFEPATH": "1"}
"""One thread a library; and no import from the current folder, which anybody may have written."""

Work = Callable[[Any], Any]


@runtime_checkable
class Job(Protocol):
    """What every worker does; it must be picklable for workers in other processes."""

    def begin(self) -> Work:
        """Prepare once a worker (open a model, say), and return what answers a task."""
        ...


@dataclasses.dataclass(frozen=True)
class Reply:
    """What became of one attempt at a task.

    Parameters
    ----------
    answer
        What the job returned.
    refusal
        What was raised on purpose: it would be raised again, so nobody tries again.
    failure
        Why the attempt failed otherwise, in words; worth another attempt.
    memory
        Most bytes that the worker's process has held so far.
    """

    answer: Any = None
    refusal: LikewiseError | None = None
    failure: str = ""
    memory: int = 0


@dataclasses.dataclass(frozen=True)
class Executor(abc.ABC):
    """Workers that answer tasks.

    Parameters
    ----------
    max_memory
        Bytes that all processes of this machine together may take.
    """

    max_memory: int | None = dataclasses.field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def processes(self) -> int:
        """Processes of this machine beside this one."""

    @abc.abstractmethod
    def map(self, job: Job, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield every task with the job's answer, as they are done.

        What fails is tried again; at the third failure of a task the run ends, since a smaller
        sample in silence would be worse.
        """

    def accept(self, task: Any, reply: Reply, failures: collections.Counter[Any]) -> bool:
        """Tell whether a task is answered; raise what must end the run."""
        if reply.refusal is not None:
            raise reply.refusal
        if reply.failure:
            failures[task] += 1
            if failures[task] >= ATTEMPTS:
                raise Untrustworthy(
                    f"{_named(task)} failed {ATTEMPTS} times (last: {reply.failure}). Nobody is "
                    "left out in silence, so there is no result; what is done so far is kept."
                )
            return False
        taken = peak_memory() + self.processes * reply.memory
        if self.max_memory is not None and taken > self.max_memory:
            raise InvalidSettings(
                f"The audit took {taken / 2**20:.0f} MB, more than --run allows "
                f"({self.max_memory / 2**20:.0f} MB). What is done is kept: continue with "
                "--resume and fewer workers, or allow more."
            )
        return True


@final
@dataclasses.dataclass(frozen=True)
class Inline(Executor):
    """No workers at all: everything is done here, one task after another."""

    @property
    @override
    def processes(self) -> int:
        return 0

    @override
    def map(self, job: Job, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        failures: collections.Counter[Any] = collections.Counter()
        work: Work | None = None
        for task in tasks:
            with single_threaded():
                work = work or job.begin()
                while not self.accept(task, reply := attempt(work, task), failures):
                    pass
            yield task, reply.answer


@final
@dataclasses.dataclass(frozen=True)
class Threads(Executor):
    """Threads of this process; the job begins once in each.

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
        return 0

    @override
    def map(self, job: Job, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        own = threading.local()

        def answer(task: Any) -> Reply:
            if not hasattr(own, "work"):
                own.work = job.begin()
            return attempt(own.work, task)

        size = self.workers or processors()
        with single_threaded():
            pool = concurrent.futures.ThreadPoolExecutor(
                size, thread_name_prefix="likewise", initializer=_calm_torch
            )
            try:
                yield from self._all(pool, answer, tasks, size)
            finally:
                # Also on an error or Ctrl-C: what has not begun is dropped, the rest waited for.
                pool.shutdown(wait=True, cancel_futures=True)

    def _all(
        self, pool: Any, answer: Callable[[Any], Reply], tasks: Iterable[Any], size: int
    ) -> Iterator[tuple[Any, Any]]:
        failures: collections.Counter[Any] = collections.Counter()
        waiting = iter(tasks)
        under_way: dict[Any, Any] = {}
        following = next(waiting, None)
        while following is not None or under_way:
            while following is not None and len(under_way) < 2 * size:
                under_way[pool.submit(answer, following)] = following
                following = next(waiting, None)
            for future in first_done(under_way):
                task = under_way.pop(future)
                reply = future.result()
                if self.accept(task, reply, failures):
                    yield task, reply.answer
                else:
                    under_way[pool.submit(answer, task)] = task


T = TypeVar("T")

CACHE = 2**19
"""Numbers of a block's feature matrix that the processor's cache bears."""


def block_size(d: int) -> int:
    """Return the number of rows in a block, which suits the cache.

    Not a power of two: columns a power of two apart fall on one another in the cache, and matrix
    products take up to a third longer. It depends on the number of features alone, never on
    threads or memory, so that blocks, and with them the last digits of every result, are the same
    everywhere.
    """
    size = 65 * 32
    while size > 65 and size * d > CACHE:
        size //= 2
    return size


def run_blocks(
    function: Callable[[slice], T], n_rows: int, *, size: int, threads: int = 1
) -> list[T]:
    """Return ``function(rows)`` for consecutive blocks of rows, in their order.

    Blocks begin at row 0 and have ``size`` rows, but for the last.
    """
    if size < 1:
        raise InvalidSettings(f"Blocks need a size (here {size}).")

    def block(numbers: range) -> T:
        return function(slice(numbers.start * size, min(numbers.stop * size, n_rows)))

    numbers = [range(k, k + 1) for k in range(-(-n_rows // size))]
    # A block alone is run here, where Ctrl-C ends it.
    run = Inline() if threads == 1 or len(numbers) < 2 else Threads(threads)
    found = dict(run.map(_Always(block), numbers))
    return [found[number] for number in numbers]


class _Always:
    def __init__(self, work: Callable[[range], Any]) -> None:
        self.begin = lambda: work


def attempt(work: Work, task: Any) -> Reply:
    """Try a task; whatever goes wrong is a reply, not an exception."""
    try:
        return Reply(work(task), memory=peak_memory())
    except LikewiseError as error:
        return Reply(refusal=error)
    except SystemExit as error:
        return Reply(refusal=InvalidModel(f"The model called sys.exit({error.code!r})."))
    except Exception as error:
        return Reply(failure=in_short(error))


def first_done(futures: Iterable[Any], seconds: float | None = None) -> set[Any]:
    """Wait until something is done, at most so long, and return what is."""
    first = concurrent.futures.FIRST_COMPLETED
    return concurrent.futures.wait(futures, seconds, return_when=first).done


@contextlib.contextmanager
def child_environment() -> Iterator[None]:
    """Give processes that start now the environment of workers."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Keep libraries to one thread each: workers share the processors, and digits stay the same."""
    torch: Any = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    with _pools(len(sys.modules)).limit(limits=1):
        _calm_torch()
        try:
            yield
        finally:
            if before > 1:
                torch.set_num_threads(before)


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:
    """Return what holds the thread pools of all libraries; looked for again after an import."""
    return threadpoolctl.ThreadpoolController()


def _calm_torch() -> None:
    """Have torch use one thread in this thread; it counts them for each apart."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def check_workers(workers: int | None) -> None:
    """Refuse fewer than one worker."""
    if workers is not None and workers < 1:
        raise InvalidSettings(f"There must be at least one worker, not {workers}.")


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int:
    """Return the most memory this process has held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(text: str) -> int:
    """Return the bytes in ``4GB``, ``500M`` or ``1.5 GiB`` (all in powers of 1024)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if match is None or float(match[1]) == 0:
        raise InvalidSettings(f"{text!r} is no amount of memory. Write 4GB, or 500MB.")
    return int(float(match[1]) * UNITS[match[2]])


def _named(task: Any) -> str:
    if isinstance(task, range):
        return f"Block {task.start}" if len(task) == 1 else f"Blocks {task.start} to {task[-1]}"
    return f"Task {task!r}"
