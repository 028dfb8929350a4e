"""Who is in which group: levels of each protected trait, their intersections, and the missing."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Shaped

from likewise.errors import InvalidSettings, nearest
from likewise.inference.numerals import range_names
from likewise.inference.outcomes import Outcomes
from likewise.people import missing

MISSING = "missing"
"""The group of those whose trait is not known: counted, never left out."""

MOST_LEVELS = 20
"""A trait with more levels is pooled: numbers into quarters, names into the rest."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A group of people.

    Parameters
    ----------
    trait, group
        The protected trait (``sex``, or ``sex × race``) and its level.
    rows
        Who belongs to it.
    """

    trait: str
    group: str
    rows: Bool[np.ndarray, " n"]

    @property
    def name(self) -> str:
        """Trait and level, in words."""
        return f"{self.trait}: {self.group}"


def cells(
    outcomes: Outcomes, intersections: Sequence[Sequence[str]] | None = None
) -> tuple[Cell, ...]:
    """Return the groups of every protected trait, then those of intersections of traits.

    Every person is in exactly one group of each trait: those whose trait is missing have one of
    their own. Numbers with many levels are cut into quarters, and of many names the rarest are
    pooled; neither depends on how anybody was treated.

    Parameters
    ----------
    intersections
        Which traits to cross: all pairs unless told otherwise; ``()`` crosses none.
    """
    levels = {name: _levels(values) for name, values in outcomes.groups.items()}
    if intersections is None:
        intersections = list(itertools.combinations(levels, 2))
    crossed = dict(levels)
    for names in intersections:
        for name in names:
            if name not in levels:
                raise InvalidSettings(
                    f"There is no protected trait {name!r} to cross (there are: "
                    f"{', '.join(levels) or 'none'}).{nearest(name, levels)}"
                )
        crossed[" × ".join(names)] = _cross([levels[name] for name in names])
    return tuple(
        Cell(trait, group, values == group)
        for trait, values in crossed.items()
        for group in _in_order(values)
    )


def _levels(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    gone = missing(values)
    texts = np.where(gone, MISSING, values.astype(str)).astype(object)
    known, counts = np.unique(texts[~gone].astype(str), return_counts=True)
    if len(known) <= MOST_LEVELS:
        return texts
    try:
        numbers = known.astype(np.float64)
    except ValueError:
        rare = set(known[np.argsort(-counts, kind="stable")[MOST_LEVELS - 1 :]])
        pooled = f"{len(rare)} other levels"
        return np.array([pooled if text in rare else text for text in texts], dtype=object)
    return np.where(gone, MISSING, _quarters(texts, gone, np.repeat(numbers, counts)))


def _quarters(
    texts: Shaped[np.ndarray, " n"], gone: Bool[np.ndarray, " n"], known: np.ndarray
) -> Shaped[np.ndarray, " n"]:
    numbers = np.where(gone, "0", texts).astype(np.float64)
    quarter = np.searchsorted(np.quantile(known, (0.25, 0.5, 0.75)), numbers)
    names = range_names(numbers[~gone], quarter[~gone])
    return np.array([names.get(int(k)) for k in quarter], dtype=object)


def _cross(columns: Sequence[Shaped[np.ndarray, " n"]]) -> Shaped[np.ndarray, " n"]:
    rows = zip(*columns, strict=True)
    joined = [MISSING if MISSING in row else " × ".join(row) for row in rows]
    return np.array(joined, dtype=object)


def _in_order(values: Shaped[np.ndarray, " n"]) -> list[str]:
    def key(group: str) -> tuple[bool, float, str]:
        try:
            return group == MISSING, float(group.split(" to ")[0]), group
        except ValueError:
            return group == MISSING, 0.0, group

    return sorted(set(values.tolist()), key=key)
