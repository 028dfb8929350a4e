"""Runs the pieces of a study in worker processes, each on one thread."""

import concurrent.futures as futures
import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from likewise.errors import Untrustworthy
from likewise_studies.journal import Journal

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

Job = tuple[Callable[..., Any], tuple[Any, ...]]


def run_jobs(
    jobs: Mapping[str, Job],
    journal: Journal,
    *,
    workers: int,
    words: str,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return the result of every job by name; those in the journal are not run again.

    Parameters
    ----------
    jobs
        Functions and arguments that a new process can import, with results that JSON can hold.
    workers
        Number of processes; with one, this process does the work.
    """
    finished = {name: result for name, result in journal.read().items() if name in jobs}
    waiting = {name: job for name, job in jobs.items() if name not in finished}
    tell = progress or (lambda *_: None)
    tell(words, len(finished), len(jobs))
    run = _in_processes if workers > 1 and len(waiting) > 1 else _in_turn
    for name, result in run(waiting, workers, lambda: tell(words, len(finished), len(jobs))):
        journal.add(name, result)
        finished[name] = result
        tell(words, len(finished), len(jobs))
    return {name: finished[name] for name in jobs}


def _in_turn(
    jobs: Mapping[str, Job], _workers: int, _tick: Callable[[], None]
) -> Iterator[tuple[str, Any]]:
    for name, (function, arguments) in jobs.items():
        yield name, function(*arguments)


def _in_processes(
    jobs: Mapping[str, Job], workers: int, tick: Callable[[], None]
) -> Iterator[tuple[str, Any]]:
    before = set(multiprocessing.active_children())
    # Spawned, not forked: a fork would inherit torch's threads in a broken state.
    pool = futures.ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    with _one_thread_each():
        pending = {pool.submit(function, *args): name for name, (function, args) in jobs.items()}
        try:
            while pending:
                done, _ = futures.wait(pending, timeout=1, return_when=futures.FIRST_COMPLETED)
                tick()
                for future in done:
                    yield pending.pop(future), future.result()
        except futures.process.BrokenProcessPool:
            raise Untrustworthy(
                "A worker process ended before its time (out of memory, perhaps). Run the same "
                "command again to continue, with fewer --workers if it happens again."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let new processes start their number libraries with one thread each.

    Two processes with two threads each on two cores are many times slower than with one.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    kept = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
