"""Which output of an ONNX graph is the answer, and what it means."""

import dataclasses
from typing import Any

from likewise.errors import InvalidFile
from likewise.losses import Output

FLOATS = (1, 10, 11)  # float, float16, double, in ONNX's numbering
PROBABILITIES = ("Softmax", "Sigmoid", "LinearClassifier", "TreeEnsembleClassifier")
VALUES = ("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor")
MODEST = frozenset(
    (
        *("Abs", "Add", "And", "ArgMax", "ArrayFeatureExtractor", "BatchNormalization", "Cast"),
        *("Clip", "Concat", "Constant", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp"),
        *("FeatureVectorizer", "Flatten", "Gemm", "Greater", "HardSigmoid", "Identity", "Imputer"),
        *("LabelEncoder", "LayerNormalization", "LeakyRelu", "Less", "LinearClassifier"),
        *("LinearRegressor", "Log", "MatMul", "Max", "Min", "Mul", "Neg", "Normalizer", "Not"),
        *("OneHotEncoder", "Or", "Pow", "Reciprocal", "ReduceMean", "ReduceSum", "Relu", "Reshape"),
        *("SVMClassifier", "SVMRegressor", "Scaler", "Selu", "Sigmoid", "Sign", "Slice", "Softmax"),
        *("Softplus", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose"),
        *("TreeEnsembleClassifier", "TreeEnsembleRegressor", "Unsqueeze", "Where", "ZipMap"),
    )
)
"""Operators whose results are no larger than their inputs and the file make them."""

PASSING = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten")


@dataclasses.dataclass(frozen=True)
class Answers:
    """The output to read.

    Parameters
    ----------
    name
        Its name in the graph.
    output
        Whether it holds logits, probabilities or values.
    classes
        Label values in the order of its columns, if the graph says.
    declared
        Whether the graph says what it holds, or it is taken for logits.
    """

    name: str
    output: Output
    classes: tuple[Any, ...] = ()
    declared: bool = True


def allocates(graph: Any) -> bool:
    """Tell whether a graph can take more memory than rows and weights need.

    So it can if it has an operator that makes large things of small ones (`Expand`, loops), or
    computes with constants alone, which may be long in one direction each.
    """
    constant = {tensor.name for tensor in graph.initializer} | {""}
    for node in graph.node:
        if node.op_type not in MODEST:
            return True
        if node.op_type == "Constant":
            constant |= set(node.output)
        elif constant.issuperset(node.input):
            return True
    return False


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
