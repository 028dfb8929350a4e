"""Sums as safetensors and back, without running code: numbers, arrays, and our own dataclasses."""

import dataclasses
import functools
import importlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from likewise.errors import InvalidFile
from likewise.tensors import read_tensors

PACKAGES = ("likewise.stats.", "likewise.methods.", "likewise.outcomes", "likewise.checks.")
"""Where the dataclasses may be from that are made again."""


def pack(value: Any, shared: Mapping[str, Any]) -> bytes:
    """Return a value as bytes; ``shared`` are objects that both sides have, by name.

    Lists come back as tuples.
    """
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    plain = _described(value, {id(known): name for name, known in shared.items()}, arrays)
    return save(arrays, {"value": json.dumps(plain, separators=(",", ":"))})


def unpack(content: bytes, shared: Mapping[str, Any], packages: Collection[str] = ()) -> Any:
    """Return what `pack` was given.

    Parameters
    ----------
    packages
        Other packages that dataclasses may be from: those of the probes, which have run already.
    """
    try:
        arrays, about = read_tensors(content, "its content")
        return _made(json.loads(about["value"]), shared, arrays, packages)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError) as error:
        raise InvalidFile(f"A finished part of the audit is damaged: {error}.") from None


def _described(value: Any, names: Mapping[int, str], arrays: dict[str, np.ndarray]) -> Any:
    """Return what JSON can hold of a value, and put its arrays aside."""
    inner = functools.partial(_described, names=names, arrays=arrays)
    if id(value) in names:
        return {"same": names[id(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [inner(part) for part in value]
    if isinstance(value, Mapping):
        return {"map": inner([list(item) for item in value.items()])}
    if dataclasses.is_dataclass(value):
        kind, fields = type(value), [f.name for f in dataclasses.fields(value) if f.init]
        place = f"{kind.__module__}:{kind.__qualname__}"
        return {"kind": place, "fields": {name: inner(getattr(value, name)) for name in fields}}
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} cannot be written")
    if value.dtype.kind in "OU":
        return {"objects": inner(value.tolist()), "text": value.dtype.kind == "U"}
    name = str(len(arrays))
    arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
    return {"array": name}


def _made(
    plain: Any,
    shared: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    packages: Collection[str],
) -> Any:
    """Return the value that was described so."""
    inner = functools.partial(_made, shared=shared, arrays=arrays, packages=packages)
    if isinstance(plain, list):
        return tuple(map(inner, plain))
    if not isinstance(plain, dict):
        return plain
    if "same" in plain:
        return shared[plain["same"]]
    if "array" in plain:
        return arrays[plain["array"]]
    if "objects" in plain:
        found = np.empty(len(plain["objects"]), dtype=object)
        found[:] = inner(plain["objects"])
        return found.astype(str) if plain["text"] else found
    if "map" in plain:
        return dict(inner(plain["map"]))
    module, _, name = plain["kind"].partition(":")
    if not module.startswith(PACKAGES) and module.split(".")[0] not in packages:
        raise ValueError(f"it is of another kind ({module[:40]})")
    kind = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"{name[:40]} is no record of sums")
    if plain["fields"].keys() != {field.name for field in dataclasses.fields(kind) if field.init}:
        raise ValueError(f"{name[:40]} has other fields here")
    return kind(**{field: inner(part) for field, part in plain["fields"].items()})
