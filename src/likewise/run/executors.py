"""Where work is done: here, in threads, in processes, on Ray. None of it changes a result.

A job travels to its workers once; then tasks go out and answers come back, in any order. Both
should be small: a range of block numbers, a few sums.
"""

import abc
import collections
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import functools
import importlib.util
import logging
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, final, runtime_checkable

import threadpoolctl
from typing_extensions import override

from likewise.errors import (
    InvalidModel,
    InvalidSettings,
    LikewiseError,
    LikewiseWarning,
    MissingExtra,
    Untrustworthy,
    in_short,
)
from likewise.files import TemporaryFolder
from likewise.run.lifeline import end_with

ATTEMPTS = 3
"""How often a task is tried before the run gives up."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
ENVIRONMENT = {**dict.fromkeys(THREADS, "1"), "PYTHONSAFEPATH": "1"}
"""One thread a library; and no import from the current folder, which anybody may have written."""

Work = Callable[[Any], Any]
T = TypeVar("T")


@runtime_checkable
class Job(Protocol):
    """What every worker does; it must be picklable for workers in other processes."""

    def begin(self) -> Work:
        """Prepare once a worker (open a model, say), and return what answers a task."""
        ...


@dataclasses.dataclass(frozen=True)
class Reply:
    """What became of one attempt at a task, and the peak memory of the worker's process.

    A ``refusal`` was raised on purpose and would be again; a ``failure`` is worth another attempt.
    """

    answer: Any = None
    refusal: LikewiseError | None = None
    failure: str = ""
    memory: int = 0


class Worker:
    """A job in one worker, begun with its first task."""

    def __init__(self, begin: Callable[[], Work]) -> None:
        self._begin = begin
        self._work: Work | None = None
        self._thread = 0

    def answer(self, task: Any) -> Reply:
        """Try a task; whatever goes wrong is a reply, not an exception."""
        self._thread = threading.get_ident()
        try:
            if self._work is None:
                self._work = self._begin()
            with single_threaded():
                return Reply(self._work(task), memory=peak_memory())
        except LikewiseError as error:
            return Reply(refusal=error)
        except SystemExit as error:
            return Reply(refusal=InvalidModel(f"The model called sys.exit({error.code!r})."))
        except Exception as error:
            return Reply(failure=in_short(error))
        finally:
            self._thread = 0

    def end(self, *, interrupted: bool) -> None:
        """Interrupt its thread as Ctrl-C does the main one: a block can take minutes."""
        if interrupted:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
            )


class Pool(contextlib.ExitStack):
    """Threads with a worker each: in the thread itself, in another process, or on Ray.

    Without threads everything is done here, one task after another.
    """

    def __init__(self, size: int, start: Callable[[], Any]) -> None:
        super().__init__()
        self._start = start
        self._lock, self._closed = threading.Lock(), False
        self._workers: dict[int, Worker | _Process | _Actor] = {}
        self._threads = concurrent.futures.ThreadPoolExecutor(size) if size else None
        self.room = 2 * size or 1
        self.enter_context(single_threaded())
        self.push(self._end)

    def submit(self, task: Any) -> concurrent.futures.Future[Reply]:
        """Give a task to a worker."""
        if self._threads is not None:
            return self._threads.submit(self._answer, task)
        future: concurrent.futures.Future[Reply] = concurrent.futures.Future()
        future.set_result(self._answer(task))
        return future

    def _answer(self, task: Any) -> Reply:
        thread = threading.get_ident()
        with self._lock:  # one at a time: processes start with a changed environment
            if thread not in self._workers and not self._closed:
                self._workers[thread] = self._start()
        try:
            return self._workers[thread].answer(task)
        except Exception as error:  # another worker takes its place
            if (worker := self._workers.pop(thread, None)) is not None:
                worker.end(interrupted=False)
            return Reply(failure=f"its process was lost ({in_short(error)})")

    def _end(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End all workers: also on an error or Ctrl-C, what has not begun is dropped."""
        if self._threads is None:
            return
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
        for worker in list(self._workers.values()):
            worker.end(interrupted=isinstance(error, KeyboardInterrupt))
        self._threads.shutdown()


@dataclasses.dataclass(frozen=True)
class Executor(abc.ABC):
    """Workers that answer tasks; ``remote`` if they are processes of their own.

    ``max_memory`` is how many bytes they may take, all together.
    """

    remote: ClassVar[bool] = False
    max_memory: int | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        workers = getattr(self, "workers", None)
        if workers is not None and workers < 1:
            raise InvalidSettings(f"There must be at least one worker, not {workers}.")

    @abc.abstractmethod
    def pool(self, job: Job) -> contextlib.AbstractContextManager[Pool]:
        """Start workers, and end them."""

    def map(self, job: Job, tasks: Iterable[Any]) -> Generator[tuple[Any, Any]]:
        """Yield every task with the job's answer, as they are done.

        What fails is tried again; at the third failure of a task the run ends, since a smaller
        sample in silence would be worse.
        """
        waiting = collections.deque(tasks)
        if not waiting:
            return
        failures: collections.Counter[Any] = collections.Counter()
        under_way: dict[concurrent.futures.Future[Reply], Any] = {}
        with self.pool(job) as pool:
            while waiting or under_way:
                while waiting and len(under_way) < pool.room:
                    task = waiting.popleft()
                    under_way[pool.submit(task)] = task
                first = concurrent.futures.FIRST_COMPLETED
                for future in concurrent.futures.wait(under_way, return_when=first).done:
                    task, reply = under_way.pop(future), future.result()
                    if reply.refusal is not None:
                        raise reply.refusal
                    if not reply.failure:
                        self._check_memory(reply.memory)
                        yield task, reply.answer
                        continue
                    failures[task] += 1
                    if failures[task] >= ATTEMPTS:
                        raise Untrustworthy(
                            f"{_named(task)} failed {ATTEMPTS} times (last: {reply.failure}). "
                            "No one is left out in silence, so there is no result; what is done "
                            "so far is kept."
                        )
                    waiting.appendleft(task)

    def _check_memory(self, worker: int) -> None:
        taken = peak_memory()
        if self.remote:
            taken += worker * (getattr(self, "workers", None) or processors())
        if self.max_memory is not None and taken > self.max_memory:
            raise InvalidSettings(
                f"The audit takes {taken / 1e6:.0f} MB, more than --run allows "
                f"({self.max_memory / 1e6:.0f} MB). What is done is kept: continue with --resume "
                "and fewer workers, or allow more."
            )


@final
@dataclasses.dataclass(frozen=True)
class Inline(Executor):
    """No workers at all: everything is done here, one task after another."""

    @override
    def pool(self, job: Job) -> Pool:
        return Pool(0, lambda: Worker(job.begin))


@final
@dataclasses.dataclass(frozen=True)
class Threads(Executor):
    """So many threads of this process, or one a processor; the job begins once in each."""

    workers: int | None = None

    @override
    def pool(self, job: Job) -> Pool:
        return Pool(self.workers or processors(), lambda: Worker(job.begin))


@final
@dataclasses.dataclass(frozen=True)
class Processes(Executor):
    """So many processes of one thread, or one a processor; the job begins once in each.

    A process that dies is replaced, and its task tried again.
    """

    workers: int | None = None
    remote: ClassVar[bool] = True

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
            with Pool(self.workers or processors(), lambda: _Process(path)) as pool:
                yield pool


class _Process:
    """A process with a pipe of its own: if that closes, it is known whose task was lost."""

    def __init__(self, job: Path) -> None:
        # Spawned, never forked: a fork would copy the threads of libraries half-dead.
        context = multiprocessing.get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, job), daemon=True)
        # No Ctrl-C as it starts; this thread needs none.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        with child_environment(), theirs:
            self._process.start()

    def answer(self, task: Any) -> Reply:
        self._end.send(task)
        reply: Reply = self._end.recv()
        return reply

    def end(self, *, interrupted: bool) -> None:
        self._process.kill()
        self._process.join()


def _work(end: Connection, job: Path) -> None:
    """Answer tasks, in a process of its own."""
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(multiprocessing.parent_process().sentinel)  # type: ignore[union-attr]
    # Unpacked with the first task: what goes wrong is then said.
    worker = Worker(lambda: pickle.loads(job.read_bytes()).begin())
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            end.send(worker.answer(end.recv()))


RUNTIME = {"env_vars": ENVIRONMENT}
"""What Ray gives the processes of actors."""


@final
@dataclasses.dataclass(frozen=True)
class Ray(Executor):
    """Ray actors, one thread each; an actor that is lost is replaced.

    Ray's own ports listen on all interfaces of a machine unless told otherwise. Here they are told
    to keep to 127.0.0.1 (``local``), and neither the dashboard nor usage statistics are started.
    A firewall is the only sure way, though, and a warning says so.

    Parameters
    ----------
    address
        ``local``, ``auto`` (the cluster that is there), or the address of a cluster.
    workers
        Number of actors; by default one for each processor of the cluster.
    """

    address: str = "local"
    workers: int | None = None
    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if importlib.util.find_spec("ray") is None:
            raise MissingExtra("Ray is not installed. Install it with: pip install 'likewise[ray]'")

    @override
    @contextlib.contextmanager
    def pool(self, job: Job) -> Iterator[Pool]:
        warnings.warn(
            "Ray opens ports of its own on this machine; keep it behind a firewall. Its dashboard "
            "and usage statistics are off.",
            LikewiseWarning,
            stacklevel=2,
        )
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # The threads of libraries are one for each actor; Ray must not pin them elsewhere.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray: Any = importlib.import_module("ray")
        own = not ray.is_initialized()
        if own:
            _start_ray(ray, self.workers, self.address)
        content = ray.put(job.begin)
        size = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        try:
            with Pool(size, lambda: _Actor(ray, content)) as pool:
                yield pool
        finally:
            if own:
                ray.shutdown()


class _Actor:
    def __init__(self, ray: Any, job: Any) -> None:
        self._ray = ray
        self._actor = ray.remote(num_cpus=1, runtime_env=RUNTIME)(Worker).remote(job)

    def answer(self, task: Any) -> Reply:
        reply: Reply = self._ray.get(self._actor.answer.remote(task))
        return dataclasses.replace(reply, memory=0)  # of this machine, or of another

    def end(self, *, interrupted: bool) -> None:
        self._ray.kill(self._actor)


def _start_ray(ray: Any, size: int | None, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    local = {"num_cpus": size, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    config = ray.job_config.JobConfig(runtime_env=RUNTIME)
    config._py_driver_sys_path = _OwnFolders()
    try:
        with child_environment():
            here = local if address == "local" else {}
            ray.init(address=address, job_config=config, **quiet, **here)
    except Exception as error:
        raise InvalidSettings(
            f"Ray cannot be reached at {address!r} ({in_short(error)}). Start a cluster with 'ray "
            "start', or use --run ray."
        ) from None


class _OwnFolders(list[str]):
    """Folders that Ray's workers import from, besides Python's own: those of this process.

    Ray adds the current folder, which anybody may have written, and has no setting against it.
    """

    @override
    def extend(self, folders: Iterable[str]) -> None:
        own = {os.path.abspath(folder) for folder in sys.path}
        super().extend(folder for folder in folders if folder in own)


CACHE = 2**19
"""Numbers of a block's feature matrix that the processor's cache bears."""


def block_size(d: int) -> int:
    """Return the number of rows in a block, which suits the cache.

    It depends on the number of features alone, so that the last digits of every result are the
    same everywhere. Not a power of two, at which columns fall on one another in the cache.
    """
    size = 65 * 32
    while size > 65 and size * d > CACHE:
        size //= 2
    return size


def run_blocks(
    function: Callable[[slice], T], n_rows: int, *, size: int, threads: int = 1
) -> list[T]:
    """Return ``function(rows)`` for consecutive blocks of ``size`` rows, in their order."""
    alone = single_threaded()(function)  # OpenMP counts threads for each caller apart
    blocks = [slice(k, min(k + size, n_rows)) for k in range(0, n_rows, size)]
    with single_threaded(), concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(alone, blocks))


@contextlib.contextmanager
def child_environment() -> Iterator[None]:
    """Give processes that start now the environment of workers."""
    before = {name: os.environ.pop(name) for name in ENVIRONMENT if name in os.environ}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name in ENVIRONMENT:
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Keep libraries to one thread each: workers share the processors, and digits stay the same."""
    torch: Any = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    with _pools(len(sys.modules)).limit(limits=1):
        if torch is not None:
            torch.set_num_threads(1)  # counted for each thread apart, too
        try:
            yield
        finally:
            if before > 1:
                torch.set_num_threads(before)


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:
    """Return what holds the thread pools of all libraries; looked for again after an import."""
    return threadpoolctl.ThreadpoolController()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int:
    """Return the most memory this process has held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _named(task: Any) -> str:
    if isinstance(task, range):
        return f"Block {task.start}" if len(task) == 1 else f"Blocks {task.start} to {task[-1]}"
    return f"Task {task!r}"
