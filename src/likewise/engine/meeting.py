"""Brings model and people together: the same features, in the same order; labels as targets."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Shaped

from likewise.audit_data import AuditData
from likewise.data.table import numeric_traits, with_inputs
from likewise.errors import InvalidData
from likewise.models.base import Model
from likewise.models.originals import Originals


def as_seen(model: Model, people: AuditData) -> AuditData:
    """Return the people as this model sees them."""
    if model.front is not None:
        x, features = model.front(people.x if people.table is None else people.table)
        originals = Originals.of(model.front, people.table, x)
        return dataclasses.replace(people, x=x, features=tuple(features), originals=originals)
    wanted = model.card.n_features
    if people.named_inputs or people.encoder is not None or wanted == len(people.features):
        return people
    # The table does not say whether a protected column is an input; the model's width may.
    wider = {*people.features, *numeric_traits(people)}
    return with_inputs(people, protected=True) if len(wider) == wanted else people


def targets(y: Shaped[np.ndarray, " n"], classes: tuple[Any, ...]) -> Shaped[np.ndarray, " n"]:
    """Return labels as indices of classes, or as numbers for a regression."""
    if not classes:
        try:
            return np.array(y, dtype=np.float64)
        except ValueError:
            raise InvalidData(
                "The model predicts a number, but the label column holds text."
            ) from None
    place = {value: index for index, value in enumerate(classes)}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)
