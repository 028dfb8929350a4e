"""Fair metrics: which people count as alike."""

import abc
import html
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from likewise.errors import InvalidMetric
from likewise.metrics.origin import LearnedFrom, Origin
from likewise.metrics.reach import Ellipsoid


class FairMetric(abc.ABC):
    r"""A fair metric :math:`d_x`: two people at distance zero must be treated alike.

    Subclasses give the *squared* distance; everything in the paper uses the square. The fields of
    a dataclass are its parameters: settings name them, and results note them. What else is known
    of a metric, where it came from, say, has defaults that say so.
    """

    quadratic: ClassVar[bool] = False
    """Whether the squared distance is a quadratic form, which solvers can treat exactly."""

    features: tuple[str, ...]
    """Names of the features it was made for; empty if it does not say."""

    free: Float[np.ndarray, "k d"]
    """Orthonormal rows that span the free directions, if there are any."""

    origin: Origin | None
    """Where a learned metric came from."""

    reach: Ellipsoid | None
    """How far a similar person may be, in the coordinates along ``free``."""

    refits: "tuple[FairMetric, ...]"
    """The same metric learned without one group of its sample each."""

    groups: Int[np.ndarray, " n"] | None
    """The group of each person of that sample."""

    placebos: "tuple[FairMetric, ...]"
    """Metrics learned in the same way from shuffled traits."""

    learned_from: LearnedFrom | None
    """By what the people of that sample are recognised, in the order of ``groups``."""

    attached: Mapping[str, str]
    """Texts saved in the same file, by name."""

    def __getattr__(self, name: str) -> Any:
        # Not attributes of the class: they would be defaults of a subclass's fields.
        try:
            return _UNKNOWN[name]
        except KeyError:
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}") from None

    @property
    def largest_eigenvalue(self) -> float:
        """How stiff its penalty is at most, compared with the ordinary distance."""
        return 1.0

    def without(self, direction: int) -> "FairMetric | None":
        """Return the metric with one free direction less, if it can be had."""
        return None

    def turned(
        self, direction: int, towards: Float[np.ndarray, " d"], angle: float
    ) -> "FairMetric | None":
        """Return the metric with a free direction turned towards another, if it can be."""
        return None

    @abc.abstractmethod
    def squared_distance(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, " n"]:
        r"""Return :math:`d_x^2(x, x_0)`, row by row."""

    def gradient(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        r"""Return :math:`\nabla_x d_x^2(x, x_0)`, row by row: how fast moving gets dearer."""
        raise InvalidMetric(
            f"A {type(self).__name__} has no gradient, which the flow needs. Write one, or write "
            "the distance in torch (likewise.metrics.torch_metric.TorchMetric)."
        )


_UNKNOWN: Mapping[str, Any] = {
    "features": (),
    "free": np.zeros((0, 1)),
    "origin": None,
    "reach": None,
    "refits": (),
    "groups": None,
    "placebos": (),
    "learned_from": None,
    "attached": {},
}
"""What a metric has that says nothing of it."""


class QuadraticForm(FairMetric):
    r"""A metric :math:`d_x^2 = v^\top \Sigma v`, with :math:`v = x - x_0`.

    Its penalty has a linear gradient, which solvers can treat exactly, and its kernel is the
    space of *free directions*: moving along them costs nothing.
    """

    quadratic: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def largest_eigenvalue(self) -> float:
        r"""The largest eigenvalue of :math:`\Sigma`; Euler's stability depends on it."""

    @abc.abstractmethod
    def function(
        self, f: Callable[[np.ndarray], np.ndarray], v: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        r"""Return :math:`f(\Sigma)\,v`, row by row, for a function ``f`` of the eigenvalues."""

    @override
    def gradient(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        return 2 * self.function(lambda eigenvalues: eigenvalues, x - x0)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
