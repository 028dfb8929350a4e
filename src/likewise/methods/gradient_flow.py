"""The gradient flow of the paper: ascent on the loss, less a penalty on the fair distance."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, cast, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.errors import InvalidModel, InvalidSettings
from likewise.methods.flow_field import Coordinates, GeneralField, PenalisedField
from likewise.methods.metric import FairMetric, QuadraticForm
from likewise.methods.network_gradient import FirstLayerCoordinates, NetworkField, PlainNetwork
from likewise.methods.solvers import SOLVERS, SemilinearField, Solver, Steps, integrate
from likewise.methods.unfair_map import BoundMap, Moved, UnfairMap
from likewise.models.base import Model
from likewise.outcomes import Status

SolverName = Literal["auto", "euler", "rk4", "exponential", "exponential_euler"]

EXPLICIT = ("euler", "rk4")

FieldOf = Callable[[np.ndarray, np.ndarray], SemilinearField]
"""Returns the field of some people, given where they start and their labels."""

DEFAULT_STEPS = 32
"""Steps of a solver without a stability limit, where nobody asked for an accurate number."""


@final
@dataclasses.dataclass(frozen=True)
class GradientFlow(UnfairMap):
    r"""Everyone follows the gradient of their loss, less a penalty on the fair distance.

    .. math:: \dot X(t) = \nabla_x\{\ell(f(X(t)), y_0) - \lambda d_x^2(X(t), x_0)\},
        \quad X(0) = x_0, \quad \Phi(x_0, y_0) = X(T)

    Equations (6)--(7). Free directions of the metric cost nothing, so the longer the time, the
    farther people go along them: ``time`` is a choice.

    Parameters
    ----------
    lam
        Penalty :math:`\lambda` on a squared fair distance of one. 50 suits standardised features.
    time
        How long people move, :math:`T`.
    solver
        How the equation is solved; ``auto`` takes the exponential method where the metric is a
        quadratic form, and ``rk4`` elsewhere. ``exponential_euler`` is the better one for models
        with many kinks.
    steps
        A number of steps, or the steps themselves (whose sum is then the time). By default
        `likewise.methods.numerical_error` chooses a number that is accurate enough.
    free_only
        Move along free directions only, the limit :math:`\lambda \to \infty`.
    unstable
        Take steps that are longer than Euler's method bears, as the first of the paper's
        simulation are.
    """

    name: ClassVar[str] = "gradient_flow"
    claim: ClassVar[str] = (
        "Each person is perturbed along the gradient flow that raises their loss while paying for "
        "the squared fair distance (equations (6)–(8))."
    )

    lam: float = 50.0
    time: float = 5.0
    solver: SolverName = "auto"
    steps: int | Sequence[float] | None = None
    free_only: bool = False
    unstable: bool = False
    dtype: np.dtype[Any] = dataclasses.field(default=np.dtype(float), init=False, repr=False)
    """What people's places are computed in: float32 (`single`) where that was seen to be enough."""

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int | np.integer | None):
            steps = tuple(map(float, self.steps))
            if not steps or not all(0 < h < math.inf for h in steps):
                raise InvalidSettings("Steps must be positive numbers, at least one of them.")
            object.__setattr__(self, "steps", steps)
            object.__setattr__(self, "time", math.fsum(steps))
        elif self.steps is not None and self.steps < 1:
            raise InvalidSettings(f"There must be at least one step, not {self.steps}.")
        for word, value in (("lam (λ)", self.lam), ("time", self.time)):
            if not 0 < value < math.inf:
                raise InvalidSettings(f"{word} must be a positive number, not {value:g}.")
        if self.solver not in ("auto", *SOLVERS):
            raise InvalidSettings(
                f"There is no solver {self.solver!r} (there are: auto, {', '.join(SOLVERS)})."
            )

    @classmethod
    def paper(cls, lam: float = 50.0, step: float = 0.01, n_steps: int = 500) -> "GradientFlow":
        """Return the paper's algorithm for Adult exactly: Euler's method with constant steps."""
        return cls(lam=lam, solver="euler", steps=(step,) * n_steps)

    @classmethod
    def paper_simulation(cls) -> "GradientFlow":
        r"""Return the algorithm of the paper's simulation: λ = 100, step :math:`0.02/k^{2/3}`."""
        steps = tuple(0.02 / k ** (2 / 3) for k in range(1, 401))
        return cls(lam=100.0, solver="euler", steps=steps, unstable=True)

    def single(self) -> "GradientFlow":
        """Return the flow computed in float32, which takes half as long."""
        flow = dataclasses.replace(self)
        object.__setattr__(flow, "dtype", np.dtype("float32"))
        return flow

    @property
    def keeps_start(self) -> bool:  # type: ignore[override]
        """Whether people whose loss would fall are left where they are.

        The exact flow never lowers it, equation (10), so this only removes errors of the solver.
        Euler's method is the paper's algorithm as it stands.
        """
        return self.solver != "euler"

    def method(self, metric: FairMetric) -> SolverName:
        """Return the name of the solver that is used with ``metric``."""
        if self.solver != "auto":
            return self.solver
        return "exponential" if metric.quadratic else "rk4"

    def rate(self, metric: FairMetric) -> float:
        """Return the fastest rate at which the penalty pulls people back."""
        return 0.0 if self.free_only else 2 * self.lam * metric.largest_eigenvalue

    def grid(self, metric: FairMetric) -> Steps:
        """Return the steps that are taken with ``metric``."""
        n = self.steps
        if n is None:
            stiff = self.method(metric) in EXPLICIT
            n = max(math.ceil(self.time * self.rate(metric)) if stiff else 0, DEFAULT_STEPS)
        return (self.time / n,) * n if isinstance(n, int | np.integer) else tuple(n)

    @override
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        solver, steps = self.method(metric), self.grid(metric)
        if not model.card.differentiable:
            raise InvalidModel(
                f"The model ({model.card.kind}) has no gradient, which the flow needs. Use a "
                "method that needs none (--method reach)."
            )
        if not metric.quadratic:
            if self.free_only:
                raise InvalidSettings("Only quadratic metrics have free directions to move along.")
            if solver not in EXPLICIT:
                raise InvalidSettings(f"The solver {solver!r} needs a quadratic metric. Use 'rk4'.")
            if type(metric).gradient is FairMetric.gradient:
                metric.gradient(np.zeros((0, 1)), np.zeros((0, 1)))  # which says what is missing
            penalised = functools.partial(PenalisedField, model, metric, self.lam)
            return BoundFlow(penalised, SOLVERS[solver], steps, self.dtype)
        metric = cast(QuadraticForm, metric)
        stiffness = self.rate(metric) * max(steps)
        if solver in EXPLICIT and not self.unstable and stiffness >= 2:
            raise InvalidSettings(
                f"Steps of {max(steps):g} are unstable: 2 × λ × the metric's largest eigenvalue × "
                f"step = {stiffness:.3g}, which must be below 2. Take shorter steps, or an "
                "exponential solver."
            )
        lam = math.inf if self.free_only else self.lam
        coordinates = Coordinates.from_metric(metric, lam, self.dtype)
        network = PlainNetwork.from_model(model, self.dtype)
        field: FieldOf = functools.partial(GeneralField, model, coordinates)
        if network is not None:
            first = FirstLayerCoordinates.from_coordinates(network, coordinates)
            field = functools.partial(NetworkField, first)
        return BoundFlow(field, SOLVERS[solver], steps, self.dtype)

    def with_penalty(self, lam: float) -> "GradientFlow":
        """Return the flow with another penalty."""
        # Explicit solvers would need shorter steps at a larger penalty.
        return dataclasses.replace(self, lam=lam, solver="auto", steps=None, unstable=False)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundFlow:
    """A gradient flow made ready for one model and one metric, computed in some precision."""

    field: FieldOf
    solver: Solver
    steps: Steps
    dtype: np.dtype[Any]

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        field = self.field(x0.astype(self.dtype, copy=False), y)
        still = np.zeros((len(field.rates), len(x0)), dtype=field.rates.dtype)
        path = integrate(field, still, self.steps, self.solver)
        x = x0 + field.displacement(path.x)
        status = np.where(path.finite, Status.MOVED.value, Status.DIVERGED.value)
        return Moved(x, status, path.evaluations)
