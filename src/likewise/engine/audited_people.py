"""The people of one audit, read so that two models can be compared on them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from likewise.errors import InvalidFile
from likewise.outcomes import Outcomes, read_rows
from likewise.record import Record


def read_audit(audit: Any) -> tuple[Record, pa.Table]:
    """Return result and outcomes: of an audit in memory, or from two files."""
    if not isinstance(audit, Sequence):
        visits = audit.visits
        return audit.record, audit.outcomes.to_arrow() if visits is None else visits
    result, outcomes = audit
    record = result if isinstance(result, Record) else Record.read(result)
    return record, outcomes if isinstance(outcomes, pa.Table) else read_rows(outcomes)


@dataclasses.dataclass(frozen=True, eq=False)
class Audited:
    """One model's people, in the order of their rows.

    Parameters
    ----------
    values
        Audit values by name: whose they are, whether they are claims, and how people sway them.
    columns
        ``row``, ``weight``, ``loss``, and where they are known ``y``, ``wrong`` and ``cluster``.
    usable
        Who has a ratio.
    """

    name: str
    record: Record
    columns: Mapping[str, Any]
    usable: Bool[np.ndarray, " n"]
    table: pa.Table

    @classmethod
    def of(cls, name: str, record: Record, table: pa.Table) -> "Audited":
        """Read one model's outcomes."""
        if record.counterparts is None:
            rows = Outcomes.from_arrow(table, name)
            order = np.argsort(rows.row, kind="stable")
            rows = rows.take(order)
            regression = rows.about.get("task") == "regression"
            columns: dict[str, Any] = {
                "row": rows.row,
                "weight": np.ones(len(rows)) if rows.weight is None else rows.weight,
                "loss": rows.loss_before,
                "ratio": rows.ratio,
                "after": rows.loss_after,
            }
            if not regression:
                columns |= {
                    "y": rows.y,
                    "wrong": rows.error_before.astype(np.float64),
                    "wrong_after": rows.error_after.astype(np.float64),
                }
            if rows.cluster is not None:
                columns["cluster"] = np.unique(rows.cluster, return_inverse=True)[1].reshape(-1)
            usable = np.isfinite(columns["ratio"]) & np.isfinite(columns["loss"])
            return cls(name, record, columns, usable, table)
        if not {"row", "trait", "grouped", "after", "before"} <= set(table.column_names):
            raise InvalidFile(f"The outcomes of {name!r} hold no visits of an audit.")
        some = table["trait"].to_numpy(zero_copy_only=False)
        everyone = table.filter(pa.array(some == some[0])).sort_by("row")
        names = [n for n in everyone.column_names if n not in ("trait", "group")]
        columns = {n: everyone[n].to_numpy(zero_copy_only=False) for n in names}
        return cls(name, record, columns, np.ones(len(everyone), dtype=bool), table)
