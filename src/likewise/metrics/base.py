"""Fair metrics: which people count as alike."""

import abc
import html
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor


class FairMetric(abc.ABC):
    r"""A fair metric :math:`d_x`: two people at distance zero must be treated alike.

    Subclasses give the *squared* distance; everything in the paper uses the square.
    """

    @abc.abstractmethod
    def squared_distance(
        self, x: Float[Tensor, "n d"], x0: Float[Tensor, "n d"]
    ) -> Float[Tensor, " n"]:
        r"""Return :math:`d_x^2(x, x_0)`, row by row."""


class QuadraticForm(FairMetric):
    r"""A metric :math:`d_x^2 = v^\top \Sigma v`, with :math:`v = x - x_0`.

    Its penalty has a linear gradient, which solvers can treat exactly, and its kernel is the
    space of *free directions*: moving along them costs nothing.
    """

    features: tuple[str, ...]
    """Names of the features it was made for; empty if it does not say."""

    free: Float[Tensor, "k d"]
    """Orthonormal rows that span the free directions."""

    @property
    @abc.abstractmethod
    def largest_eigenvalue(self) -> float:
        r"""The largest eigenvalue of :math:`\Sigma`; Euler's stability depends on it."""

    @abc.abstractmethod
    def function(
        self, f: Callable[[Tensor], Tensor], v: Float[Tensor, "n d"]
    ) -> Float[Tensor, "n d"]:
        r"""Return :math:`f(\Sigma)\,v`, row by row, for a function ``f`` of the eigenvalues."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
