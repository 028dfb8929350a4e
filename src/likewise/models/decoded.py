"""Models that read original columns and cannot be cut: audited through decoded rows."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.errors import InvalidModel, nearest
from likewise.models.base import ModelCard
from likewise.models.black_box import BlackBox


@runtime_checkable
class Decoder(Protocol):
    """What can turn rows of features back into original columns (an encoder of `likewise.data`)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the original columns."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        ...

    @property
    def plain_columns(self) -> tuple[str, ...]:
        """Names of the original columns of numbers and true/false."""
        ...

    def encode(self, table: Any) -> Float[np.ndarray, "n d"]:
        """Return the features of every row."""
        ...

    def decode(self, x: Float[np.ndarray, "n d"]) -> pa.Table:
        """Return the people who stand behind rows of features, with real values."""
        ...

    def line(
        self, columns: Sequence[str]
    ) -> tuple[Float[np.ndarray, "c d"], Float[np.ndarray, " c"]]:
        """Return the matrix and the offset that turn features into plain columns."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnReader:
    """A model that reads a table of original columns.

    Parameters
    ----------
    card
        What is known of it.
    columns
        The columns it reads; empty if it takes whatever it is given.
    function
        Takes a table, returns probabilities or values.
    """

    card: ModelCard
    columns: tuple[str, ...]
    function: Callable[[pa.Table], Any]


def through(reader: ColumnReader, encoder: Decoder | None) -> BlackBox:
    """Give a model that reads columns the encoder's features instead.

    Whatever the audit asks about is decoded first, to the nearest person who could exist, so the
    model never sees half a category.
    """
    if encoder is None:
        raise InvalidModel(
            f"The {reader.card.kind} reads original columns and has no inner space to audit in. "
            "Give an encoder fitted on training data (--encoder), and it is audited through "
            "decoded rows."
        )
    for name in reader.columns:
        if name not in encoder.columns:
            raise InvalidModel(
                f"The {reader.card.kind} reads a column {name!r}, which the encoder does not have."
                f"{nearest(name, encoder.columns)}"
            )
    card = dataclasses.replace(
        reader.card,
        kind=f"{reader.card.kind} on decoded rows",
        n_features=len(encoder.features),
        features=encoder.features,
        differentiable=False,
        space="original",
    )
    return BlackBox(card, _Decoding(reader, encoder))


@dataclasses.dataclass(frozen=True, eq=False)
class _Decoding:
    reader: ColumnReader
    encoder: Decoder

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Any:
        table = self.encoder.decode(x)
        return self.reader.function(
            table.select(list(self.reader.columns)) if self.reader.columns else table
        )
