"""Audits in pieces from the command line: when, with what, and how far they are."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.cli.exits import say

MANY = 200_000
"""Above this many rows an audit is done in pieces without being asked."""

LARGE = 4 * 2**20
"""Smaller text files than this (in bytes) cannot hold that many rows worth counting."""


@dataclasses.dataclass(frozen=True)
class Pieces:
    """How an audit in pieces is to be done, as named on the command line.

    Parameters
    ----------
    workers, ray, max_memory
        Processes, the Ray cluster, and the memory that all together may take.
    resume, journal
        Whether to continue an interrupted audit, and the folder it is kept in.
    """

    workers: int | None = None
    ray: str | None = None
    max_memory: str | None = None
    resume: bool = False
    journal: Path | None = None

    def chosen(self, paths: Sequence[str | Path]) -> "Pieces | None":
        """Return how to work in pieces: as asked for, or in processes if rows are many."""
        asked = self.workers, self.ray, self.max_memory, self.journal
        if self.resume or any(value is not None for value in asked):
            return self
        if _rows(paths) <= MANY:
            return None
        return dataclasses.replace(self, workers=os.cpu_count() or 1)

    def executor(self, threads: int | None = None) -> Any:
        """Return where blocks are moved: here in threads, in processes, or on Ray."""
        from likewise.scale.executors import Threads
        from likewise.scale.memory import parse_memory

        memory = None if self.max_memory is None else parse_memory(self.max_memory)
        if self.ray is not None:
            from likewise.scale.ray_pool import Ray

            return Ray(self.ray, self.workers or None, max_memory=memory)
        if not self.workers:
            return Threads(threads, max_memory=memory)
        from likewise.scale.process_pool import Processes

        return Processes(self.workers, max_memory=memory)

    def store(self, folder: Path) -> Any:
        """Return the folder where finished blocks are kept, continued if that was asked for."""
        from likewise.scale.folder_store import Folder

        if self.resume and not Folder(folder).begun():
            say(f"There is no unfinished audit in {str(folder)!r}: this one begins anew.")
            return Folder(folder)
        return Folder(folder, self.resume)

    def folder(self, *outputs: Path | None) -> Path:
        """Return where the journal is: beside what is written, unless said otherwise."""
        named = self.journal or next((p for p in outputs if p is not None), None)
        if named is None:
            return Path("likewise.journal")
        return named if self.journal is not None else named.with_name(named.name + ".journal")


def _rows(paths: Sequence[str | Path]) -> int:
    """Count the rows of files, unless they are too small to matter."""
    from likewise.data.paths import expand, is_parquet, size_of
    from likewise.data.rows import open_rows

    found = expand(paths)
    # The footer of a Parquet file knows its rows; text must be read to count them.
    if all(is_parquet(path) for path in found) or sum(map(size_of, found)) > LARGE:
        return open_rows([str(path) for path in paths]).n_rows
    return 0
