"""Fair metrics: which people count as alike."""

import abc
import html
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidMetric


class FairMetric(abc.ABC):
    r"""A fair metric :math:`d_x`: two people at distance zero must be treated alike.

    Subclasses give the *squared* distance; everything in the paper uses the square.
    """

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


class QuadraticForm(FairMetric):
    r"""A metric :math:`d_x^2 = v^\top \Sigma v`, with :math:`v = x - x_0`.

    Its penalty has a linear gradient, which solvers can treat exactly, and its kernel is the
    space of *free directions*: moving along them costs nothing.
    """

    features: tuple[str, ...]
    """Names of the features it was made for; empty if it does not say."""

    free: Float[np.ndarray, "k d"]
    """Orthonormal rows that span the free directions."""

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
