"""Brings a model and the people together: the same features, in the same order, checked."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.data.table import numeric_traits, with_inputs
from likewise.errors import InvalidData
from likewise.metrics.base import FairMetric
from likewise.metrics.saved import check_belongs
from likewise.models.base import Model
from likewise.models.behaviour import check
from likewise.models.performance import Performance, performance_of
from likewise.people import AuditData
from likewise.settings import Settings


@dataclasses.dataclass(frozen=True)
class Introduced:
    """A model with the people it is to be audited on, in the space where the audit runs."""

    model: Model
    data: AuditData
    x: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]
    classes: tuple[Any, ...]
    performance: Performance | None = None

    def take(self, rows: Int[np.ndarray, " m"]) -> "Introduced":
        """Return the same model with some of the people."""
        return dataclasses.replace(self, data=self.data.take(rows), x=self.x[rows], y=self.y[rows])


def meet(model: Model, data: AuditData) -> AuditData:
    """Return the people as this model sees them."""
    if model.front is not None:
        x, features = model.front(data.x if data.table is None else data.table)
        return dataclasses.replace(data, x=x, features=tuple(features))
    wanted = model.card.n_features
    if data.named_inputs or data.encoder is not None or wanted == len(data.features):
        return data
    # The table does not say whether a protected column is an input; the model's width may.
    wider = {*data.features, *numeric_traits(data)}
    return with_inputs(data, protected=True) if len(wider) == wanted else data


def introduce(model: Model, data: AuditData, metric: FairMetric, settings: Settings) -> Introduced:
    """Check that model, people and metric go together, before anything long begins."""
    if len(data) < 2:
        raise InvalidData(f"There are {len(data)} people; a test needs at least 2.")
    y, classes = model.targets(data.y, positive=settings.columns.positive)
    check(model, data.x, features=data.features, classes=classes)
    check_belongs(metric, data.features)
    x = np.ascontiguousarray(data.x, dtype=np.float64)
    return Introduced(model, data, x, y, classes, performance_of(model, x, y))
