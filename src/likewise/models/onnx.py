"""ONNX files: a graph of numeric operators, so that opening one runs no code.

Chains of layers are read as such, and their gradients are known; whatever else is in a graph,
onnxruntime runs.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidFile, import_optional, in_short
from likewise.loss import Output, probabilities
from likewise.models.black_box import BlackBox, from_answer
from likewise.models.layers import Chain, Layer, LayeredModel, from_chain, linear, probe_rows
from likewise.models.sklearn import TableAnswer

FLOATS = (1, 10, 11)  # float, float16, double, in ONNX's numbering
PROBABILITIES = ("Softmax", "Sigmoid", "LinearClassifier", "TreeEnsembleClassifier")
VALUES = ("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor")
PASSING = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten", "Normalizer")
ACTIVATIONS = {"Relu": "ReLU", "Tanh": "Tanh", "Sigmoid": "Sigmoid"}
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(string)": np.object_,
}


@dataclasses.dataclass(frozen=True)
class Answers:
    """The output to read: its name, what it holds, its classes, and whether the graph says so."""

    name: str
    output: Output
    classes: tuple[Any, ...] = ()
    declared: bool = True


def find_answers(proto: Any) -> Answers:
    """Find the probabilities, logits or values of a graph, as the usual exporters write them.

    A list of dictionaries (``ZipMap``) is replaced, in the graph given, by the matrix it is made
    from.
    """
    graph = proto.graph
    maker = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "ZipMap":
            del graph.output[:]
            graph.output.add(name=node.input[0])
            return Answers(node.input[0], "probabilities", _labels(node))
    kinds = {found.name: found.type.tensor_type.elem_type for found in graph.output}
    numbers = [name for name, kind in kinds.items() if kind in FLOATS]
    likely = [name for name in numbers if "prob" in name.lower()] or numbers
    if len(likely) != 1:
        raise InvalidFile(
            f"it has {len(numbers)} outputs that could be probabilities ({', '.join(numbers[:4])})"
        )
    name = likely[0]
    if len(kinds) > len(numbers):  # a decision beside it
        return Answers(name, "probabilities", _classes(graph))
    node = maker.get(name)
    while node is not None and node.op_type in PASSING:
        node = maker.get(node.input[0])
    last = "" if node is None else node.op_type
    if last in VALUES:
        return Answers(name, "values")
    if last in PROBABILITIES:
        return Answers(name, "probabilities", _classes(graph))
    return Answers(name, "logits", declared=False)


def _classes(graph: Any) -> tuple[Any, ...]:
    """Return the class labels that a classifier's node, or a table of labels, holds."""
    from onnx import numpy_helper

    found = [labels for node in graph.node if (labels := _labels(node))]
    tables = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in tables:
            values = numpy_helper.to_array(tables[node.input[0]]).reshape(-1).tolist()
            if len(values) > 1:
                found.append(tuple(_text(value) for value in values))
    return found[0] if len(set(found)) == 1 else ()


def _labels(node: Any) -> tuple[Any, ...]:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_") and (attribute.strings or attribute.ints):
            return tuple(_text(value) for value in attribute.strings or attribute.ints)
    return ()


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def read_chain(graph: Any, name: str, width: int, *, link: bool) -> Chain | None:
    """Return the layers between the input and the output ``name``; None if they cannot be read.

    Whoever reads them compares their answers with the runtime's: here little is checked.

    Parameters
    ----------
    width
        Number of inputs.
    link
        Whether the output holds probabilities: the softmax or sigmoid at the end is left out, so
        that the layers return logits.
    """
    from onnx import numpy_helper

    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    maker: dict[str, Any] = {}
    for node in graph.node:
        maker |= dict.fromkeys(node.output, node)
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes: list[Any] = []
    while name in maker:
        nodes.append(maker[name])
        name = next((n for n in nodes[-1].input[::-1] if n not in constants), "")
    layers: list[Layer] = []
    weight, bias = np.eye(width), np.zeros(width)
    try:
        for node in [node for node in reversed(nodes) if node.op_type not in PASSING]:
            if node.op_type in ACTIVATIONS:
                layers += [linear(weight, bias), Layer(ACTIVATIONS[node.op_type])]
                weight, bias = np.eye(len(bias)), np.zeros(len(bias))
            elif node.op_type not in ("Softmax", "Concat"):
                scale, shift = _affine(node, constants, len(bias))
                weight, bias = scale @ weight, scale @ bias + shift
    except (KeyError, ValueError, IndexError):  # it is no chain of what is known
        return None
    if link and layers and layers[-1].name == "Sigmoid" and len(bias) == 1:
        return Chain(tuple(layers[:-1]))
    return Chain((*layers, linear(weight, bias)))


def _affine(node: Any, constants: Mapping[str, Any], width: int) -> tuple[Any, Any]:
    """Return W and b of an operator that is linear in its one input; KeyError if it is not."""
    from onnx import helper

    kind = node.op_type
    value_of: Any = helper.get_attribute_value
    options: dict[str, Any] = {found.name: value_of(found) for found in node.attribute}
    given = [np.asarray(constants[n], np.float64) for n in node.input if n in constants]
    if kind in ("Gemm", "MatMul"):
        weight = given[0] if options.get("transB", 0) else given[0].T
        shift = np.zeros(len(weight)) if len(given) == 1 else given[1].reshape(-1)
        return weight, np.broadcast_to(shift, len(weight))
    if kind in ("LinearClassifier", "LinearRegressor"):
        shift = np.asarray(options["intercepts"], np.float64)
        weight = np.asarray(options["coefficients"], np.float64).reshape(len(shift), -1)
        two = kind == "LinearClassifier" and len(shift) == 2  # of which each is the other's
        return (weight[1:], shift[1:]) if two else (weight, shift)
    if kind == "Scaler":
        scale = np.asarray(options["scale"], np.float64)
        return np.diag(scale), -scale * np.asarray(options["offset"], np.float64)
    if kind == "BatchNormalization":
        scale, shift, mean, variance = given
        scale = scale / np.sqrt(variance + options.get("epsilon", 1e-5))
        return np.diag(scale), shift - scale * mean
    value = np.broadcast_to(given[0].reshape(-1), width)
    one, none = np.ones(width), np.zeros(width)
    known: dict[str, tuple[Any, Any]] = {
        "Add": (one, value),
        "Sub": (one, -value),
        "Mul": (value, none),
        "Div": (1 / np.where(value, value, 1), none),
    }
    factor, shift = known[kind]
    return np.diag(factor), shift


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
        size = self.inputs[0].shape[0]
        if not isinstance(size, int) or size < 1:
            return self.session.run([self.output], values)[0]
        n = len(next(iter(values.values())))
        parts = []
        for start in range(0, n, size):
            index = np.minimum(np.arange(start, start + size), n - 1)
            block = {name: array[index] for name, array in values.items()}
            parts.append(self.session.run([self.output], block)[0][: n - start])
        return np.concatenate(parts)


def _width(found: Any) -> Any:
    return found.shape[1] if len(found.shape) == 2 else 1


def _cast(found: Any, values: Any) -> Any:
    """Give values the shape and type of an input."""
    kind, values = TYPES[found.type], np.asarray(values)
    if np.issubdtype(kind, np.integer):
        values = np.rint(values)
    shape = (len(values), _width(found))[: len(found.shape)]
    return values.astype(kind).reshape(shape)


def read_bytes(content: bytes, source: str) -> BlackBox | LayeredModel:
    """Open the bytes of an ONNX file, here: a graph can ask for all the memory there is."""
    onnx, _ = (
        import_optional(library, "onnx", repr(source)) for library in ("onnx", "onnxruntime")
    )
    try:
        proto = onnx.load_model_from_string(content)
        if any(tensor.data_location for tensor in _tensors(proto)):
            raise InvalidFile("it keeps weights in other files; save it as one")
        answers = find_answers(proto)
        graph = Graph(proto.SerializeToString(), answers.name)
        return _network(proto, graph, answers) or _model(graph, answers)
    except InvalidFile as error:
        raise InvalidFile(f"{source!r} cannot be audited: {error}.") from None
    except Exception as error:  # the runtime has an exception of its own for everything
        raise InvalidFile(f"{source!r} is damaged or no ONNX model ({in_short(error)}).") from None


def _network(proto: Any, graph: Graph, answers: Answers) -> LayeredModel | None:
    """Return the graph as a network, if it is a chain and answers alike."""
    first, link = graph.inputs[0], answers.output == "probabilities"
    if len(graph.inputs) > 1 or TYPES[first.type] not in (np.float32, np.float64):
        return None
    chain = read_chain(proto.graph, answers.name, _width(first), link=link)
    if chain is None:
        return None
    x = probe_rows(_width(first))
    theirs: Float[np.ndarray, "n k"] = np.asarray(graph(x), np.float64).reshape(len(x), -1)
    ours = probabilities(chain(x), "logits") if link else chain(x)
    ours = ours[:, -theirs.shape[1] :]  # the graph may give the second of two classes alone
    # Graphs compute in single precision as a rule, with as many roundings as there are inputs.
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
        return None
    output: Output = "logits" if link else answers.output
    model = from_chain(chain, output=output, classes=answers.classes, kind="ONNX network")
    returns = answers.output if link else None
    return dataclasses.replace(model, declared=answers.declared, returns=returns)


def _model(graph: Graph, answers: Answers) -> BlackBox:
    kinds = {found.name: TYPES[found.type] for found in graph.inputs}
    texts: dict[str, None] = {name: None for name, kind in kinds.items() if kind is np.object_}
    several = len(kinds) > 1 or bool(texts)
    names = tuple(kinds) if several else ()
    answer = TableAnswer(graph, names, texts, named=several, native=True, text=True)
    width = len(kinds) if several else _width(graph.inputs[0])
    exact = set(kinds.values()) == {np.float64}
    about = answers.output, width, answers.classes, answers.declared, exact
    return from_answer("ONNX model", answer, *about)


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a graph, its subgraphs and functions."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if hasattr(value, "__len__") else (value,):
            if type(part).__name__ == "TensorProto":
                yield part
            else:
                yield from _tensors(part)
