"""A step off the free directions, at a price: the gradient, or an estimate of it."""

import numpy as np
from jaxtyping import Float

from likewise.maps.candidates import candidate_losses, worse
from likewise.maps.surroundings import Best, Surroundings
from likewise.metrics.fair_metric import QuadraticForm

SHARES = (1.0, 0.5, 0.25, 2.0)
"""Lengths of the step that are tried, in units of what would be best were the loss linear."""

PROBE = 0.5
"""Length of the probes for a model without gradients, in standardised features."""


def step_outside(
    around: Surroundings, best: Best, metric: QuadraticForm, price: float, budget: int
) -> Best:
    r"""Add the step that pays best after its price, if any does.

    Were the loss linear, :math:`\ell + \langle g, v\rangle - \lambda v^\top \Sigma v` would be
    largest at :math:`v = \Sigma^{+} g / (2\lambda)`. Shares of that step are tried, and the largest
    of the loss minus the price wins; no step is one of them.
    """
    calls = 1 if around.model.card.differentiable else budget - len(SHARES)
    if calls < 1 or budget < len(SHARES) + 1:
        return best
    step = uphill(around, best, metric, calls) / (2 * price)
    x = best.x[:, None] + step[:, None] * np.array(SHARES, dtype=step.dtype)[:, None]
    x = x if around.snap is None else around.snap(x, around.x0)
    loss = candidate_losses(around.model, x, around.y)
    n, m, d = x.shape
    start = np.repeat(around.x0, m, axis=0)
    cost = price * metric.squared_distance(x.reshape(n * m, d), start).reshape(n, m)
    own_cost = price * metric.squared_distance(best.x, around.x0)
    place, _ = worse(best.loss, loss - cost)
    row = np.arange(n)
    gains = (loss - cost)[row, place] > (best.loss - own_cost) + 1e-9 * best.loss
    # A person whose place was made feasible has paid already, and must not lose by paying less.
    moves = gains & (loss[row, place] > best.loss)
    return best.after(calls + m, moves, best.u, x[row, place], loss[row, place])


def uphill(
    around: Surroundings, best: Best, metric: QuadraticForm, calls: int
) -> Float[np.ndarray, "n d"]:
    r"""Return :math:`\Sigma^{+} g`: where loss rises most for the fair distance it costs.

    Parameters
    ----------
    calls
        Model calls for the gradient of a model that has none.
    """
    differentiable = around.model.card.differentiable
    slope = around.gradient(best.x) if differentiable else _estimated(around, best, calls)
    return metric.function(_inverse, slope)


def _inverse(eigenvalues: np.ndarray) -> np.ndarray:
    return np.where(eigenvalues > 0, 1 / np.maximum(eigenvalues, 1e-300), 0.0)


def _estimated(around: Surroundings, best: Best, calls: int) -> Float[np.ndarray, "n d"]:
    """Estimate the gradient from differences along fixed random directions."""
    d = best.x.shape[1]
    drawn = np.random.default_rng(0).normal(size=(calls, d))
    units = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    loss = candidate_losses(around.model, best.x[:, None] + PROBE * units, around.y)
    return (loss - best.loss[:, None]) / PROBE @ units * (d / calls)
