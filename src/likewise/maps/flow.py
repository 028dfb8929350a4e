"""The gradient flow of the paper: uphill in the loss, at a price for moving away."""

import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar, Literal, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.errors import InvalidModel, InvalidSettings
from likewise.maps.base import BoundMap, Moved, UnfairMap, fallen
from likewise.maps.coordinates import Coordinates, all_coordinates, free_coordinates
from likewise.maps.entrance import Entrance, NetworkField, entrance
from likewise.maps.field import FlowField, GeneralField, PenalisedField
from likewise.maps.passage import Ascent
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.metrics.reach import Ellipsoid
from likewise.models.base import Model
from likewise.ode.exponential import Exponential2, Exponential4
from likewise.ode.integrate import Solution, integrate
from likewise.ode.solvers import RK4, Euler, Field, Solver
from likewise.ode.steps import Steps, constant, halved, partition, places, power_decay
from likewise.outcomes import Status

SolverName = Literal["auto", "euler", "rk4", "exponential2", "exponential4"]
Precision = Literal["float64", "float32"]

SOLVERS: dict[str, Solver] = {
    "euler": Euler(),
    "rk4": RK4(),
    "exponential2": Exponential2(),
    "exponential4": Exponential4(),
}
EXPLICIT = ("euler", "rk4")

DEFAULT_STEPS = 16
"""Steps of a solver without a stability limit, where nobody asked for a certificate."""

_PAPER_SIMULATION = power_decay(0.02, 2 / 3, 400)


@final
@dataclasses.dataclass(frozen=True)
class GradientFlow(UnfairMap):
    r"""Everyone follows the gradient of their loss, less a price for leaving their like.

    .. math:: \dot X(t) = \nabla_x\{\ell(f(X(t)), y_0) - \lambda d_x^2(X(t), x_0)\},
        \quad X(0) = x_0, \quad \Phi(x_0, y_0) = X(T)

    Equations (6)--(7). Free directions of the metric cost nothing, so the longer the time, the
    farther people go along them: ``time`` is a choice, and results show others beside it.

    Parameters
    ----------
    lam
        Price :math:`\lambda` of a squared fair distance of one. 50 suits standardised features.
    time
        How long people move, :math:`T`.
    solver
        How the equation is solved; ``auto`` takes the fourth-order exponential method where the
        metric allows it.
    steps
        A number of steps, or the steps themselves (whose sum is then the time). By default
        `likewise.checks.certificate.certify` chooses a number that is accurate enough.
    free_only
        Move along free directions only, the limit :math:`\lambda \to \infty`.
    reach
        Where the free coordinates may go; with it, the flow converges as the time grows.
    horizons
        Earlier times at which people's places are kept.
    precision
        What the flow is computed in. Losses are always computed in float64.
    keeps_start
        Leave people where they are if their loss would fall. The exact flow never lowers it,
        equation (10), so this only removes errors of the solver.
    schedule
        ``paper_simulation`` is the falling schedule of the paper's simulation, whose first steps
        are longer than Euler's method bears; it is refused under any other name.
    """

    name: ClassVar[str] = "flow"

    lam: float = 50.0
    time: float = 5.0
    solver: SolverName = "auto"
    steps: int | Steps | None = None
    free_only: bool = False
    reach: Ellipsoid | None = None
    horizons: tuple[float, ...] = ()
    precision: Precision = "float64"
    keeps_start: bool = True
    schedule: Literal["constant", "paper_simulation"] = "constant"

    def __post_init__(self) -> None:
        if self.schedule == "paper_simulation":
            object.__setattr__(self, "solver", "euler")
            object.__setattr__(self, "steps", _PAPER_SIMULATION)
        if isinstance(self.steps, tuple):
            if not self.steps or not all(0 < h < math.inf for h in self.steps):
                raise InvalidSettings("Steps must be positive numbers, at least one of them.")
            object.__setattr__(self, "time", math.fsum(self.steps))
        elif self.steps is not None and self.steps < 1:
            raise InvalidSettings(f"There must be at least one step, not {self.steps}.")
        for word, value in (("lam (λ)", self.lam), ("time", self.time)):
            if not 0 < value < math.inf:
                raise InvalidSettings(f"{word} must be a positive number, not {value:g}.")
        for horizon in self.horizons:
            if not 0 < horizon <= self.time * (1 + 1e-12):
                raise InvalidSettings(
                    f"Horizon {horizon:g} lies outside the flow's time (0, {self.time:g}]."
                )
        if self.solver not in ("auto", *SOLVERS):
            raise InvalidSettings(
                f"There is no solver {self.solver!r} (there are: auto, {', '.join(SOLVERS)})."
            )

    @classmethod
    def paper(cls, lam: float = 50.0, step: float = 0.01, n_steps: int = 500) -> "GradientFlow":
        """Return the paper's algorithm for Adult exactly: Euler's method with constant steps."""
        return cls(lam=lam, solver="euler", steps=constant(step, n_steps), keeps_start=False)

    @classmethod
    def paper_simulation(cls) -> "GradientFlow":
        r"""Return the algorithm of the paper's simulation: λ = 100, step :math:`0.02/k^{2/3}`."""
        return cls(lam=100.0, keeps_start=False, schedule="paper_simulation")

    def method(self, metric: FairMetric) -> SolverName:
        """Return the name of the solver that is used with ``metric``."""
        if self.solver != "auto":
            return self.solver
        return "exponential4" if isinstance(metric, QuadraticForm) else "rk4"

    def grid(self, metric: FairMetric) -> Steps:
        """Return the steps that are taken with ``metric``."""
        if isinstance(self.steps, tuple):
            return self.steps
        n = self.steps
        if n is None:
            stiff = self.method(metric) in EXPLICIT and not self.free_only
            n = math.ceil(self.time * 2 * self.lam * _largest(metric)) if stiff else 0
            n = max(n, DEFAULT_STEPS)
        return partition(self.time, n, self.horizons)

    def refined(self, metric: FairMetric) -> "GradientFlow":
        """Return the same flow with every step cut in two."""
        # Half of the simulation's first step is still too long for Euler's method.
        bold = self.schedule == "paper_simulation"
        return dataclasses.replace(
            self,
            solver="exponential4" if bold else self.method(metric),
            steps=halved(self.grid(metric)),
            schedule="constant",
        )

    @override
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        solver, steps = self.method(metric), self.grid(metric)
        places(steps, self.horizons)
        if not model.card.differentiable:
            raise InvalidModel(
                f"The model ({model.card.kind}) has no gradient, which the flow needs. Use a map "
                "that needs none (--map reach)."
            )
        if not isinstance(metric, QuadraticForm):
            self._refuse_without_form(solver)
            if type(metric).gradient is FairMetric.gradient:
                metric.gradient(np.zeros((0, 1)), np.zeros((0, 1)))  # which says what is missing
            return BoundFlow(self, model, metric, SOLVERS[solver], steps)
        if self.reach is not None and len(self.reach.mean) != len(metric.free):
            raise InvalidSettings(
                f"The reach has {len(self.reach.mean)} coordinates, but the metric has "
                f"{len(metric.free)} free directions."
            )
        if solver in EXPLICIT and not self.free_only and self.schedule == "constant":
            self._refuse_unstable(metric, max(steps))
        dtype, d = np.dtype(self.precision), metric.free.shape[1]
        coordinates = (
            free_coordinates(metric, dtype)
            if self.free_only
            else all_coordinates(metric, self.lam, d, dtype)
        )
        network = Ascent.of(model, dtype)
        way = None if network is None else entrance(network, coordinates)
        return BoundFlow(self, model, metric, SOLVERS[solver], steps, coordinates, way)

    def _refuse_without_form(self, solver: str) -> None:
        if self.free_only or self.reach is not None:
            raise InvalidSettings("Only quadratic metrics have free directions to move along.")
        if solver not in EXPLICIT:
            raise InvalidSettings(f"The solver {solver!r} needs a quadratic metric. Use 'rk4'.")

    def _refuse_unstable(self, metric: QuadraticForm, longest: float) -> None:
        stiffness = 2 * self.lam * metric.largest_eigenvalue * longest
        if stiffness >= 2:
            raise InvalidSettings(
                f"Steps of {longest:g} are unstable: 2 × λ × the metric's largest eigenvalue × "
                f"step = {stiffness:.3g}, which must be below 2. Take shorter steps, or an "
                "exponential solver."
            )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundFlow:
    """A gradient flow made ready for one model and one metric."""

    flow: GradientFlow
    model: Model
    metric: FairMetric
    solver: Solver
    steps: Steps
    coordinates: Coordinates | None = None
    way: Entrance | None = None

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        start = x0.astype(self.flow.precision, copy=False)
        if self.coordinates is None:
            field = PenalisedField(self.model, self.metric, self.flow.lam, start, y)
            path = self._solve(field, start, None)
            stops = {time: x.astype(x0.dtype) for time, x in path.kept.items()}
            x = path.x.astype(x0.dtype)
        else:
            flow: FlowField = (
                GeneralField(self.model, self.coordinates, start, y)
                if self.way is None
                else NetworkField(self.way, start, y)
            )
            path = self._solve(flow, flow.start(), self._confine(start, flow.free))
            stops = {time: x0 + flow.displacement(s) for time, s in path.kept.items()}
            x = x0 + flow.displacement(path.x)
        below_one = 0
        if self.flow.keeps_start:
            stops = {time: self._kept(x0, y, at)[0] for time, at in stops.items()}
            x, below_one = self._kept(x0, y, x)
        status = np.where(path.finite, Status.MOVED.value, Status.DIVERGED.value)
        return Moved(x, status, path.evaluations, stops, below_one)

    def _solve(
        self, field: Field, start: np.ndarray, confine: Callable[[np.ndarray], np.ndarray] | None
    ) -> Solution:
        horizons = self.flow.horizons
        return integrate(field, start, self.steps, self.solver, horizons, confine=confine)

    def _confine(self, x0: np.ndarray, free: slice) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return what keeps the free coordinates within reach after every step."""
        reach = self.flow.reach
        if reach is None or not isinstance(self.metric, QuadraticForm):
            return None
        own = x0 @ self.metric.free.astype(x0.dtype, copy=False).T

        def confine(state: np.ndarray) -> np.ndarray:
            state[:, free] = reach.project(own + state[:, free]) - own
            return state

        return confine

    def _kept(self, x0: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, int]:
        fell = fallen(self.model, x0, y, x)
        return np.where(fell[:, None], x0, x), int(fell.sum())


def _largest(metric: FairMetric) -> float:
    return metric.largest_eigenvalue if isinstance(metric, QuadraticForm) else 1.0
