"""Where an audit runs, as ``--run`` names it, and the journal it can be resumed from."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.cli.exits import say
from likewise.errors import InvalidSettings

PLACE = re.compile(
    r"(?P<way>inline|threads|processes|ray)(?::(?P<count>[1-9]\d*))?"
    r"(?:@(?P<address>[^,]+))?(?:,(?P<memory>[^,]+))?",
    re.ASCII,
)


def executor(text: str) -> Any:
    """Read ``threads:4``, ``processes:4,8GB``, ``ray:4@ADDRESS`` and the like.

    Threads, processes or actors, by default as many as there are cores; the Ray cluster's address;
    and the memory that they may take.
    """
    from likewise.run.executors import Inline, Processes, Ray, Threads

    found = PLACE.fullmatch(text.strip())
    way = "" if found is None else found["way"]
    if found is None or (found["count"] and way == "inline") or (found["address"] and way != "ray"):
        raise InvalidSettings(
            f"--run {text!r} names no place. Write inline, threads:4, processes:4, ray:4 or "
            "ray:4@ADDRESS, and a limit of memory after a comma: processes:4,8GB."
        )
    count, memory = int(found["count"]) if found["count"] else None, None
    if found["memory"]:
        from pydantic import ByteSize, TypeAdapter, ValidationError  # late: it takes a while

        try:
            memory = int(TypeAdapter(ByteSize).validate_python(found["memory"]))
        except ValidationError:
            raise InvalidSettings(
                f"{found['memory']!r} is no amount of memory. Write 4GB, or 500MB."
            ) from None
    if way == "ray":
        return Ray(found["address"] or "local", count, max_memory=memory)
    if way == "processes":
        return Processes(count or os.cpu_count() or 1, max_memory=memory)
    return Inline(max_memory=memory) if way == "inline" else Threads(count, max_memory=memory)


def store(run: Any, outputs: Sequence[Path], *, resume: bool) -> Any:
    """Return where finished blocks are kept: in a folder beside what is written, or in memory."""
    from likewise.run.journal import Folder, Memory

    if not (run.remote or run.max_memory or resume):
        return Memory()
    first = next(iter(outputs), Path("likewise"))
    folder = first.with_name(first.name + ".journal")
    if resume and not Folder(folder).begun():
        say(f"There is no unfinished audit in {str(folder)!r}: this one begins anew.")
        resume = False
    return Folder(folder, resume)
