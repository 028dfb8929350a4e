"""Swaps of the protected value itself, where the model sees it."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData, missing
from likewise.errors import InvalidData, InvalidMetric, InvalidSettings, nearest
from likewise.maps.candidates import NUMBERS, candidate_losses, worse
from likewise.maps.feasible import Levels
from likewise.maps.swapped_values import (
    Alternatives,
    SwappedColumns,
    SwappedFeatures,
    SwapsToCome,
)
from likewise.maps.unfair_map import BoundMap, KnownPeople, Moved, UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.traits import columns_of
from likewise.models.base import Model

MOST = 1000
"""Combinations of protected values that are tried for each person, at most."""

SLICES = 11
"""Values that stand for a numeric trait: its quantiles."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Flips(UnfairMap):
    """Everyone is served as if their protected values were others; the worst of these counts.

    All classes of every trait are tried, in all combinations, and everything else about the person
    stays. This asks less than a fair metric does: what goes along with the trait is not changed.
    Use `Flips.of` where the trait is a feature, and `Flips.in_table` where a pipeline reads it.

    *Validity.* Which values are tried is fixed by the traits, not by the people audited.

    Parameters
    ----------
    traits
        The traits that are swapped; by default all protected ones that the model reads.
    alternatives
        Turns rows of features into the same people with other protected values; an audit finds
        the values among its people.
    combinations
        How many alternatives each person has.
    """

    name: ClassVar[str] = "flips"
    asks_answers: ClassVar[bool] = True
    claim: ClassVar[str] = (
        "Each person's protected value is swapped for every other value, and the worst is kept."
    )
    goes_by_metric: ClassVar[bool] = False
    derived: ClassVar[tuple[str, ...]] = ("alternatives", "combinations")

    traits: tuple[str, ...] | None = None
    alternatives: Alternatives | None = None
    combinations: int = 0
    keeps_start: bool = dataclasses.field(default=True, init=False, repr=False)

    @classmethod
    def of(cls, data: AuditData, traits: Sequence[str] | None = None) -> "Flips":
        """Swap traits that are features of the model, as they are or one-hot encoded.

        Parameters
        ----------
        data
            A sample with the values that occur; a number is swapped for its eleven quantiles.
        traits
            Traits to swap; by default all protected ones that are features.
        """
        wanted = tuple(data.protected) if traits is None else tuple(traits)
        found = _seen(data, {name: _levels(data, name) for name in wanted}, traits)
        return cls.between({name: Levels.of(data.x, places) for name, places in found.items()})

    @override
    def knowing(self, known: KnownPeople) -> "Flips":
        if self.alternatives is not None:
            return self
        people, front = known.people, known.front
        names = tuple(people.protected) if self.traits is None else self.traits
        if front is None:
            levels = {name: [str(value) for value in known.values(name)] for name in names}
            places = _seen(people, levels, self.traits)
            found = known.combinations(list(places.values()))
            return self.between(
                {
                    name: Levels(tuple(columns), values)
                    for (name, columns), values in zip(places.items(), found, strict=True)
                    if values is not None
                }
            )
        if people.table is None:
            raise InvalidData("To swap a protected column of a pipeline, its table is needed.")
        read = [name for name in names if not front.columns or name in front.columns]
        options = _options(people.table, read, {name: known.values(name) for name in read})
        return Flips(tuple(read), SwapsToCome(options), len(options))

    @classmethod
    def between(cls, choices: Mapping[str, Levels]) -> "Flips":
        """Swap traits for values that are known, by the name of the trait."""
        few = tuple(_few(choice) for choice in choices.values())
        return cls(
            tuple(choices), SwappedFeatures(few), _count([len(choice.values) for choice in few])
        )

    @classmethod
    def in_table(
        cls,
        table: pa.Table,
        traits: Sequence[str],
        encode: Callable[[pa.Table], Any],
        values: Mapping[str, Sequence[Any]] | None = None,
    ) -> "Flips":
        """Swap traits in the original columns, and encode the people again.

        Parameters
        ----------
        table
            The original columns of everyone who will be moved.
        traits
            Columns to swap.
        encode
            From a table to features (`Encoder.encode`, or the front of a pipeline).
        values
            Values to try, by trait; by default those that occur in ``table``.
        """
        options = _options(table, traits, values or {})
        return cls(tuple(traits), SwappedColumns(table, encode, options), len(options))

    @override
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        if self.alternatives is None:
            raise InvalidSettings(
                "Which values are swapped is learned from people: let an audit do it, or use "
                "Flips.of(people)."
            )
        last = max(getattr(self.alternatives, "columns", ()), default=-1)
        if metric.quadratic and last >= metric.free.shape[1]:
            raise InvalidMetric(
                f"Feature {last + 1} is to be swapped, but the metric was made for "
                f"{metric.free.shape[1]} features."
            )
        return BoundFlips(self.alternatives, self.combinations, model)


def _seen(
    data: AuditData, levels: Mapping[str, Sequence[str]], asked: Sequence[str] | None
) -> dict[str, list[int]]:
    """Return the columns of every trait that the model sees."""
    found = {name: columns_of(data.features, name, sorted(set(levels[name]))) for name in levels}
    absent = [name for name, places in found.items() if not places]
    if asked is not None and absent:
        raise InvalidSettings(
            f"The model does not see {absent[0]!r}, so it cannot be swapped."
            f"{nearest(absent[0], data.features)}"
        )
    found = {name: places for name, places in found.items() if places}
    if not found:
        raise InvalidSettings(
            f"No protected trait ({', '.join(levels) or 'none is named'}) is an input of the "
            "model, so there is nothing to swap. Use the flow or the reach, or compare with real "
            "people (--may-matter)."
        )
    return found


def _options(
    table: pa.Table, traits: Sequence[str], values: Mapping[str, Sequence[Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return all combinations of the values of some columns."""
    for name in traits:
        if name not in table.column_names:
            hint = nearest(name, table.column_names)
            raise InvalidSettings(f"The table has no column {name!r} to swap.{hint}")
    if not traits:
        raise InvalidSettings(
            "No protected trait is an input of the model, so there is nothing to swap. Use the "
            "flow or the reach, or compare with real people (--may-matter)."
        )
    options = [values.get(name) or _occurring(table[name]) for name in traits]
    _count([len(option) for option in options])
    return tuple(
        dict(zip(traits, combination, strict=True)) for combination in itertools.product(*options)
    )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundFlips:
    """Swaps made ready for one model."""

    alternatives: Alternatives
    combinations: int
    model: Model

    def among(self, people: AuditData) -> "BoundFlips":
        """Return the swaps for some people, in their original columns if need be."""
        if not isinstance(self.alternatives, SwapsToCome):
            return self
        found = SwappedColumns(people.table, self.model.front, self.alternatives.combinations)
        return dataclasses.replace(self, alternatives=found)

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        size = max(1, NUMBERS // (x0.shape[1] * (self.combinations + 1)))
        parts = [
            self._move(x0[start : start + size], y[start : start + size])
            for start in range(0, max(len(x0), 1), size)
        ]
        return Moved(
            x=np.concatenate(parts),
            status=np.zeros(len(x0), dtype=np.int64),
            evaluations=self.combinations + 1,
        )

    def _move(
        self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        x = np.concatenate([x0[:, None], self.alternatives(x0)], axis=1)
        loss = candidate_losses(self.model, x, y)
        place, moves = worse(loss[:, 0], loss)
        return np.where(moves[:, None], x[np.arange(len(x)), place], x0)


def _levels(data: AuditData, name: str) -> list[str]:
    if name not in data.protected:
        return []
    column = data.protected[name]
    return [str(value) for value in set(column[~missing(column)].tolist())]


def _few(choice: Levels) -> Levels:
    """Let quantiles stand for a number that has many values."""
    if len(choice.columns) > 1 or len(choice.values) <= 2 * SLICES:
        return choice
    places = np.linspace(0, len(choice.values) - 1, SLICES).round().astype(int)
    return Levels(choice.columns, choice.values[places])


def _count(sizes: Sequence[int]) -> int:
    total = math.prod(sizes)
    if total > MOST:
        raise InvalidSettings(
            f"The traits have {total} combinations of values, and at most {MOST} are tried. "
            "Swap fewer traits at a time."
        )
    return total


def _occurring(column: pa.ChunkedArray) -> list[Any]:
    found = [value for value in column.unique().to_pylist() if value is not None]
    return sorted(found, key=lambda value: (str(type(value)), value))
