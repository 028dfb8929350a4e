"""Runs a function over fixed blocks of rows, in threads, and gives the results in order."""

import concurrent.futures
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from likewise.errors import InvalidSettings

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
    function: Callable[[slice], T],
    n_rows: int,
    *,
    size: int,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[T]:
    """Return ``function(rows)`` for consecutive blocks of rows, in their order.

    Blocks begin at row 0 and have ``size`` rows, but for the last. BLAS (and torch, where it is in
    use) runs each on one thread; the process's own setting is restored afterwards. The first
    exception ends the run: blocks under way finish, the others are never begun.

    Parameters
    ----------
    progress
        Called in this thread with the number of rows done, after every block.
    """
    if size < 1 or threads < 1:
        raise InvalidSettings(f"Blocks need a size and threads (here {size} and {threads}).")
    blocks = [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]
    with _one_thread_each():
        if threads == 1 or len(blocks) < 2:
            return _in_turn(function, blocks, progress)
        return _in_threads(function, blocks, min(threads, len(blocks)), progress)


def _in_turn(
    function: Callable[[slice], T], blocks: list[slice], progress: Callable[[int], None] | None
) -> list[T]:
    results = []
    for rows in blocks:
        results.append(function(rows))
        if progress is not None:
            progress(rows.stop)
    return results


def _in_threads(
    function: Callable[[slice], T],
    blocks: list[slice],
    threads: int,
    progress: Callable[[int], None] | None,
) -> list[T]:
    pool = concurrent.futures.ThreadPoolExecutor(
        threads, thread_name_prefix="likewise", initializer=_calm_torch
    )
    found: list[Any] = [None] * len(blocks)
    futures: dict[concurrent.futures.Future[T], int] = {}
    done = 0

    def settle() -> None:
        nonlocal done
        ended, _ = concurrent.futures.wait(futures, return_when="FIRST_COMPLETED")
        for future in ended:
            index = futures.pop(future)
            found[index] = future.result()
            done += blocks[index].stop - blocks[index].start
            if progress is not None:
                progress(done)

    try:
        for index, rows in enumerate(blocks):
            # A few at a time: Ctrl-C while thousands are waited for could leave their locks taken.
            if len(futures) == 2 * threads:
                settle()
            futures[pool.submit(function, rows)] = index
        while futures:
            settle()
        return found
    finally:
        # Also on an error or Ctrl-C: what has not begun is dropped, what runs is waited for.
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Have BLAS, and torch if the model brought it, use one thread for a while."""
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
def _pools(modules: int) -> Any:
    """Return what holds the thread pools of all libraries; looked for again after an import."""
    return ThreadpoolController()


def _calm_torch() -> None:
    """Have torch use one thread in this thread; it counts them for each apart."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
