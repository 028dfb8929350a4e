"""Unfair maps: where the worst similar person is."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.metrics.base import FairMetric
from likewise.models.base import Model


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
    horizons
        Places on the way, by time, where the map was asked for them.
    below_one
        How many people's loss had fallen, and were left where they were instead.
    trace
        The largest loss found for each person, by the number of model calls spent until then:
        what more calls bought (for maps that search).
    """

    x: Float[np.ndarray, "n d"]
    status: Int[np.ndarray, " n"]
    evaluations: int
    horizons: Mapping[float, Float[np.ndarray, "n d"]] = dataclasses.field(default_factory=dict)
    below_one: int = 0
    trace: Mapping[int, Float[np.ndarray, " n"]] = dataclasses.field(default_factory=dict)


@runtime_checkable
class BoundMap(Protocol):
    """A map made ready for one model and one metric: a pure function of the rows it is given."""

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        ...


class UnfairMap(abc.ABC):
    r"""A rule :math:`\Phi(x, y)` that moves each person to a similar one who is served worse.

    The tests are valid for any rule that is fixed before the audit data are seen: rules differ in
    power, not in validity. Configuration goes in the constructor, data in the call.
    """

    name: ClassVar[str]

    keeps_start: bool
    """Whether a person stays put when the loss would fall, so that wrong never turns right."""

    @abc.abstractmethod
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        """Check that this model and metric go with the map, and return the map for them."""


def fallen(
    model: Model,
    x0: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    x: Float[np.ndarray, "n d"],
) -> Bool[np.ndarray, " n"]:
    """Tell whose loss is lower at ``x`` than at ``x0``, or not a number."""
    before = model.loss(model(x0), y)
    return ~(model.loss(model(x), y) >= before)
