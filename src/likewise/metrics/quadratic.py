"""Quadratic fair metrics: a matrix, or a few directions that cost nothing."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from likewise.errors import CostWarning, InvalidMetric
from likewise.metrics.fair_metric import QuadraticForm
from likewise.metrics.metric_words import describe, tell_origin
from likewise.metrics.origin import LearnedFrom, Origin
from likewise.metrics.reach import Ellipsoid
from likewise.metrics.traits import places_of

RANK_TOLERANCE = 1e-10
"""Relative size below which a singular value or an eigenvalue counts as zero."""

DENSE_LIMIT = 3000
"""Number of features above which a dense eigendecomposition is worth a warning."""


@final
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class QuadraticMetric(QuadraticForm):
    r"""Distance given by a positive semi-definite matrix: :math:`d_x^2 = v^\top \Sigma v`.

    Parameters
    ----------
    sigma
        The matrix :math:`\Sigma`. Directions in its kernel are free: two people who differ only
        along them are at distance zero. Its scale is a price, to be read together with λ.
    features
        Names of the features, where known.
    """

    sigma: Float[np.ndarray, "d e"]  # square, which __post_init__ says in a sentence
    features: tuple[str, ...] = ()
    free: Float[np.ndarray, "k d"] = dataclasses.field(init=False)
    eigenvalues: Float[np.ndarray, " d"] = dataclasses.field(init=False)
    eigenvectors: Float[np.ndarray, "d d"] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        sigma = _matrix(self.sigma, "sigma")
        d = len(sigma)
        if sigma.shape != (d, d):
            raise InvalidMetric(f"sigma must be square, not {d} × {sigma.shape[1]}.")
        _check_names(self.features, d)
        size = float(np.abs(sigma).max())
        asymmetry = float(np.abs(sigma - sigma.T).max())
        if asymmetry > 1e-8 * size:
            raise InvalidMetric(
                f"sigma is not symmetric (entries differ by up to {asymmetry:.3g}), so it is not "
                "a metric. Pass (sigma + sigma.T) / 2 if that is what you mean."
            )
        if d > DENSE_LIMIT:
            warnings.warn(
                f"sigma has {d} columns, and its eigendecomposition holds "
                f"{8 * d * d / 1e6:.0f} MB. If only a few directions are free, "
                "ignoring(directions) never forms such a matrix.",
                CostWarning,
                stacklevel=3,
            )
        values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
        if values[0] < -1e-8 * size:
            raise InvalidMetric(
                f"sigma has a negative eigenvalue ({values[0]:.3g}), so it is not a "
                "metric. Pass a positive semi-definite matrix."
            )
        zero = values <= RANK_TOLERANCE * abs(values[-1])
        for name, value in {
            "sigma": sigma,
            "eigenvalues": np.where(zero, 0.0, values),
            "eigenvectors": vectors,
            "free": np.ascontiguousarray(vectors[:, zero].T),
        }.items():
            object.__setattr__(self, name, value)

    @override
    def squared_distance(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, " n"]:
        v = x - x0
        along = v @ self.eigenvectors.astype(v.dtype, copy=False)
        return (np.square(along) * self.eigenvalues.astype(v.dtype, copy=False)).sum(axis=1)

    @property
    @override
    def largest_eigenvalue(self) -> float:
        return float(self.eigenvalues[-1])

    @override
    def function(
        self, f: Callable[[np.ndarray], np.ndarray], v: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        vectors = self.eigenvectors.astype(v.dtype, copy=False)
        return ((v @ vectors) * f(self.eigenvalues.astype(v.dtype, copy=False))) @ vectors.T

    def __repr__(self) -> str:
        return describe("Quadratic fair metric", len(self.free), self.free, self.features)


@final
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ProjectionMetric(QuadraticForm):
    r"""Distance that does not see a few directions: :math:`d_x^2 = |v - Q^\top Q v|^2`.

    Two thin products; no d × d matrix is ever formed.

    Parameters
    ----------
    free
        Orthonormal rows :math:`Q`. People who differ only along them are at distance zero.
        `ignoring` makes them from any directions.
    features
        Names of the features, where known.
    directions, labels
        The directions that ``free`` is the span of, as they were learned or given, and what each
        is; for those who read the metric.
    origin
        Where a learned metric came from.
    reach
        How far a similar person may be, in the coordinates along ``free``.
    refits
        The same metric learned without one group of its sample each.
    groups
        The group of each person of that sample: ``refits[g]`` did without ``groups == g``.
    placebos
        Metrics learned in the same way from shuffled traits, which mean nothing.
    learned_from
        By what the people of that sample are recognised, in the order of ``groups``.
    attached
        Texts saved in the same file, by name: the encoder that leads to ``features``, say.
    """

    free: Float[np.ndarray, "k d"]
    features: tuple[str, ...] = ()
    _: dataclasses.KW_ONLY
    directions: Float[np.ndarray, "m d"] | None = None
    labels: tuple[str, ...] = ()
    origin: Origin | None = None
    reach: Ellipsoid | None = None
    refits: tuple["ProjectionMetric", ...] = ()
    groups: Int[np.ndarray, " n"] | None = None
    placebos: tuple["ProjectionMetric", ...] = ()
    learned_from: LearnedFrom | None = None
    attached: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        free = _matrix(self.free, "free")
        k, d = free.shape
        if self.reach is not None and len(self.reach.mean) != k:
            raise InvalidMetric(
                f"The reach has {len(self.reach.mean)} coordinates for {k} free directions."
            )
        _check_names(self.features, d)
        slip = float(np.abs(free @ free.T - np.eye(k)).max(initial=0.0))
        if slip > 1e-8:
            raise InvalidMetric(
                f"The free directions are not orthonormal (off by {slip:.3g}). "
                "ignoring(directions) takes any directions and makes them so."
            )
        object.__setattr__(self, "free", free)

    @override
    def squared_distance(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, " n"]:
        # Not |v|² − |Qv|²: that cancels, even below zero, after a long move along Q.
        return np.square(self._priced(x - x0)).sum(axis=1)

    @property
    @override
    def largest_eigenvalue(self) -> float:
        k, d = self.free.shape
        return float(d > k)

    @override
    def function(
        self, f: Callable[[np.ndarray], np.ndarray], v: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        at_zero, at_one = f(np.array([0.0, 1.0], dtype=v.dtype))
        return at_one * v + (at_zero - at_one) * (v - self._priced(v))

    def _priced(self, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        free = self.free.astype(v.dtype, copy=False)
        return v - (v @ free.T) @ free

    @override
    def without(self, direction: int) -> "ProjectionMetric":
        rest = np.delete(self.free, direction, axis=0)
        reach = None if self.reach is None else self.reach.without(direction)
        return ProjectionMetric(rest, self.features, reach=reach)

    @override
    def turned(
        self, direction: int, towards: Float[np.ndarray, " d"], angle: float
    ) -> "ProjectionMetric":
        free = self.free.copy()
        free[direction] = math.cos(angle) * free[direction] + math.sin(angle) * towards
        return ProjectionMetric(free, self.features, reach=self.reach)

    def with_reach(
        self, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "ProjectionMetric":
        """Return the same metric with the reach of a sample: the ellipsoid that holds 99 % of it.

        For metrics that were given rather than learned. Refits and placebos are left behind.
        """
        reach = Ellipsoid.of(x @ self.free.T, weight)
        return dataclasses.replace(self, reach=reach, refits=(), groups=None, placebos=())

    def __repr__(self) -> str:
        told = (self.free, ()) if self.directions is None else (self.directions, self.labels)
        lines = [describe("Fair metric", len(self.free), told[0], self.features, told[1])]
        if self.origin is not None:
            lines.append(tell_origin(self.origin))
        if self.reach is not None:
            lines.append(f"Reach: the ellipsoid that holds {self.reach.coverage:.0%} of its sample")
        if self.refits:
            lines.append(f"Refits: {len(self.refits)}, each without one group of its sample")
        if self.placebos:
            lines.append(f"Placebos: {len(self.placebos)}, learned from shuffled traits")
        return "\n".join(lines)


def ignoring(directions: Any, features: Sequence[str] = ()) -> ProjectionMetric:
    r"""Metric blind to the span :math:`\mathcal{H}` of ``directions`` (Appendix F.2).

    Parameters
    ----------
    directions
        One direction, or one a row. They need be neither orthogonal nor independent, nor of one
        scale; duplicates and zeros add nothing.
    features
        Names of the features, where known.

    Examples
    --------
    >>> abs(ignoring([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]).free)
    array([[1., 0., 0.]])
    """
    return ProjectionMetric(span(_matrix(directions, "directions")), tuple(features))


def span(
    directions: Float[np.ndarray, "m d"], tolerance: float = RANK_TOLERANCE
) -> Float[np.ndarray, "k d"]:
    """Orthonormal rows that span ``directions``; each counts by its direction, not its length."""
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    some = lengths[:, 0] > 0
    units = directions[some] / lengths[some]
    if not len(units):
        return units
    _, singular, basis = np.linalg.svd(units, full_matrices=False)
    return basis[singular > tolerance * singular[0]]


def free_columns(features: Sequence[str], names: Sequence[str] | str) -> ProjectionMetric:
    """Metric that lets some columns vary freely: people who differ only in them are alike.

    Parameters
    ----------
    features
        Names of all features, in the order of the columns.
    names
        Columns that cost nothing. The name of a column that was one-hot encoded
        (``workclass``) stands for all its features (``workclass=Private``, …).
    """
    places = places_of(features, [names] if isinstance(names, str) else names, "to set free")
    free = np.zeros((len(places), len(features)))
    free[np.arange(len(places)), places] = 1.0
    return ProjectionMetric(free, tuple(features))


def _matrix(values: Any, what: str) -> Float[np.ndarray, "m d"]:
    """Return a finite float64 matrix, or say what is wrong with ``values``."""
    try:
        # A torch tensor that keeps its history says no to NumPy.
        plain = values.detach().cpu() if hasattr(values, "detach") else values
        matrix = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidMetric(f"{what} is not a matrix of numbers: {error}.") from None
    matrix = matrix[None, :] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        shape = " × ".join(map(str, matrix.shape))
        raise InvalidMetric(f"{what} must be a matrix with a column for each feature, not {shape}.")
    if not np.isfinite(matrix).all():
        bad = int((~np.isfinite(matrix)).sum())
        raise InvalidMetric(f"{what} has {bad} entries that are not finite numbers.")
    return matrix


def _check_names(features: tuple[str, ...], d: int) -> None:
    if features and len(features) != d:
        raise InvalidMetric(f"There are {len(features)} feature names for {d} columns.")
