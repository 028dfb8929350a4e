"""What a pipeline made of people, shown in their original columns again.

By each transformer's own inverse where it has one; else by the nearest real person.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from likewise.models.base import Front
from likewise.models.decoded import EncoderFront
from likewise.models.pipeline import PipelineFront

REAL = 2000
"""Real people among whom the nearest is looked for."""

Values = Mapping[str, Any]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Originals:
    """Turns rows in front of a pipeline's last step back into original columns.

    Parameters
    ----------
    front
        The steps before the last.
    table, x
        Some real people: their original columns, and what the steps make of them.
    """

    front: PipelineFront | EncoderFront
    table: pa.Table
    x: Float[np.ndarray, "n d"]

    @classmethod
    def of(
        cls, front: Front | None, table: pa.Table | None, x: Float[np.ndarray, "n d"]
    ) -> "Originals | None":
        """Return what shows rows in original columns, if there are any."""
        if table is None or not isinstance(front, PipelineFront | EncoderFront):
            return None
        rows = np.unique(np.linspace(0, len(table) - 1, min(REAL, len(table))).astype(np.int64))
        return cls(front, table.take(pa.array(rows)), x[rows])

    @property
    def columns(self) -> list[str]:
        """The original columns that are shown: those the pipeline reads."""
        return list(self.front.columns or self.table.column_names)

    def decode(self, x: Float[np.ndarray, "n d"]) -> pa.Table:
        """Return the original columns behind rows of features."""
        table = self.table.select(self.columns)
        if isinstance(self.front, EncoderFront):
            back = self.front.decode(x)
            columns = {n: _whole_again(back[n], table.schema.field(n).type) for n in self.columns}
            return pa.table(columns)
        found: dict[str, Any] = {}
        if self.front.steps is None:
            found = {name: x[:, j] for j, name in enumerate(self.columns)}
        else:
            scale = self.x.std(axis=0)
            scale[scale == 0] = 1
            near = np.array(
                [int((((self.x - row) / scale) ** 2).sum(axis=1).argmin()) for row in x]
            )
            known = _back(self.front.steps, x, self.columns)
            for name in self.columns:
                real = table[name].take(pa.array(near)).to_pylist()
                found[name] = list(known[name]) if name in known else real
        return pa.table(
            {name: _typed(found[name], table.schema.field(name).type) for name in self.columns}
        )


def as_moved(
    own: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a person's own values, but for columns that differ after the move.

    What steps do not keep (the digits of a bin, an unselected column, a gap that was filled in)
    is not a move.
    """
    return {n: own.get(n) if _alike(before[n], after[n]) else after[n] for n in after}


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True))
    return bool(one == other)


def _back(step: Any, x: Any, columns: Sequence[str]) -> Values:
    """Return original columns by name, as far as a transformer can be inverted."""
    if hasattr(step, "steps"):  # a pipeline: its steps from the last
        inner = [part for _, part in step.steps if part not in (None, "passthrough")]
        for part in reversed(inner[1:]):
            back = _inverse(part, x)
            if back is None:
                return {}
            x = back
        return _back(inner[0], x, columns) if inner else _by_place(x, columns)
    if hasattr(step, "transformers_"):
        return _of_columns(step, x, columns)
    back = _inverse(step, x)
    return {} if back is None else _by_place(back, columns)


def _of_columns(step: Any, x: Any, columns: Sequence[str]) -> Values:
    found: dict[str, Any] = {}
    seen = list(getattr(step, "feature_names_in_", columns))
    for name, part, chosen in step.transformers_:
        place = step.output_indices_.get(name, slice(0, 0))
        if place.stop <= place.start or (isinstance(part, str) and part == "drop"):
            continue
        named = [n if isinstance(n, str) else seen[n] for n in _listed(chosen, seen)]
        block = x[:, place]
        whole = isinstance(part, str) and part == "passthrough"
        found |= _by_place(block, named) if whole else _back(part, block, named)
    return found


def _listed(chosen: Any, seen: Sequence[str]) -> list[Any]:
    if isinstance(chosen, str | int):
        return [chosen]
    if isinstance(chosen, slice):
        return list(range(len(seen)))[chosen]
    chosen = list(chosen)
    mask = bool(chosen) and all(isinstance(c, bool | np.bool_) for c in chosen)
    return [j for j, yes in enumerate(chosen) if yes] if mask else chosen


def _by_place(x: Any, names: Sequence[str]) -> Values:
    return {n: x[:, j] for j, n in enumerate(names)} if x.shape[1] == len(names) else {}


def _inverse(part: Any, x: Any) -> Any:
    """Return what a transformer was given, or None if it cannot say."""
    kind = type(part).__name__
    if kind == "SimpleImputer" and not part.add_indicator:
        return x  # a filled gap is shown as it was filled
    if not hasattr(part, "inverse_transform"):
        return None
    try:
        if kind == "OneHotEncoder":
            x = _whole(part, x)
        elif kind in ("OrdinalEncoder", "KBinsDiscretizer") and x.shape[1] == part.n_features_in_:
            most = [len(c) - 1 for c in getattr(part, "categories_", ())] or part.n_bins_ - 1
            x = np.clip(np.rint(x), 0, most)
        back = part.inverse_transform(x)
    except Exception:  # anyone may write a transformer
        return None
    back = back.toarray() if hasattr(back, "toarray") else np.asarray(back)
    return back if back.ndim == 2 and len(back) == len(x) else None


def _whole(part: Any, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return one-hot features with one whole level in each group, or the one that was dropped."""
    whole, start = np.zeros_like(x), 0
    dropped = getattr(part, "drop_idx_", None)
    for j, width in enumerate(getattr(part, "_n_features_outs", ())):
        block = x[:, start : start + width]
        if width:
            top = block.argmax(axis=1)
            gone = dropped is not None and dropped[j] is not None
            stays = block.max(axis=1) > 0.5 if gone else np.ones(len(x), dtype=bool)
            whole[np.flatnonzero(stays), start + top[stays]] = 1
        start += width
    return whole


def _whole_again(column: Any, column_type: Any) -> Any:
    """Return numbers as whole ones, or as true and false, where they are and the table has such."""
    if pa.types.is_boolean(column_type) and pa.types.is_floating(column.type):
        ones = pc.equal(column, 1)
        return ones if pc.all(pc.or_(ones, pc.equal(column, 0))).as_py() else column
    if pa.types.is_integer(column_type) and pa.types.is_floating(column.type):
        return (
            column.cast(column_type)
            if pc.all(pc.equal(pc.round(column), column)).as_py()
            else column
        )
    return column


def _typed(values: Any, column_type: Any) -> Any:
    """Return values as a column of the table's type where they can be."""
    if pa.types.is_dictionary(column_type):
        column_type = column_type.value_type
    cleaned = [None if v is None or v != v else v for v in _plain(values)]
    try:
        if pa.types.is_integer(column_type):
            cleaned = [None if v is None else round(float(v)) for v in cleaned]
        return pa.array(cleaned, type=column_type)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([None if v is None else str(v) for v in cleaned])


def _plain(values: Any) -> list[Any]:
    return list(values.tolist() if isinstance(values, np.ndarray) else values)
