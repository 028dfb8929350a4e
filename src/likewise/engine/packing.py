"""Sums as bytes and back, without running code: numbers, arrays, and our own dataclasses.

A line of JSON tells what there is; the arrays follow it as they are in memory.
"""

import dataclasses
import importlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from likewise.errors import InvalidFile

ROOMS = ("likewise.statistics.", "likewise.engine.", "likewise.outcomes")
"""Where the dataclasses may be from that are made again."""

ALIGNED = 8
"""Arrays begin at a multiple of so many bytes."""


def pack(value: Any, shared: Mapping[str, Any]) -> bytes:
    """Return a value as bytes.

    Parameters
    ----------
    shared
        Objects that both sides have, by name; they are not written.
    """
    writer = _Writer({id(known): name for name, known in shared.items()})
    text = json.dumps(writer.plain(value), separators=(",", ":")).encode()
    return b"".join([text, b" " * (-(len(text) + 1) % ALIGNED), b"\n", *writer.arrays])


def unpack(content: bytes, shared: Mapping[str, Any]) -> Any:
    """Return what `pack` was given."""
    try:
        text = content[: content.index(b"\n") + 1]
        return _Reader(content, len(text), shared).value(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError) as error:
        raise InvalidFile(f"A finished part of the audit is damaged: {error}.") from None


class _Writer:
    """Puts values into JSON, and arrays behind it."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.arrays: list[bytes] = []
        self._names, self._end = names, 0

    def plain(self, value: Any) -> Any:
        """Return what JSON can hold."""
        if id(value) in self._names:
            return {"same": self._names[id(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "O":
                return {"list": self.plain(value.tolist())}
            return {"array": [value.dtype.str, value.shape, self._kept(value.tobytes())]}
        if isinstance(value, tuple):
            return {"tuple": self.plain(list(value))}
        if isinstance(value, list):
            return [self.plain(part) for part in value]
        if isinstance(value, Mapping):
            return {"map": [[self.plain(k), self.plain(v)] for k, v in value.items()]}
        if dataclasses.is_dataclass(value):
            kind = type(value)
            fields = [f.name for f in dataclasses.fields(value) if f.init]
            return {
                "kind": f"{kind.__module__}:{kind.__qualname__}",
                "fields": {name: self.plain(getattr(value, name)) for name in fields},
            }
        raise TypeError(f"{type(value).__name__} cannot be written")

    def _kept(self, array: bytes) -> int:
        """Keep an array, and return its place among all."""
        place = self._end
        self.arrays.append(array + bytes(-len(array) % ALIGNED))
        self._end += len(self.arrays[-1])
        return place


class _Reader:
    """Makes again what a `_Writer` has written; arrays are not copied."""

    def __init__(self, content: bytes, first: int, shared: Mapping[str, Any]) -> None:
        self._content, self._first, self._shared = content, first, shared

    def value(self, plain: Any) -> Any:
        """Return what was written as ``plain``."""
        if isinstance(plain, list):
            return [self.value(part) for part in plain]
        if not isinstance(plain, dict):
            return plain
        if "same" in plain:
            return self._shared[plain["same"]]
        if "array" in plain:
            return self._array(*plain["array"])
        if "list" in plain:
            found = np.empty(len(plain["list"]), dtype=object)
            found[:] = self.value(plain["list"])
            return found
        if "tuple" in plain:
            return tuple(self.value(plain["tuple"]))
        if "map" in plain:
            return {self.value(key): self.value(part) for key, part in plain["map"]}
        module, _, name = plain["kind"].partition(":")
        if not module.startswith(ROOMS):
            raise ValueError(f"it is of another kind ({module[:40]})")
        kind = getattr(importlib.import_module(module), name)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise ValueError(f"{name[:40]} is no record of sums")
        return kind(**{field: self.value(part) for field, part in plain["fields"].items()})

    def _array(self, dtype: str, shape: list[int], place: int) -> np.ndarray:
        if np.dtype(dtype).hasobject or place < 0 or min(shape, default=0) < 0:
            raise ValueError("an array of objects, or of no size")
        found = np.frombuffer(self._content, dtype, math.prod(shape), self._first + place)
        return found.reshape(shape)
