"""What every statistic of this room can do: be made of a block, and be added to another."""

import dataclasses
from typing import Protocol, TypeVar

from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame

S = TypeVar("S")
A = TypeVar("A", bound="Additive")


class Stat(Protocol):
    """A summary of some people; the summary of all is the sum, in whatever order and grouping."""

    @classmethod
    def of(cls: type[S], block: Outcomes, frame: Frame) -> S:
        """Summarise a block of people."""
        ...

    def __add__(self: S, other: S) -> S:
        """Return the summary of the people of both."""
        ...


@dataclasses.dataclass(frozen=True)
class Additive:
    """A frozen dataclass that adds up field by field."""

    def __add__(self: A, other: A) -> A:
        names = [field.name for field in dataclasses.fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})
