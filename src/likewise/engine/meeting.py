"""Brings model and people together: the same features, in the same order; labels as targets."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Shaped

from likewise.audit_data import AuditData
from likewise.data.table import numeric_columns, with_inputs
from likewise.errors import InvalidData
from likewise.models.base import Model
from likewise.models.on_table import OnTable, on_table
from likewise.models.originals import Originals


def as_seen(model: Model, people: AuditData) -> AuditData:
    """Return the people as this model sees them."""
    if model.front is not None:
        x, features = model.front(people.x if people.table is None else people.table)
        originals = Originals.of(model.front, people.table, x)
        return dataclasses.replace(people, x=x, features=tuple(features), originals=originals)
    columns = numbers_read(model, people)
    return people if columns == people.features else with_inputs(people, columns)


def numbers_read(model: Model, people: AuditData) -> tuple[str, ...]:
    """Return the columns of numbers that a model reads, in its order.

    By the names it was fitted with. Without any, the table does not say whether a protected column
    is an input; the model's width may.
    """
    given, named = people.features, model.card.features
    if people.encoder is not None or people.table is None:
        return given
    if named and set(named) <= set(given if people.named_inputs else numeric_columns(people)):
        return named
    wanted = model.card.n_features
    if people.named_inputs or wanted == len(given):
        return given
    wider = tuple(n for n in numeric_columns(people) if n in (*given, *people.protected))
    return wider if len(wider) == wanted else given


def by_columns(model: Model, people: AuditData) -> OnTable:
    """Return the model as a function of these people's original columns."""
    return on_table(model, people if model.front is not None else as_seen(model, people))


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
