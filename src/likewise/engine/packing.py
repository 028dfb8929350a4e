"""Sums as bytes and back, without running code: numbers, arrays, and our own dataclasses."""

import base64
import dataclasses
import importlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from likewise.errors import InvalidFile

ROOMS = ("likewise.statistics.", "likewise.engine.", "likewise.outcomes")
"""Where the dataclasses may be from that are made again."""


def pack(value: Any, shared: Mapping[str, Any]) -> bytes:
    """Return a value as bytes.

    Parameters
    ----------
    shared
        Objects that both sides have, by name; they are not written.
    """
    names = {id(known): name for name, known in shared.items()}
    return json.dumps(_written(value, names), separators=(",", ":")).encode()


def unpack(content: bytes, shared: Mapping[str, Any]) -> Any:
    """Return what `pack` was given."""
    try:
        return _read(json.loads(content), shared)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError) as error:
        raise InvalidFile(f"A finished part of the audit is damaged: {error}.") from None


def _written(value: Any, names: Mapping[int, str]) -> Any:
    if id(value) in names:
        return {"same": names[id(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return {"list": [_written(v, names) for v in value.tolist()]}
        text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, value.shape, text]}
    if isinstance(value, tuple):
        return {"tuple": [_written(part, names) for part in value]}
    if isinstance(value, list):
        return [_written(part, names) for part in value]
    if isinstance(value, Mapping):
        return {"map": [[_written(k, names), _written(v, names)] for k, v in value.items()]}
    if dataclasses.is_dataclass(value):
        kind = type(value)
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        return {
            "kind": f"{kind.__module__}:{kind.__qualname__}",
            "fields": {name: _written(getattr(value, name), names) for name in fields},
        }
    raise TypeError(f"{type(value).__name__} cannot be written")


def _read(value: Any, shared: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_read(part, shared) for part in value]
    if not isinstance(value, dict):
        return value
    if "same" in value:
        return shared[value["same"]]
    if "array" in value:
        dtype, shape, text = value["array"]
        if np.dtype(dtype).hasobject:
            raise ValueError("an array of objects")
        return np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape)
    if "list" in value:
        found = np.empty(len(value["list"]), dtype=object)
        found[:] = [_read(part, shared) for part in value["list"]]
        return found
    if "tuple" in value:
        return tuple(_read(part, shared) for part in value["tuple"])
    if "map" in value:
        return {_read(k, shared): _read(v, shared) for k, v in value["map"]}
    module, _, name = value["kind"].partition(":")
    if not module.startswith(ROOMS):
        raise ValueError(f"it is of another kind ({module[:40]})")
    kind = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"{name[:40]} is no record of sums")
    return kind(**{field: _read(part, shared) for field, part in value["fields"].items()})
