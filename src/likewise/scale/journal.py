"""Finished pieces of a long run, on disk, so that nothing is done twice or lost."""

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole, write_whole, writing

IDENTITY = "identity.json"
IF_FULL = "Make room, and continue with --resume."
PIECE = re.compile(r"piece-(\d{8})\.parquet")
HALF_WRITTEN = re.compile(r"\.(identity\.json|piece-\d{8}\.parquet)\.[0-9a-f]{32}")


@dataclasses.dataclass(frozen=True)
class Journal:
    """A folder with one file for each finished piece.

    A file is written beside its place, forced to disk, and then renamed, so that it is there
    whole or not at all, whatever happens to the process or the power.
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, identity: Mapping[str, str], *, resume: bool) -> "Journal":
        """Begin a journal, or continue one.

        Parameters
        ----------
        identity
            What the results depend on (settings, model, data, …), as hashes by name. A journal
            of anything else is refused.
        resume
            Continue what is there; without it, a folder with finished pieces is refused.
        """
        cls.expect(folder, resume=resume)
        with writing(folder, if_full=IF_FULL):
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(".*"):
                if HALF_WRITTEN.fullmatch(left.name):
                    left.unlink()
        if resume:
            _check_same(cls.begun(folder), identity, folder)
        else:
            about = json.dumps(dict(identity), indent=1).encode()
            write_whole(folder / IDENTITY, about, if_full=IF_FULL)
        return cls(folder)

    @classmethod
    def expect(cls, folder: Path, *, resume: bool) -> None:
        """Refuse at once to begin where something is, or to resume where nothing is."""
        begun = (folder / IDENTITY).exists()
        if resume and not begun:
            raise InvalidSettings(
                f"There is no unfinished audit in {str(folder)!r} to resume: leave out --resume."
            )
        if begun and not resume:
            raise InvalidSettings(
                f"There is an unfinished audit in {str(folder)!r}. Continue it with --resume, or "
                "remove that folder."
            )
        if not begun and folder.exists() and (not folder.is_dir() or _strangers(folder)):
            raise InvalidSettings(f"{str(folder)!r} holds something else than a journal.")

    @staticmethod
    def begun(folder: Path) -> dict[str, str]:
        """Return the identity of the audit in a folder; empty if there is none."""
        file = folder / IDENTITY
        return _read_identity(file) if file.exists() else {}

    def path(self, number: int) -> Path:
        """Return where a piece is, or will be."""
        return self.folder / f"piece-{number:08d}.parquet"

    def done(self) -> set[int]:
        """Return the numbers of the finished pieces."""
        found = (PIECE.fullmatch(path.name) for path in self.folder.iterdir())
        return {int(match[1]) for match in found if match}

    def write(self, number: int, content: bytes) -> None:
        """Keep a finished piece."""
        write_whole(self.path(number), content, if_full=IF_FULL)

    def remove(self) -> None:
        """Remove the journal, and the folder if nothing else is in it."""
        for number in self.done():
            self.path(number).unlink(missing_ok=True)
        (self.folder / IDENTITY).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def _strangers(folder: Path) -> bool:
    """Tell whether a folder holds more than what a killed process had begun to write."""
    return any(not HALF_WRITTEN.fullmatch(path.name) for path in folder.iterdir())


def _read_identity(file: Path) -> dict[str, str]:
    try:
        found = json.loads(read_whole(file, most=1_000_000))
    except (ValueError, RecursionError):  # no regular file included
        found = None
    if not isinstance(found, dict):
        raise InvalidFile(f"{str(file)!r} is damaged. Remove its folder and begin again.")
    return found


def _check_same(before: Mapping[str, str], now: Mapping[str, str], folder: Path) -> None:
    other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if other:
        raise InvalidSettings(
            f"The audit in {str(folder)!r} cannot be resumed: it was begun with other "
            f"{' and '.join(other)}. Use what it was begun with, or remove that folder."
        )
