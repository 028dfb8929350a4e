"""Training people and audited people, with the encoder fitted on the former."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from likewise.audit_data import AuditData
from likewise.data.encode import Encoder
from likewise.data.table import read


@dataclasses.dataclass(frozen=True)
class Split:
    """A data set cut in two.

    Parameters
    ----------
    train, test
        People as a model sees them, encoded.
    encoder
        Fitted on the training people.
    train_table, test_table
        The same people in original columns, label included: written to files, they can be read
        back with `likewise.read`, this ``encoder``, ``label`` and ``protected``.
    label, protected
        Names of the columns with these roles.
    """

    train: AuditData
    test: AuditData
    encoder: Encoder
    train_table: pa.Table
    test_table: pa.Table
    label: str
    protected: tuple[str, ...]

    @classmethod
    def of(
        cls,
        name: str,
        table: pa.Table,
        train: Int[np.ndarray, " m"],
        test: Int[np.ndarray, " n"],
        *,
        label: str,
        protected: tuple[str, ...],
        **encoding: Any,
    ) -> "Split":
        """Cut ``table`` into the rows ``train`` and ``test``; ``encoding`` is for `Encoder.fit`."""
        tables = [table.take(pa.array(rows)) for rows in (train, test)]
        encoder = Encoder.fit(tables[0], label=label, protected=protected, **encoding)
        people = [
            dataclasses.replace(
                read(part, label=label, protected=protected, encoder=encoder),
                source=f"{name}, {words}",
                row=rows,
            )
            for part, rows, words in zip(
                tables, (train, test), ("training split", "test split"), strict=True
            )
        ]
        return cls(people[0], people[1], encoder, tables[0], tables[1], label, protected)
