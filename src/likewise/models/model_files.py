"""Saved models: what is safe opens at once, what can run code needs the user's word.

Safe are safetensors files, which hold weights and a closed list of layers, skops files of reviewed
types, and native files, which are opened in a process of their own.
"""

import hashlib
import inspect
import io
import math
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from likewise.errors import (
    InvalidFile,
    InvalidModel,
    MissingExtra,
    TrustRequired,
    import_optional,
    in_short,
    nearest,
)
from likewise.files import read_whole, write_whole
from likewise.loss import Output
from likewise.models import boosted, endpoint, isolated_model
from likewise.models.adapt import as_model
from likewise.models.base import Opened
from likewise.models.layers import LayeredModel, arrays_of, from_layers, named_layers, probe_rows
from likewise.settings.choices import MODELS, load
from likewise.tensors import read_tensors

KEY = "likewise.model"
MOST_METADATA = 1_000_000
"""Characters of metadata that are read; a thousand layers need a tenth of it."""

STRICT: Any = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


class _NamedLayer(pydantic.BaseModel, **STRICT):
    layer: str


class _Description(pydantic.BaseModel, **STRICT):
    """What a file says of its network; closed, so that nothing is read as something else."""

    format: Literal[1] = 1
    output: Output
    classes: tuple[bool | int | float | str, ...]
    layers: Annotated[tuple[_NamedLayer, ...], pydantic.Field(max_length=1000)]


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
    if converted.front is not None:
        raise InvalidModel("A pipeline cannot be saved as layers. Save its last step alone.")
    layers: Any = getattr(converted, "layers", None)
    if layers is None:
        raise InvalidModel(f"A {converted.card.kind} has no layers that could be saved.")
    about = _Description(
        output=converted.card.output,
        classes=tuple(_plain(value) for value in converted.card.classes),
        layers=tuple(_NamedLayer(layer=layer.name) for layer in layers),
    )
    content = save(arrays_of(layers), {KEY: about.model_dump_json()})
    again, x = read_network(content, str(path)), probe_rows(converted.card.n_features or 1)
    if not np.allclose(again(x), converted(x), rtol=1e-12, atol=1e-12):
        raise InvalidModel("The model does something that its layers alone do not say.")
    write_whole(path, content)


def read_network(content: bytes, source: str) -> LayeredModel:
    """Rebuild the network from the bytes of a file, believing nothing in it."""
    tensors, written = read_tensors(content, source)
    if KEY not in written:
        raise InvalidFile(
            f"{source!r} holds weights without their layers: write it with "
            "likewise.models.save_model(module, path)."
        )
    try:
        if len(written[KEY]) > MOST_METADATA:
            raise InvalidFile(f"its description has {len(written[KEY])} characters")
        about = _Description.model_validate_json(written[KEY])
        layers = named_layers([named.layer for named in about.layers], tensors)
        model = from_layers(layers, output=about.output, classes=about.classes)
        if model.card.n_features is None:
            raise InvalidFile("it has no weights")
        try:
            width = model(np.zeros((2, model.card.n_features))).shape[1]
        except ValueError:
            raise InvalidFile("its layers do not fit each other") from None
        if len(set(about.classes)) < len(about.classes):
            raise InvalidFile("it names a class twice")
        if about.classes and (about.output == "values" or len(about.classes) != max(width, 2)):
            raise InvalidFile(f"it names {len(about.classes)} classes for {width} outputs")
    except (InvalidFile, InvalidModel, pydantic.ValidationError) as error:
        wrong = isinstance(error, pydantic.ValidationError)
        why = in_short(error) if wrong else str(error).removesuffix(".")
        raise InvalidFile(f"{source!r} is damaged or was not written by likewise: {why}.") from None
    return model


def _plain(label: Any) -> str | int | float:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float):
        raise InvalidModel(f"The class {label!r} is neither text nor a number.")
    return value


REVIEWED = frozenset(
    {
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._bunch.Bunch",
    }
)
"""Types that skops does not know, and that we read: they hold numbers and estimators only.

Trees are not among them. Their node tables index memory unchecked, so that a forged one can bring
the process down; nearest neighbours keep such tables too.
"""

MOST_UNPACKED = 1_000_000_000
"""A file that unpacks to more bytes than this, and than a hundred times its size, is refused."""


def read_skops(content: bytes, source: str, trust: bool) -> Any:
    """Open the bytes of a skops file, if its types are known or the user trusts it."""
    skops = import_optional("skops.io", "skops", repr(source))
    try:
        _check_sizes(content)
        unknown = skops.get_untrusted_types(data=content)
        if strange := sorted(set(unknown) - REVIEWED):
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            types = f"{', '.join(strange[:3])}{more}"
            _ask(f"{source!r} holds types that can do more than hold numbers ({types})", trust)
        return skops.loads(content, trusted=unknown)
    except TrustRequired:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise InvalidFile(f"{source!r} is damaged or no skops file ({in_short(error)}).") from None


def _check_sizes(content: bytes) -> None:
    """Refuse what is, or claims to be, larger than what is there, before room is made for it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if size > max(MOST_UNPACKED, 100 * len(content)):
            raise InvalidFile(f"it unpacks to {size:.3g} bytes")
        for part in (part for part in parts if part.filename.endswith(".npy")):
            with archive.open(part) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            if math.prod(shape) * dtype.itemsize > part.file_size and not dtype.hasobject:
                raise InvalidFile(f"an array of shape {shape} has {part.file_size} bytes")


def read_pickle(content: bytes, source: str, suffix: str) -> Any:
    """Unpickle a file, whatever that does."""
    try:
        found = _unpickled(content, suffix)
    except MissingExtra:
        raise
    except (Exception, SystemExit) as error:  # a damaged pickle can fail in any way
        why = f"is damaged or not what it says ({in_short(error)})"
        if isinstance(error, ModuleNotFoundError):
            why = f"needs the package {error.name!r}, which is not installed"
        raise InvalidFile(f"{source!r} {why}.") from None
    if isinstance(found, dict):
        raise InvalidModel(
            f"{source!r} holds a dictionary, not a model. Weights alone are no network: load them "
            "into it, and write it with likewise.models.save_model."
        )
    return found


def _unpickled(content: bytes, suffix: str) -> Any:
    file = io.BytesIO(content)
    if suffix in (".joblib", ".pkl", ".pickle"):  # joblib reads plain pickles too
        import joblib

        return joblib.load(file)
    torch = import_optional("torch", "torch", "A file written by torch")
    if suffix == ".pt2":
        return torch.export.load(file).module()
    return torch.load(file, map_location="cpu", weights_only=False)


PICKLES = (".pt2", ".joblib", ".pkl", ".pickle", ".pt", ".pth")

ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

MOST_FILE = 4_000_000_000
"""Bytes of a model file that are read."""

SUFFIXES = (".safetensors", ".onnx", ".skops", *PICKLES, *boosted.SUFFIXES)


def open_model(spec: str, *, trust: bool = False) -> Opened:
    """Open a model from a file, an address or a name, ready for `as_model`.

    Parameters
    ----------
    spec
        Without trust: a ``.safetensors`` file written by `save_model`, an ``.onnx`` file, a
        ``.skops`` file of reviewed types, the native files of XGBoost, LightGBM and CatBoost, an
        ``http://`` address.
        With trust: also a ``.pt2`` archive, a ``.joblib``, ``.pkl``, ``.pickle``, ``.pt`` or
        ``.pth`` file, or ``package.module:attribute``.
    trust
        Whether code that comes with the model may be run. Opening a pickle runs whatever its
        author put in it. ONNX files and those of XGBoost, LightGBM and CatBoost are opened in a
        process of their own, within limits of memory and time, unless they are trusted.
    """
    if spec.startswith(("http://", "https://")):
        return Opened(endpoint.Endpoint(spec))
    path = Path(spec)
    if path.is_dir():
        raise InvalidFile(f"{spec!r} is a folder. Name the model file in it.")
    if not path.exists():
        if ATTRIBUTE.fullmatch(spec):
            _ask(f"Importing {spec!r} can run code that comes with it", trust)
            named = load(spec, "model", str(Path.cwd()))
            code = inspect.getsourcefile(named) if inspect.isfunction(named) else None
            return Opened(
                named, hashlib.sha256(Path(code).read_bytes()).hexdigest() if code else ""
            )
        beside = f" There is no folder {str(path.parent)!r} either."
        if path.parent.is_dir():
            beside = nearest(path.name, (entry.name for entry in path.parent.iterdir()))
        raise InvalidFile(f"There is no model file {spec!r}.{beside}")
    suffix = path.suffix.lower()
    known = (*SUFFIXES, *MODELS.places)
    if suffix not in known:
        raise InvalidFile(f"{spec!r} is no model file: it must end in one of {', '.join(known)}.")
    if suffix in PICKLES:
        _ask(f"Opening {spec!r} can run code that comes with it", trust)
    content = read_whole(path, most=MOST_FILE)
    if not content:
        raise InvalidFile(f"{spec!r} is empty.")
    found: Any
    if suffix in MODELS.places:
        found = MODELS.find(suffix)(content, spec)
    elif suffix in PICKLES:
        found = read_pickle(content, spec, suffix)
    elif suffix == ".skops":
        found = read_skops(content, spec, trust)
    elif suffix == ".safetensors":
        found = read_network(content, spec)
    else:
        read = isolated_model.read_here if trust else isolated_model.read_bytes
        found = read(content, spec, suffix)
    return Opened(found, fingerprint=hashlib.sha256(content).hexdigest())


def _ask(why: str, trust: bool) -> None:
    if not trust:
        raise TrustRequired(f"{why}. If you trust its source, say so with --trust (trust=True).")
