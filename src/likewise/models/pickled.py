"""Files that can hold anything, and run it when they are opened: only for those who trust them."""

import hashlib
import importlib
import inspect
import io
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile, InvalidModel, MissingExtra, in_short, nearest, need
from likewise.models.base import Opened


def read_bytes(content: bytes, source: str, suffix: str) -> Opened:
    """Unpickle a file, whatever that does."""
    try:
        found = READERS[suffix](content)
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        raise InvalidFile(
            f"{source!r} needs the package {error.name!r}, which is not installed."
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise InvalidFile(
            f"{source!r} is damaged or not what it says ({in_short(error)})."
        ) from None
    if isinstance(found, dict):
        raise InvalidModel(
            f"{source!r} holds a dictionary, not a model. Weights alone do not say what the "
            "network is: load them into it, and write it with likewise.save_model."
        )
    return Opened(found, fingerprint=hashlib.sha256(content).hexdigest())


def import_attribute(spec: str) -> Opened:
    """Import what ``package.module:attribute`` names, also from the folder one works in.

    A function is known by the file it stands in.
    """
    module, _, attribute = spec.partition(":")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)  # as `python -m` does
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
    code = inspect.getsourcefile(found) if inspect.isfunction(found) else None
    known = hashlib.sha256(Path(code).read_bytes()).hexdigest() if code else ""
    return Opened(found, fingerprint=known)


def _joblib(content: bytes) -> Any:
    import joblib

    return joblib.load(io.BytesIO(content))


def _torch(content: bytes) -> Any:
    return _torch_reader().read_pickle(content)


def _export(content: bytes) -> Any:
    return _torch_reader().read_export(content)


def _torch_reader() -> Any:
    return need("likewise.models.torch_module", "torch", "A file written by torch")


READERS: dict[str, Callable[[bytes], Any]] = {
    ".pt2": _export,
    ".joblib": _joblib,
    ".pkl": _joblib,  # which reads plain pickles too
    ".pickle": pickle.loads,
    ".pt": _torch,
    ".pth": _torch,
}
