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
import multiprocessing.connection
import os
import pickle
import re
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar, final, runtime_checkable

import threadpoolctl
from typing_extensions import override

from likewise.errors import (
    CostWarning,
    InvalidModel,
    InvalidSettings,
    LikewiseError,
    MissingExtra,
    Untrustworthy,
    in_short,
)
from likewise.files import TemporaryFolder

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

    A ``refusal`` was raised on purpose and would be again; a ``failure`` is worth another attempt,
    by another worker if this one is ``lost``.
    """

    answer: Any = None
    refusal: LikewiseError | None = None
    failure: str = ""
    lost: bool = False
    memory: int = 0


class Worker:
    """A job in one worker, begun with its first task.

    ``whole`` says that the worker is a process: its libraries are then kept to one thread.
    """

    def __init__(self, begin: Callable[[], Work], *, whole: bool = False) -> None:
        self._begin, self._whole = begin, whole
        self._work: Work | None = None

    def answer(self, task: Any) -> Reply:
        """Try a task; whatever goes wrong is a reply, not an exception."""
        try:
            if self._work is None:
                self._work = self._begin()
                if self._whole:
                    single_threaded().__enter__()  # for as long as the process lives
            return Reply(self._work(task), memory=peak_memory())
        except LikewiseError as error:
            return Reply(refusal=error)
        except SystemExit as error:
            return Reply(refusal=InvalidModel(f"The model called sys.exit({error.code!r})."))
        except Exception as error:
            return Reply(failure=in_short(error))


class Pool(abc.ABC):
    """The workers of one run, which are given ``room`` tasks at a time."""

    room: int

    @abc.abstractmethod
    def submit(self, task: Any) -> Any:
        """Give a task to a worker, and return a future."""

    def first_done(self, futures: Iterable[Any]) -> Iterable[Any]:
        """Wait until something is done, and return what is."""
        first = concurrent.futures.FIRST_COMPLETED
        return concurrent.futures.wait(futures, return_when=first).done

    def reply(self, future: Any) -> Reply:
        """Return what became of a task."""
        found: Reply = future.result()
        return found


class _RemotePool(Pool):
    """Workers in other processes, each with a task or none; one that is lost is replaced."""

    def __init__(self, room: int, start: Callable[[], Any], wait: Callable[[list[Any]], Any]):
        self.room, self._start, self._wait = room, start, wait
        self._idle: list[Any] = []
        self._busy: dict[Any, Any] = {}

    @override
    def submit(self, task: Any) -> Any:
        worker = self._idle.pop() if self._idle else self._start()
        future = worker.ask(task)
        self._busy[future] = worker
        return future

    @override
    def first_done(self, futures: Iterable[Any]) -> Iterable[Any]:
        found: Iterable[Any] = self._wait(list(futures))
        return found

    @override
    def reply(self, future: Any) -> Reply:
        worker = self._busy.pop(future)
        reply: Reply = worker.reply(future)
        if reply.lost:
            worker.end()
        else:
            self._idle.append(worker)
        return reply

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in (*self._idle, *self._busy.values()):
            worker.end()


@dataclasses.dataclass(frozen=True)
class Executor(abc.ABC):
    """Workers that answer tasks.

    Parameters
    ----------
    max_memory
        Bytes that all processes of this machine together may take.
    """

    max_memory: int | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_workers(getattr(self, "workers", None))

    @property
    def processes(self) -> int:
        """Processes of this machine beside this one."""
        return 0

    @abc.abstractmethod
    def pool(self, job: Job) -> contextlib.AbstractContextManager[Pool]:
        """Start workers, and end them."""

    def map(self, job: Job, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield every task with the job's answer, as they are done.

        What fails is tried again; at the third failure of a task the run ends, since a smaller
        sample in silence would be worse.
        """
        waiting = iter(tasks)
        following = next(waiting, None)
        if following is None:
            return
        failures: collections.Counter[Any] = collections.Counter()
        under_way: dict[Any, Any] = {}
        with self.pool(job) as pool:
            while following is not None or under_way:
                while following is not None and len(under_way) < pool.room:
                    under_way[pool.submit(following)] = following
                    following = next(waiting, None)
                for future in pool.first_done(under_way):
                    task, reply = under_way.pop(future), pool.reply(future)
                    if reply.refusal is not None:
                        raise reply.refusal
                    if not reply.failure:
                        self._check_memory(reply)
                        yield task, reply.answer
                        continue
                    failures[task] += 1
                    if failures[task] >= ATTEMPTS:
                        raise Untrustworthy(
                            f"{_named(task)} failed {ATTEMPTS} times (last: {reply.failure}). "
                            "Nobody is left out in silence, so there is no result; what is done "
                            "so far is kept."
                        )
                    under_way[pool.submit(task)] = task

    def _check_memory(self, reply: Reply) -> None:
        taken = peak_memory() + self.processes * reply.memory
        if self.max_memory is not None and taken > self.max_memory:
            raise InvalidSettings(
                f"The audit took {taken / 2**20:.0f} MB, more than --run allows "
                f"({self.max_memory / 2**20:.0f} MB). What is done is kept: continue with "
                "--resume and fewer workers, or allow more."
            )


@final
@dataclasses.dataclass(frozen=True)
class Inline(Executor):
    """No workers at all: everything is done here, one task after another."""

    @override
    def pool(self, job: Job) -> contextlib.AbstractContextManager[Pool]:
        return contextlib.nullcontext(_InlinePool(job))


class _InlinePool(Pool):
    room = 1

    def __init__(self, job: Job) -> None:
        self._worker = Worker(job.begin)

    @override
    def submit(self, task: Any) -> Any:
        future: concurrent.futures.Future[Reply] = concurrent.futures.Future()
        with single_threaded():
            future.set_result(self._worker.answer(task))
        return future


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

    @override
    @contextlib.contextmanager
    def pool(self, job: Job) -> Iterator[Pool]:
        with single_threaded():
            pool = _ThreadPool(job, self.workers or processors())
            try:
                yield pool
            except KeyboardInterrupt:
                pool.interrupt()
                raise
            finally:
                # Also on an error or Ctrl-C: what has not begun is dropped, the rest waited for.
                pool.threads.shutdown(wait=True, cancel_futures=True)


class _ThreadPool(Pool):
    def __init__(self, job: Job, size: int) -> None:
        self.room = 2 * size
        self._workers: dict[int, Worker] = {}
        self.threads = concurrent.futures.ThreadPoolExecutor(
            size, thread_name_prefix="likewise", initializer=self._begin, initargs=(job,)
        )

    def _begin(self, job: Job) -> None:
        self._workers[threading.get_ident()] = Worker(job.begin)

    def interrupt(self) -> None:
        """Interrupt every thread as Ctrl-C does the main one: a block can take minutes."""
        for thread in self._workers:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
            )

    @override
    def submit(self, task: Any) -> Any:
        return self.threads.submit(
            lambda: _alone(self._workers[threading.get_ident()].answer, task)
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
            start, wait = functools.partial(_Process, path), multiprocessing.connection.wait
            with contextlib.closing(_RemotePool(self.processes, start, wait)) as pool:
                yield pool


class _Process:
    """A process with a pipe: if that closes, it is known whose task was lost."""

    def __init__(self, job: Path) -> None:
        # Spawned, never forked: a fork would copy the threads of libraries half-dead.
        context = multiprocessing.get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, job), daemon=True)
        # No Ctrl-C as it starts; the parent's own waits a moment, and is not lost.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with child_environment(), theirs:
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def ask(self, task: Any) -> Connection:
        with contextlib.suppress(OSError):  # it is gone, as will be seen when it is to reply
            self._end.send(task)
        return self._end

    def reply(self, future: Connection) -> Reply:
        try:
            reply: Reply = future.recv()
        except (EOFError, OSError):
            return Reply(failure="its process was lost", lost=True)
        return reply

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._end.close()


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

    def __post_init__(self) -> None:
        super().__post_init__()
        if importlib.util.find_spec("ray") is None:
            raise MissingExtra("Ray is not installed. Install it with: pip install 'likewise[ray]'")

    @property
    @override
    def processes(self) -> int:
        # Actors elsewhere take no memory of this machine, and nobody knows which are here.
        return (self.workers or 1) if self.address == "local" else 0

    @override
    @contextlib.contextmanager
    def pool(self, job: Job) -> Iterator[Pool]:
        warnings.warn(
            "Ray opens ports of its own on this machine; keep it behind a firewall. Its dashboard "
            "and usage statistics are off.",
            CostWarning,
            stacklevel=2,
        )
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # The threads of libraries are one for each actor; Ray must not pin them elsewhere.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray: Any = importlib.import_module("ray")
        own = not ray.is_initialized()
        if own:
            _start_ray(ray, self.workers, self.address)
        start = functools.partial(_Actor, ray, ray.put(job.begin))
        room = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        try:
            with contextlib.closing(
                _RemotePool(room, start, lambda tasks: ray.wait(tasks)[0])
            ) as pool:
                yield pool
        finally:
            if own:
                ray.shutdown()


class _Actor:
    def __init__(self, ray: Any, job: Any) -> None:
        self._ray = ray
        make = ray.remote(num_cpus=1, runtime_env=RUNTIME)(Worker)
        self._actor = make.remote(job, whole=True)

    def ask(self, task: Any) -> Any:
        return self._actor.answer.remote(task)

    def reply(self, future: Any) -> Reply:
        try:
            reply: Reply = self._ray.get(future)
        except self._ray.exceptions.RayError as error:
            return Reply(failure=f"its Ray worker was lost ({in_short(error)})", lost=True)
        return reply

    def end(self) -> None:
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
    if size < 1:
        raise InvalidSettings(f"Blocks need a size (here {size}).")
    check_workers(threads)
    blocks = [slice(k, min(k + size, n_rows)) for k in range(0, n_rows, size)]
    with single_threaded():
        if threads == 1 or len(blocks) < 2:  # here Ctrl-C ends it at once
            return [function(rows) for rows in blocks]
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return list(pool.map(functools.partial(_alone, function), blocks))


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


def _alone(function: Callable[[Any], T], task: Any) -> T:
    """Call a function with one thread a library: OpenMP counts threads for each caller apart."""
    with single_threaded():
        return function(task)


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:
    """Return what holds the thread pools of all libraries; looked for again after an import."""
    return threadpoolctl.ThreadpoolController()


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
