"""Reads files of tensors with a description, believing nothing in them."""

import json
from collections.abc import Mapping

from torch import Tensor

from likewise.errors import InvalidFile, in_short


def read_tensors(content: bytes, source: str) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    """Return the tensors of a safetensors file, and what is written about them."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(content)
        # The library returns metadata for a path only; the header has been checked by now.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError, RecursionError, KeyError) as error:
        raise InvalidFile(
            f"{source!r} is damaged or no safetensors file ({in_short(error)})."
        ) from None
    return tensors, header.get("__metadata__", {})
