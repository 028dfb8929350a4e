"""Maps that depend on which values occur, for people who are never held together."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.checks.choices import choose_map
from likewise.checks.gather import Progress
from likewise.checks.introduce import Introduced, meet
from likewise.checks.survey import Stream, Survey
from likewise.maps.base import UnfairMap
from likewise.maps.combine import Worst
from likewise.maps.feasible import Choice, Feasible, column_groups
from likewise.maps.flips import Flips
from likewise.maps.search import Reach
from likewise.metrics.base import FairMetric
from likewise.metrics.columns import columns_of
from likewise.settings import Settings

MOST_VALUES = 2**20
"""A column with more values than this counts as continuous."""


@dataclasses.dataclass(frozen=True)
class Swaps:
    """Columns of a pipeline's table that are swapped, for the values that everyone has in them.

    It travels to workers, who make a map of it for the people they are given.

    Parameters
    ----------
    values
        Values to try, by column.
    """

    values: Mapping[str, tuple[Any, ...]]

    def over(self, table: Any, front: Any) -> Flips:
        """Return the map for the people of a table, whom ``front`` turns into features."""
        return Flips.in_table(table, list(self.values), front, self.values)


def choose_for_everyone(
    settings: Settings,
    stream: Stream,
    known: Survey,
    who: Introduced,
    metric: FairMetric,
    progress: Progress | None = None,
) -> tuple[UnfairMap, Swaps | None]:
    """Return the map that decides, and what workers make it of if it holds the sample's table.

    Values that occur are those of everyone, as in an audit in memory, not those of the sample.
    """
    front, table = who.model.front, who.data.table
    if settings.map.name == "flips" and front is not None and table is not None:
        read = [name for name in known.traits if not front.columns or name in front.columns]
        swaps = Swaps({n: _values(known.traits[n], table.schema.field(n).type) for n in read})
        return swaps.over(table, front), swaps

    def blocks() -> Iterator[Float[np.ndarray, "n d"]]:
        for block in stream.told("finding values", progress):
            yield meet(who.model, block).x

    chosen = choose_map(settings, who, metric)
    if known.n > len(who.x) and isinstance(chosen, Flips):
        places = {
            name: columns_of(who.data.features, name, sorted(map(str, counts)))
            for name, counts in known.traits.items()
        }
        places = {name: columns for name, columns in places.items() if columns}
        choices = _observed(blocks(), list(places.values()))
        chosen = Flips.between(dict(zip(places, choices, strict=True)))
    elif known.n > len(who.x) and _feasible(settings) and isinstance(chosen, Reach | Worst):
        groups = column_groups(who.data.x, who.data.features)
        found = _observed(blocks(), groups, MOST_VALUES)
        chosen = _keeping_to(chosen, Feasible.keeping(found, known.n))
    return chosen, None


def _feasible(settings: Settings) -> bool:
    parts = settings.map.get("maps") or ()
    return bool(settings.map.get("feasible") or any(part.get("feasible") for part in parts))


def _keeping_to(map: UnfairMap, feasible: Feasible) -> UnfairMap:
    if isinstance(map, Worst):
        return Worst(tuple(_keeping_to(part, feasible) for part in map.maps))
    return dataclasses.replace(map, feasible=feasible) if isinstance(map, Reach) else map


def _values(counts: Mapping[Any, int], kind: Any) -> tuple[Any, ...]:
    # Whole numbers are read as floats where one of their block is missing.
    found = {int(value) if pa.types.is_integer(kind) else value for value in counts}
    return tuple(sorted(found, key=lambda value: (str(type(value)), value)))


def _observed(
    blocks: Iterable[Float[np.ndarray, "n d"]],
    groups: Sequence[Sequence[int]],
    most: float = math.inf,
) -> list[Choice]:
    """Return the combinations that occur in groups of columns, where there are not too many."""
    found: dict[int, Float[np.ndarray, "m c"]] = {
        k: np.zeros((0, len(columns))) for k, columns in enumerate(groups)
    }
    for x in blocks:
        for k in list(found):
            found[k] = _distinct(np.concatenate([found[k], x[:, list(groups[k])]]))
            if len(found[k]) > most:
                del found[k]
    return [Choice(tuple(groups[k]), np.unique(values, axis=0)) for k, values in found.items()]


def _distinct(x: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "m c"]:
    """Return the rows that differ, by hashing: sorting so many would take minutes."""
    names = [str(j) for j in range(x.shape[1])]
    table = pa.Table.from_arrays([pa.array(column) for column in x.T], names)
    rows = table.group_by(names, use_threads=False).aggregate([])
    return np.column_stack([rows[name].to_numpy() for name in names])
