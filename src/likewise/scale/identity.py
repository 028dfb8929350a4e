"""What the numbers of a long run depend on, as hashes: the same identity, the same numbers."""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = ("likewise", "numpy", "scipy", "torch")


def files_digest(paths: Sequence[str | Path]) -> str:
    """Return a sha256 of the bytes of some files, in their order, whatever they are called."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """Return a sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def library_versions() -> str:
    """Return the versions of what computes rows."""
    return ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
