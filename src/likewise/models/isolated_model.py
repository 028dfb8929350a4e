"""Model files of strangers in a process of their own: ONNX, XGBoost, LightGBM, CatBoost.

Opening one runs no code that is in it, but the libraries that read it can be brought down by it.
"""

import dataclasses
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from likewise.errors import InvalidFile
from likewise.loss import Rows
from likewise.models import boosted, onnx
from likewise.models.black_box import BlackBox, from_answer
from likewise.models.sklearn import TableAnswer, as_rows
from likewise.run.isolated import About, IsolatedProcess, Message

TARGET = f"{__name__}:open_file"

ROWS = 2**22
"""Numbers in the rows of one question; of more rows, it is asked several times."""

_processes: weakref.WeakValueDictionary[tuple[str, bytes], IsolatedProcess]
_processes = weakref.WeakValueDictionary()
"""Those that run: one audit opens its model more than once."""


def read_bytes(content: bytes, source: str, suffix: str) -> BlackBox:
    """Open the bytes of a file in a process of its own."""
    process = _processes.get((source, content))
    if process is None:
        process = IsolatedProcess(TARGET, content, source, {"suffix": suffix, "source": source})
        _processes[source, content] = process
    about = dict(process.open()[0])
    try:
        columns, levels = tuple(about.pop("columns")), dict(about.pop("levels"))
        text, classes = about.pop("text"), tuple(about.pop("classes"))
        answer = IsolatedAnswer(process, columns, levels, bool(columns), native=True, text=text)
        return from_answer(answer=answer, classes=classes, **about)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidFile(f"{source!r} is damaged (no such model).") from None


def read_here(content: bytes, source: str, suffix: str) -> BlackBox:
    """Open the bytes of a file in this process."""
    if suffix == ".onnx":
        return onnx.read_bytes(content, source)
    return boosted.read_bytes(content, source, suffix)


@dataclasses.dataclass(frozen=True, eq=False)
class IsolatedAnswer(TableAnswer):
    """What a model in a process of its own answers; ``method`` is that process."""

    @override
    def ask(self, columns: Mapping[str, Any]) -> Any:
        if not self.named:
            return self.matrix(as_rows(columns, named=False))
        levels, arrays = zip(*map(_packed, columns.values()), strict=True)
        return self._in_parts({"names": list(columns), "levels": levels}, arrays, len(arrays))

    @override
    def matrix(self, x: Rows) -> Any:
        if self.named:
            return self.ask({name: x[:, j] for j, name in enumerate(self.columns)})
        return self._in_parts({}, [np.asarray(x, dtype=np.float64)], x.shape[1])

    def _in_parts(self, about: About, arrays: Sequence[np.ndarray], width: int) -> np.ndarray:
        n, size = len(arrays[0]), max(1, ROWS // max(1, width))
        parts = []
        for start in range(0, max(n, 1), size):
            rows = [array[start : start + size] for array in arrays]
            parts.append(self.method.ask(about, rows, len(rows[0])))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _packed(column: Any) -> tuple[Any, np.ndarray]:
    """Return a column as levels and codes, or as none and its numbers."""
    if hasattr(column, "codes"):
        levels = [_plain(value) for value in column.categories]
        return {"categories": levels}, np.asarray(column.codes, dtype=np.int32)
    array = np.asarray(column)
    if array.dtype != np.object_:
        return None, array if array.dtype.kind in "biuf" else array.astype(np.float64)
    found = pa.array(array, from_pandas=False).dictionary_encode()
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return {"values": found.dictionary.to_pylist()}, codes.astype(np.int32)


def _unpacked(levels: Any, array: np.ndarray) -> Any:
    if levels is None:
        return array
    if "categories" in levels:
        import pandas

        return pandas.Categorical.from_codes(array, categories=levels["categories"])
    values = np.empty(len(levels["values"]) + 1, dtype=object)
    values[:-1] = levels["values"]  # and none at the end, for the code -1
    return values[array]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# In the process of its own


def open_file(content: bytes, suffix: str, source: str) -> tuple[Message, Callable[..., Any]]:
    """Open a file in the process of its own; return what it is, and what answers for it."""
    if suffix != ".onnx":
        # The libraries import it if it is there, which takes longer than all the rest.
        sys.modules["sklearn"] = None  # type: ignore[assignment]
    model = read_here(content, source, suffix)
    card, answer = model.card, model.answer
    assert isinstance(answer, TableAnswer)
    about: About = {
        "kind": card.kind,
        "output": card.output if model.declared else None,
        "classes": [_plain(value) for value in card.classes],
        "width": card.n_features,
        "exact": model.dtype == np.float64,
        "columns": answer.columns,
        "levels": [(n, v and [_plain(value) for value in v]) for n, v in answer.levels.items()],
        "text": answer.text,
    }

    def ask(question: About, arrays: list[np.ndarray]) -> Any:
        if "names" not in question:
            return answer.method(*arrays)
        given = zip(question["names"], question["levels"], arrays, strict=True)
        return answer.ask({name: _unpacked(levels, array) for name, levels, array in given})

    return (about, []), ask
