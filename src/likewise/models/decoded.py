"""Models that read original columns and cannot be cut: audited through decoded rows."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from likewise.errors import InvalidData, InvalidModel, nearest
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
                f"{nearest(name, encoder.columns)} Fit the encoder, and the metric, on all columns "
                f"that it reads: --set columns.inputs={','.join(reader.columns[:8])}"
                f"{',…' if len(reader.columns) > 8 else ''}."
            )
    card = dataclasses.replace(
        reader.card,
        kind=f"{reader.card.kind} on decoded rows",
        n_features=len(encoder.features),
        features=encoder.features,
        differentiable=False,
        space="original",
    )
    return BlackBox(card, Decoding(reader, encoder))


@dataclasses.dataclass(frozen=True, eq=False)
class Decoding:
    """A model of columns as a function of features."""

    reader: ColumnReader
    encoder: Decoder

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Return what the model answers to decoded rows."""
        return self.of_table(self.encoder.decode(x))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads."""
        return self.reader.columns or self.encoder.columns

    def of_table(self, table: pa.Table) -> Any:
        """Return what the model answers to original columns."""
        return self.reader.function(table.select(list(self.columns)))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class EncoderFront:
    """Features of the audited people themselves, for a model that reads their columns.

    Parameters
    ----------
    columns
        The columns the model reads.
    encoder
        What makes features of them; None before the people are known.
    """

    columns: tuple[str, ...]
    encoder: Decoder | None = None

    def __call__(
        self, rows: pa.Table | Shaped[np.ndarray, "n c"]
    ) -> tuple[Float[np.ndarray, "n d"], tuple[str, ...]]:
        """Return features of the original columns, and their names."""
        if self.encoder is None or not isinstance(rows, pa.Table):
            raise InvalidData(
                "The model reads original columns: give a data frame or a file with them "
                "(likewise.read with raw=True), not arrays."
            )
        return self.encoder.encode(rows), self.encoder.features

    def decode(self, x: Float[np.ndarray, "n d"]) -> pa.Table:
        """Return the original columns, nearest to each row of features."""
        assert self.encoder is not None
        return self.encoder.decode(x)


def behind(reader: ColumnReader, encoder: Decoder | None) -> BlackBox:
    """Return a model of original columns as one of features that it makes of them itself."""
    if encoder is None:
        return BlackBox(
            dataclasses.replace(reader.card, space="original"),
            _unasked,
            front=EncoderFront(reader.columns),
        )
    return dataclasses.replace(
        through(reader, encoder), front=EncoderFront(encoder.columns, encoder)
    )


def _unasked(x: Any) -> Any:
    raise InvalidModel("The model reads original columns, and none are known yet.")
