"""Finished pieces of a long run, on disk, so that an interrupted run continues where it stopped."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile


@dataclasses.dataclass(frozen=True)
class Journal:
    """A file with one line for each finished piece.

    Parameters
    ----------
    path
        Where it is; it need not exist yet.
    key
        Stands for all choices of the run. Lines with another key are left alone.
    """

    path: Path
    key: str

    def read(self) -> dict[str, Any]:
        """Return the finished pieces by name."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFile(f"The journal {str(self.path)!r} cannot be read: {error}.") from None
        found = {}
        for line in lines:
            entry = _parsed(line)
            if entry.get("key") == self.key:
                found[entry["piece"]] = entry["result"]
        return found

    def add(self, piece: str, result: Any) -> None:
        """Write down a finished piece, and see to it that a power cut does not lose it."""
        line = json.dumps({"key": self.key, "piece": piece, "result": result})
        with self.path.open("a", encoding="utf-8") as file:
            # After a kill the last line may be half a line: begin a new one in any case.
            file.write(f"\n{line}\n")
            file.flush()
            os.fsync(file.fileno())


def _parsed(line: str) -> Mapping[str, Any]:
    """Return one entry; an empty or half-written line is none."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return entry if isinstance(entry, dict) and {"key", "piece", "result"} <= set(entry) else {}
