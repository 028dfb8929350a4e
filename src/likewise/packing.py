"""Sums as safetensors and back, without running code: numbers, arrays, and our own dataclasses."""

import dataclasses
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
    """Return a value as bytes.

    Parameters
    ----------
    shared
        Objects that both sides have, by name; they are not written.
    """
    from safetensors.numpy import save

    writer = _Writer({id(known): name for name, known in shared.items()})
    text = json.dumps(writer.described(value), separators=(",", ":"))
    return save(writer.arrays, {"value": text})


def unpack(content: bytes, shared: Mapping[str, Any], packages: Collection[str] = ()) -> Any:
    """Return what `pack` was given.

    Parameters
    ----------
    packages
        Other packages that dataclasses may be from: those of the probes, which have run already.
    """
    try:
        arrays, about = read_tensors(content, "its content")
        return _Reader(shared, arrays, packages).value(json.loads(about["value"]))
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError) as error:
        raise InvalidFile(f"A finished part of the audit is damaged: {error}.") from None


class _Writer:
    """Describes values in JSON, and puts their arrays aside."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names = names

    def described(self, value: Any) -> Any:
        """Return what JSON can hold of a value."""
        if id(value) in self._names:
            return {"same": self._names[id(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, tuple):
            return {"tuple": self.described(list(value))}
        if isinstance(value, list):
            return [self.described(part) for part in value]
        if isinstance(value, Mapping):
            return {"map": self.described([list(item) for item in value.items()])}
        if dataclasses.is_dataclass(value):
            kind, names = type(value), [f.name for f in dataclasses.fields(value) if f.init]
            fields = {name: self.described(getattr(value, name)) for name in names}
            return {"kind": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
        raise TypeError(f"{type(value).__name__} cannot be written")

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.kind == "O":
            return {"objects": self.described(value.tolist())}
        if value.dtype.kind == "U":
            return {"texts": value.tolist()}
        name = str(len(self.arrays))
        self.arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
        return {"array": name}


class _Reader:
    """Makes again what a `_Writer` has described."""

    def __init__(
        self,
        shared: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        packages: Collection[str],
    ) -> None:
        self._shared, self._arrays, self._packages = shared, arrays, packages

    def value(self, plain: Any) -> Any:
        """Return the value that was described so."""
        if isinstance(plain, list):
            return [self.value(part) for part in plain]
        if not isinstance(plain, dict):
            return plain
        if "same" in plain:
            return self._shared[plain["same"]]
        if "array" in plain:
            return self._arrays[plain["array"]]
        if "texts" in plain:
            return np.array(plain["texts"], dtype=str)
        if "objects" in plain:
            found = np.empty(len(plain["objects"]), dtype=object)
            found[:] = self.value(plain["objects"])
            return found
        if "tuple" in plain:
            return tuple(self.value(plain["tuple"]))
        if "map" in plain:
            return dict(self.value(plain["map"]))
        module, _, name = plain["kind"].partition(":")
        if not module.startswith(PACKAGES) and module.split(".")[0] not in self._packages:
            raise ValueError(f"it is of another kind ({module[:40]})")
        kind = getattr(importlib.import_module(module), name)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise ValueError(f"{name[:40]} is no record of sums")
        return kind(**{field: self.value(part) for field, part in plain["fields"].items()})
