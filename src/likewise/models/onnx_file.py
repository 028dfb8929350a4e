"""ONNX files: a graph of numeric operators, so that opening one runs no code.

Chains of layers are read as such; whatever else is in a graph, onnxruntime runs.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.errors import InvalidFile, MissingExtra, in_short
from likewise.losses import probabilities
from likewise.models.base import ModelCard, Opened
from likewise.models.black_box import BlackBox
from likewise.models.decoded import ColumnReader
from likewise.models.layered import LayeredModel, from_chain, probe_rows
from likewise.models.onnx_chain import read_chain
from likewise.models.onnx_graph import Answers, allocates, find_answers
from likewise.models.trial import try_out

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(string)": np.object_,
}


@dataclasses.dataclass(frozen=True)
class Input:
    """One input of a graph: a matrix of all features, or one column of them."""

    name: str
    type: Any
    rows: int | None
    width: int
    flat: bool

    def cast(self, values: Any) -> Any:
        """Give values the shape and type of this input."""
        values = np.asarray(values)
        if np.issubdtype(self.type, np.integer):
            values = np.rint(values)
        return values.astype(self.type).reshape(-1 if self.flat else (len(values), self.width))


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A graph with its inputs; the session is made where it is needed, so that this travels."""

    content: bytes
    output: str

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "output": self.output}

    @functools.cached_property
    def session(self) -> Any:
        """The runtime's own session, on one thread: blocks of rows run in parallel already."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(
            self.content, options, providers=["CPUExecutionProvider"]
        )

    @functools.cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What the graph is given."""
        return tuple(_input(found) for found in self.session.get_inputs())

    def matrix(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Run rows of numbers."""
        if len(self.inputs) == 1:
            return self.run({self.inputs[0].name: self.inputs[0].cast(x)})
        return self.run({i.name: i.cast(x[:, j]) for j, i in enumerate(self.inputs)})

    def table(self, table: pa.Table) -> Any:
        """Run original columns."""
        return self.run({i.name: i.cast(table[i.name].to_numpy()) for i in self.inputs})

    def run(self, values: dict[str, Any]) -> Any:
        """Run all rows, or as many at a time as the graph was made for."""
        size = self.inputs[0].rows
        if size is None:
            return self.session.run([self.output], values)[0]
        n = len(next(iter(values.values())))
        parts = []
        for start in range(0, n, size):
            index = np.minimum(np.arange(start, start + size), n - 1)
            block = {name: array[index] for name, array in values.items()}
            parts.append(self.session.run([self.output], block)[0][: n - start])
        return np.concatenate(parts)


def read_bytes(content: bytes, source: str, *, tried: bool = False) -> Opened:
    """Open the bytes of an ONNX file; one that can take any memory is tried out elsewhere first."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"{source!r} needs {error.name}, which is not installed: pip install 'likewise[onnx]'."
        ) from None
    try:
        proto = onnx.load_model_from_string(content)
        if not tried and allocates(proto.graph):
            try_out(content, source)
        if any(tensor.data_location for tensor in _tensors(proto)):
            raise InvalidFile("it keeps weights in other files; save it as one")
        answers = find_answers(proto)
        graph = Graph(proto.SerializeToString(), answers.name)
        inputs = graph.inputs
        network = _network(proto, graph, answers)
    except InvalidFile as error:
        raise InvalidFile(f"{source!r} cannot be audited: {error}.") from None
    except Exception as error:  # the runtime has an exception of its own for everything
        raise InvalidFile(f"{source!r} is damaged or no ONNX model ({in_short(error)}).") from None
    fingerprint = hashlib.sha256(content).hexdigest()
    return Opened(network or _model(graph, inputs, answers), fingerprint=fingerprint)


def _network(proto: Any, graph: Graph, answers: Answers) -> LayeredModel | None:
    """Return the graph as a network, if it is a chain and answers alike."""
    if len(graph.inputs) > 1 or graph.inputs[0].type not in (np.float32, np.float64):
        return None
    link = answers.output == "probabilities"
    chain = read_chain(proto, answers.name, link=link)
    if chain is None or chain.width != graph.inputs[0].width:
        return None
    x = probe_rows(graph.inputs[0].width)
    theirs = np.asarray(graph.matrix(x), dtype=np.float64).reshape(len(x), -1)
    ours = probabilities(chain(x), "logits") if link else chain(x)
    ours = ours[:, -theirs.shape[1] :]  # the graph may give the second of two classes alone
    # Graphs compute in single precision as a rule, with as many roundings as there are inputs.
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
        return None
    model = from_chain(
        chain,
        output="logits" if link else answers.output,
        classes=answers.classes,
        kind="ONNX network",
    )
    says = answers.output if link else None
    return dataclasses.replace(model, declared=answers.declared, says=says)


def _model(graph: Graph, inputs: tuple[Input, ...], answers: Answers) -> BlackBox | ColumnReader:
    several = len(inputs) > 1
    card = ModelCard(
        kind="ONNX model",
        task="regression" if answers.output == "values" else "classification",
        output=answers.output,
        classes=answers.classes,
        n_features=len(inputs) if several else inputs[0].width,
        features=tuple(i.name for i in inputs) if several else (),
        differentiable=False,
    )
    if any(i.type is np.object_ for i in inputs):
        return ColumnReader(card, tuple(i.name for i in inputs), graph.table)
    exact = all(i.type is np.float64 for i in inputs)
    dtype = np.dtype(np.float64 if exact else np.float32)
    return BlackBox(card, graph.matrix, dtype, declared=answers.declared)


def _input(found: Any) -> Input:
    shape = list(found.shape)
    if found.type not in _TYPES or len(shape) not in (1, 2):
        raise InvalidFile(f"its input {found.name!r} is a {found.type} of shape {shape}")
    rows = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else None
    width = shape[1] if len(shape) == 2 else 1
    if not isinstance(width, int):
        raise InvalidFile(f"its input {found.name!r} does not say how many features it takes")
    return Input(found.name, _TYPES[found.type], rows, width, len(shape) == 1)


def _tensors(message: Any) -> Iterator[Any]:
    """Walk through a graph, its subgraphs and functions, to every tensor in it."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if hasattr(value, "__len__") else (value,):
            if type(part).__name__ == "TensorProto":
                yield part
            else:
                yield from _tensors(part)
