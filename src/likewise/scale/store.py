"""Where finished blocks are kept; here in memory, in `likewise.scale.folder_store` on disk.

Workers keep what they finish themselves, and send back only its small tally.
"""

import abc
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, final

import pyarrow as pa
from typing_extensions import override

Identity = Mapping[str, str | int]
"""What the results depend on, by name: hashes, versions, rows of a block."""


@dataclasses.dataclass(frozen=True)
class FinishedPart:
    """Finished blocks.

    Parameters
    ----------
    blocks
        Their numbers.
    tally
        What was added up over them, as bytes; small.
    outcomes
        One row a person; none where the store keeps them elsewhere.
    """

    blocks: range
    tally: bytes
    outcomes: pa.Table | None = None


class Book(abc.ABC):
    """The finished blocks of one audit."""

    @abc.abstractmethod
    def done(self) -> list[range]:
        """Return which blocks are finished, in order; what is not as it was written is not."""

    @abc.abstractmethod
    def keep(self, part: FinishedPart) -> FinishedPart:
        """Keep finished blocks, in the worker; return what has to travel to the main process."""

    @abc.abstractmethod
    def put(self, part: FinishedPart) -> None:
        """Take note of what `keep` returned, in the main process."""

    @abc.abstractmethod
    def tally(self, blocks: range) -> bytes:
        """Return the tally of finished blocks."""

    @abc.abstractmethod
    def outcomes(self, blocks: range) -> pa.Table:
        """Return the rows of finished blocks."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Forget everything."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of all finished blocks, in their order."""
        return (self.outcomes(blocks) for blocks in self.done())


class Store(abc.ABC):
    """A place for finished blocks."""

    @abc.abstractmethod
    def begun(self) -> dict[str, str | int]:
        """Return the identity of an audit that is there already; empty if there is none."""

    def check(self) -> None:
        """Refuse at once what `opened` would refuse, before a long run."""
        return

    @abc.abstractmethod
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        """Begin an audit, or continue one with the same identity."""


@final
class MemoryBook(Book):
    """Finished blocks in the memory of this process."""

    def __init__(self) -> None:
        self._parts: dict[range, FinishedPart] = {}

    @override
    def done(self) -> list[range]:
        return sorted(self._parts, key=lambda blocks: blocks.start)

    @override
    def keep(self, part: FinishedPart) -> FinishedPart:
        return part

    @override
    def put(self, part: FinishedPart) -> None:
        self._parts[part.blocks] = part

    @override
    def tally(self, blocks: range) -> bytes:
        return self._parts[blocks].tally

    @override
    def outcomes(self, blocks: range) -> pa.Table:
        return self._parts[blocks].outcomes

    @override
    def remove(self) -> None:
        self._parts.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker needs no more than the way to keep things: what is here stays here.
        return MemoryBook, ()


@final
@dataclasses.dataclass(frozen=True)
class Memory(Store):
    """Keeps finished blocks in memory; nothing can be resumed."""

    @override
    def begun(self) -> dict[str, str | int]:
        return {}

    @contextlib.contextmanager
    def _open(self) -> Iterator[Book]:
        yield MemoryBook()

    @override
    def opened(self, identity: Identity) -> contextlib.AbstractContextManager[Book]:
        return self._open()
