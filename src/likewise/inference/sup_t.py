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
    terms: Float[np.ndarray, "g m"],
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
    terms
        The linearised estimates: one row an independent unit (weights and clusters summed up
        within it), one column an estimate.
    degrees
        Degrees of freedom of the standard errors, if clusters are few: Student's t then.
    """
    products = terms.T @ terms
    length = np.sqrt(np.diag(products))
    scale = np.outer(length, length)
    correlation = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0))
    largest = np.empty(draws)
    block = max(1, CELLS // terms.shape[1])
    for start in range(0, draws, block):
        size = min(block, draws - start)
        errors = rng.standard_normal((size, terms.shape[1])) @ root.T
        if math.isfinite(degrees):
            errors /= np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)
        largest[start : start + size] = (np.abs(errors) if two_sided else errors).max(axis=1)
    return Largest(np.sort(largest))
