"""A monitor between two looks: a JSON file that is never half written."""

import json
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile
from likewise.files import write_whole

FORMAT = 1

MOST_DIGITS = 300
"""Longer whole numbers do not fit into a float, and no count is as long."""


def write_state(path: str | Path, state: dict[str, Any]) -> None:
    """Write a state beside the file, and put it in its place only when it is all on disk."""
    text = json.dumps({"likewise_monitor": FORMAT, **state}, indent=2, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def read_state(path: str | Path) -> dict[str, Any]:
    """Read what `write_state` wrote; anything else, or a newer format, is refused."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        saved = json.loads(text, parse_constant=_refuse, parse_int=_whole)
    except FileNotFoundError:
        raise InvalidFile(f"There is no monitor file {str(path)!r}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidFile(f"{str(path)!r} is not a monitor file: {error}.") from None
    version = saved.get("likewise_monitor") if isinstance(saved, dict) else None
    if not isinstance(version, int):
        raise InvalidFile(f"{str(path)!r} is not a monitor file: no likewise_monitor in it.")
    if version > FORMAT:
        raise InvalidFile(f"{str(path)!r} was written by a newer version. Upgrade likewise.")
    return saved


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits)} digits")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")
