"""From whatever the user has to a model."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from torch import nn

from likewise.errors import InvalidModel
from likewise.losses import Output
from likewise.models import pipeline, scikit, torch_module
from likewise.models.base import Model
from likewise.models.opened import Opened


def as_model(
    model: Any,
    *,
    output: Output | None = None,
    classes: Sequence[Any] | None = None,
    table: pa.Table | None = None,
) -> Model:
    """Turn whatever the user has into a model; the user's own object is never changed.

    Parameters
    ----------
    model
        A torch module, a fitted scikit-learn estimator or pipeline, an estimator with
        ``to_torch()``, what `open_model` returned, or a function of tensors with ``output`` said.
    output
        What the numbers are: ``logits`` (the default for torch), ``probabilities`` or ``values``.
    classes
        Label values in the order of the outputs, if the model does not know them.
    table
        Raw columns of the audit data, to find out early whether a pipeline can read them.
    """
    found = _recognised(model, output, tuple(classes or ()))
    if classes and found.card.classes != tuple(classes):
        if found.card.classes:
            raise InvalidModel(
                f"The model's classes are {', '.join(map(repr, found.card.classes[:6]))}; "
                "others cannot be given to it."
            )
        found = _with_card(found, classes=tuple(classes))
    if output is not None and found.card.output != output:
        raise InvalidModel(f"A {found.card.kind} returns {found.card.output}, not {output}.")
    if table is not None and found.front is not None:
        found.front(table.slice(0, 1))
    return found


def _recognised(model: Any, output: Output | None, classes: tuple[Any, ...]) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, Opened):
        inner = as_model(
            model.content, output=output or model.output, classes=classes or model.classes
        )
        return _with_card(inner, fingerprint=model.fingerprint or inner.card.fingerprint)
    if isinstance(model, nn.Module):
        return torch_module.from_module(model, output=output, classes=classes)
    if isinstance(model, type):
        raise InvalidModel(f"{model.__name__} is a class, not a model. Give an instance of it.")
    if hasattr(model, "to_torch"):
        return _from_estimator(model, output)
    if scikit.is_scikit(model):
        return _from_scikit(model)
    if callable(model):
        if output is None:
            raise InvalidModel(
                "For a function of tensors say what it returns: output='logits', 'probabilities' "
                "or 'values'."
            )
        return torch_module.from_function(model, output=output, classes=classes)
    raise InvalidModel(f"A {type(model).__name__} is not a model.")


def _from_estimator(estimator: Any, output: Output | None) -> Model:
    """Convert an estimator that knows its torch module; ``output_`` says what that returns."""
    output = output or getattr(estimator, "output_", "logits")
    module, classes = estimator.to_torch(), scikit.classes_of(estimator)
    found = torch_module.from_module(module, output=output, classes=classes)
    name = "predict" if output == "values" else "predict_proba"
    answer = getattr(estimator, name, None)
    features = scikit.features_of(estimator)
    card = dataclasses.replace(found.card, kind=type(estimator).__name__, features=features)
    reference = None if answer is None else scikit.Answer(answer)
    return dataclasses.replace(found, card=card, reference=reference)


def _from_scikit(estimator: Any) -> Model:
    if hasattr(estimator, "best_estimator_"):  # a finished search
        return _recognised(estimator.best_estimator_, None, ())
    if pipeline.is_pipeline(estimator):
        front, last = pipeline.cut(estimator)
        found = _recognised(last, None, ())
        names = front.names(found.card.n_features) if found.card.n_features else ()
        found = _with_card(found, kind=f"Pipeline ending in {found.card.kind}", features=names)
        return dataclasses.replace(found, front=front)  # type: ignore[type-var]
    converted = scikit.convert(estimator)
    if converted is None:
        raise InvalidModel(f"A {type(estimator).__name__} cannot be converted to torch.")
    return converted


def _with_card(model: Model, **changes: Any) -> Model:
    card = dataclasses.replace(model.card, **changes)
    return dataclasses.replace(model, card=card)  # type: ignore[type-var]
