"""Which cells make up which group: levels of traits, their intersections, the missing."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int, Shaped

from likewise.errors import InvalidSettings, nearest
from likewise.statistics.frame import Frame
from likewise.statistics.trait_levels import MISSING


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of people.

    Parameters
    ----------
    trait, name
        The protected trait (``sex``, or ``sex × race``) and its level.
    members
        Which of some cells belong to it.
    """

    trait: str
    name: str
    members: Bool[np.ndarray, " c"]

    @property
    def label(self) -> str:
        """Trait and level, in words."""
        return f"{self.trait}: {self.name}"


def groups_of(
    cells: Int[np.ndarray, " c"],
    frame: Frame,
    intersections: Sequence[Sequence[str]] | None = None,
) -> tuple[Group, ...]:
    """Return the groups of every protected trait, then those of intersections of traits.

    Every person is in exactly one group of each trait: those whose trait is missing have one of
    their own. Numbers with many levels are cut into quarters, and of many names the rarest are
    pooled; neither depends on how anybody was treated.

    Parameters
    ----------
    cells
        Combinations of protected groups, as `GroupStats` numbers them.
    intersections
        Which traits to cross: all pairs unless told otherwise; ``()`` crosses none.
    """
    if not frame.traits:
        return ()
    names = {trait: list(dict.fromkeys(known.groups)) for trait, known in frame.traits.items()}
    places = np.unravel_index(cells, [len(own) for own in names.values()])
    single = {
        trait: np.array(own, dtype=object)[place]
        for (trait, own), place in zip(names.items(), places, strict=True)
    }
    traits = dict(single)
    if intersections is None:
        intersections = list(itertools.combinations(single, 2))
    for crossed in intersections:
        for trait in crossed:
            if trait not in single:
                raise InvalidSettings(
                    f"There is no protected trait {trait!r} to cross (there are: "
                    f"{', '.join(single) or 'none'}).{nearest(trait, single)}"
                )
        traits[" × ".join(crossed)] = _cross([single[trait] for trait in crossed])
    return tuple(
        Group(trait, name, values == name)
        for trait, values in traits.items()
        for name in sorted(set(values.tolist()), key=_order)
    )


def _cross(columns: Sequence[Shaped[np.ndarray, " c"]]) -> Shaped[np.ndarray, " c"]:
    rows = zip(*columns, strict=True)
    joined = [MISSING if MISSING in row else " × ".join(row) for row in rows]
    return np.array(joined, dtype=object)


def _order(name: str) -> tuple[bool, float, str]:
    try:
        return name == MISSING, float(name.split(" to ")[0]), name
    except ValueError:
        return name == MISSING, 0.0, name
