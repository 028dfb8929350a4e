"""Reads and writes files whole: nothing endless is read, nothing half written is seen."""

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from likewise.errors import InvalidFile


def read_whole(path: str | Path, *, most: int) -> bytes:
    """Return what a regular file holds; a pipe, a device or a file beyond ``most`` is refused."""
    try:
        # Without waiting: a named pipe that nobody writes to would hold us for ever.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            fits = stat.S_ISREG(found.st_mode) and found.st_size <= most
            content = file.read(found.st_size + 1) if fits else b""
    except FileNotFoundError:
        raise InvalidFile(f"There is no file {str(path)!r}.") from None
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidFile(f"{str(path)!r} cannot be read: {why}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InvalidFile(f"{str(path)!r} is not a regular file.")
    if found.st_size > most:
        raise InvalidFile(f"{str(path)!r} is larger than {most:,} bytes.")
    return content


def write_whole(path: str | Path, content: bytes, *, if_full: str = "") -> None:
    """Write ``content`` to a file that is never seen half written."""
    with replacing(path, if_full=if_full) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | Path, *, if_full: str = "") -> Iterator[BinaryIO]:
    """Open a file beside ``path``, which gets that name once all of it is on disk."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with write_errors(path, if_full=if_full):
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
def write_errors(path: Path, *, if_full: str = "") -> Iterator[None]:
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
