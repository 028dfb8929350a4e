"""A model that cannot be trained again, asked with data frames as an estimator is."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin

from likewise.audit_data import AuditData
from likewise.engine.counterpart_walk import get_counterparts_ready
from likewise.engine.get_ready import chosen
from likewise.engine.meeting import ModelHandle, by_columns
from likewise.errors import InvalidData, InvalidModel, MissingValues
from likewise.losses import probabilities
from likewise.maps.counterparts import Counterparts
from likewise.models import takes_gaps
from likewise.settings import Settings

FEW = 20
"""People that are kept, to know how the model reads a table."""


class FittedModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What any model says about people, with the manners of a fitted classifier.

    Parameters
    ----------
    handle
        The model, and what is known of it.
    people
        Some people as it reads them.
    classes, columns, gaps
        Of the model: label values in the order of its outputs, the columns that it reads, and
        whether values may be missing in them.
    """

    def __init__(
        self,
        handle: ModelHandle,
        people: AuditData,
        classes: Sequence[Any],
        columns: Sequence[str],
        gaps: bool,
    ) -> None:
        self.handle = handle
        self.people = people
        self.classes = self.classes_ = np.array(classes)
        self.columns = tuple(columns)
        self.gaps = gaps

    @classmethod
    def of(
        cls, model: Any, people: Any, may_matter: Sequence[str], settings: Settings
    ) -> "FittedModel":
        """Find out how a model reads these people, and check that it fits them."""
        settings = chosen(settings, Counterparts(may_matter=tuple(may_matter)), None, None)
        with contextlib.ExitStack() as stack:
            try:
                plan = get_counterparts_ready(
                    model, people, pool=people, settings=settings, stack=stack
                )
            except MissingValues as error:
                where = str(error).partition(". Fill")[0]
                raise InvalidData(
                    f"{where}, and the model reads none. Fill them in, or leave those rows out."
                ) from None
            card = plan.model.card
            if card.task == "regression" or card.decisions:
                raise InvalidModel(
                    f"The {card.kind} gives no probabilities of classes, which can be averaged."
                )
            few = plan.people.take(np.arange(len(plan.people)) < FEW)
            return cls(plan.handle, few, plan.classes, plan.ask.columns, takes_gaps(model))

    @property
    def fingerprint(self) -> str:
        """A sha256 of what determines its answers, or nothing."""
        return self._ask.model.card.fingerprint

    @property
    def computes_in(self) -> np.dtype[Any]:
        """The model's own precision."""
        return self._ask.model.dtype

    @functools.cached_property
    def _ask(self) -> Any:
        return by_columns(self.handle.open(), self.people)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row a person."""
        table = pa.Table.from_pandas(X[list(self.columns)], preserve_index=False)
        return probabilities(self._ask(table), self._ask.model.card.output)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.gaps
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ask"}
