"""ONNX graphs that are chains of layers, read as such: their gradients are then known."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from likewise.models.layered import Chain
from likewise.models.layers import Layer, linear
from likewise.models.onnx_graph import FLOATS

_SILENT = ("Identity", "Flatten", "Normalizer")
_ACTIVATIONS = {"Relu": "ReLU", "Tanh": "Tanh", "Sigmoid": "Sigmoid"}
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Scaler")


class _Other(Exception):
    """The graph is something else than a chain that is known."""


def read_chain(proto: Any, name: str, *, link: bool) -> Chain | None:
    """Return the layers between the input and the output ``name``; None if it is no chain.

    Parameters
    ----------
    link
        Whether the output holds probabilities: the softmax or sigmoid at the end is left out, so
        that the layers return logits.
    """
    reader, layers = _Reader.of(proto.graph), _Layers()
    try:
        nodes = reader.nodes(name)
        for node in reader.without_link(nodes) if link else nodes:
            reader.add(node, layers)
        found = layers.done()
    except (_Other, ValueError, KeyError):  # the last two: shapes or options unlike the usual
        return None
    # One sigmoid is one probability; several are not those of classes.
    single = found[-1].name == "Linear" and len(found[-1].arrays["bias"]) == 1
    return None if link and single != reader.single else Chain(tuple(found))


@dataclasses.dataclass
class _Layers:
    """Layers so far. What is done to single columns is folded into the linear layers."""

    found: list[Layer] = dataclasses.field(default_factory=list)
    scale: Any = 1.0
    shift: Any = 0.0

    def linear(self, weight: np.ndarray, bias: np.ndarray) -> None:
        ahead = np.broadcast_to(np.asarray(self.shift, np.float64), weight.shape[1:])
        self.found.append(linear(weight * self.scale, bias + weight @ ahead))
        self.scale, self.shift = 1.0, 0.0

    def elementwise(self, scale: Any, shift: Any) -> None:
        if self.found and self.found[-1].name == "Linear":
            arrays = self.found.pop().arrays
            rows = np.broadcast_to(np.asarray(scale, np.float64), arrays["bias"].shape)
            self.found.append(
                linear(arrays["weight"] * rows[:, None], arrays["bias"] * scale + shift)
            )
        elif self.found:
            raise _Other
        else:
            self.scale, self.shift = self.scale * scale, self.shift * scale + shift

    def done(self) -> list[Layer]:
        if not any(layer.name == "Linear" for layer in self.found):
            raise _Other
        return self.found


@dataclasses.dataclass
class _Reader:
    maker: dict[str, Any]
    constants: dict[str, Any]
    start: str
    single: bool = False

    @classmethod
    def of(cls, graph: Any) -> "_Reader":
        from onnx import numpy_helper

        constants: dict[str, Any] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        maker: dict[str, Any] = {}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            else:
                maker |= dict.fromkeys(node.output, node)
        inputs = [found.name for found in graph.input if found.name not in constants]
        return cls(maker, constants, inputs[0] if len(inputs) == 1 else "")

    def nodes(self, name: str) -> list[Any]:
        """Return the operators on the way from the input to a name, in their order."""
        way: list[Any] = []
        while name != self.start:
            node = self.maker.get(name)
            if node is None or not self.start:
                raise _Other
            way.append(node)
            name = self._complement(node) or self._given(node)
        return way[::-1]

    def without_link(self, nodes: list[Any]) -> list[Any]:
        """Leave out the softmax or sigmoid at the end, and what only reshapes behind it."""
        *rest, last = [n for n in nodes if n.op_type not in (*_SILENT, "Cast", "Concat")]
        options = _options(last)
        if last.op_type == "Softmax" and options.get("axis", 1) in (1, -1):
            return rest
        if last.op_type == "Sigmoid":
            self.single = True
            return rest
        if last.op_type == "LinearClassifier":
            return [*rest, last]
        raise _Other

    def add(self, node: Any, layers: _Layers) -> None:
        """Read one operator."""
        kind, options = node.op_type, _options(node)
        if kind in _ACTIVATIONS:
            if layers.found and layers.found[-1].name != "Linear":
                raise _Other
            layers.found.append(Layer(_ACTIVATIONS[kind]))
        elif kind == "MatMul" and node.input[1] in self.constants:
            weight = self._constant(node.input[1]).T
            if weight.ndim != 2:
                raise _Other
            layers.linear(weight, np.zeros(len(weight)))
        elif kind == "Gemm":
            self._gemm(node, options, layers)
        elif kind in ("LinearClassifier", "LinearRegressor"):
            self._scores(kind, options, layers)
        elif kind in _ELEMENTWISE:
            layers.elementwise(*self._columns(node, options))
        elif kind == "Cast" and options.get("to") in FLOATS:
            pass
        elif kind not in _SILENT or options.get("axis", 1) != 1:
            raise _Other

    def _gemm(self, node: Any, options: dict[str, Any], layers: _Layers) -> None:
        plain = options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0
        if not plain or options.get("transA", 0) or node.input[0] in self.constants:
            raise _Other
        weight = self._constant(node.input[1])
        weight = weight if options.get("transB", 0) else weight.T
        bias = self._constant(node.input[2]) if len(node.input) > 2 else np.zeros(len(weight))
        layers.linear(weight, np.broadcast_to(bias.reshape(-1), len(weight)))

    def _scores(self, kind: str, options: dict[str, Any], layers: _Layers) -> None:
        bias = np.asarray(options.get("intercepts", [0.0]), np.float64)
        weight = np.asarray(options["coefficients"], np.float64).reshape(len(bias), -1)
        after = options.get("post_transform", b"NONE")
        if (kind == "LinearRegressor" and after == b"NONE" and len(bias) == 1) or (
            kind == "LinearClassifier" and after == b"SOFTMAX" and len(bias) > 1
        ):
            layers.linear(weight, bias)
        elif (
            kind == "LinearClassifier"
            and after == b"LOGISTIC"
            and len(bias) == 2
            and np.array_equal(weight[0], -weight[1])
            and bias[0] == -bias[1]
        ):
            self.single = True
            layers.linear(weight[1:], bias[1:])
        else:
            raise _Other

    def _columns(self, node: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """Return what an operator multiplies columns with, and what it adds to them."""
        if node.op_type == "Scaler":
            scale = np.asarray(options["scale"], np.float64)
            return scale, -scale * np.asarray(options["offset"], np.float64)
        second = node.input[1] in self.constants
        value = self._constant(node.input[1] if second else node.input[0])
        if value.ndim > 2 or (value.ndim == 2 and len(value) != 1):
            raise _Other
        value = value.reshape(-1)
        if node.op_type == "Add":
            return np.ones_like(value), value
        if node.op_type == "Mul":
            return value, np.zeros_like(value)
        if not second:
            raise _Other
        if node.op_type == "Sub":
            return np.ones_like(value), -value
        return 1 / value, np.zeros_like(value)

    def _given(self, node: Any) -> str:
        """Return the one input of an operator that is no constant."""
        names = [name for name in node.input if name and name not in self.constants]
        if len(names) != 1:
            raise _Other
        return str(names[0])

    def _complement(self, node: Any) -> str | None:
        """Return p, if the operator puts 1 - p and p side by side."""
        if node.op_type != "Concat" or len(node.input) != 2:
            return None
        no, yes = node.input
        minus, sure = self.maker.get(no), self.maker.get(yes)
        if (
            minus is not None
            and sure is not None
            and minus.op_type == "Sub"
            and sure.op_type == "Sigmoid"
            and minus.input[1] == yes
            and np.all(self.constants.get(minus.input[0]) == 1)
        ):
            return str(yes)
        return None

    def _constant(self, name: str) -> Float[np.ndarray, "..."]:
        if name not in self.constants:
            raise _Other
        return np.asarray(self.constants[name], dtype=np.float64)


def _options(node: Any) -> dict[str, Any]:
    from onnx import helper

    value: Callable[[Any], Any] = helper.get_attribute_value
    return {attribute.name: value(attribute) for attribute in node.attribute}
