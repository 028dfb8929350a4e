"""Finished blocks of an audit: kept in memory, or in a folder so that nothing is lost.

Workers keep what they finish themselves, and send back only its small tally.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole, write_errors, write_whole
from likewise.fingerprints import hash_bytes, hash_json

IDENTITY = "identity.json"
LOCK = ".lock"
IF_FULL = "Make room, and continue with --resume."
PART = re.compile(r"(part|[0-9a-f]{16})-(\d{10})-(\d{10})\.done")
HALF_WRITTEN = re.compile(r"\..+\.[0-9a-f]{32}")
OURS = re.compile(f"{PART.pattern}|{HALF_WRITTEN.pattern}")
FORMAT = "likewise.part 5"
"""Raised whenever sums change in shape or meaning: parts of another format are done again."""
MOST_PART, MOST_IDENTITY = 2**32, 2**20
"""Bytes that are read of a part, and of an identity."""

Identity = Mapping[str, str | int]
"""What the results depend on, by name: hashes, versions, rows of a block."""


@dataclasses.dataclass(frozen=True)
class FinishedPart:
    """Finished blocks: their numbers, what was added up over them, and one row a person.

    There are no rows where the store keeps them elsewhere.
    """

    blocks: range
    tally: bytes
    outcomes: pa.Table | None = None


@final
@dataclasses.dataclass(frozen=True)
class Journal:
    """The finished blocks of one audit: in a folder, one file a part, or in memory without one.

    A file is there whole or not at all. Its first line is a hash of its audit, its blocks and all
    that follows; a file that is damaged, copied, swapped or of another audit does not agree with
    its hash, and its blocks are done again.
    """

    folder: Path | None = None
    audit: str = ""
    name: str = "part"
    parts: dict[range, FinishedPart] = dataclasses.field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parts": {}}  # what is here stays here; a worker only keeps

    @property
    def resumable(self) -> bool:
        """Whether it outlives this process, so that an audit can be continued."""
        return self.folder is not None

    def section(self, name: str) -> "Journal":
        """Return where the finished blocks of a further pass over the people are kept."""
        return dataclasses.replace(self, name=hash_json(name)[:16], parts={})

    def done(self) -> list[range]:
        """Return which blocks are finished, in order; what is not as it was written is not."""
        if self.folder is None:
            return sorted(self.parts, key=lambda blocks: blocks.start)
        found: list[range] = []
        for path in sorted(self.folder.iterdir()):
            match = PART.fullmatch(path.name)
            if match is not None and match[1] == self.name:
                blocks = range(int(match[2]), int(match[3]))
                if self._read(blocks) is None:
                    path.unlink()
                else:
                    found.append(blocks)
        return found

    def keep(self, part: FinishedPart) -> FinishedPart:
        """Keep finished blocks, in the worker; return what has to travel to the main process."""
        if self.folder is None:
            return part
        sink = pa.BufferOutputStream()
        if part.outcomes is not None:
            pq.write_table(part.outcomes, sink, compression="zstd")
        rows = sink.getvalue().to_pybytes()
        header = f"{len(part.tally)} {self._hash(part.blocks, part.tally, rows)}\n"
        content = header.encode() + part.tally + rows
        write_whole(self._path(part.blocks), content, if_full=IF_FULL)
        return dataclasses.replace(part, outcomes=None)

    def put(self, part: FinishedPart) -> None:
        """Take note, in the main process, of what `keep` returned and has not written."""
        if self.folder is None:
            self.parts[part.blocks] = part

    def read(self, blocks: range) -> FinishedPart:
        """Return finished blocks."""
        if self.folder is None:
            return self.parts[blocks]
        found = self._read(blocks)
        if found is None:
            raise InvalidFile(
                f"{str(self._path(blocks))!r} was damaged or removed after it was written. "
                "Continue with --resume: its blocks are done again."
            )
        tally, rows = found
        return FinishedPart(blocks, tally, pq.read_table(pa.BufferReader(rows)) if rows else None)

    def remove(self) -> None:
        """Forget everything."""
        self.parts.clear()
        if self.folder is None:
            return
        parts = [path for path in self.folder.iterdir() if OURS.fullmatch(path.name)]
        # What says that this is a journal goes last: a kill in between leaves one to resume.
        for path in (*parts, self.folder / IDENTITY, self.folder / LOCK):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _path(self, blocks: range) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.name}-{blocks.start:010d}-{blocks.stop:010d}.done"

    def _hash(self, blocks: range, tally: bytes, rows: bytes) -> str:
        about = [FORMAT, self.audit, self.name, blocks.start, blocks.stop]
        return hash_bytes(json.dumps(about).encode(), tally, rows)

    def _read(self, blocks: range) -> tuple[bytes, bytes] | None:
        """Return tally and rows of a part, or nothing if it is not what it should be."""
        try:
            line, _, content = read_whole(self._path(blocks), most=MOST_PART).partition(b"\n")
            length, digest = line.decode().split()
            tally, rows = content[: int(length)], content[int(length) :]
        except (InvalidFile, ValueError):
            return None
        return (tally, rows) if digest == self._hash(blocks, tally, rows) else None


@final
class Memory:
    """Keeps finished blocks in memory; nothing can be resumed."""

    def begun(self) -> Identity:
        """Return the identity of an audit that is there already; empty if there is none."""
        return {}

    def check(self) -> None:
        """Refuse at once what `opened` would refuse, before a long run."""

    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Journal]:
        """Begin an audit, or continue one with the same identity."""
        return contextlib.nullcontext(Journal())


@final
class Folder:
    """Keeps finished blocks in a folder, so that nothing is done twice or lost.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    resume
        Continue what is there; without it, a folder with an unfinished audit is refused.
    """

    def __init__(self, path: str | Path, resume: bool = False) -> None:
        self.path, self.resume = Path(path), resume

    def begun(self) -> Identity:
        """Return the identity of an audit that is there already; empty if there is none."""
        file = self.path / IDENTITY
        if not file.exists():
            return {}
        try:
            found = json.loads(read_whole(file, most=MOST_IDENTITY))
        except (InvalidFile, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or any(type(v) not in (str, int) for v in found.values()):
            raise InvalidFile(f"{str(file)!r} is damaged. Remove its folder and begin again.")
        return found

    def check(self) -> None:
        """Refuse at once what `opened` would refuse, before a long run."""
        folder, name = self.path, repr(str(self.path))
        begun = (folder / IDENTITY).exists()
        refused = ""
        if self.resume and not begun:
            refused = f"There is no unfinished audit in {name} to resume: leave out --resume."
        elif begun and not self.resume:
            refused = (
                f"There is an unfinished audit in {name}. Continue it with --resume, or remove "
                "that folder."
            )
        elif folder.is_symlink():
            refused = f"The journal {name} is a link. Remove it, or write the result elsewhere."
        elif folder.exists() and folder.stat().st_uid != os.geteuid():
            refused = f"The journal {name} belongs to another user. Write the result elsewhere."
        elif folder.exists() and not begun:
            # A killed process may have left a lock, and what it had begun to write.
            left = {path.name for path in folder.iterdir()} - {LOCK} if folder.is_dir() else {""}
            if not all(map(HALF_WRITTEN.fullmatch, left)):
                refused = f"{name} holds something else than a journal."
        if refused:
            raise InvalidSettings(refused)

    @contextlib.contextmanager
    def opened(self, identity: Identity) -> Iterator[Journal]:
        """Begin an audit, or continue one with the same identity."""
        self.check()
        with write_errors(self.path, if_full=IF_FULL):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
        with _locked(self.path):
            self.check()  # nobody else has begun here since
            if self.resume:
                self._check_same(identity)
            else:
                about = json.dumps(dict(identity), indent=1).encode()
                write_whole(self.path / IDENTITY, about, if_full=IF_FULL)
            yield Journal(self.path, hash_json(dict(identity)))

    def _check_same(self, now: Identity) -> None:
        before = self.begun()
        if other := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            raise InvalidSettings(
                f"The audit in {str(self.path)!r} cannot be resumed: it was begun with other "
                f"{' and '.join(other)}. Use what it was begun with, or remove that folder."
            )


Store = Memory | Folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other audits out of a folder; the lock goes with the process, however that ends."""
    with write_errors(folder):
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchmod(place, 0o700)  # from here on nobody else can put anything there
            # Never through a link, whose target would be ours to change, and never emptied.
            kind = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            file = os.fdopen(os.open(LOCK, kind, 0o600, dir_fd=place), "rb+", buffering=0)
        finally:
            os.close(place)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidSettings(
                f"Another audit is at work in {str(folder)!r}. Wait for it, or take another folder."
            ) from None
        yield
