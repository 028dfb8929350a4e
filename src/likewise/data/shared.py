"""Arrays in a file that many processes map, so that people in memory are sent nowhere."""

import dataclasses
import pickle
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import InvalidData
from likewise.files import replacing
from likewise.fingerprints import of_bytes


@dataclasses.dataclass(frozen=True)
class SharedFile:
    """Objects in a file: first what describes them, then the bytes of their arrays.

    Parameters
    ----------
    path
        The file; whoever reads it must have its hash from the process that wrote it, since the
        description is a pickle.
    sizes
        Bytes of the description, and of each array.
    sha256
        The hash of the description.
    """

    path: Path
    sizes: tuple[int, ...]
    sha256: str

    @classmethod
    def write(cls, path: Path, value: Any) -> "SharedFile":
        """Write objects to a file."""
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        contents = [memoryview(head), *(buffer.raw() for buffer in buffers)]
        with replacing(path) as file:
            for content in contents:
                file.write(content)
        return cls(path, tuple(content.nbytes for content in contents), of_bytes(head))

    def read(self) -> Any:
        """Return the objects; their arrays stay in the file until they are looked at."""
        try:
            mapped: Any = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError):
            mapped = np.empty(0, np.uint8)
        ends = [0, *accumulate(self.sizes)]
        head, *arrays = [mapped[begin:end] for begin, end in pairwise(ends)]
        if len(mapped) != ends[-1] or of_bytes(head.tobytes()) != self.sha256:
            raise InvalidData(
                f"{str(self.path)!r} is not what was written there. Leave the files of a running "
                "audit alone, and begin again."
            )
        return pickle.loads(head.tobytes(), buffers=arrays)
