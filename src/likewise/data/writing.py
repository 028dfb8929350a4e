"""Writes a file whole or not at all."""

import os
import uuid
from pathlib import Path

from likewise.errors import InvalidFile


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, then put it in place in one step."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        try:
            beside.write_bytes(content)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidFile(f"{str(path)!r} cannot be written: {error.strerror}.") from None
