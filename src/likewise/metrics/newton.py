"""Penalised regressions of a trait on the features, solved to convergence by Newton's method.

The stopping rule of a solver is not a detail here: a race direction on Adult that stops early is
10 to 16 degrees off. So the fit is driven to the optimum and the gradient there is reported.
"""

import dataclasses
import functools
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Float, Int
from scipy.special import expit, softmax

from likewise.errors import InvalidMetric

Kind = Literal["binary", "classes", "number"]

TOLERANCE = 1e-11
"""Largest gradient left, a unit of weight, when every column has standard deviation one."""

ITERATIONS = 200
DENSE_LIMIT = 1500
"""Coefficients above which Newton's equations are solved by conjugate gradients."""


@dataclasses.dataclass(frozen=True)
class Standardised:
    """Features with mean zero and standard deviation one; constant columns become zero.

    The penalty stays that of the original columns, so this changes the arithmetic and not the
    optimum: columns in cents and in years can be fitted together.
    """

    z: Float[np.ndarray, "n d"]
    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"]) -> "Standardised":
        """Standardise the columns of ``x``."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = x.mean(axis=0), x.std(axis=0)
        if not np.isfinite(scale).all():
            raise InvalidMetric("Some features are too large to compute with (beyond 1e150).")
        constant = scale <= 1e-12 * np.abs(x).max(axis=0, initial=0.0)
        scale = np.where(constant, 1.0, scale)
        return cls(np.where(constant, 0.0, (x - mean) / scale), mean, scale)

    @functools.cached_property
    def design(self) -> Float[np.ndarray, "n p"]:
        """The columns, and a column of ones for the intercept."""
        return np.hstack([self.z, np.ones((len(self.z), 1))])

    def take(self, rows: Int[np.ndarray, " m"]) -> "Standardised":
        """Return some rows, standardised as they were."""
        return Standardised(self.z[rows], self.mean, self.scale)


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted regression.

    Parameters
    ----------
    theta
        Coefficients of the standardised columns, and the intercept last; a row an output.
    coefficients
        Coefficients of the original columns.
    gradient
        Largest entry of the gradient at the solution, a unit of weight.
    """

    theta: Float[np.ndarray, "k p"]
    coefficients: Float[np.ndarray, "k d"]
    gradient: float
    iterations: int

    def scores(self, columns: Standardised) -> Float[np.ndarray, "n k"]:
        """Return the fitted linear scores."""
        return columns.design @ self.theta.T


def means(scores: Float[np.ndarray, "... k"], kind: Kind) -> Float[np.ndarray, "... k"]:
    """Return the means that linear scores stand for."""
    if kind == "number":
        return scores
    return expit(scores) if kind == "binary" else softmax(scores, axis=-1)


def losses(
    scores: Float[np.ndarray, "... k"], target: Float[np.ndarray, "... k"], kind: Kind
) -> Float[np.ndarray, "..."]:
    """Return the loss of each prediction: half its deviance."""
    if kind == "number":
        return 0.5 * np.square(scores - target)[..., 0]
    if kind == "binary":
        return np.logaddexp(0, scores[..., 0] * (1 - 2 * target[..., 0]))
    top = scores.max(axis=-1)
    total = top + np.log(np.exp(scores - top[..., None]).sum(axis=-1))
    return total - (scores * target).sum(axis=-1)


def fit(
    columns: Standardised,
    target: Float[np.ndarray, "n k"],
    weight: Float[np.ndarray, " n"],
    kind: Kind,
    C: float,
    start: Float[np.ndarray, "k p"] | None = None,
    tolerance: float = TOLERANCE,
) -> Fit:
    r"""Minimise :math:`C \sum_i s_i\, \ell(W x_i + b, t_i) + |W|^2 / 2`, the intercept unpenalised.

    Parameters
    ----------
    target
        One column with 0 and 1 (``binary``: the logistic loss), a column a class with one 1 in
        each row (``classes``: the multinomial loss), or one column of numbers (``number``: half
        the squared error, which makes it a ridge regression with penalty 1 / C).
    weight
        Weights :math:`s_i \ge 0`; a zero leaves the row out.
    start
        Where to start; the solution of a similar problem saves most of the work.
    tolerance
        Largest gradient left, a unit of weight.
    """
    problem = _Problem(columns, target, weight / weight.sum(), kind, C * weight.sum())
    k, p = target.shape[1], columns.z.shape[1] + 1
    theta = np.zeros((k, p)) if start is None else start
    value, gradient, mean = problem.at(theta)
    for iteration in range(ITERATIONS):
        if np.abs(gradient).max() <= tolerance:
            return Fit(theta, theta[:, :-1] / columns.scale, np.abs(gradient).max(), iteration)
        step = problem.newton_step(gradient, mean)
        decrease = float((gradient * step).sum())
        for halving in range(40):
            size = 0.5**halving
            trial = theta - size * step
            reached = problem.at(trial)
            # Below the rounding of the value itself, a comparison would only stall the descent.
            if reached[0] <= value - 1e-4 * size * decrease or size * decrease <= 1e-13 * value:
                break
        theta, (value, gradient, mean) = trial, reached
    raise InvalidMetric(
        f"The regression did not converge in {ITERATIONS} steps (gradient "
        f"{np.abs(gradient).max():.1e}). Lower C, now {C:g}, or drop columns that repeat others."
    )


@dataclasses.dataclass(frozen=True)
class _Problem:
    """The objective divided by C and the total weight, in standardised coordinates."""

    columns: Standardised
    target: Float[np.ndarray, "n k"]
    weight: Float[np.ndarray, " n"]
    kind: Kind
    C: float

    @functools.cached_property
    def penalty(self) -> Float[np.ndarray, " p"]:
        """Of each coefficient; none of the intercept."""
        return np.append(1 / (self.C * self.columns.scale**2), 0.0)

    @property
    def design(self) -> Float[np.ndarray, "n p"]:
        """The columns, and a column of ones."""
        return self.columns.design

    def at(
        self, theta: Float[np.ndarray, "k p"]
    ) -> tuple[float, Float[np.ndarray, "k p"], Float[np.ndarray, "n k"]]:
        """Return the objective, its gradient, and the fitted means."""
        scores = self.design @ theta.T
        mean, loss = means(scores, self.kind), losses(scores, self.target, self.kind)
        value = float(self.weight @ loss + 0.5 * (self.penalty * theta**2).sum())
        residual = (mean - self.target) * self.weight[:, None]
        return value, residual.T @ self.design + self.penalty * theta, mean

    def newton_step(
        self, gradient: Float[np.ndarray, "k p"], mean: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, "k p"]:
        """Solve Newton's equations: directly if they are few, else by conjugate gradients."""
        if gradient.size <= DENSE_LIMIT:
            matrix = hessian(self.design, self.weight, mean, self.penalty, self.kind)
            return solve(matrix, gradient.ravel()).reshape(gradient.shape)
        shape, size = gradient.shape, gradient.size
        curved = _curvature(self.weight, mean, self.kind)
        diagonal = (curved.T @ self.design**2 + self.penalty).ravel()

        def product(v: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
            return self._product(v.reshape(shape), mean).ravel()

        def precondition(v: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
            return v / diagonal

        operators = [
            scipy.sparse.linalg.LinearOperator((size, size), function, dtype=np.float64)
            for function in (product, precondition)
        ]
        step, _ = scipy.sparse.linalg.cg(
            operators[0], gradient.ravel(), rtol=1e-8, maxiter=2000, M=operators[1]
        )
        return step.reshape(shape)

    def _product(
        self, v: Float[np.ndarray, "k p"], mean: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, "k p"]:
        u = self.design @ v.T
        if self.kind == "classes":
            curved = self.weight[:, None] * mean * (u - (mean * u).sum(axis=1, keepdims=True))
        else:
            curved = _curvature(self.weight, mean, self.kind) * u
        return curved.T @ self.design + self.penalty * v


def hessian(
    design: Float[np.ndarray, "n p"],
    weight: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, "n k"],
    penalty: Float[np.ndarray, " p"],
    kind: Kind,
) -> Float[np.ndarray, "q q"]:
    """Return the matrix of second derivatives at fitted means."""
    return penalised(information(design, weight, mean, kind), penalty, kind)


def information(
    design: Float[np.ndarray, "n p"],
    weight: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, "n k"],
    kind: Kind,
) -> Float[np.ndarray, "q q"]:
    """Return the second derivatives of the losses, which add up over people."""
    k, p = mean.shape[1], design.shape[1]
    blocks = np.empty((k, p, k, p))
    diagonal = _curvature(weight, mean, kind)
    for a in range(k):
        for b in range(a, k):
            curve = diagonal[:, a] if a == b else -weight * mean[:, a] * mean[:, b]
            block = (design * curve[:, None]).T @ design
            blocks[a, :, b], blocks[b, :, a] = block, block.T
    return blocks.reshape(k * p, k * p)


def penalised(
    matrix: Float[np.ndarray, "q q"], penalty: Float[np.ndarray, " p"], kind: Kind
) -> Float[np.ndarray, "q q"]:
    """Add what the penalty bends; the intercept is the last of an output's coefficients."""
    p = len(penalty)
    k = len(matrix) // p
    blocks = matrix.reshape(k, p, k, p).copy()
    for a in range(k):
        blocks[a, range(p), a, range(p)] += penalty
    if kind == "classes":
        # Adding one number to every intercept changes no probability: hold their sum still.
        blocks[:, -1, :, -1] += 1 / k
    return blocks.reshape(k * p, k * p)


def _curvature(
    weight: Float[np.ndarray, " n"], mean: Float[np.ndarray, "n k"], kind: Kind
) -> Float[np.ndarray, "n k"]:
    curvature = np.ones_like(mean) if kind == "number" else mean * (1 - mean)
    return weight[:, None] * curvature


def solve(
    matrix: Float[np.ndarray, "q q"], right: Float[np.ndarray, " q"]
) -> Float[np.ndarray, " q"]:
    """Solve a positive semi-definite system; the shortest solution where it is singular."""
    try:
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix), right)
    except scipy.linalg.LinAlgError:
        values, vectors = scipy.linalg.eigh(matrix)
        keep = values > 1e-13 * values[-1]
        return vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep])
