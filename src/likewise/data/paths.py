"""Which files are meant, what kind they are, and what is wrong with one that cannot be read."""

import contextlib
import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from likewise.errors import InvalidData, InvalidFile, in_short, nearest

PARQUET = (".parquet", ".pq")
PACKED = ("", ".gz", ".bz2", ".zst")
TSV = tuple(".tsv" + packed for packed in PACKED)
CSV = tuple(".csv" + packed for packed in PACKED) + TSV


def is_parquet(path: Path) -> bool:
    """Tell whether a file is Parquet, by its name."""
    return path.name.lower().endswith(PARQUET)


def is_csv(path: Path) -> bool:
    """Tell whether a file holds comma-separated (or tab-separated) values, by its name."""
    return path.name.lower().endswith(CSV)


def is_tsv(path: Path) -> bool:
    """Tell whether the values in such a file are separated by tabs."""
    return path.name.lower().endswith(TSV)


def expand(source: Sequence[str | Path]) -> list[Path]:
    """Return the files meant by names, patterns (``part-*.parquet``) and folders, in order.

    Files of a pattern or folder are read in the order of their names.
    """
    paths: list[Path] = []
    for entry in source:
        try:
            paths += _meant_by(Path(entry))
        except OSError as error:
            raise InvalidFile(f"{str(entry)!r} cannot be read: {error.strerror}.") from None
    if not paths:
        raise InvalidData("No file is named. Name at least one.")
    seen: set[Path] = set()
    for path in paths:
        if not (is_parquet(path) or is_csv(path)):
            raise InvalidFile(
                f"{str(path)!r} is neither Parquet (.parquet) nor CSV (.csv, .tsv) by its name."
            )
        if path.resolve() in seen:
            raise InvalidFile(
                f"The file {str(path)!r} is named twice, so people would count twice."
            )
        seen.add(path.resolve())
    return paths


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
def reading(path: Path) -> Iterator[None]:
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
