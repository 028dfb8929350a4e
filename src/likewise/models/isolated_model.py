"""Model files of strangers in a process of their own: ONNX, XGBoost, LightGBM, CatBoost.

Opening one runs no code that is in it, but the libraries that read it can be brought down by it.
"""

import dataclasses
import sys
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from likewise.errors import InvalidFile
from likewise.models import boosted, onnx
from likewise.models.base import Model, in_parts
from likewise.models.black_box import from_answer
from likewise.models.sklearn import TableAnswer
from likewise.run.isolated import About, IsolatedProcess, Message

TARGET = f"{__name__}:open_file"

ROWS = 2**22
"""Numbers in the rows of one question; of more rows, it is asked several times."""

_processes: weakref.WeakValueDictionary[tuple[str, bytes], IsolatedProcess]
_processes = weakref.WeakValueDictionary()
"""Those that run: one audit opens its model more than once."""


def read_bytes(content: bytes, source: str, suffix: str) -> Model:
    """Open the bytes of a file in a process of its own."""
    process = _processes.get((source, content))
    if process is None:
        process = IsolatedProcess(TARGET, content, source, {"suffix": suffix, "source": source})
        _processes[source, content] = process
    about = dict(process.open()[0])
    try:
        columns, levels = tuple(about.pop("columns")), dict.fromkeys(about.pop("typed"))
        classes = tuple(about.pop("classes"))
        answer = IsolatedAnswer(IsolatedMethod(process), columns, levels, native=True)
        return from_answer(answer=answer, classes=classes, **about)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidFile(f"{source!r} is damaged (no such model).") from None


def read_here(content: bytes, source: str, suffix: str) -> Model:
    """Open the bytes of a file in this process."""
    if suffix == ".onnx":
        return onnx.read_bytes(content, source)
    return boosted.read_bytes(content, source, suffix)


@dataclasses.dataclass(frozen=True, eq=False)
class IsolatedAnswer(TableAnswer):
    """What a model in a process of its own answers: columns are given their types there."""

    @override
    def prepare(self, table: pa.Table) -> dict[str, Any]:
        return {name: table[name].combine_chunks() for name in table.column_names}


@dataclasses.dataclass(frozen=True, eq=False)
class IsolatedMethod:
    """Asks a process of its own about a matrix, or columns by name."""

    process: IsolatedProcess
    by_column: ClassVar[bool] = True

    def __call__(self, rows: Any) -> Any:
        """Return the answers to rows, which travel in parts."""
        matrix = isinstance(rows, np.ndarray)
        every = rows.astype(np.float64) if matrix else pa.table(dict(rows))
        return in_parts(lambda at: self._ask(every[at]), len(every), ROWS // every.shape[1])

    def _ask(self, rows: Any) -> np.ndarray:
        if isinstance(rows, np.ndarray):
            return self.process.ask({}, [rows], len(rows))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        content = np.frombuffer(sink.getvalue(), np.uint8)
        return self.process.ask({"table": True}, [content], len(rows))


# In the process of its own


def open_file(content: bytes, suffix: str, source: str) -> tuple[Message, Callable[..., Any]]:
    """Open a file in the process of its own; return what it is, and what answers for it."""
    if suffix != ".onnx":
        # The libraries import it if it is there, which takes longer than all the rest.
        sys.modules["sklearn"] = None  # type: ignore[assignment]
    model = read_here(content, source, suffix)
    card, answer = model.card, model.answer
    about: About = {
        "kind": card.kind,
        "output": card.stated,
        "classes": card.classes,
        "width": card.n_features,
        "dtype": model.dtype.name,
        "columns": answer.columns,
        "typed": list(answer.levels),
    }

    def ask(question: About, arrays: list[np.ndarray]) -> Any:
        if "table" not in question:
            return answer.method(*arrays)
        table = pa.ipc.open_stream(arrays[0].tobytes()).read_all()
        return answer.ask(answer.prepare(table))

    return (about, []), ask
