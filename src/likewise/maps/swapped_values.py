"""The same people with other values of their traits: in features, or in original columns."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.errors import InvalidData
from likewise.maps.feasible import Levels

Alternatives = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n m d"]]
"""The same people with every combination of protected values."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class SwappedFeatures:
    """Overwrites features with every combination of choices."""

    choices: tuple[Levels, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns that are overwritten."""
        return tuple(j for choice in self.choices for j in choice.columns)

    def __call__(self, x0: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m d"]:
        """Return everyone with each combination."""
        rows = []
        for combination in itertools.product(*(choice.values for choice in self.choices)):
            x = x0.copy()
            for choice, value in zip(self.choices, combination, strict=True):
                x[:, list(choice.columns)] = value
            rows.append(x)
        return np.stack(rows, axis=1)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class SwapsToCome:
    """Swaps in original columns, of people who are still to come."""

    combinations: tuple[Mapping[str, Any], ...]

    def __call__(self, x0: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m d"]:
        """Refuse: nobody is known yet."""
        raise InvalidData("To swap a protected column of a pipeline, its table is needed.")


@final
class SwappedColumns:
    """Finds people by their features, swaps their original columns, and encodes them again."""

    def __init__(
        self,
        table: pa.Table,
        encode: Any,
        combinations: Sequence[Mapping[str, Any]],
    ) -> None:
        self.table, self.encode, self.combinations = table, encode, combinations
        self.place: dict[bytes, int] = {}
        for i, row in enumerate(_encoded(encode, table)):
            # People with the same features have the same swaps: their first row will do.
            self.place.setdefault(row.tobytes(), i)

    def __call__(self, x0: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m d"]:
        """Return everyone with each combination."""
        try:
            rows = [self.place[row.tobytes()] for row in np.ascontiguousarray(x0)]
        except KeyError:
            raise InvalidData(
                "Some people are not in the table whose columns are swapped. Swap the columns of "
                "the very people audited."
            ) from None
        if not rows:
            return np.repeat(x0[:, None], len(self.combinations), axis=1)
        people = self.table.take(pa.array(rows))
        swapped = [_encoded(self.encode, _with(people, values)) for values in self.combinations]
        return np.stack(swapped, axis=1)


def _with(table: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    for name, value in values.items():
        column = pa.repeat(pa.scalar(value, type=table.schema.field(name).type), len(table))
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _encoded(encode: Callable[[pa.Table], Any], table: pa.Table) -> Float[np.ndarray, "n d"]:
    found = encode(table)
    x = found[0] if isinstance(found, tuple) else found
    return np.ascontiguousarray(x, dtype=np.float64)
