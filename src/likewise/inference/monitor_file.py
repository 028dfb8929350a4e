"""A monitor between two looks: a JSON file that is never half written."""

import json
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile
from likewise.files import read_whole, write_whole
from likewise.record.json_text import parse

FORMAT = 2
"""Since 2 gamblers join at every row; games saved as 1 go on without them."""

LARGEST = 100_000_000
"""Bytes of a state that are read."""


def write_state(path: str | Path, state: dict[str, Any]) -> None:
    """Write a state beside the file, and put it in its place only when it is all on disk."""
    text = json.dumps({"likewise_monitor": FORMAT, **state}, indent=2, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def read_state(path: str | Path) -> dict[str, Any]:
    """Read what `write_state` wrote; anything else, or a newer format, is refused."""
    try:
        saved = parse(read_whole(path, most=LARGEST), finite=True)
    except InvalidFile:
        raise
    except ValueError as error:
        raise InvalidFile(f"{str(path)!r} is not a monitor file: {error}.") from None
    version = saved.get("likewise_monitor") if isinstance(saved, dict) else None
    if not isinstance(version, int):
        raise InvalidFile(f"{str(path)!r} is not a monitor file: no likewise_monitor in it.")
    if version > FORMAT:
        raise InvalidFile(f"{str(path)!r} was written by a newer version. Upgrade likewise.")
    return saved
