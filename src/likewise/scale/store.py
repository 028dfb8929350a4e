"""Where finished blocks are kept: in memory, or in a folder that can be resumed.

Workers keep what they finish themselves, and send back only its small tally.
"""

import abc
import contextlib
import dataclasses
import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import write_whole, writing
from likewise.fingerprints import of_bytes, of_json

IDENTITY = "identity.json"
LOCK = ".lock"
IF_FULL = "Make room, and continue with --resume."
PART = re.compile(r"part-(\d{10})-(\d{10})\.done")
HALF_WRITTEN = re.compile(r"\.(identity\.json|part-\d{10}-\d{10}\.done)\.[0-9a-f]{32}")
FORMAT = "likewise.part 1"
MOST_HEADER = 1000

Identity = Mapping[str, str | int]
"""What the results depend on, by name: hashes, versions, rows of a block."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Finished blocks.

    Parameters
    ----------
    blocks
        Their numbers.
    tally
        What was added up over them, as bytes; small.
    outcomes
        One row a person; none where the store keeps them elsewhere.
    """

    blocks: range
    tally: bytes
    outcomes: pa.Table | None = None


class Book(abc.ABC):
    """The finished blocks of one audit."""

    @abc.abstractmethod
    def done(self) -> list[range]:
        """Return which blocks are finished, in order; what is not as it was written is not."""

    @abc.abstractmethod
    def keep(self, part: Part) -> Part:
        """Keep finished blocks, in the worker; return what has to travel to the main process."""

    @abc.abstractmethod
    def put(self, part: Part) -> None:
        """Take note of what `keep` returned, in the main process."""

    @abc.abstractmethod
    def tally(self, blocks: range) -> bytes:
        """Return the tally of finished blocks."""

    @abc.abstractmethod
    def outcomes(self, blocks: range) -> pa.Table:
        """Return the rows of finished blocks."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Forget everything."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of all finished blocks, in their order."""
        return (self.outcomes(blocks) for blocks in self.done())


class Store(abc.ABC):
    """A place for finished blocks."""

    @abc.abstractmethod
    def begun(self) -> dict[str, str | int]:
        """Return the identity of an audit that is there already; empty if there is none."""

    @abc.abstractmethod
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        """Begin an audit, or continue one with the same identity."""


@final
class MemoryBook(Book):
    """Finished blocks in the memory of this process."""

    def __init__(self) -> None:
        self._parts: dict[range, Part] = {}

    @override
    def done(self) -> list[range]:
        return sorted(self._parts, key=lambda blocks: blocks.start)

    @override
    def keep(self, part: Part) -> Part:
        return part

    @override
    def put(self, part: Part) -> None:
        self._parts[part.blocks] = part

    @override
    def tally(self, blocks: range) -> bytes:
        return self._parts[blocks].tally

    @override
    def outcomes(self, blocks: range) -> pa.Table:
        return self._parts[blocks].outcomes

    @override
    def remove(self) -> None:
        self._parts.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker needs no more than the way to keep things: what is here stays here.
        return MemoryBook, ()


@final
@dataclasses.dataclass(frozen=True)
class Memory(Store):
    """Keeps finished blocks in memory; nothing can be resumed."""

    @override
    def begun(self) -> dict[str, str | int]:
        return {}

    @contextlib.contextmanager
    def _open(self) -> Iterator[Book]:
        yield MemoryBook()

    @override
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        return self._open()


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
    def keep(self, part: Part) -> Part:
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
    def put(self, part: Part) -> None:
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
            with self._path(blocks).open("rb") as file:
                line = file.readline(MOST_HEADER)
                header = json.loads(line)
                size = header["tally"]
                tally, rows = file.read(size), file.read()
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
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

    path: Path
    resume: bool = False

    @override
    def begun(self) -> dict[str, str | int]:
        file = self.path / IDENTITY
        return _read_identity(file) if file.exists() else {}

    def check(self) -> None:
        """Refuse at once to begin where something is, or to resume where nothing is."""
        begun = (self.path / IDENTITY).exists()
        if self.resume and not begun:
            raise InvalidSettings(
                f"There is no unfinished audit in {str(self.path)!r} to resume: leave out --resume."
            )
        if begun and not self.resume:
            raise InvalidSettings(
                f"There is an unfinished audit in {str(self.path)!r}. Continue it with --resume, "
                "or remove that folder."
            )
        strange = self.path.exists() and (not self.path.is_dir() or _strangers(self.path))
        if not begun and strange:
            raise InvalidSettings(f"{str(self.path)!r} holds something else than a journal.")

    @override
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        return self._open(dict(identity))

    @contextlib.contextmanager
    def _open(self, identity: dict[str, str | int]) -> Iterator[Book]:
        self.check()
        with writing(self.path, if_full=IF_FULL):
            self.path.mkdir(parents=True, exist_ok=True)
        with _locked(self.path):
            self.check()  # nobody else has begun here since
            with writing(self.path, if_full=IF_FULL):
                for left in self.path.iterdir():
                    if HALF_WRITTEN.fullmatch(left.name):
                        left.unlink()
            if self.resume:
                _check_same(self.begun(), identity, self.path)
            else:
                about = json.dumps(identity, indent=1).encode()
                write_whole(self.path / IDENTITY, about, if_full=IF_FULL)
            yield FolderBook(self.path, of_json(identity))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other audits out of a folder; the lock goes with the process, however that ends."""
    with writing(folder):
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
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or any(type(v) not in (str, int) for v in found.values()):
        raise InvalidFile(f"{str(file)!r} is damaged. Remove its folder and begin again.")
    return found


def _check_same(before: Identity, now: Identity, folder: Path) -> None:
    other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if other:
        raise InvalidSettings(
            f"The audit in {str(folder)!r} cannot be resumed: it was begun with other "
            f"{' and '.join(other)}. Use what it was begun with, or remove that folder."
        )
