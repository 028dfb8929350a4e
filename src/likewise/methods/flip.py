"""Attribute flipping: the protected value itself is swapped, where the model sees it."""

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, nearest
from likewise.methods.metric import FairMetric, columns_of
from likewise.methods.reach import NUMBERS, candidate_losses, worst_candidate
from likewise.methods.unfair_map import BoundMap, Moved, UnfairMap
from likewise.models.base import Front, Model

Swap = tuple[tuple[int, ...] | str, Any]
"""Features and rows of values to put there; or an original column and its values."""

MAX_COMBINATIONS = 1000  # combinations of protected values that are tried for each person, at most
QUANTILES = 11  # values that stand for a numeric attribute with many more: its quantiles

NO_TABLE = "To swap a protected column of a pipeline, its table is needed."
NOTHING_TO_SWAP = (
    "No protected attribute is an input of the model, so there is nothing to swap. Use the flow or "
    "the reach, or compare with real people (--may-matter)."
)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Flip(UnfairMap):
    """Attribute flipping: each person gets every other protected value, and the worst counts.

    All classes of every attribute are tried, in all combinations, and everything else about the
    person stays. This asks less than a fair metric does: what goes along with the attribute is not
    changed.

    *Validity.* Which values are tried is fixed by the attributes, not by the people audited.

    Parameters
    ----------
    attributes
        The attributes that are swapped; by default all protected ones that the model reads.
    values
        The values that are tried, which an audit finds among its people (`learned`).
    """

    name: ClassVar[str] = "flip"
    asks_answers: ClassVar[bool] = True
    keeps_start: ClassVar[bool] = True
    claim: ClassVar[str] = (
        "Each person's protected value is swapped for every other value, and the worst is kept."
    )
    goes_by_metric: ClassVar[bool] = False
    derived: ClassVar[tuple[str, ...]] = ("values",)

    attributes: tuple[str, ...] | None = None
    values: tuple[Swap, ...] | None = None

    @override
    def learned(
        self, people: AuditData, front: Front | None, attributes: Mapping[str, Collection[Any]]
    ) -> "Flip":
        if self.values is not None:
            return self
        if front is not None and people.table is None:
            raise InvalidData(NO_TABLE)
        known = [] if people.table is None else people.table.column_names
        values: dict[str, Swap] = {}
        for name in people.protected if self.attributes is None else self.attributes:
            if front is None:  # as they are or one-hot encoded
                levels = sorted({str(value) for value in attributes.get(name, ())})
                columns = columns_of(people.features, name, levels)
                if columns:
                    rows = np.unique(people.x[:, columns], axis=0)
                    if len(columns) == 1 and len(rows) > 2 * QUANTILES:
                        rows = rows[np.linspace(0, len(rows) - 1, QUANTILES).round().astype(int)]
                    values[name] = tuple(columns), rows
                elif self.attributes is not None:
                    hint = nearest(name, people.features)
                    raise InvalidSettings(
                        f"The model does not see {name!r}, so it cannot be swapped.{hint}"
                    )
            elif not front.columns or name in front.columns:
                if name not in known:
                    hint = nearest(name, known)
                    raise InvalidSettings(f"The table has no column {name!r} to swap.{hint}")
                values[name] = name, sorted(attributes[name], key=lambda v: (str(type(v)), v))
        if not values:
            raise InvalidSettings(NOTHING_TO_SWAP)
        total = math.prod(len(options) for _, options in values.values())
        if total > MAX_COMBINATIONS:
            raise InvalidSettings(
                f"The attributes have {total} combinations of values, over {MAX_COMBINATIONS}. "
                "Swap fewer at a time."
            )
        return Flip(tuple(values), tuple(values.values()))

    @override
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        if self.values is None:
            raise InvalidSettings("Which values are swapped is learned from people, by an audit.")
        return BoundFlip(self.values, model)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundFlip:
    """Swaps made ready for one model; and for some people, if it reads their original columns."""

    values: tuple[Swap, ...]
    model: Model
    table: pa.Table | None = None

    def among(self, people: AuditData) -> "BoundFlip":
        """Return the swaps for some people, with their original columns."""
        return dataclasses.replace(self, table=people.table)

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        combinations = list(itertools.product(*(options for _, options in self.values)))
        size = max(1, NUMBERS // (x0.shape[1] * (len(combinations) + 1)))
        parts = []
        for start in range(0, max(len(x0), 1), size):
            rows = slice(start, start + size)
            swapped = [self._swapped(x0, rows, chosen) for chosen in combinations]
            x = np.stack([x0[rows], *swapped], axis=1)
            loss = candidate_losses(self.model, x, y[rows])
            place, _ = worst_candidate(loss[:, 0], loss)
            parts.append(x[np.arange(len(x)), place])
        status = np.zeros(len(x0), dtype=np.int64)
        return Moved(np.concatenate(parts), status, len(combinations) + 1)

    def _swapped(
        self, x0: Float[np.ndarray, "n d"], rows: slice, chosen: Sequence[Any]
    ) -> Float[np.ndarray, "m d"]:
        """Return some people with one combination of protected values."""
        x, columns = x0[rows].copy(), {}
        for (place, _), value in zip(self.values, chosen, strict=True):
            if isinstance(place, str):
                columns[place] = value
            else:
                x[:, list(place)] = value
        if not columns:
            return x
        if self.table is None or self.model.front is None or len(self.table) != len(x0):
            raise InvalidData(NO_TABLE)
        table = self.table[rows]
        for name, value in columns.items():
            column = pa.repeat(pa.scalar(value, type=table.schema.field(name).type), len(table))
            table = table.set_column(table.column_names.index(name), name, column)
        features, _ = self.model.front(table)
        return np.ascontiguousarray(features, dtype=np.float64)
