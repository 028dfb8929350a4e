"""Reads files of arrays with a description, believing nothing in them."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from likewise.errors import InvalidFile, in_short

_TYPES = {f"{k}{8 * b}": f"<{k.lower()}{b}" for k in "FIU" for b in (8, 4, 2, 1)} | {"BOOL": "?"}
del _TYPES["F8"]


def read_tensors(content: bytes, source: str) -> tuple[Mapping[str, np.ndarray], Mapping[str, str]]:
    """Return the arrays of a safetensors file, and what is written about them."""
    import safetensors

    read: Any = safetensors.deserialize
    try:
        tensors = {name: _array(view) for name, view in read(content)}
        # The library returns metadata for a path only; the header has been checked by now.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise InvalidFile(
            f"{source!r} is damaged or no safetensors file ({in_short(error)})."
        ) from None
    return tensors, header.get("__metadata__") or {}


def _array(view: Mapping[str, Any]) -> np.ndarray:
    kind, data = view["dtype"], view["data"]
    if kind == "BF16":  # unknown to NumPy: the upper half of a float32
        upper = np.frombuffer(data, dtype="<u2").astype(np.uint32)
        return (upper << 16).view(np.float32).reshape(view["shape"])
    if kind not in _TYPES:
        raise ValueError(f"it holds numbers of type {kind}")
    array = np.frombuffer(data, dtype=_TYPES[kind])
    return array.astype(array.dtype.newbyteorder("=")).reshape(view["shape"])
