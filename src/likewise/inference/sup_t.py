"""Sup-t: how far off the worst of several estimates from the same people is, by chance."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

CELLS = 2_000_000
"""Numbers drawn at a time: memory stays at a few megabytes however many draws are asked for."""


@dataclasses.dataclass(frozen=True)
class Largest:
    """The law of the largest of several studentised errors, by simulation.

    Parameters
    ----------
    draws
        Draws of the largest error, in increasing order.
    """

    draws: Float[np.ndarray, " b"]

    def critical(self, alpha: float) -> float:
        """Return what the largest error exceeds with probability ``alpha``."""
        return float(np.quantile(self.draws, 1 - alpha))

    def p_value(self, t: float) -> float:
        """Return how often the largest error reaches ``t`` by chance, never zero."""
        reached = len(self.draws) - int(np.searchsorted(self.draws, t))
        return (1 + reached) / (1 + len(self.draws))


def largest_error(
    products: Float[np.ndarray, "m m"],
    *,
    two_sided: bool = False,
    rng: np.random.Generator,
    draws: int = 50_000,
    degrees: float = math.inf,
) -> Largest:
    r"""Sup-t: how large the largest of m studentised errors gets by chance.

    The multiplier bootstrap takes the maximum over k of
    :math:`\sum_g \xi_g u_{gk} / (\sum_g u_{gk}^2)^{1/2}` with :math:`\xi_g \sim N(0, 1)` (no
    absolute value if bounds are one-sided). Given the data these sums are exactly normal with the
    correlations of the columns, so that is what is drawn: the same law, from an m × m matrix
    instead of one multiplier for each of n people and draws.

    Parameters
    ----------
    products
        :math:`\sum_g u_{gj} u_{gk}`: products of the linearised estimates, summed over independent
        units (weights and clusters summed up within them).
    degrees
        Degrees of freedom of the standard errors, if clusters are few: Student's t then.
    """
    length = np.sqrt(np.maximum(np.diag(products), 0))
    scale = np.outer(length, length)
    correlation = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    values, vectors = np.linalg.eigh(correlation)
    # The symmetric root: unlike eigenvectors it has no sign and no order, so that sums added up in
    # another order draw the same errors.
    root = (vectors * np.sqrt(np.where(values > 1e-12, values, 0.0))) @ vectors.T
    largest = np.empty(draws)
    block = max(1, CELLS // len(products))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        errors = rng.standard_normal((size, len(products))) @ root
        if math.isfinite(degrees):
            errors /= np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)
        largest[start : start + size] = (np.abs(errors) if two_sided else errors).max(axis=1)
    return Largest(np.sort(largest))
