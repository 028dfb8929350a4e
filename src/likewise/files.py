"""Writes files whole or not at all, even if the power fails."""

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from likewise.errors import InvalidFile


def write_whole(path: str | Path, content: bytes, *, if_full: str = "") -> None:
    """Write ``content`` to a file that is never seen half written."""
    with replacing(path, if_full=if_full) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | Path, *, if_full: str = "") -> Iterator[BinaryIO]:
    """Open a file beside ``path``, which gets that name once all of it is on disk."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with writing(path, if_full=if_full):
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        _sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"The folder {str(folder)!r} cannot be made: {error.strerror}.") from None


@contextlib.contextmanager
def writing(path: Path, *, if_full: str = "") -> Iterator[None]:
    """Turn what goes wrong when writing into one sentence, with advice for a full disk."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = f" {if_full}" if full and if_full else ""
        why = error.strerror or str(error)
        raise InvalidFile(f"{str(path)!r} cannot be written: {why}.{advice}") from None


def _sync_folder(folder: Path) -> None:
    """Put a new name on disk, where folders can be opened."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
