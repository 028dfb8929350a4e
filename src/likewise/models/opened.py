"""A model that was opened from a file, with what the file said about it."""

import dataclasses
from typing import Any

from likewise.losses import Output


@dataclasses.dataclass(frozen=True)
class Opened:
    """What `open_model` returns and `as_model` understands.

    Parameters
    ----------
    content
        The object that was in the file.
    fingerprint
        A sha256 of the bytes that were read.
    classes, output
        What the file says about the outputs, if it does.
    """

    content: Any
    fingerprint: str = ""
    classes: tuple[Any, ...] = ()
    output: Output | None = None
