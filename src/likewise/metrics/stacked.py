"""Many regressions at once: the same people and features, other targets.

Folds of a cross-validation and shuffled traits differ little from one another. They share one
curvature, factored once, and take their steps together: a step costs two products of matrices
for all of them.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int

from likewise.metrics import newton
from likewise.metrics.newton import Kind, Standardised

STEPS = 30
"""Steps with a shared curvature, after which a regression is left to Newton's method."""


@dataclasses.dataclass(frozen=True, eq=False)
class Stack:
    """Regressions on the same features, one for each of m targets.

    Parameters
    ----------
    columns
        The features.
    target
        What is predicted: people, regressions, outputs (see `likewise.metrics.newton.fit`).
    weight
        Of each person in each regression; a zero leaves the person out.
    """

    columns: Standardised
    target: Float[np.ndarray, "n m k"]
    weight: Float[np.ndarray, "n m"]
    kind: Kind

    def part(self, which: Int[np.ndarray, " l"]) -> "Stack":
        """Return some of the regressions."""
        return dataclasses.replace(self, target=self.target[:, which], weight=self.weight[:, which])

    def take(self, rows: Int[np.ndarray, " l"]) -> "Stack":
        """Return the regressions of some people only."""
        return Stack(self.columns.take(rows), self.target[rows], self.weight[rows], self.kind)

    @functools.cached_property
    def frequencies(self) -> Float[np.ndarray, " k"]:
        """The mean of all targets, by output."""
        mean: Float[np.ndarray, " k"] = np.einsum("nm,nmk->k", self.weight, self.target)
        return mean / self.weight.sum()

    @functools.cached_property
    def possible(self) -> Bool[np.ndarray, " m"]:
        """Which regressions have somebody of every class, or numbers that differ, to learn from."""
        there = self.weight[:, :, None] > 0
        low = np.where(there, self.target, np.inf).min(axis=0, initial=np.inf)
        high = np.where(there, self.target, -np.inf).max(axis=0, initial=-np.inf)
        differ: Bool[np.ndarray, "m k"] = low < high
        return np.logical_and.reduce(differ, axis=1)

    @functools.cached_property
    def null(self) -> Float[np.ndarray, "m k p"]:
        """Where regressions start: nothing predicts, all have the same means."""
        _, m, k = self.target.shape
        theta = np.zeros((m, k, self.columns.design.shape[1]))
        mean = self.frequencies
        if self.kind == "binary":
            mean = np.log(mean / (1 - mean))
        elif self.kind == "classes":
            mean = np.log(mean) - np.log(mean).mean()
        theta[:, :, -1] = mean
        return theta

    def fit(
        self,
        penalty: float,
        start: Float[np.ndarray, "m k p"] | None = None,
        tolerance: float = newton.TOLERANCE,
    ) -> Float[np.ndarray, "m k p"]:
        r"""Minimise :math:`\sum_i s_i \ell_i / \sum_i s_i + \gamma |W|^2 / 2` for every target.

        Parameters
        ----------
        penalty
            :math:`\gamma`, the strength of the penalty a person.
        start
            Where to start; the solutions of similar problems save most of the work.
        """
        start = self.null if start is None else start
        theta = start.copy()
        size, k, p = theta.shape
        share = self.weight / self.weight.sum(axis=0)
        price = np.append(penalty / self.columns.scale**2, 0.0)
        shared = size > 1 and k * p <= newton.DENSE_LIMIT
        factor: Any = self._factor(share, price) if shared else None
        left, last, alone = np.arange(size), np.full(size, np.inf), []
        for _ in range(STEPS if factor is not None else 0):
            gradient = self._gradient(theta[left], share, left, price)
            largest = np.abs(gradient).max(axis=(1, 2))
            # A shared curvature may not fit everyone: what grows is left to Newton's method.
            calm = largest <= 4 * last
            alone.extend(left[~calm].tolist())
            still = calm & (largest > tolerance)
            left, last, gradient = left[still], largest[still], gradient[still]
            if not len(left):
                break
            step: np.ndarray = scipy.linalg.cho_solve(factor, gradient.reshape(-1, k * p).T)
            theta[left] -= step.T.reshape(-1, k, p)
        for j in sorted({*alone, *left.tolist()}):
            theta[j] = self._alone(j, penalty, start[j], tolerance)
        return theta

    def _gradient(
        self,
        theta: Float[np.ndarray, "l k p"],
        share: Float[np.ndarray, "n m"],
        left: Int[np.ndarray, " l"],
        price: Float[np.ndarray, " p"],
    ) -> Float[np.ndarray, "l k p"]:
        everyone = len(left) == share.shape[1]
        scores = self.columns.design @ theta.reshape(-1, theta.shape[2]).T
        residual = newton.means(scores.reshape(len(share), *theta.shape[:2]), self.kind)
        residual -= self.target if everyone else self.target[:, left]
        residual *= (share if everyone else share[:, left])[:, :, None]
        flat = residual.reshape(len(residual), -1)
        return (flat.T @ self.columns.design).reshape(theta.shape) + price * theta

    def _factor(self, share: Float[np.ndarray, "n m"], price: Float[np.ndarray, " p"]) -> Any:
        """Factor the curvature where nothing predicts, over the people of all regressions."""
        means = np.broadcast_to(self.frequencies, (len(share), len(self.frequencies)))
        weight = share.mean(axis=1)
        matrix = newton.hessian(self.columns.design, weight, means, price, self.kind)
        try:
            return scipy.linalg.cho_factor(matrix)
        except scipy.linalg.LinAlgError:
            return None

    def _alone(
        self, j: int, penalty: float, start: Float[np.ndarray, "k p"], tolerance: float
    ) -> Float[np.ndarray, "k p"]:
        weight = self.weight[:, j]
        target = np.ascontiguousarray(self.target[:, j])
        C = 1 / (penalty * weight.sum())
        return newton.fit(self.columns, target, weight, self.kind, C, start, tolerance).theta
