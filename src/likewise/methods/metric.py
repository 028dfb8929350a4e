"""Fair metrics: which people count as alike.

A metric is a matrix, a few directions or columns that cost nothing, or any function
:math:`d_x^2(x, x_0)`; `as_metric` takes all of these.
"""

import abc
import copy
import dataclasses
import pkgutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, UInt64
from typing_extensions import override

from likewise.errors import InvalidMetric, in_short, nearest
from likewise.methods.plausible_region import Ellipsoid
from likewise.settings.choices import function_name

RANK_TOLERANCE = 1e-10
"""Relative size below which a singular value or an eigenvalue counts as zero."""

Rows = Float[np.ndarray, "n d"]


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a learned metric came from.

    ``drawn_from`` is the number of people that the sample was drawn from, ``C`` the inverse
    penalty if one was chosen, ``missing`` how many people have no value, by attribute. The seed is
    that of the permuted attributes; groups and folds go by the content of rows.
    """

    source: str
    n: int
    drawn_from: int
    C: float | None
    seed: int
    missing: Mapping[str, int]
    may_matter: tuple[str, ...] = ()

    def __str__(self) -> str:
        drawn = f", drawn at random from {self.drawn_from:,}" if self.drawn_from > self.n else ""
        strength = "" if self.C is None else f"; C = {self.C:g}"
        lines = [f"Learned from {self.n:,} people ({self.source}){drawn}{strength}"]
        if self.may_matter:
            lines.append(f"  fixed, since they may matter: {', '.join(self.may_matter)}")
        lines += [f"  {name}: {count:,} missing" for name, count in self.missing.items() if count]
        return "\n".join(lines)


class FairMetric(abc.ABC):
    r"""A fair metric :math:`d_x`: two people at distance zero must be treated alike.

    Subclasses give the *squared* distance; everything in the paper uses the square. The fields of
    a dataclass are its parameters: settings name them, and results note them.

    Attributes
    ----------
    quadratic
        Whether the squared distance is a quadratic form, which solvers can treat exactly.
    features, free
        Names of the features it was made for, if it says; orthonormal rows that span the free
        directions, if there are any.
    origin, reach
        Where a learned metric came from; the plausible region, in the coordinates along ``free``.
    refits, coarse_refits, cuts, controls
        Jackknife replicates: the same metric learned without one group of its sample each, groups
        that lie between ``cuts`` (`likewise.methods.jackknife.groups_between`); the same for fewer
        and larger groups, for error rates (empty if there are few anyway); and negative controls,
        metrics learned in the same way from permuted attributes.
    """

    quadratic: ClassVar[bool] = False
    features: tuple[str, ...] = ()
    free: Float[np.ndarray, "k d"] = np.zeros((0, 1))
    origin: Origin | None = None
    reach: Ellipsoid | None = None
    refits: "tuple[FairMetric, ...]" = ()
    coarse_refits: "tuple[FairMetric, ...]" = ()
    cuts: UInt64[np.ndarray, " c"] | None = None
    controls: "tuple[FairMetric, ...]" = ()

    @property
    def largest_eigenvalue(self) -> float:
        """How stiff its penalty is at most, compared with the ordinary distance."""
        return 1.0

    @abc.abstractmethod
    def squared_distance(self, x: Rows, x0: Rows) -> Float[np.ndarray, " n"]:
        r"""Return :math:`d_x^2(x, x_0)`, row by row."""

    def gradient(self, x: Rows, x0: Rows) -> Rows:
        r"""Return :math:`\nabla_x d_x^2(x, x_0)`, row by row."""
        what = f"A {type(self).__name__} has no gradient, which the flow needs"
        raise InvalidMetric(f"{what}: write one, or use likewise.metric.")


class QuadraticForm(FairMetric):
    r"""A Mahalanobis distance, :math:`d_x^2 = v^\top \Sigma v` with :math:`v = x - x_0`.

    Its penalty has a linear gradient, which solvers can treat exactly, and its kernel is the
    space of *free directions*: moving along them costs nothing.
    """

    quadratic: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def largest_eigenvalue(self) -> float:
        r"""The largest eigenvalue of :math:`\Sigma`; Euler's stability depends on it."""

    @abc.abstractmethod
    def function(self, f: Callable[[np.ndarray], np.ndarray], v: Rows) -> Rows:
        r"""Return :math:`f(\Sigma)\,v`, row by row, for a function ``f`` of the eigenvalues."""

    @override
    def gradient(self, x: Rows, x0: Rows) -> Rows:
        return 2 * self.function(lambda eigenvalues: eigenvalues, x - x0)


@final
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class QuadraticMetric(QuadraticForm):
    r"""Mahalanobis distance of a positive semi-definite matrix: :math:`d_x^2 = v^\top \Sigma v`.

    Parameters
    ----------
    sigma
        The matrix :math:`\Sigma`. Directions in its kernel are free. Its scale is read together
        with the penalty λ.
    features
        Names of the features, where known.
    """

    sigma: Float[np.ndarray, "d e"]  # square, which __post_init__ says in a sentence
    features: tuple[str, ...] = ()
    free: Float[np.ndarray, "k d"] = dataclasses.field(init=False)
    eigenvalues: Float[np.ndarray, " d"] = dataclasses.field(init=False)
    eigenvectors: Float[np.ndarray, "d d"] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        sigma = _matrix(self.sigma, "sigma", self.features)
        d = len(sigma)
        if sigma.shape != (d, d):
            raise InvalidMetric(f"sigma must be square, not {d} × {sigma.shape[1]}.")
        size = float(np.abs(sigma).max())
        asymmetry = float(np.abs(sigma - sigma.T).max())
        if asymmetry > 1e-8 * size:
            differ = f"entries differ by up to {asymmetry:.3g}"
            raise InvalidMetric(f"sigma is not symmetric ({differ}). Pass (sigma + sigma.T) / 2.")
        values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
        if values[0] < -1e-8 * size:
            raise InvalidMetric(f"sigma has a negative eigenvalue ({values[0]:.3g}).")
        zero = values <= RANK_TOLERANCE * abs(values[-1])
        object.__setattr__(self, "sigma", sigma)
        object.__setattr__(self, "eigenvalues", np.where(zero, 0.0, values))
        object.__setattr__(self, "eigenvectors", vectors)
        object.__setattr__(self, "free", np.ascontiguousarray(vectors[:, zero].T))

    @override
    def squared_distance(self, x: Rows, x0: Rows) -> Float[np.ndarray, " n"]:
        along = (x - x0) @ self.eigenvectors
        return (np.square(along) * self.eigenvalues).sum(axis=1)

    @property
    @override
    def largest_eigenvalue(self) -> float:
        return float(self.eigenvalues[-1])

    @override
    def function(self, f: Callable[[np.ndarray], np.ndarray], v: Rows) -> Rows:
        return ((v @ self.eigenvectors) * f(self.eigenvalues)) @ self.eigenvectors.T

    def __repr__(self) -> str:
        return _describe("Quadratic fair metric", len(self.free), self.free, self.features)


@final
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ProjectionMetric(QuadraticForm):
    r"""Distance off a subspace that costs nothing: :math:`d_x^2 = |v - Q^\top Q v|^2`.

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
    origin, reach, refits, coarse_refits, cuts, controls
        What a learned metric brings along (see `FairMetric`).
    sketch, attached
        By which the people it was learned from are recognised (`likewise.fingerprints.Sketch`);
        texts saved in the same file, by name.
    """

    free: Float[np.ndarray, "k d"] = dataclasses.field()  # without the default above
    features: tuple[str, ...] = ()
    _: dataclasses.KW_ONLY
    directions: Float[np.ndarray, "m d"] | None = None
    labels: tuple[str, ...] = ()
    origin: Origin | None = None
    reach: Ellipsoid | None = None
    refits: tuple["ProjectionMetric", ...] = ()
    coarse_refits: tuple["ProjectionMetric", ...] = ()
    cuts: UInt64[np.ndarray, " c"] | None = None
    controls: tuple["ProjectionMetric", ...] = ()
    sketch: UInt64[np.ndarray, " s"] | None = None
    attached: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        free = _matrix(self.free, "free", self.features)
        k = len(free)
        if self.reach is not None and len(self.reach.mean) != k:
            raise InvalidMetric(f"The plausible region is not one of {k} free directions.")
        slip = float(np.abs(free @ free.T - np.eye(k)).max(initial=0.0))
        if slip > 1e-8:
            off = f"not orthonormal (off by {slip:.3g})"
            raise InvalidMetric(f"The free directions are {off}: use ignoring(directions).")
        object.__setattr__(self, "free", free)

    @override
    def squared_distance(self, x: Rows, x0: Rows) -> Float[np.ndarray, " n"]:
        # Not |v|² − |Qv|²: that cancels, even below zero, after a long move along Q.
        return np.square(self._projected(x - x0)).sum(axis=1)

    @property
    @override
    def largest_eigenvalue(self) -> float:
        k, d = self.free.shape
        return float(d > k)

    @override
    def function(self, f: Callable[[np.ndarray], np.ndarray], v: Rows) -> Rows:
        at_zero, at_one = f(np.array([0.0, 1.0]))
        return at_one * v + (at_zero - at_one) * (v - self._projected(v))

    def _projected(self, v: Rows) -> Rows:
        return v - (v @ self.free.T) @ self.free

    def without(self, direction: int) -> "ProjectionMetric":
        """Return the metric with one free direction less."""
        rest = np.delete(self.free, direction, axis=0)
        reach = None if self.reach is None else self.reach.without(direction)
        return ProjectionMetric(rest, self.features, reach=reach)

    def with_reach(
        self, x: Rows, weight: Float[np.ndarray, " n"] | None = None
    ) -> "ProjectionMetric":
        """Return the metric with the plausible region of a sample, which holds 99 % of it."""
        return dataclasses.replace(self, reach=Ellipsoid.from_sample(x @ self.free.T, weight))

    def __repr__(self) -> str:
        told = (self.free, ()) if self.directions is None else (self.directions, self.labels)
        lines = [_describe("Fair metric", len(self.free), told[0], self.features, told[1])]
        if self.origin is not None:
            lines.append(str(self.origin))
        if self.reach is not None:
            share = f"{self.reach.coverage:.0%}"
            lines.append(f"Plausible region: the ellipsoid that holds {share} of its sample")
        if self.refits:
            lines.append(f"Jackknife: {len(self.refits)} groups of its sample, each left out once")
        if self.controls:
            lines.append(f"Negative control: {len(self.controls)} times with permuted attributes")
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
    return ProjectionMetric(axes(places, len(features)), tuple(features))


def axes(places: Sequence[int], d: int) -> Float[np.ndarray, "k d"]:
    """Return unit vectors along some of ``d`` coordinates, one a row."""
    found = np.zeros((len(places), d))
    found[range(len(places)), places] = 1.0
    return found


def columns_of(features: Sequence[str], name: str, levels: Sequence[str] = ()) -> list[int]:
    """Places of the feature called ``name``, or of the one-hot features made from it.

    Known are the names our encoder gives (``sex=Male``) and those of scikit-learn's pipelines
    (``cat__sex_Male``, ``num__age``); the column's values, ``levels``, tell ``sex_Male`` from
    ``sex_offences``.
    """
    spelled = {name, *(f"{name}_{level}" for level in levels)}
    whole = [j for j, feature in enumerate(features) if feature == name]
    return whole or [
        j
        for j, feature in enumerate(features)
        if feature.startswith(f"{name}=") or feature.rpartition("__")[2] in spelled
    ]


def places_of(
    features: Sequence[str], names: Sequence[str], wanted: str, table: Any = None
) -> list[int]:
    """Places of all features that columns became; a column without any is refused.

    The values of original columns in a ``table`` tell features of a pipeline apart.
    """
    known = () if table is None else table.column_names
    places: set[int] = set()
    for name in names:
        levels = map(str, table[name].unique().to_pylist()) if name in known else ()
        found = columns_of(features, name, tuple(levels))
        if not found:
            originals = {feature.partition("=")[0] for feature in features}
            hint = nearest(name, {*features, *originals})
            raise InvalidMetric(f"There is no feature {name!r} {wanted}.{hint}")
        places.update(found)
    return sorted(places)


Function = Callable[[Any, Any], Any]
"""Returns one squared distance a row of its two arguments: NumPy arrays, or torch tensors."""


@final
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FunctionMetric(FairMetric):
    r"""A metric given by any function :math:`d_x^2(x, x_0)`; `likewise.metric` makes it.

    The function is called with NumPy arrays, or with torch tensors if it cannot do with arrays. Its
    gradient is found by autograd where it is written in torch, and by central differences
    otherwise.
    """

    function: Function

    @property
    def name(self) -> str:
        """Where the function is: ``package.module:name``."""
        return function_name(self.function)

    def __call__(self, x: Any, x0: Any) -> Any:
        """Call the function."""
        return self.function(x, x0)

    @override
    def squared_distance(self, x: Rows, x0: Rows) -> Float[np.ndarray, "..."]:
        found = self._call(x, x0)
        return np.asarray(found.detach() if hasattr(found, "detach") else found, dtype=x.dtype)

    def _call(self, x: Rows, x0: Rows) -> Any:
        try:
            return self.function(x, x0)
        except (TypeError, AttributeError) as error:
            try:
                import torch

                with torch.no_grad():
                    return self.function(*(torch.tensor(np.ascontiguousarray(r)) for r in (x, x0)))
            except (ImportError, TypeError, AttributeError, RuntimeError):
                said = f"The metric {self.name!r} fails on rows of people: {in_short(error)}."
                raise InvalidMetric(said) from None

    @override
    def gradient(self, x: Rows, x0: Rows) -> Rows:
        if hasattr(self._call(x[:1], x0[:1]), "detach"):
            import torch

            at, start = (torch.tensor(np.ascontiguousarray(rows)) for rows in (x, x0))
            at.requires_grad_()
            with torch.enable_grad():
                # Sum, never mean: a row's path must not depend on who shares its block.
                (slope,) = torch.autograd.grad(self.function(at, start).sum(), at)
            return np.asarray(slope)
        found = np.empty_like(x)
        for j in range(x.shape[1]):
            ahead, behind = x.copy(), x.copy()
            step = np.cbrt(np.finfo(x.dtype).eps) * np.maximum(np.abs(x[:, j] - x0[:, j]), 1.0)
            ahead[:, j] += step
            behind[:, j] -= step
            rise = self.squared_distance(ahead, x0) - self.squared_distance(behind, x0)
            found[:, j] = rise / (ahead[:, j] - behind[:, j])
        return found

    def __reduce__(self) -> Any:
        # A decorated function's own name stands for the metric: pickle would look for it in vain.
        try:
            decorated = pkgutil.resolve_name(self.name)
        except (ImportError, AttributeError, ValueError):
            decorated = None
        known = isinstance(decorated, FunctionMetric) and decorated.function is self.function
        of = self.name if known else self.function
        return _restored, (of,), {"free": self.free, "features": self.features}

    def __repr__(self) -> str:
        columns = [self.features[j] for j in np.flatnonzero(self.free.any(axis=0))]
        free = f"; columns that cost nothing: {', '.join(columns)}" if columns else ""
        return f"Fair metric given by the function {self.name}{free}"


def _restored(of: Any) -> FunctionMetric:
    return FunctionMetric(pkgutil.resolve_name(of).function if isinstance(of, str) else of)


def metric(function: Function) -> FunctionMetric:
    r"""Make a fair metric of a function :math:`d_x^2(x, x_0)`, as a decorator or by a call.

    Parameters
    ----------
    function
        Returns the squared distance of each row of ``x`` from the same row of ``x0``; of NumPy
        arrays or of torch tensors.

    Examples
    --------
    >>> @metric
    ... def city_blocks(x, x0):
    ...     return np.abs(x - x0).sum(axis=1) ** 2
    >>> city_blocks.squared_distance(np.array([[3.0, 0.0]]), np.array([[0.0, 1.0]]))
    array([16.])
    """
    return FunctionMetric(function)


def as_metric(given: Any, x: Rows, features: Sequence[str] = ()) -> FairMetric:
    """Return a fair metric from whatever describes one, checked on some people.

    Parameters
    ----------
    given
        A metric; a function :math:`d_x^2(x, x_0)`; a square matrix; directions that cost nothing,
        one a row; or names of columns that cost nothing.
    x
        People as the model sees them.
    features
        Names of their columns.
    """
    names = tuple(features) or tuple(f"x{j}" for j in range(x.shape[1]))
    if isinstance(given, str) or (
        isinstance(given, Sequence) and given and all(isinstance(part, str) for part in given)
    ):
        return free_columns(names, given)
    if not isinstance(given, FairMetric) and callable(given):
        given = metric(given)
    if not isinstance(given, FairMetric):
        matrix = _matrix(given, "The metric")
        if np.ndim(given) == 1 or matrix.shape[1] != len(names):
            d, shape = len(names), " × ".join(map(str, np.shape(given)))
            raise InvalidMetric(
                f"A metric given as numbers is a {d} × {d} matrix, or one row of {d} for each "
                f"direction that costs nothing, not {shape}. For weights, give a diagonal matrix."
            )
        # Along independent directions in every dimension all people would be alike: it is a matrix.
        square = len(matrix) == len(names)
        if square and (np.allclose(matrix, matrix.T) or len(span(matrix)) == len(names)):
            return QuadraticMetric(matrix, names)
        return ignoring(matrix, names)
    if given.quadratic:
        if (size := given.free.shape[1]) != len(names):
            raise InvalidMetric(f"The metric is of {size} features, and x has {len(names)}.")
        return given
    some = np.ascontiguousarray(x[np.linspace(0, len(x) - 1, min(len(x), 64)).astype(int)])
    others = np.roll(some, 1, axis=0)
    _check_rows(given, some, others)
    if isinstance(given, FunctionMetric):
        sigma = _quadratic_form(given, some, others)
        if sigma is not None:
            return QuadraticMetric(sigma, names)
    if len(given.free):
        return given
    said = copy.copy(given)
    object.__setattr__(said, "free", axes(_costless(given, some, others), x.shape[1]))
    object.__setattr__(said, "features", names)
    return said


def _check_rows(given: FairMetric, x: Rows, x0: Rows) -> None:
    """Refuse what is no squared distance of rows."""
    name = getattr(given, "name", type(given).__name__)
    found = np.asarray(given.squared_distance(x, x0))
    problem = ""
    if found.shape != (len(x),):
        shape = " × ".join(map(str, found.shape)) or "one number"
        problem = f"gives {shape} for {len(x)} people; it must give one number a person"
    elif not np.isfinite(found).all():
        bad = int((~np.isfinite(found)).sum())
        problem = f"is not a finite number for {bad} of {len(x)} people"
    elif found.min(initial=0.0) < 0:
        problem = f"is negative ({found.min():.3g}); give the squared distance"
    elif np.abs(np.asarray(given.squared_distance(x, x))).max(initial=0.0) > 1e-9:
        problem = "is not zero between a person and the same person"
    else:
        half = len(x) // 2
        apart = [given.squared_distance(x[p], x0[p]) for p in (slice(half), slice(half, None))]
        if not np.allclose(np.concatenate(apart), found, rtol=1e-9, atol=1e-12):
            problem = "depends on who else is in the same call; it must treat each row by itself"
    if problem:
        raise InvalidMetric(f"The metric {name!r} {problem}.")


def _quadratic_form(given: FairMetric, x: Rows, x0: Rows) -> Float[np.ndarray, "d d"] | None:
    """Return the matrix of a function that is a quadratic form, found by polarisation."""
    d = x.shape[1]
    if d > 200:
        return None
    scale = np.maximum(x.std(axis=0), 1e-6)
    step = np.diag(scale)
    base = np.repeat(x.mean(axis=0, keepdims=True), d * d, axis=0)
    moved = base + (step[:, None] + step).reshape(d * d, d)
    values = given.squared_distance(moved, base).reshape(d, d)
    own = np.diag(values) / 4
    sigma = (values - own[:, None] - own) / 2
    sigma = np.where(np.abs(sigma) <= 1e-12 * own.max(initial=0.0), 0.0, sigma)
    sigma /= np.multiply.outer(scale, scale)
    expected = np.einsum("nd,de,ne->n", x - x0, sigma, x - x0)
    found = given.squared_distance(x, x0)
    size = float(np.abs(found).max(initial=0.0))
    return sigma if np.allclose(found, expected, rtol=1e-9, atol=1e-10 * size) else None


def _costless(given: FairMetric, x: Rows, x0: Rows) -> list[int]:
    """Return the columns that the distance does not depend on: a weight of zero is free."""
    found = given.squared_distance(x, x0)
    places = []
    for j, scale in enumerate(np.maximum(x.std(axis=0), 1e-6)):
        moved = x.copy()
        moved[:, j] += scale
        if np.array_equal(given.squared_distance(moved, x0), found):
            places.append(j)
    return places


def _matrix(values: Any, what: str, features: Sequence[str] = ()) -> Float[np.ndarray, "m d"]:
    """Return a finite float64 matrix, or say what is wrong with it or its names of columns."""
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
    if features and len(features) != matrix.shape[1]:
        d = matrix.shape[1]
        raise InvalidMetric(f"There are {len(features)} feature names for {d} columns.")
    return matrix


MAX_SHOWN = 12
"""Directions printed before the rest is only counted."""


def _describe(
    title: str,
    dimension: int,
    directions: Float[np.ndarray, "m d"],
    features: Sequence[str],
    labels: Sequence[str] = (),
) -> str:
    """Return a title and one line a direction with its angles to the nearest coordinate axes."""
    m, d = directions.shape
    names = features or [f"x{j}" for j in range(d)]
    labels = labels or [f"direction {i + 1}" for i in range(m)]
    count = "1 direction" if dimension == 1 else f"{dimension} directions"
    lines = [f"{title}: {count} of {d} free (angles to the axes)"]
    page = textwrap.TextWrapper(80, "  ", "    ", break_on_hyphens=False)
    for label, direction in zip(labels[:MAX_SHOWN], directions[:MAX_SHOWN], strict=True):
        told, length = "no direction: nothing predicts it", np.linalg.norm(direction)
        if length:
            angles = np.degrees(np.arccos(np.minimum(np.abs(direction / length), 1.0)))
            near = np.argsort(angles, kind="stable")[:4]
            told = ", ".join(f"{names[j]} {angles[j]:.0f}°" for j in near)
        lines.append(page.fill(f"{label}: {told}"))
    if m > MAX_SHOWN:
        lines.append(f"  … and {m - MAX_SHOWN} more")
    return "\n".join(lines)
