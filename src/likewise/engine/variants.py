"""Variants of an audit: which people are moved, under which metric, by which map."""

import dataclasses
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int
from typing_extensions import override

from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric

DECIDES = "decides"
"""The variant whose outcomes decide, and are kept row by row."""


@runtime_checkable
class People(Protocol):
    """Which people of a block are moved."""

    def rows(self, positions: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Return their places in the block, given everyone's position among all people."""
        ...

    def count(self, n: int) -> int:
        """Return how many they are, of ``n`` people."""
        ...


@final
@dataclasses.dataclass(frozen=True)
class Everyone:
    """All people."""

    def rows(self, positions: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return everyone's place."""
        return np.arange(len(positions))

    def count(self, n: int) -> int:
        """Return how many there are."""
        return n


@final
@dataclasses.dataclass(frozen=True, eq=False)
class GroupOfPeople:
    """The people of one group of the metric's sample, or all others.

    Parameters
    ----------
    groups
        The group of everyone, by position.
    number
        The group that is meant.
    inside
        Whether its people are moved, or everyone else.
    """

    groups: Int[np.ndarray, " n"]
    number: int
    inside: bool

    def rows(self, positions: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Return the places of those who are meant."""
        return np.flatnonzero((self.groups[positions] == self.number) == self.inside)

    def count(self, n: int) -> int:
        """Return how many they are."""
        return int(((self.groups == self.number) == self.inside).sum())


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ResampledPeople:
    """A bootstrap sample: everyone as often as they were drawn.

    Parameters
    ----------
    times
        How often, by position.
    """

    times: Int[np.ndarray, " n"]

    def rows(self, positions: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Return the places of those who were drawn, once for every time."""
        return np.repeat(np.arange(len(positions)), self.times[positions])

    def count(self, n: int) -> int:
        """Return how many draws there are."""
        return int(self.times.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Move:
    """Some people, and how they are moved."""

    metric: FairMetric
    map: UnfairMap
    people: People = Everyone()


@dataclasses.dataclass(frozen=True, eq=False)
class Variant:
    """One way of moving people: as decided, or with one choice made otherwise.

    Parameters
    ----------
    name
        By which its tally is found.
    moves
        Everyone of the variant is in exactly one of these; several only where the metric depends
        on the person (cross-fitting).
    sample
        Size and stream of a random sample that is moved instead of everyone; people of one sample
        are the same in every variant, and however the audit is run.
    detailed
        Whether tables by group, worst cases and shifts are wanted too.
    keeps_rows
        Whether outcomes are kept row by row, for comparisons of the same people.
    """

    name: str
    moves: tuple[Move, ...]
    sample: tuple[int, int] | None = None
    detailed: bool = False
    keeps_rows: bool = False

    @property
    def map(self) -> UnfairMap:
        """The map that people are moved by."""
        return self.moves[0].map

    def count(self, n: int) -> int:
        """Return how many people it moves, of ``n``."""
        return sum(move.people.count(n) for move in self.moves)

    @override
    def __repr__(self) -> str:
        return f"Variant({self.name!r})"
