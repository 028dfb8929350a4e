"""Opening saved models: what is safe opens at once, what can run code needs the user's word."""

import re
from collections.abc import Callable
from pathlib import Path

from likewise.errors import InvalidFile, TrustRequired, nearest
from likewise.files import read_whole
from likewise.models import (
    boosted,
    endpoint,
    mlflow_folder,
    model_file,
    onnx_file,
    pickled,
    skops_file,
)
from likewise.models.base import Opened

ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

SAFE: dict[str, Callable[[bytes, str], Opened]] = {
    ".safetensors": model_file.read_bytes,
    ".onnx": onnx_file.read_bytes,
}
LARGEST = 4_000_000_000
"""Bytes of a model file that are read."""

SUFFIXES = (*SAFE, ".skops", *pickled.READERS, *boosted.SUFFIXES)


def open_model(spec: str, *, trust: bool = False) -> Opened:
    """Open a model from a file, a folder, an address or a name, ready for `as_model`.

    Parameters
    ----------
    spec
        Without trust: a ``.safetensors`` file written by `save_model`, an ``.onnx`` file, a
        ``.skops`` file of reviewed types, the native files of XGBoost, LightGBM and CatBoost, an
        ``http://`` address.
        With trust: also a ``.pt2`` archive, a ``.joblib``, ``.pkl``, ``.pickle``, ``.pt`` or
        ``.pth`` file, or ``package.module:attribute``.
        An MLflow folder follows the rules of the file inside.
    trust
        Whether code that comes with the model may be run. Opening a pickle runs whatever its
        author put in it.
    """
    if spec.startswith(("http://", "https://")):
        return Opened(endpoint.Endpoint(spec).model())
    path = Path(spec)
    if path.is_dir():
        return open_model(str(mlflow_folder.model_file(path)), trust=trust)
    if not path.exists():
        if ATTRIBUTE.fullmatch(spec):
            _ask(f"Importing {spec!r} can run code that comes with it", trust)
            return pickled.import_attribute(spec)
        raise InvalidFile(f"There is no model file {spec!r}.{_beside(path)}")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidFile(
            f"{spec!r} is no model file: it must end in one of {', '.join(SUFFIXES)}."
        )
    if suffix in pickled.READERS:
        _ask(f"Opening {spec!r} can run code that comes with it", trust)
    content = read_whole(path, most=LARGEST)
    if not content:
        raise InvalidFile(f"{spec!r} is empty.")
    if suffix in pickled.READERS:
        return pickled.read_bytes(content, spec, suffix)
    if suffix == ".skops":
        return skops_file.read_bytes(content, spec, trust)
    if suffix in boosted.SUFFIXES:
        return boosted.read_bytes(content, spec, suffix, tried=trust)
    return SAFE[suffix](content, spec)


def is_model_name(spec: str) -> bool:
    """Tell whether a name is that of a model rather than of a table of people."""
    path = Path(spec)
    if path.is_dir():
        return (path / "MLmodel").exists()
    address = spec.startswith(("http://", "https://")) and path.suffix not in (".csv", ".parquet")
    named = not path.exists() and ATTRIBUTE.fullmatch(spec) is not None
    return address or named or path.suffix.lower() in SUFFIXES


def _ask(why: str, trust: bool) -> None:
    if not trust:
        raise TrustRequired(
            f"{why}. If you trust where it is from, say so with --trust (trust=True)."
        )


def _beside(path: Path) -> str:
    """Name the file in the same folder whose name comes closest."""
    if not path.parent.is_dir():
        return f" There is no folder {str(path.parent)!r} either."
    return nearest(path.name, (entry.name for entry in path.parent.iterdir()))
