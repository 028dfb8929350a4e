"""The gradient flow of the paper: uphill in the loss, at a price for moving away."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, cast, final

import numpy as np
from jaxtyping import Bool, Float, Shaped
from typing_extensions import override

from likewise.errors import InvalidModel, InvalidSettings
from likewise.maps.coordinates import Coordinates, all_coordinates, free_coordinates
from likewise.maps.entrance import Entrance, NetworkField, entrance
from likewise.maps.field import FlowField, GeneralField, PenalisedField
from likewise.maps.passage import Ascent
from likewise.maps.unfair_map import BoundMap, Moved, UnfairMap, fallen
from likewise.metrics.fair_metric import FairMetric, QuadraticForm
from likewise.metrics.reach import Ellipsoid
from likewise.models.base import Model
from likewise.ode.exponential import Exponential2, Exponential4, ExponentialAdams
from likewise.ode.integrate import (
    Solution,
    Steps,
    constant,
    halved,
    integrate,
    partition,
    places,
    power_decay,
)
from likewise.ode.solvers import RK4, Euler, Field, Solver
from likewise.outcomes import Status

SolverName = Literal[
    "auto", "euler", "rk4", "exponential2", "exponential4", "exponential_adams", "settled_adams"
]
Precision = Literal["auto", "float64", "float32"]

SOLVERS: dict[str, Solver] = {
    "euler": Euler(),
    "rk4": RK4(),
    "exponential2": Exponential2(),
    "exponential4": Exponential4(),
    "exponential_adams": ExponentialAdams(),
    "settled_adams": ExponentialAdams(),
}
SETTLED: Final = "settled_adams"
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
        metric allows it. ``settled_adams`` follows kinks (`SettledKinks`) of networks that have one
        hidden layer, not four times as wide as its input, and is ``exponential2`` elsewhere.
    steps
        A number of steps, or the steps themselves (whose sum is then the time). By default
        `likewise.engine.certificate.certify` chooses a number that is accurate enough.
    free_only
        Move along free directions only, the limit :math:`\lambda \to \infty`.
    bounded
        Keep the free coordinates within the metric's reach; the flow then converges as the time
        grows.
    reach
        Another reach to keep them within.
    horizons
        Earlier times at which people's places are kept.
    precision
        What the flow is computed in. By default float32 where the certificate says that this is
        enough, and float64 elsewhere. Losses are always computed in float64.
    keeps_start
        Leave people where they are if their loss would fall. The exact flow never lowers it,
        equation (10), so this only removes errors of the solver. By default all solvers do but
        Euler's method, which is the paper's algorithm as it stands.
    schedule
        ``paper_simulation`` is the falling schedule of the paper's simulation, whose first steps
        are longer than Euler's method bears; it is refused under any other name.
    """

    name: ClassVar[str] = "flow"
    claim: ClassVar[str] = (
        "Each person is moved along the gradient flow that raises their loss while paying for the "
        "squared fair distance (equations (6)–(8))."
    )

    lam: float = 50.0
    time: float = 5.0
    solver: SolverName = "auto"
    steps: int | Steps | None = None
    free_only: bool = False
    bounded: bool = False
    reach: Ellipsoid | None = None
    horizons: tuple[float, ...] = ()
    precision: Precision = "auto"
    keeps_start: bool | None = None  # type: ignore[assignment]
    schedule: Literal["constant", "paper_simulation"] = "constant"

    @property
    def derived(self) -> tuple[str, ...]:
        """Parameters that follow from others, or are no choice, and are not noted."""
        bold = self.schedule == "paper_simulation"
        return ("horizons", "steps") if bold else ("horizons",)

    def __post_init__(self) -> None:
        if self.schedule == "paper_simulation":
            object.__setattr__(self, "solver", "euler")
            object.__setattr__(self, "steps", _PAPER_SIMULATION)
        if self.keeps_start is None:
            object.__setattr__(self, "keeps_start", self.solver != "euler")
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
        return cls(lam=lam, solver="euler", steps=constant(step, n_steps))

    @classmethod
    def paper_simulation(cls) -> "GradientFlow":
        r"""Return the algorithm of the paper's simulation: λ = 100, step :math:`0.02/k^{2/3}`."""
        return cls(lam=100.0, keeps_start=False, schedule="paper_simulation")

    @classmethod
    def from_parameters(cls, **chosen: Any) -> "GradientFlow":
        """Return the flow that parameters name; a schedule of the paper brings its own."""
        if chosen.get("schedule") == "paper_simulation":
            return cls.paper_simulation()
        return cls(**chosen)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What it is computed in, as it stands."""
        return np.dtype("float32" if self.precision == "float32" else "float64")

    def method(self, metric: FairMetric) -> SolverName:
        """Return the name of the solver that is used with ``metric``."""
        if self.solver != "auto":
            return self.solver
        return "exponential4" if metric.quadratic else "rk4"

    def grid(self, metric: FairMetric) -> Steps:
        """Return the steps that are taken with ``metric``."""
        if isinstance(self.steps, tuple):
            return self.steps
        n = self.steps
        if n is None:
            stiff = self.method(metric) in EXPLICIT and not self.free_only
            largest = metric.largest_eigenvalue
            n = math.ceil(self.time * 2 * self.lam * largest) if stiff else 0
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
        if not metric.quadratic:
            self._refuse_without_form(solver)
            if type(metric).gradient is FairMetric.gradient:
                metric.gradient(np.zeros((0, 1)), np.zeros((0, 1)))  # which says what is missing
            return BoundFlow(self, model, metric, SOLVERS[solver], steps)
        metric = cast(QuadraticForm, metric)
        within = self._within(metric)
        if solver in EXPLICIT and not self.free_only and self.schedule == "constant":
            self._refuse_unstable(metric, max(steps))
        coordinates, way = self._enter(model, metric, solver)
        settled = solver == SETTLED and way is not None and way.settles
        if solver == SETTLED and not settled:
            solver = "exponential2"
        return BoundFlow(
            self, model, metric, SOLVERS[solver], steps, coordinates, way, within, settled
        )

    def can_settle(self, model: Model, metric: FairMetric) -> bool:
        """Whether the solver ``settled_adams`` can follow the kinks of the model."""
        if not metric.quadratic or self.free_only:
            return False
        way = self._enter(model, cast(QuadraticForm, metric), SETTLED)[1]
        return way is not None and way.settles

    def _enter(
        self, model: Model, metric: QuadraticForm, solver: SolverName
    ) -> tuple[Coordinates, Entrance | None]:
        """Return the coordinates people move in, and how they enter a plain network."""
        dtype, d = self.dtype, metric.free.shape[1]
        coordinates = (
            free_coordinates(metric, dtype)
            if self.free_only
            else all_coordinates(metric, self.lam, d, dtype)
        )
        network = Ascent.of(model, dtype)
        widest = 4 if solver == SETTLED else 2
        return coordinates, None if network is None else entrance(network, coordinates, widest)

    def _within(self, metric: QuadraticForm) -> Ellipsoid | None:
        """Return where the free coordinates may go, if they are to be kept anywhere."""
        within = self.reach if self.reach is not None or not self.bounded else metric.reach
        if self.bounded and within is None:
            raise InvalidSettings(
                "map.bounded needs a metric with a reach; a learned metric has one."
            )
        if within is not None and len(within.mean) != len(metric.free):
            raise InvalidSettings(
                f"The reach has {len(within.mean)} coordinates, but the metric has "
                f"{len(metric.free)} free directions."
            )
        return within

    @override
    def under(self, metric: FairMetric) -> "GradientFlow":
        # What another reach bounded is bounded by the metric's own.
        bounded = self.bounded or self.reach is not None
        return dataclasses.replace(self, bounded=bounded, reach=None)

    @override
    def without(self, direction: int) -> "GradientFlow":
        reach = None if self.reach is None else self.reach.without(direction)
        return dataclasses.replace(self, reach=reach)

    @override
    def repriced(self, factor: float) -> "GradientFlow | None":
        if self.free_only:
            return None
        # Explicit solvers would need shorter steps at a higher price.
        return dataclasses.replace(self, lam=factor * self.lam, solver="auto", steps=None)

    @override
    def doubled(self) -> "GradientFlow":
        steps = self.steps
        if isinstance(steps, int):
            steps = 2 * steps
        elif steps is not None:
            steps = steps + steps
        # The simulation's steps go by their name, and Euler's method bears them only there.
        bold = self.schedule == "paper_simulation"
        return dataclasses.replace(
            self,
            time=2 * self.time,
            steps=steps,
            horizons=(),
            solver="exponential4" if bold else self.solver,
            schedule="constant",
        )

    @override
    def along_free_directions(self) -> "GradientFlow":
        return dataclasses.replace(
            self, free_only=True, solver="auto", steps=None, horizons=(), schedule="constant"
        )

    def _refuse_without_form(self, solver: str) -> None:
        if self.free_only or self.bounded or self.reach is not None:
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
    within: Ellipsoid | None = None
    settled: bool = False

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        start = x0.astype(self.flow.dtype, copy=False)
        risen = None
        if self.coordinates is None:
            field = PenalisedField(self.model, self.metric, self.flow.lam, start, y)
            path = self._solve(field, start, None)
            stops = {time: x.astype(x0.dtype) for time, x in path.kept.items()}
            x = path.x.astype(x0.dtype)
        else:
            flow: FlowField = (
                GeneralField(self.model, self.coordinates, start, y)
                if self.way is None
                else NetworkField(self.way, start, y, settled=self.settled)
            )
            path = self._solve(flow, flow.start(), self._confine(start, flow.free))
            stops = {time: x0 + flow.displacement(s) for time, s in path.kept.items()}
            x, risen = x0 + flow.displacement(path.x), flow.surely_risen
        fell = None
        if self.flow.keeps_start:
            for time, at in stops.items():
                self._keep(x0, y, at, risen and risen(path.kept[time]))
            fell = self._keep(x0, y, x, risen and risen(path.x))
        status = np.where(path.finite, Status.MOVED.value, Status.DIVERGED.value)
        return Moved(x, status, path.evaluations, stops, fell)

    def _solve(
        self, field: Field, start: np.ndarray, confine: Callable[[np.ndarray], np.ndarray] | None
    ) -> Solution:
        horizons = self.flow.horizons
        return integrate(field, start, self.steps, self.solver, horizons, confine=confine)

    def _confine(self, x0: np.ndarray, free: slice) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return what keeps the free coordinates within reach after every step."""
        reach = self.within
        if reach is None:
            return None
        own = x0 @ self.metric.free.astype(x0.dtype, copy=False).T

        def confine(state: np.ndarray) -> np.ndarray:
            state[:, free] = reach.project(own + state[:, free]) - own
            return state

        return confine

    def _keep(
        self, x0: np.ndarray, y: np.ndarray, x: np.ndarray, risen: Bool[np.ndarray, " n"] | None
    ) -> Bool[np.ndarray, " n"]:
        """Put people back whose loss fell, and return who they are; some have risen for sure."""
        fell = np.ones(len(x), dtype=bool) if risen is None else ~risen
        if len(rows := np.flatnonzero(fell)):
            fell[rows] = fallen(self.model, x0[rows], y[rows], x[rows])
        x[fell] = x0[fell]
        return fell
