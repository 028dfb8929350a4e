"""Models saved as safetensors: weights and a closed list of layers. Opening one runs no code."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import InvalidFile, InvalidModel
from likewise.files import write_whole
from likewise.losses import Output
from likewise.models.base import Model, Opened
from likewise.models.layered import Chain, LayeredModel, probe_rows
from likewise.models.layers import SAVED, Layer, check_layer, unsaved
from likewise.models.recognise import as_model, is_torch
from likewise.tensors import read_tensors

FORMAT = 1
KEY = "likewise.model"
MOST_LAYERS = 1000
"""Layers of a network that are read."""

LARGEST = 1_000_000
"""Characters of metadata that are read; a thousand layers need a tenth of it."""


def save_model(
    model: Any, path: str | Path, *, classes: Sequence[Any] = (), output: Output | None = None
) -> None:
    """Write a network to a file that opens without running any code.

    Parameters
    ----------
    model
        A network that runs layers of the closed list in turn, or an estimator that becomes one
        (logistic regressions, scikit-learn's networks, the estimators of `likewise.training`).
    path
        Where to; by custom it ends in ``.safetensors``.
    classes
        Label values in the order of the outputs.
    output
        What the outputs are, unless logits or known from the estimator.
    """
    from safetensors.numpy import save

    converted = as_model(model, output=output, classes=classes)
    layers = _layers(converted)
    if converted.front is not None:
        raise InvalidModel("A pipeline cannot be saved as layers. Save its last step alone.")
    about = {
        "format": FORMAT,
        "output": converted.card.output,
        "classes": [_plain(value) for value in converted.card.classes],
        "layers": [{"layer": layer.name, **layer.options} for layer in layers],
    }
    tensors = {
        f"{index}.{name}": np.ascontiguousarray(array)
        for index, layer in enumerate(layers)
        for name, array in layer.arrays.items()
    }
    content = save(tensors, {KEY: json.dumps(about, allow_nan=False)})
    _check_again(read_bytes(content, str(path)).content, converted)
    write_whole(path, content)


def read_bytes(content: bytes, source: str) -> Opened:
    """Rebuild the network from the bytes of a file, believing nothing in it."""
    tensors, written = read_tensors(content, source)
    if KEY not in written:
        raise InvalidFile(
            f"{source!r} holds weights, but not the layers they belong to. Write it with "
            "likewise.save_model(module, path)."
        )
    try:
        about = _about(written[KEY])
        chain, width = _chain(about["layers"], tensors)
        classes = _classes(about["classes"], about["output"], width)
    except (InvalidFile, InvalidModel) as error:
        problem = str(error).removesuffix(".")
        raise InvalidFile(
            f"{source!r} is damaged or was not written by likewise: {problem}."
        ) from None
    return Opened(
        chain,
        classes=classes,
        output=about["output"],
        fingerprint=hashlib.sha256(content).hexdigest(),
    )


def _layers(model: Model) -> tuple[Layer, ...]:
    if isinstance(model, LayeredModel):
        layers = model.chain.layers
    elif is_torch(getattr(model, "module", None)):
        from likewise.models.torch_layers import read_layers

        layers = read_layers(model.module)  # type: ignore[attr-defined]
    else:
        raise InvalidModel(f"A {model.card.kind} has no layers that could be saved.")
    for layer in layers:
        if layer.name not in SAVED:
            raise unsaved(layer.name)
    return layers


def _check_again(chain: Chain, model: Model) -> None:
    """Refuse to write what would not give the same numbers when it is read."""
    x = probe_rows(model.card.n_features or 1)
    if not np.allclose(chain(x), model(x), rtol=1e-12, atol=1e-12):
        raise InvalidModel("The model does something that its layers alone do not say.")


def _about(text: str) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise InvalidFile(f"its description has {len(text)} characters")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidFile("its description is not JSON") from None
    if not isinstance(about, dict):
        raise InvalidFile("its description is not an object")
    if isinstance(about.get("format"), int) and about["format"] > FORMAT:
        raise InvalidFile("it is from a newer version; upgrade likewise")
    if set(about) != {"format", "output", "classes", "layers"} or about["format"] != FORMAT:
        raise InvalidFile("its description has other entries than format, output, classes, layers")
    if about["output"] not in ("logits", "probabilities", "values"):
        raise InvalidFile("its output is neither logits nor probabilities nor values")
    return about


def _chain(layers: Any, tensors: Mapping[str, np.ndarray]) -> tuple[Chain, int]:
    if not isinstance(layers, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("layer"), str) for entry in layers
    ):
        raise InvalidFile("its layers are not a list of named layers")
    if len(layers) > MOST_LAYERS:
        raise InvalidFile(f"it has {len(layers)} layers, more than {MOST_LAYERS}")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise InvalidFile(f"its weights {name[:40]!r} are not finite numbers")
    own: list[dict[str, np.ndarray]] = [{} for _ in layers]
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        if not (index.isascii() and index.isdigit() and len(index) < 6 and int(index) < len(own)):
            raise InvalidFile(f"its weights {name[:40]!r} belong to no layer")
        own[int(index)][key] = tensor
    built, width = [], None
    for entry, weights in zip(layers, own, strict=True):
        options = {key: value for key, value in entry.items() if key != "layer"}
        layer = Layer(entry["layer"], options, weights)
        width = check_layer(layer, width)
        built.append(layer)
    if width is None:
        raise InvalidFile("it has no weights")
    return Chain(tuple(built)), width


def _classes(labels: Any, output: Output, width: int) -> tuple[Any, ...]:
    if not isinstance(labels, list) or not all(isinstance(v, str | int | float) for v in labels):
        raise InvalidFile("its classes are not a list of values")
    if len(set(labels)) < len(labels):
        raise InvalidFile("it names a class twice")
    expected = {0} if output == "values" else {0, 2 if width == 1 else width}
    if len(labels) not in expected:
        raise InvalidFile(f"it names {len(labels)} classes for {width} outputs")
    return tuple(labels)


def _plain(label: Any) -> str | int | float:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float):
        raise InvalidModel(f"The class {label!r} is neither text nor a number.")
    return value
