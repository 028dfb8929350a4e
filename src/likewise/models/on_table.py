"""Any model as a function of original columns: for swaps and for real people's values."""

import dataclasses
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.errors import InvalidModel
from likewise.models.base import Model
from likewise.models.decoded import Decoding


@final
@dataclasses.dataclass(frozen=True, eq=False)
class OnTable:
    """A model that is asked about rows of a table, with gaps and categories as they are.

    Parameters
    ----------
    model
        The model.
    columns
        The columns that it reads.
    encoder
        What makes the model's features of them; None if they are its inputs.
    """

    model: Model
    columns: tuple[str, ...]
    encoder: Any = None

    def __call__(self, table: pa.Table) -> Float[np.ndarray, "n k"]:
        """Return outputs, as `Model` does, one row a person."""
        inner = getattr(self.model, "function", None)
        if isinstance(inner, Decoding):  # it reads columns: no way there and back
            out = np.asarray(inner.of_table(table), dtype=np.float64)
            return out[:, None] if out.ndim == 1 else out
        if self.model.front is not None:
            return self.model(self.model.front(table)[0])
        if self.encoder is not None:
            return self.model(self.encoder.encode(table.select(list(self.columns))))
        arrays = [table[name].cast(pa.float64()).to_numpy() for name in self.columns]
        return self.model(np.column_stack(arrays))


def on_table(model: Model, data: AuditData) -> OnTable:
    """Return what asks a model about people by their original columns.

    Parameters
    ----------
    data
        The people as the model sees them: they say what its columns are.
    """
    if data.table is None:
        raise InvalidModel(
            "The model is to be asked about original columns, and these people are arrays. Read "
            "them from a data frame or a file (likewise.read)."
        )
    if model.front is not None:
        columns = model.front.columns or tuple(data.table.column_names)
    elif data.encoder is not None:
        inner = getattr(model, "function", None)
        columns = inner.columns if isinstance(inner, Decoding) else data.encoder.columns
    else:
        columns = data.features
    return OnTable(model, columns, data.encoder if model.front is None else None)
