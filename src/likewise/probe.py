"""Probes: one measurement of every block of people, as sums that add up."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from likewise.audit_data import AuditData

PRIMARY = "primary"  # name of the probe that decides, and whose rows are kept person by person

T = TypeVar("T")


class Subsample(NamedTuple):
    """A seeded random sample of ``size`` people that a probe measures instead of everyone.

    Probes with the same size and ``stream`` measure the same people.
    """

    size: int
    stream: int


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Consecutive people, the unit in which everything is measured.

    ``positions`` are those of each person among all people audited; rows that were left out are
    not counted.
    """

    number: int
    people: AuditData
    positions: Int[np.ndarray, " n"]
    _known: dict[Hashable, Any] = dataclasses.field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; it is called once a block and key, for all probes."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found


@runtime_checkable
class Probe(Protocol):
    """One measurement: of everyone as decided, or with one choice made otherwise.

    A probe is fixed before the people are measured, can be pickled, and measures every block by
    itself. ``subsample`` is `None` for everyone.
    """

    @property
    def name(self) -> str:
        """By which its sums are found; the same probe has the same name in a resumed audit."""
        ...

    @property
    def subsample(self) -> Subsample | None:
        """Whom it measures."""
        return None

    @property
    def common(self) -> Mapping[str, Any]:
        """Objects that sums refer to and that are not written with them."""
        return {}

    def measure(self, model: Any, block: Block) -> "Measured | None":
        """Measure the people of a block; nothing if none of them is concerned."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """What a probe found in a block: sums, and of the primary probe one row a person.

    Sums are a frozen dataclass of numbers and arrays, with the number ``n`` of people; those of two
    sets of people add up (``+``) to the sums of both. They travel between processes and into the
    journal as arrays, field by field; nothing else of them is kept.
    """

    stats: Any
    rows: pa.Table | None = None
