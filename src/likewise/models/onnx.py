"""ONNX files: a graph of numeric operators, so that opening one runs no code.

Onnxruntime runs the graph; it has no gradients.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from likewise.errors import InvalidFile, import_optional, in_short
from likewise.loss import Output
from likewise.models.base import Model
from likewise.models.black_box import from_answer
from likewise.models.sklearn import TableAnswer

FLOATS = (1, 10, 11)  # float, float16, double, in ONNX's numbering
PROBABILITIES = ("Softmax", "Sigmoid", "LinearClassifier", "TreeEnsembleClassifier")
VALUES = ("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor")
PASSING = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten", "Normalizer")
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(string)": np.object_,
}


def find_answers(proto: Any) -> tuple[str, Output | None, tuple[Any, ...]]:
    """Return the output of a graph to read, what it holds if the graph says so, and its classes.

    A list of dictionaries (``ZipMap``) is replaced, in the graph given, by the matrix it is of.
    """
    graph = proto.graph
    maker = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "ZipMap":
            del graph.output[:]
            graph.output.add(name=node.input[0])
            return node.input[0], "probabilities", _labels(node)
    kinds = {found.name: found.type.tensor_type.elem_type for found in graph.output}
    numbers = [name for name, kind in kinds.items() if kind in FLOATS]
    likely = [name for name in numbers if "prob" in name.lower()] or numbers
    if len(likely) != 1:
        raise InvalidFile(
            f"it has {len(numbers)} outputs that could be probabilities ({', '.join(numbers[:4])})"
        )
    node = maker.get(likely[0])
    while node is not None and node.op_type in PASSING:
        node = maker.get(node.input[0])
    last = "" if node is None else node.op_type
    if len(kinds) > len(numbers) or last in PROBABILITIES:  # or with a decision beside it
        return likely[0], "probabilities", _classes(graph)
    return likely[0], "values" if last in VALUES else None, ()


def _classes(graph: Any) -> tuple[Any, ...]:
    """Return the class labels that a classifier's node, or a table of labels, holds."""
    from onnx import numpy_helper

    tables = {tensor.name: tensor for tensor in graph.initializer}
    found = {_labels(node) for node in graph.node}
    for node in graph.node:
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in tables:
            values = numpy_helper.to_array(tables[node.input[0]])
            found.add(_texts(values.reshape(-1).tolist()))
    several = [labels for labels in found if len(labels) > 1]
    return several[0] if len(several) == 1 else ()


def _labels(node: Any) -> tuple[Any, ...]:
    named = [a for a in node.attribute if a.name.startswith("classlabels_")]
    return next((_texts(a.strings or a.ints) for a in named if a.strings or a.ints), ())


def _texts(values: Any) -> tuple[Any, ...]:
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A graph with its inputs; the session is made where it is needed, so that this travels."""

    content: bytes
    output: str
    by_column: ClassVar[bool] = True

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
    def inputs(self) -> list[Any]:
        """What the graph is given: a matrix of all features, or columns of them."""
        found = self.session.get_inputs()
        for one in found:
            if one.type not in TYPES or len(one.shape) not in (1, 2):
                raise InvalidFile(f"its input {one.name!r} is a {one.type} of shape {one.shape}")
            if not isinstance(_width(one), int):
                raise InvalidFile(f"its input {one.name!r} does not say how many features it takes")
        return list(found)

    def __call__(self, rows: Any) -> Any:
        """Run rows of numbers, or columns by name; as many at a time as the graph was made for."""
        if isinstance(rows, np.ndarray):
            rows = {self.inputs[0].name: rows}
        values = {one.name: _cast(one, rows[one.name]) for one in self.inputs}
        n, size = len(next(iter(values.values()))), self.inputs[0].shape[0]
        if not isinstance(size, int) or size < 1:
            return self.session.run([self.output], values)[0]
        parts = []
        for start in range(0, n, size):
            index = np.minimum(np.arange(start, start + size), n - 1)
            block = {name: array[index] for name, array in values.items()}
            parts.append(self.session.run([self.output], block)[0])
        return np.concatenate(parts)[:n]


def _width(found: Any) -> Any:
    return found.shape[1] if len(found.shape) == 2 else 1


def _cast(found: Any, values: Any) -> Any:
    """Give values the shape and type of an input."""
    kind, values = TYPES[found.type], np.asarray(values)
    values = np.rint(values) if np.issubdtype(kind, np.integer) else values
    return values.astype(kind).reshape((len(values), _width(found))[: len(found.shape)])


def read_bytes(content: bytes, source: str) -> Model:
    """Open the bytes of an ONNX file, here: a graph can ask for all the memory there is."""
    onnx, _ = (
        import_optional(library, "onnx", repr(source)) for library in ("onnx", "onnxruntime")
    )
    try:
        proto = onnx.load_model_from_string(content)
        if any(tensor.data_location for tensor in _tensors(proto)):
            raise InvalidFile("it keeps weights in other files; save it as one")
        name, output, classes = find_answers(proto)
        graph = Graph(proto.SerializeToString(), name)
        kinds = {found.name: TYPES[found.type] for found in graph.inputs}
    except InvalidFile as error:
        raise InvalidFile(f"{source!r} cannot be audited: {error}.") from None
    except Exception as error:  # the runtime has an exception of its own for everything
        raise InvalidFile(f"{source!r} is damaged or no ONNX model ({in_short(error)}).") from None
    texts: dict[str, None] = {name: None for name, kind in kinds.items() if kind is np.object_}
    several = len(kinds) > 1 or bool(texts)
    answer = TableAnswer(graph, tuple(kinds) if several else (), texts, native=True, text=True)
    width = len(kinds) if several else _width(graph.inputs[0])
    dtype = np.float64 if set(kinds.values()) == {np.float64} else np.float32
    return from_answer("ONNX model", answer, output, width, classes, dtype)


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a graph, its subgraphs and functions."""
    for field, value in message.ListFields():
        several = value if hasattr(value, "__len__") else (value,)
        for part in several if field.message_type is not None else ():
            if type(part).__name__ == "TensorProto":
                yield part
            else:
                yield from _tensors(part)
