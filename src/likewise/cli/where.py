"""Where an audit runs, as ``--run`` names it."""

import dataclasses
import os
import re

from likewise.cli.stream import Pieces
from likewise.errors import InvalidSettings

WAYS = re.compile(
    r"(?P<way>inline|threads|processes|ray)(:(?P<what>[^,]+))?(,(?P<memory>[^,]+))?", re.ASCII
)


@dataclasses.dataclass(frozen=True)
class Where:
    """Threads of this process, other processes, or a Ray cluster; and the memory they may take.

    Parameters
    ----------
    way
        ``inline``, ``threads``, ``processes`` or ``ray``; nothing leaves the choice to the audit.
    count
        Threads, processes or actors; none is as many as there are cores.
    address
        Of the Ray cluster; ``local`` begins one here.
    """

    way: str = ""
    count: int = 0
    address: str = "local"
    memory: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> "Where":
        """Read ``threads:4``, ``processes:4,8GB``, ``ray:ADDRESS`` and the like."""
        if text is None:
            return cls()
        found = WAYS.fullmatch(text.strip())
        way, what = (found["way"], found["what"]) if found else ("", None)
        counted = way in ("threads", "processes") and (what is None or what.isdecimal())
        counted = counted and (way, what) != ("threads", "0")
        if found is None or not (counted or way == "ray" or (way == "inline" and what is None)):
            raise InvalidSettings(
                f"--run {text!r} names no place. Write inline, threads:4, processes:4, ray:4 or "
                "ray:4@ADDRESS, and a limit of memory after a comma: processes:4,8GB."
            )
        if way == "ray":
            count, sign, address = (what or "").rpartition("@")
            if not sign and address.isdecimal():
                count, address = address, ""
            return cls(way, int(count or 0), address or "local", found["memory"])
        count = 1 if way == "inline" else os.cpu_count() or 1 if what is None else int(what)
        return cls(way, count, memory=found["memory"])

    @property
    def threads(self) -> int | None:
        """Blocks moved at a time in this process."""
        return self.count if self.way in ("inline", "threads") else None

    def pieces(self, resume: bool) -> Pieces:
        """Return how an audit in pieces is to be done, if it is."""
        workers = {"processes": self.count, "ray": self.count or None}.get(self.way)
        if self.threads and (resume or self.memory):
            workers = 0  # in pieces, but in this process
        ray = self.address if self.way == "ray" else None
        return Pieces(workers, ray, self.memory, resume)
