"""Reads and writes files whole: nothing endless is read, nothing half written is seen."""

import contextlib
import errno
import fcntl
import glob
import itertools
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from likewise.errors import InvalidFile


def read_whole(path: str | Path, *, most: int) -> bytes:
    """Return what a regular file holds; a pipe, a device or a file beyond ``most`` is refused."""
    try:
        # Without waiting: a named pipe that nobody writes to would hold us for ever.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
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
    beside = _beside(path)
    with write_errors(path, if_full=if_full):
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)  # the new name has to be on disk, too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_outputs(outputs: Iterable[str | Path | None], inputs: Iterable[Any] = ()) -> None:
    """Refuse, before a long run, an output that cannot be written or would overwrite another file.

    ``inputs`` are files and folders that are read, or lists of them; whatever else is given, an
    address or a model itself, is no file.
    """
    lists = [given if isinstance(given, list | tuple) else [given] for given in inputs]
    names = [one for one in itertools.chain(*lists) if isinstance(one, str | Path)]
    read = [Path(found) for name in names for found in (name, *glob.glob(str(name)))]
    written: list[Path] = []
    for path in (Path(output) for output in outputs if output is not None):
        if not path.parent.is_dir():
            raise InvalidFile(f"There is no folder {str(path.parent)!r} to write {path.name!r} in.")
        if path.is_dir():
            raise InvalidFile(f"{str(path)!r} is a folder; name a file.")
        if path.exists() and not path.is_file():
            raise InvalidFile(f"{str(path)!r} is no regular file; name another.")
        for other in (*read, *written):
            if _same(path, other):
                which = "output" if other in written else "input"
                raise InvalidFile(
                    f"The output {str(path)!r} is the same file as the {which} {str(other)!r}. "
                    "Write it to another file."
                )
        written.append(path)
    for path in written:
        with write_errors(path):
            beside = _beside(path)
            beside.open("xb").close()
            beside.unlink()


def _same(path: Path, other: Path) -> bool:
    """Tell whether two files are one, or a file is there in a folder: a table in parts, say."""
    try:
        one, two = path.resolve(), other.resolve()
        within = path.exists() and other.is_dir() and one.is_relative_to(two)
        return one == two or within or os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them is not there yet, or is no file at all
        return False


def _beside(path: Path) -> Path:
    """Return a new name in the folder of a file."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def keep_elsewhere(content: bytes, name: str) -> str:
    """Write what cannot be written where it should be to the temporary folder; return where."""
    path = os.path.join(tempfile.mkdtemp(prefix="likewise-kept-"), name)
    write_whole(path, content)
    return path


LOCK = ".lock"


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that goes with this object, or else its process.

    What a killed one left goes at the next start: a lock in the folder tells whether its process
    lives, in whichever container that may be.
    """

    def __init__(self) -> None:
        _remove_stale()
        super().__init__(prefix="likewise-", ignore_cleanup_errors=True)
        # Locked before it has its name: nobody sees one whose process seems to be gone.
        first = os.path.join(self.name, f"{LOCK}.new")
        self._lock = open(first, "wb")  # noqa: SIM115 - it stays open as long as the folder
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(first, os.path.join(self.name, LOCK))


def _remove_stale() -> None:
    """Remove the temporary folders of processes that are gone, and of this user only."""
    for folder in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "likewise-*")):
        with contextlib.suppress(OSError):
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


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
