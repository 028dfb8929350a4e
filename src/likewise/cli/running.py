"""Where an audit runs, as ``--run`` names it, and the journal it can be resumed from."""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.cli.exits import say
from likewise.errors import InvalidSettings

MANY = 200_000
"""Above this many rows an audit runs in processes and keeps a journal without being asked."""

LARGE = 4 * 2**20
"""Smaller text files than this (in bytes) cannot hold that many rows worth counting."""

PLACE = re.compile(
    r"(?P<way>inline|threads|processes|ray)(?::(?P<count>[1-9]\d*))?"
    r"(?:@(?P<address>[^,]+))?(?:,(?P<memory>[^,]+))?",
    re.ASCII,
)


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Threads of this process, other processes, or a Ray cluster; and the memory they may take.

    ``way`` is ``inline``, ``threads``, ``processes`` or ``ray``; nothing leaves the choice to the
    audit. ``count`` are threads, processes or actors, none as many as there are cores; ``address``
    is the Ray cluster's; ``resume`` says whether to continue an interrupted audit.
    """

    way: str = ""
    count: int | None = None
    address: str = "local"
    memory: str | None = None
    resume: bool = False

    @classmethod
    def parse(cls, text: str | None, *, resume: bool = False) -> "RunOptions":
        """Read ``threads:4``, ``processes:4,8GB``, ``ray:4@ADDRESS`` and the like."""
        if text is None:
            return cls(resume=resume)
        found = PLACE.fullmatch(text.strip())
        if (
            found is None
            or (found["count"] and found["way"] == "inline")
            or (found["address"] and found["way"] != "ray")
        ):
            raise InvalidSettings(
                f"--run {text!r} names no place. Write inline, threads:4, processes:4, ray:4 or "
                "ray:4@ADDRESS, and a limit of memory after a comma: processes:4,8GB."
            )
        count = int(found["count"]) if found["count"] else None
        return cls(found["way"], count, found["address"] or "local", found["memory"], resume)

    def settled(self, paths: Sequence[str], csv: Any = None) -> "RunOptions":
        """Return how to run: as asked for, or in processes if rows are many."""
        if self.way or self.resume or _rows(paths, csv) <= MANY:
            return self
        return dataclasses.replace(self, way="processes")

    def executor(self) -> Any:
        """Return where blocks are measured."""
        from likewise.run.executors import Inline, Threads, parse_memory

        memory = None if self.memory is None else parse_memory(self.memory)
        if self.way == "ray":
            from likewise.run.ray_pool import Ray

            return Ray(self.address, self.count, max_memory=memory)
        if self.way == "processes":
            from likewise.run.process_pool import Processes

            return Processes(self.count or os.cpu_count() or 1, max_memory=memory)
        if self.way == "inline":
            return Inline(max_memory=memory)
        return Threads(self.count, max_memory=memory)

    def folder(self, outputs: Sequence[Path]) -> Path | None:
        """Return where the journal is, if one is kept: beside what is written."""
        kept = self.way in ("processes", "ray") or self.resume or self.memory is not None
        if not kept:
            return None
        first = next(iter(outputs), Path("likewise"))
        return first.with_name(first.name + ".journal")

    def store(self, folder: Path | None) -> Any:
        """Return the folder where finished blocks are kept, continued if that was asked for."""
        from likewise.run.journal import Folder, Memory

        if folder is None:
            return Memory()
        if self.resume and not Folder(folder).begun():
            say(f"There is no unfinished audit in {str(folder)!r}: this one begins anew.")
            return Folder(folder)
        return Folder(folder, self.resume)


def _rows(paths: Sequence[str], csv: Any) -> int:
    """Count the rows of files, unless they are too small to matter."""
    from likewise.data.rows import expand, is_parquet, open_rows

    found = expand(paths)
    # The footer of a Parquet file knows its rows; text must be read to count them.
    size = sum(path.stat().st_size for path in found)
    if all(map(is_parquet, found)) or size > LARGE:
        return open_rows(list(paths), csv=csv).n_rows
    return 0
