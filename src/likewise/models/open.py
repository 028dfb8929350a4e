"""Opening saved models: what is safe opens at once, what can run code needs the user's word."""

import hashlib
import importlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile, InvalidModel, TrustRequired, in_short, nearest
from likewise.models import saved
from likewise.models.opened import Opened

ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def open_model(spec: str, *, trust: bool = False) -> Opened:
    """Open a model from a file or a name, ready for `as_model`.

    Parameters
    ----------
    spec
        A ``.safetensors`` file written by `save_model`; or, with ``trust``, a ``.pt2`` archive,
        a ``.joblib``, ``.pkl``, ``.pickle``, ``.pt`` or ``.pth`` file, or
        ``package.module:attribute``.
    trust
        Whether code that comes with the model may be run. Opening a pickle runs whatever its
        author put in it.
    """
    path = Path(spec)
    if not path.exists():
        if ATTRIBUTE.fullmatch(spec):
            _ask(spec, trust, "Importing")
            return Opened(_attribute(spec))
        raise InvalidFile(f"There is no model file {spec!r}.{_beside(path)}")
    readers = _SAFE | _TRUSTED
    suffix = path.suffix.lower()
    if path.is_dir() or suffix not in readers:
        raise InvalidFile(f"{spec!r} is no model file: it must end in one of {', '.join(readers)}.")
    if suffix in _TRUSTED:
        _ask(spec, trust, "Opening")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"{spec!r} cannot be read: {error.strerror}.") from None
    if not content:
        raise InvalidFile(f"{spec!r} is empty.")
    if suffix in _SAFE:
        return _SAFE[suffix](content, spec)
    try:
        found = _TRUSTED[suffix](content)
    except ModuleNotFoundError as error:
        raise InvalidFile(
            f"{spec!r} needs the package {error.name!r}, which is not installed."
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise InvalidFile(f"{spec!r} is damaged or not what it says ({in_short(error)}).") from None
    if isinstance(found, dict):
        raise InvalidModel(
            f"{spec!r} holds a dictionary, not a model. Weights alone do not say what the network "
            "is: load them into it, and write it with likewise.save_model."
        )
    return Opened(found, fingerprint=hashlib.sha256(content).hexdigest())


def _ask(spec: str, trust: bool, how: str) -> None:
    if not trust:
        raise TrustRequired(
            f"{how} {spec!r} can run code that comes with it. If you trust where it is from, say "
            "so with --trust (trust=True)."
        )


def _attribute(spec: str) -> Any:
    module, _, attribute = spec.partition(":")
    folder = str(Path.cwd())
    # As `python -m` does: the user's own code lies in the folder they work in.
    sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise InvalidModel(f"{module!r} cannot be imported: {in_short(error)}.") from None
    finally:
        sys.path.remove(folder)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InvalidModel(f"{module!r} has no {attribute!r}.{nearest(name, dir(found))}")
        found = getattr(found, name)
    return found


def _beside(path: Path) -> str:
    """Name the file in the same folder whose name comes closest."""
    if not path.parent.is_dir():
        return f" There is no folder {str(path.parent)!r} either."
    return nearest(path.name, (entry.name for entry in path.parent.iterdir()))


def _joblib(content: bytes) -> Any:
    import joblib

    return joblib.load(io.BytesIO(content))


def _pickle(content: bytes) -> Any:
    import pickle

    return pickle.loads(content)


def _torch(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)


def _export(content: bytes) -> Any:
    import torch

    return torch.export.load(io.BytesIO(content)).module()


_SAFE: dict[str, Callable[[bytes, str], Opened]] = {".safetensors": saved.read_bytes}
_TRUSTED: dict[str, Callable[[bytes], Any]] = {
    ".pt2": _export,
    ".joblib": _joblib,
    ".pkl": _joblib,  # which reads plain pickles too
    ".pickle": _pickle,
    ".pt": _torch,
    ".pth": _torch,
}
