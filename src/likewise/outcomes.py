"""What the audit saw, one row a person: the only thing that statistics are computed from."""

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidFile, in_short, nearest

FORMAT = 1


class Status(enum.IntEnum):
    """What became of a person on the way; anything but ``MOVED`` is counted and said."""

    MOVED = 0
    DIVERGED = 1
    UNDEFINED = 2


REMEDIES = {
    "diverged": "left all bounds: shorten the step or the time",
    "undefined": "no ratio: the loss before is zero",
}
"""What a status means, and what to do about it."""


def troubles(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Say how many people were not moved as intended, given their numbers by status."""
    n = sum(counts.get(status.name.lower(), 0) for status in Status)
    return tuple(
        f"{counts[name]} of {n} people: {words}"
        for name, words in REMEDIES.items()
        if counts.get(name)
    )


@dataclasses.dataclass(frozen=True)
class Outcomes:
    r"""Losses and decisions before and after the unfair map, one row a person.

    Parameters
    ----------
    row, y
        Row number in the audit data; class index, or the target of a regression.
    loss_before, loss_after
        :math:`\ell(f(x), y)` and :math:`\ell(f(\Phi(x, y)), y)`.
    decision_before, decision_after
        Class index decided (the prediction itself, for a regression).
    probability_before, probability_after
        Probability given to the true class (``nan`` for a regression).
    fair_distance, status
        :math:`d_x^2(\Phi(x, y), x)`, what the move cost; and a `Status` code.
    groups
        Protected attributes by name, as text, ``None`` where missing.
    about
        What the rows do not say: map, settings hash, classes, and whether wrong could turn right.
    """

    row: Int[np.ndarray, " n"]
    y: Shaped[np.ndarray, " n"]
    loss_before: Float[np.ndarray, " n"]
    loss_after: Float[np.ndarray, " n"]
    decision_before: Shaped[np.ndarray, " n"]
    decision_after: Shaped[np.ndarray, " n"]
    probability_before: Float[np.ndarray, " n"]
    probability_after: Float[np.ndarray, " n"]
    fair_distance: Float[np.ndarray, " n"]
    status: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None = None
    cluster: Shaped[np.ndarray, " n"] | None = None
    groups: Mapping[str, Shaped[np.ndarray, " n"]] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def ratio(self) -> Float[np.ndarray, " n"]:
        r"""Loss ratios :math:`R_i`; equal losses have ratio one, zero over zero included."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(
                self.loss_after == self.loss_before, 1.0, self.loss_after / self.loss_before
            )

    @property
    def monotone(self) -> bool:
        """Whether wrong → right is impossible by construction (decides between exact tests)."""
        return bool(self.about.get("monotone", False))

    def counts(self) -> dict[str, int]:
        """Count people by status."""
        return {s.name.lower(): int((self.status == s).sum()) for s in Status}

    def take(self, rows: Shaped[np.ndarray, " m"]) -> "Outcomes":
        """Return the people at ``rows`` (indices or a boolean mask)."""
        columns = {name: values[rows] for name, values in self._columns().items()}
        return self._from_columns(columns, self.about)

    @classmethod
    def concat(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Join outcomes of several blocks, in the order given."""
        columns = [part._columns() for part in parts]
        joined = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
        return cls._from_columns(joined, parts[0].about)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with one row a person: every test can be repeated from it."""
        columns = {
            # Text, even where nobody's attribute is known.
            name: pa.array(values.tolist(), pa.string() if name.startswith("group:") else None)
            if values.dtype.kind == "O"
            else pa.array(values)
            for name, values in self._columns().items()
        }
        about = json.dumps({"format": FORMAT, **self.about}, default=str)
        return pa.table(columns).replace_schema_metadata({"likewise.outcomes": about})

    @classmethod
    def read(cls, path: str | Path) -> "Outcomes":
        """Read the rows that an audit wrote (Parquet)."""
        return cls.from_arrow(read_rows(path), str(path))

    @classmethod
    def from_arrow(cls, table: pa.Table, source: str = "the table") -> "Outcomes":
        """Turn the table of `to_arrow` back into outcomes."""
        if b"likewise.outcomes" not in (table.schema.metadata or {}):
            raise InvalidFile(f"{source!r} holds no outcomes of an audit.")
        about = _described(table, b"likewise.outcomes")
        version = about.pop("format", FORMAT) if about else None
        if not isinstance(version, int):
            raise InvalidFile(f"{source!r} is damaged: it does not say what its rows are about.")
        if version > FORMAT:
            raise InvalidFile(f"{source!r} was written by a newer version. Upgrade likewise.")
        names = table.column_names
        for name in COLUMNS[:10]:
            if names.count(name) != 1:
                raise InvalidFile(f"{source!r} has no column {name!r}.{nearest(name, names)}")
        columns = {name: table[name].to_numpy(zero_copy_only=False) for name in names}
        for name, values in columns.items():
            named = name == "cluster" or name.startswith("group:")
            if not named and values.dtype.kind not in "iufb":
                raise InvalidFile(f"{source!r} is damaged: column {name!r} holds no numbers.")
            if pa.types.is_nested(table.schema.field(name).type):
                raise InvalidFile(f"{source!r} is damaged: column {name!r} holds lists.")
        return cls._from_columns(columns, {**about, **provenance(table)})

    def _columns(self) -> dict[str, Shaped[np.ndarray, " n"]]:
        flat = {name: getattr(self, name) for name in COLUMNS if getattr(self, name) is not None}
        return flat | {f"group:{name}": values for name, values in self.groups.items()}

    @classmethod
    def _from_columns(
        cls, columns: Mapping[str, Shaped[np.ndarray, " n"]], about: Mapping[str, Any]
    ) -> "Outcomes":
        own: dict[str, Any] = {name: columns[name] for name in COLUMNS if name in columns}
        groups = {name: values for name, values in columns.items() if name.startswith("group:")}
        own["groups"] = {name.removeprefix("group:"): values for name, values in groups.items()}
        return cls(**own, about=about)


COLUMNS = tuple(field.name for field in dataclasses.fields(Outcomes))[:12]
"""What there is one number of for each person; the first ten of these always."""


def provenance(table: pa.Table) -> dict[str, Any]:
    """Return what rows say they came from: hashes of model, settings, metric and pool."""
    return _described(table, b"likewise.audit")


def _described(table: pa.Table, key: bytes) -> dict[str, Any]:
    try:
        found = json.loads((table.schema.metadata or {}).get(key, b""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_rows(path: str | Path) -> pa.Table:
    """Return a table with a row a person (Parquet), every value checked."""
    try:
        table = pq.read_table(path)
        table.validate(full=True)
    except FileNotFoundError:
        raise InvalidFile(f"There is no file {str(path)!r}.") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFile(f"{str(path)!r} is not a Parquet file: {in_short(error)}.") from None
    return table
