"""Opens a stranger's model in a process of its own first, within limits of memory and time.

A graph can ask for all the memory there is, and a library that reads it can crash. Here that
happens to a process that has nothing to lose; what it opens in peace is then opened for good.
"""

import dataclasses
import hashlib
import importlib.abc
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import InvalidFile, LikewiseError

REFUSED = 2
SECONDS = 60
BYTES, TIMES = 2 * 2**30, 40
"""Address space of the process, libraries included; and so many times as much as the file has."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""Threads take address space, and are as many as the machine has processors."""


class Refused(InvalidFile):
    """What the process that tried a file out says of it, as a whole sentence."""


_passed: set[bytes] = set()
"""Hashes of what was opened in peace, since one audit opens its model more than once."""


def try_out(content: bytes, source: str) -> None:
    """Refuse a file that cannot be opened, and asked about two people, within limits."""
    if multiprocessing.parent_process() is not None:
        return  # a worker: the process that started it has tried the file
    digest = hashlib.sha256(Path(source).suffix.lower().encode() + content).digest()
    if digest in _passed:
        return
    command = [sys.executable, "-m", "likewise.models.trial", source, str(_most(content))]
    try:
        done = subprocess.run(
            command,
            input=content,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, **ONE_THREAD},
        )
    except subprocess.TimeoutExpired:
        raise InvalidFile(f"it takes more than {SECONDS} seconds to open") from None
    if done.returncode == REFUSED:  # to open it here too might crash what reads it
        raise Refused(done.stdout.decode().strip())
    if done.returncode:
        raise InvalidFile(
            f"it takes more than {_most(content) / 2**30:.1f} GB of memory to open and run on two "
            "people, or crashes what reads it"
        )
    _passed.add(digest)


def _most(content: bytes) -> int:
    return BYTES + TIMES * len(content)


def _limit(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the time is limited all the same
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def main(source: str, most: int) -> int:
    """Open what comes in on stdin, ask it about two people, and return the exit code."""
    content = sys.stdin.buffer.read()
    _limit(most)
    suffix = Path(source).suffix.lower()
    try:
        if suffix != ".onnx":
            _read_trees(content, source, suffix)
            return 0
        from likewise.models import onnx_file
        from likewise.models.behaviour import check_rows
        from likewise.models.recognise import as_model

        model = as_model(onnx_file.read_bytes(content, source, tried=True))
        check_rows(model, np.zeros((2, model.card.n_features or 1)))
    except MemoryError:
        return 1
    except LikewiseError as error:
        if "alloc" in f"{error} {error.__context__}".lower():
            return 1
        if suffix != ".onnx":
            print(error)
            return REFUSED
        return 0  # whatever else is wrong with a graph is for the caller to find and to say
    return 0


@dataclasses.dataclass(frozen=True)
class _Without(importlib.abc.MetaPathFinder):
    """Lets some packages look as if they were not installed, to compiled code, too."""

    packages: tuple[str, ...]

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _read_trees(content: bytes, source: str, suffix: str) -> None:
    if suffix != ".cbm":
        # To read trees takes neither, and to import them takes four times as long as the rest.
        sys.meta_path.insert(0, _Without(("sklearn", "pandas")))
    from likewise.models import boosted

    boosted.read_bytes(content, source, suffix, tried=True, strange=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
