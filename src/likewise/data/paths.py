"""Which files are meant, what kind they are, and what is wrong with one that cannot be read."""

import contextlib
import dataclasses
import fnmatch
import functools
import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from likewise.errors import InvalidData, InvalidFile, in_short, nearest

PARQUET = (".parquet", ".pq")
PACKED = ("", ".gz", ".bz2", ".zst")
TSV = tuple(".tsv" + packed for packed in PACKED)
CSV = tuple(".csv" + packed for packed in PACKED) + TSV


@dataclasses.dataclass(frozen=True)
class Address:
    """A file behind an address such as ``s3://bucket/people.parquet``, read through pyarrow.

    Parameters
    ----------
    root
        The address as it was given, with options and credentials, which are never shown.
    path
        The file, as its file system names it.
    """

    root: str = dataclasses.field(repr=False)
    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{urlsplit(self.root).scheme}://{self.path}"

    def size(self) -> int:
        """Return the number of bytes."""
        return _file_system(self.root)[0].get_file_info(self.path).size

    def open(self) -> Any:
        """Open the file for reading anywhere in it."""
        return _file_system(self.root)[0].open_input_file(self.path)

    def stream(self) -> Any:
        """Open the file for reading from its beginning, unpacked if its name says it is packed."""
        return _file_system(self.root)[0].open_input_stream(self.path)


Place = Path | Address
"""A file on this machine, or one behind an address."""


@functools.lru_cache(maxsize=16)
def _file_system(root: str) -> tuple[Any, str]:
    return pyarrow.fs.FileSystem.from_uri(root)


def is_parquet(path: Place) -> bool:
    """Tell whether a file is Parquet, by its name."""
    return path.name.lower().endswith(PARQUET)


def is_csv(path: Place) -> bool:
    """Tell whether a file holds comma-separated (or tab-separated) values, by its name."""
    return path.name.lower().endswith(CSV)


def is_tsv(path: Place) -> bool:
    """Tell whether the values in such a file are separated by tabs."""
    return path.name.lower().endswith(TSV)


def expand(source: Sequence[str | Path]) -> list[Place]:
    """Return the files meant by names, patterns (``part-*.parquet``), folders and addresses.

    Files of a pattern or folder are read in the order of their names.
    """
    paths: list[Place] = []
    for entry in source:
        if isinstance(entry, str) and "://" in entry:
            paths += _behind(entry)
            continue
        try:
            paths += _meant_by(Path(entry))
        except OSError as error:
            raise InvalidFile(f"{str(entry)!r} cannot be read: {error.strerror}.") from None
    if not paths:
        raise InvalidData("No file is named. Name at least one.")
    seen: set[Place] = set()
    for path in paths:
        if not (is_parquet(path) or is_csv(path)):
            raise InvalidFile(
                f"{str(path)!r} is neither Parquet (.parquet) nor CSV (.csv, .tsv) by its name."
            )
        real = path if isinstance(path, Address) else path.resolve()
        if real in seen:
            raise InvalidFile(
                f"The file {str(path)!r} is named twice, so people would count twice."
            )
        seen.add(real)
    return paths


def size_of(place: Place) -> int:
    """Return the number of bytes of a file."""
    return place.size() if isinstance(place, Address) else place.stat().st_size


def check_filled(place: Place) -> None:
    """Refuse a file of no bytes."""
    if size_of(place) == 0:
        raise InvalidFile(f"The file {str(place)!r} is empty.")


def _behind(root: str) -> list[Place]:
    """Return the files that an address means: itself, those of a folder, or those of a pattern."""
    split = urlsplit(root)
    shown = f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}"
    stem = split.path.partition("*")[0].rpartition("/")[0]
    listed = split._replace(path=stem).geturl() if "*" in split.path else root
    try:
        system, path = _file_system(listed)
        info = system.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [Address(root, path)]
        folder = pyarrow.fs.FileSelector(path, recursive="*" in split.path)
        found = [] if info.type == pyarrow.fs.FileType.NotFound else system.get_file_info(folder)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(f"{shown!r} cannot be reached ({in_short(error)}).") from None
    wanted = path + split.path[len(stem) :] if "*" in split.path else path.rstrip("/") + "/*"
    files: list[Place] = [
        Address(listed, item.path)
        for item in sorted(found, key=lambda item: item.path)
        if item.is_file and _matches(item.path, wanted)
    ]
    files = [file for file in files if is_parquet(file) or is_csv(file)]
    if not files:
        raise InvalidFile(f"There is no Parquet or CSV file at {shown!r}.")
    return files


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern, whose ``*`` stay within a folder."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _meant_by(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if is_parquet(p) or is_csv(p))
        if not found:
            raise InvalidFile(f"There is no Parquet or CSV file in the folder {str(path)!r}.")
    elif path.exists():
        found = [path]
    else:
        found = sorted(map(Path, glob.glob(str(path), recursive=True)))
        if not found:
            near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InvalidFile(f"There is no file {str(path)!r}.{nearest(path.name, near)}")
    return found


@contextlib.contextmanager
def reading(path: Place) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into one sentence."""
    try:
        yield
    except UnicodeDecodeError:
        raise InvalidFile(f"{str(path)!r} is not UTF-8 text. Save it as UTF-8.") from None
    except (pa.ArrowException, OSError) as error:
        if "UTF8" in str(error):
            raise InvalidFile(f"{str(path)!r} is not UTF-8 text. Save it as UTF-8.") from None
        kind_of_file = "Parquet" if is_parquet(path) else "CSV"
        raise InvalidFile(
            f"{str(path)!r} cannot be read as {kind_of_file} ({in_short(error)})."
        ) from None
