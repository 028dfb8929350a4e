"""Unfair maps: rules that find an adversarial example for each person among similar people."""

import abc
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import AuditData
from likewise.methods.metric import FairMetric
from likewise.models.base import Front, Model


@dataclasses.dataclass(frozen=True)
class Moved:
    r"""Where a block of people was moved to.

    Parameters
    ----------
    x
        :math:`\Phi(x_0, y)`, one row a person.
    status
        One `likewise.outcomes.Status` a person.
    evaluations
        Gradient (or model) evaluations spent on each person.
    """

    x: Float[np.ndarray, "n d"]
    status: Int[np.ndarray, " n"]
    evaluations: int


@runtime_checkable
class BoundMap(Protocol):
    """A map made ready for one model and one metric: a pure function of the rows it is given."""

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        ...


class UnfairMap(abc.ABC):
    r"""A rule :math:`\Phi(x, y)` that moves each person to a similar one with a larger loss.

    The tests are valid for any rule that is fixed before the audit data are seen: rules differ in
    power, not in validity. Configuration goes in the constructor, data in the call. The fields of
    a dataclass are its parameters: settings name them, and results note them.

    Only `bind` has to be written.
    """

    name: ClassVar[str]
    """What results call it; by default the name of its class."""

    claim: ClassVar[str] = "Each person is perturbed to a similar one."
    """What is done to people, in a sentence."""

    goes_by_metric: ClassVar[bool] = True
    """Whether another metric would move people elsewhere."""

    asks_answers: ClassVar[bool] = False
    """Whether answers are all that it asks for. Losses are then bounded, so that one model has the
    same whether it is handed over with logits or with probabilities."""

    keeps_start: ClassVar[bool] = False
    """Whether a person stays put when the loss would fall, so that wrong never turns right."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @abc.abstractmethod
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        """Check that this model and metric go with the map, and return the map for them."""

    def learned(
        self, people: AuditData, front: Front | None, attributes: Mapping[str, Collection[Any]]
    ) -> "UnfairMap":
        """Return the map with what it is to learn from the people it is about.

        Parameters
        ----------
        people
            Some of them at random, as the model sees them; everyone if there are few.
        front
            What turns original columns into features, for a pipeline.
        attributes
            The values of each protected attribute that occur among all.
        """
        return self

    def rough(self, metric: FairMetric) -> "UnfairMap":
        """Return a map that asks the same at less cost, to compare many metrics by."""
        return self


def among(bound: BoundMap, people: AuditData, rows: Int[np.ndarray, " m"]) -> BoundMap:
    """Return a bound map for some people, if it needs more of them than their features.

    Such a map has a method ``among``, which is given the people, original columns and all.
    """
    known = getattr(bound, "among", None)
    return bound if known is None else known(people.take(rows))
