"""Scored tables: decisions or scores that stand beside the people, looked up row by row."""

import dataclasses
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from likewise.errors import InvalidData, InvalidSettings, nearest
from likewise.loss import Output, Outputs
from likewise.models.base import ModelCard, listed

REFUSAL = (
    "A scored table answers for its own rows alone, so no one can be perturbed: compare real "
    "people instead, by naming the columns that may matter (--may-matter)."
)

MOST_DECISIONS = 20
"""Different decisions in a column; more are an identifier or a score."""


UNREAD = ModelCard("scored table", "probabilities", differentiable=False)


@final
@dataclasses.dataclass(frozen=True)
class ScoredTable:
    """A model whose answers stand in a column of the table: it cannot be asked about other rows.

    ``decision`` is the column with the decision; or ``score`` that with the score, a probability or
    a number in any unit, and ``threshold`` the score above which class 1 is decided. Once it was
    read, ``card`` says what the column holds: decisions by name, probabilities, or numbers.
    """

    decision: str | None = None
    score: str | None = None
    threshold: float | None = None
    card: ModelCard = UNREAD

    def __post_init__(self) -> None:
        if (self.decision is None) == (self.score is None):
            raise InvalidSettings(
                "There is no model, so name the column with the decision (--decision) or the one "
                "with the score (--score), and not both."
            )

    @property
    def column(self) -> str:
        """The column that is looked up."""
        return self.decision or self.score or ""

    def read(self, table: pa.Table) -> "ScoredTable":
        """Return the same with what the column holds, judging by some of the people."""
        name = self.column
        if name not in table.column_names:
            raise InvalidData(
                f"The scored table has no column {name!r}.{nearest(name, table.column_names)}"
            )
        column = _complete(name, table[name])
        output: Output = "probabilities"
        classes: tuple[Any, ...] = ()
        if self.decision is not None:
            classes = tuple(sorted(pc.unique(column).to_pylist(), key=lambda v: (str(type(v)), v)))
            if not 2 <= len(classes) <= MOST_DECISIONS:
                raise InvalidData(
                    f"The column {name!r} holds {len(classes)} different decisions "
                    f"({listed(classes)}), not 2 to {MOST_DECISIONS}. Name a score with --score."
                )
        elif (numbers := _numbers(name, column)).min() < 0 or numbers.max() > 1:
            output, classes = ("values", ()) if self.threshold is None else (output, (0, 1))
        about: dict[str, Any] = {"stated": output, "classes": classes, "decisions": bool(classes)}
        return dataclasses.replace(self, card=dataclasses.replace(UNREAD, **about))

    def prepare(self, table: pa.Table) -> dict[str, Any]:
        """Return the answers: numbers, or the places of decisions among the classes."""
        name, column = self.column, _complete(self.column, table[self.column])
        if self.decision is None:
            return {name: _numbers(name, column)}
        known = pa.array(self.card.classes)
        places = pc.index_in(column.cast(known.type), value_set=known)
        if places.null_count:
            other = column.filter(pc.is_null(places))[0].as_py()
            seen = listed(self.card.classes)
            raise InvalidData(f"The column {name!r} holds {other!r}, which is none of {seen}.")
        return {name: places.to_numpy()}

    def ask(self, columns: Mapping[str, Any]) -> Outputs:
        """Return the answers as outputs of a model."""
        found = columns[self.column]
        if not self.card.decisions:
            return found[:, None]
        if self.decision is None:
            found = (found > self.threshold).astype(np.int64)
        return np.eye(len(self.card.classes))[found]


def _complete(name: str, column: Any) -> Any:
    if column.null_count:
        raise InvalidData(
            f"The column {name!r} is missing in {column.null_count} of {len(column)} rows: leave "
            "them out."
        )
    dictionary = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if dictionary else column


def _numbers(name: str, column: Any) -> Float[np.ndarray, " n"]:
    try:
        found = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowException:
        raise InvalidData(f"The score {name!r} holds something that is not a number.") from None
    if not np.isfinite(found).all():
        raise InvalidData(f"The score {name!r} is NaN or infinite in some rows.")
    return found
