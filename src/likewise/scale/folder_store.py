"""Finished blocks in a folder, so that nothing is done twice or lost."""

import contextlib
import dataclasses
import fcntl
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import final

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole, write_errors, write_whole
from likewise.fingerprints import of_bytes, of_json
from likewise.scale.store import Book, FinishedPart, Identity, Store

IDENTITY = "identity.json"
LOCK = ".lock"
IF_FULL = "Make room, and continue with --resume."
PART = re.compile(r"part-(\d{10})-(\d{10})\.done")
HALF_WRITTEN = re.compile(r"\.(identity\.json|part-\d{10}-\d{10}\.done)\.[0-9a-f]{32}")
FORMAT = "likewise.part 2"
MOST_HEADER = 1000
MOST_PART = 2**32
MOST_IDENTITY = 2**20
MOST_NUMBER = 2**53


@final
@dataclasses.dataclass(frozen=True)
class FolderBook(Book):
    """Finished blocks in a folder, one file a part.

    A file is there whole or not at all. Its first line tells the blocks, the audit and the hash
    of all that follows; a file that is damaged, copied, swapped or of another audit does not
    agree with its name, its audit or its hash, and its blocks are done again.
    """

    folder: Path
    audit: str

    def _path(self, blocks: range) -> Path:
        return self.folder / f"part-{blocks.start:010d}-{blocks.stop:010d}.done"

    @override
    def done(self) -> list[range]:
        found: list[range] = []
        for path in sorted(self.folder.iterdir()):
            if match := PART.fullmatch(path.name):
                blocks = range(int(match[1]), int(match[2]))
                if self._read(blocks) is None or (found and found[-1].stop > blocks.start):
                    path.unlink()
                else:
                    found.append(blocks)
        return found

    @override
    def keep(self, part: FinishedPart) -> FinishedPart:
        sink = pa.BufferOutputStream()
        if part.outcomes is not None:
            pq.write_table(part.outcomes, sink, compression="zstd")
        rows = sink.getvalue().to_pybytes()
        header = json.dumps(
            {
                "format": FORMAT,
                "audit": self.audit,
                "blocks": [part.blocks.start, part.blocks.stop],
                "tally": len(part.tally),
                "sha256": of_bytes(part.tally, rows),
            }
        )
        content = header.encode() + b"\n" + part.tally + rows
        write_whole(self._path(part.blocks), content, if_full=IF_FULL)
        return dataclasses.replace(part, outcomes=None)

    @override
    def put(self, part: FinishedPart) -> None:
        """Do nothing: the worker has written it."""

    @override
    def tally(self, blocks: range) -> bytes:
        return self._found(blocks)[0]

    @override
    def outcomes(self, blocks: range) -> pa.Table:
        return pq.read_table(pa.BufferReader(self._found(blocks)[1]))

    @override
    def remove(self) -> None:
        for path in list(self.folder.iterdir()):
            if PART.fullmatch(path.name) or path.name in (IDENTITY, LOCK):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _found(self, blocks: range) -> tuple[bytes, bytes]:
        found = self._read(blocks)
        if found is None:
            raise InvalidFile(
                f"{str(self._path(blocks))!r} was damaged or removed after it was written. "
                "Continue with --resume: its blocks are done again."
            )
        return found

    def _read(self, blocks: range) -> tuple[bytes, bytes] | None:
        """Return tally and rows of a part, or nothing if it is not what it should be."""
        try:
            line, _, content = read_whole(self._path(blocks), most=MOST_PART).partition(b"\n")
            header = json.loads(line[:MOST_HEADER])
            tally, rows = content[: header["tally"]], content[header["tally"] :]
        except (InvalidFile, ValueError, KeyError, TypeError, RecursionError):
            return None
        expected = {
            "format": FORMAT,
            "audit": self.audit,
            "blocks": [blocks.start, blocks.stop],
            "tally": len(tally),
            "sha256": of_bytes(tally, rows),
        }
        return (tally, rows) if header == expected else None


@final
@dataclasses.dataclass(frozen=True)
class Folder(Store):
    """Keeps finished blocks in a folder, so that nothing is done twice or lost.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    resume
        Continue what is there; without it, a folder with an unfinished audit is refused.
    """

    path: str | Path
    resume: bool = False

    @property
    def _place(self) -> Path:
        return Path(self.path)

    @override
    def begun(self) -> dict[str, str | int]:
        file = self._place / IDENTITY
        return _read_identity(file) if file.exists() else {}

    def number(self, name: str) -> int | None:
        """Return a count in the identity of the audit that is there; nothing if none is."""
        found = self.begun().get(name)
        if found is not None and (not isinstance(found, int) or not 0 < found < MOST_NUMBER):
            raise _damaged(self._place / IDENTITY)
        return found

    @override
    def check(self) -> None:
        """Refuse at once to begin where something is, or to resume where nothing is."""
        begun = (self._place / IDENTITY).exists()
        if self.resume and not begun:
            raise InvalidSettings(
                f"There is no unfinished audit in {str(self.path)!r} to resume: leave out --resume."
            )
        if begun and not self.resume:
            raise InvalidSettings(
                f"There is an unfinished audit in {str(self._place)!r}. Continue it with --resume, "
                "or remove that folder."
            )
        strange = self._place.exists() and (not self._place.is_dir() or _strangers(self._place))
        if not begun and strange:
            raise InvalidSettings(f"{str(self._place)!r} holds something else than a journal.")

    @override
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        return self._open(dict(identity))

    @contextlib.contextmanager
    def _open(self, identity: dict[str, str | int]) -> Iterator[Book]:
        self.check()
        with write_errors(self._place, if_full=IF_FULL):
            self._place.mkdir(parents=True, exist_ok=True)
        with _locked(self._place):
            self.check()  # nobody else has begun here since
            with write_errors(self._place, if_full=IF_FULL):
                for left in self._place.iterdir():
                    if HALF_WRITTEN.fullmatch(left.name):
                        left.unlink()
            if self.resume:
                _check_same(self.begun(), identity, self._place)
            else:
                about = json.dumps(identity, indent=1).encode()
                write_whole(self._place / IDENTITY, about, if_full=IF_FULL)
            yield FolderBook(self._place, of_json(identity))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other audits out of a folder; the lock goes with the process, however that ends."""
    with write_errors(folder):
        file = (folder / LOCK).open("wb")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidSettings(
                f"Another audit is at work in {str(folder)!r}. Wait for it, or take another folder."
            ) from None
        yield


def _strangers(folder: Path) -> bool:
    """Tell whether a folder holds more than what a killed process had begun to write."""
    names = {path.name for path in folder.iterdir()}
    return any(not HALF_WRITTEN.fullmatch(name) for name in names - {LOCK})


def _read_identity(file: Path) -> dict[str, str | int]:
    try:
        found = json.loads(read_whole(file, most=MOST_IDENTITY))
    except (InvalidFile, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or any(type(v) not in (str, int) for v in found.values()):
        raise _damaged(file)
    return found


def _damaged(file: Path) -> InvalidFile:
    return InvalidFile(f"{str(file)!r} is damaged. Remove its folder and begin again.")


def _check_same(before: Identity, now: Identity, folder: Path) -> None:
    other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if other:
        raise InvalidSettings(
            f"The audit in {str(folder)!r} cannot be resumed: it was begun with other "
            f"{' and '.join(other)}. Use what it was begun with, or remove that folder."
        )
