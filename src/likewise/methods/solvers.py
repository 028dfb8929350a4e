r"""Solvers of initial value problems x' = g(x): Euler, Runge–Kutta, and an exponential method.

For :math:`\dot x = -ax + N(x)` the exponential method solves the stiff linear part exactly, so no
rate :math:`a` limits its step. Its weights are made of
:math:`\varphi_k(z) = \int_0^1 e^{(1-s)z} s^{k-1}/(k-1)!\,ds`.
"""

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

State = Float[np.ndarray, "r n"]
"""One row a coordinate, one column a person: this layout suits the matrix products best."""

Steps = tuple[float, ...]
Step = Callable[[], np.ndarray]


class SemilinearField(abc.ABC):
    r"""A field with a stiff linear part that is known and diagonal: :math:`\dot x = -ax + N(x)`."""

    rates: Float[np.ndarray, " r"]
    """The rates :math:`a \\ge 0`, one a coordinate."""

    @abc.abstractmethod
    def nonlinear(self, x: State, out: State) -> None:
        """Write :math:`N(x)` to ``out``, person by person; ``out`` may be ``x``."""

    def displacement(self, state: State) -> Float[np.ndarray, "n d"]:
        """Return how far from the start a state stands for: itself, unless coordinates change."""
        return state.T


@dataclasses.dataclass(frozen=True)
class Solver:
    """A method of one step, or of more, whose stepper remembers the steps before.

    ``stepper`` returns the function that takes a state one step of a given length further with
    every call; what that returns is overwritten by its call after next, for fresh memory for every
    step would cost more than the arithmetic. ``order`` says how fast the error falls with the step,
    ``evaluations`` how often a step evaluates the field, and ``at_start`` how much more often the
    first one does.
    """

    stepper: Callable[[SemilinearField, State, float], Step]
    order: int
    evaluations: int
    at_start: int = 0


def _euler(field: SemilinearField, x: State, h: float) -> Step:
    places = _places(x, 1)
    # x + h (N − a x), with the linear part taken together.
    weight = np.stack([1 - h * field.rates, np.full_like(field.rates, h)], axis=1)[:, None]
    turns = itertools.cycle(((0, -1, weight), (-1, 0, weight[..., ::-1].copy())))

    def step() -> State:
        now, after, weight = next(turns)
        field.nonlinear(places[now], places[1])
        return _combined(places, weight, after)

    return step


def _rk4(field: SemilinearField, x: State, h: float) -> Step:
    def velocity(x: State) -> State:
        out = np.empty_like(x)
        field.nonlinear(x, out)
        return out - field.rates[:, None] * x

    def step() -> State:
        nonlocal x
        k1 = velocity(x)
        k2 = velocity(x + h / 2 * k1)
        k3 = velocity(x + h / 2 * k2)
        k4 = velocity(x + h * k3)
        x = x + h / 6 * (k1 + 2 * (k2 + k3) + k4)
        return x

    return step


LAGS = 4  # evaluations that a step of the exponential Adams method is made of, its own among them

DIFFERENCES = np.array([[1, 0, 0, 0], [1, -1, 0, 0], [1, -2, 1, 0], [1, -3, 3, -1]])
"""Backward differences of N, a row each, made of N at this step and those before."""

MIN_RATE = 1e-3
"""A rate is none if it does not pull by more than this in a step: rounding leaves such rates."""


def _adams(field: SemilinearField, x: State, h: float, *, lines: bool) -> Step:
    rates = field.rates.astype(np.float64).tobytes()
    correction, weights = _adams_weights(h, rates, x.dtype, lines)
    places, taken = _places(x, LAGS), 0
    past = places[1:-1]

    def step() -> State:
        nonlocal taken
        now, after = (-1, 0) if taken % 2 else (0, -1)
        field.nonlinear(places[now], past[taken % LAGS])
        end = _combined(places, weights[min(taken, LAGS + taken % LAGS)], after)
        if not taken:
            for before, again in itertools.pairwise(past[:3]):
                field.nonlinear(end, again)
                end += correction * (again - before)
        taken += 1
        return end

    return step


EULER = Solver(_euler, order=1, evaluations=1)
"""Forward Euler, equation (8). Theorem 2.2 bounds its error by the largest step."""

RK4 = Solver(_rk4, order=4, evaluations=4)  # the classical Runge–Kutta method of order four

ADAMS = Solver(functools.partial(_adams, lines=True), order=2, evaluations=1, at_start=2)
"""Exponential Adams–Bashforth, one evaluation a step (Cox and Matthews 2002).

It continues N from the last steps: as a cubic in coordinates without a rate, and as a line in
the others. There the state follows N at once, and a cubic would answer every jump of N (a kink of
the loss) by larger ones. The first step is one of the exponential Runge–Kutta method of order two,
corrected once more; the next take as many steps before them as there are."""

EXPONENTIAL_EULER = Solver(functools.partial(_adams, lines=False), 1, evaluations=1, at_start=2)
"""The same with a constant instead of a line: the exponential Euler method where there is a rate.

Its steps are less exact where N is smooth, but near a kink, where N jumps to and fro, a line would
carry every jump on, and a constant does not. So its error falls evenly with the step."""

SOLVERS = {
    "euler": EULER,
    "rk4": RK4,
    "exponential": ADAMS,
    "exponential_euler": EXPONENTIAL_EULER,
}


def phi(k: int, z: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    r"""Return :math:`\varphi_k(z) = {}_1F_1(1; k+1; z)/k!`, with :math:`\varphi_0 = e^z`."""
    from scipy import special  # late: it takes a while to import

    found: Float[np.ndarray, " d"] = special.hyp1f1(1, k + 1, z) / math.factorial(k)
    return found if k else np.exp(z)


@functools.lru_cache(maxsize=64)
def _adams_weights(
    h: float, rates: bytes, dtype: np.dtype, lines: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the weight of a first step's corrections, and those of all places, step by step.

    From `LAGS` steps on they repeat themselves. All blocks of people have the same.
    """
    z = -h * np.frombuffer(rates)
    phi1, phi2, phi3, phi4 = (h * phi(k, z) for k in (1, 2, 3, 4))
    # Weights of N and its backward differences ∇N, ∇²N, ∇³N.
    parts = np.array([phi1, phi2, phi3 + phi2 / 2, phi4 + phi3 + phi2 / 3])
    parts[2 if lines else 1 :, -z > MIN_RATE] = 0.0
    found = []
    for taken in range(2 * LAGS):
        known = min(taken + 1, LAGS)
        newest_first = parts[:known].T @ DIFFERENCES[:known]
        past = list(newest_first[:, (taken - np.arange(LAGS)) % LAGS].T)
        state = phi(0, z)
        found.append(np.stack([*past, state] if taken % 2 else [state, *past], axis=1)[:, None])
    return phi2[:, None].astype(dtype), [weight.astype(dtype) for weight in found]


def _places(x: State, lags: int) -> Float[np.ndarray, "k r n"]:
    """Return memory for evaluations, between two places that hold the state in turns."""
    places = np.zeros((lags + 2, *x.shape), dtype=x.dtype)
    places[0] = x
    return places


def _combined(
    places: Float[np.ndarray, "k r n"], weight: Float[np.ndarray, "r 1 q"], after: int
) -> State:
    """Write the next state to its place, all others weighted and added up in one product."""
    others, end = (places[1:] if after == 0 else places[:-1]), places[after]
    np.matmul(weight, others.transpose(1, 0, 2), out=end[:, None])
    return end


@dataclasses.dataclass(frozen=True)
class Solution:
    """The last state, who stayed finite, and evaluations.

    People who left the finite numbers stand at their last finite place.
    """

    x: State
    finite: Bool[np.ndarray, " n"]
    evaluations: int


def integrate(field: SemilinearField, x0: State, steps: Steps, solver: Solver) -> Solution:
    r"""Solve :math:`\dot x = g(x)`, :math:`x(0) = x_0`, person by person."""
    finite = np.ones(x0.shape[1], dtype=bool)
    lost = False
    x, before, step, started = x0, math.nan, None, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for h in steps:
            # Steps that differ by rounding are equal: a solver would begin anew at another.
            if step is None or abs(h - before) > 1e-12 * h:
                before, step, started = h, solver.stepper(field, x, h), started + 1
            after = step()
            # One product is far cheaper than asking every number: it is not finite if one is not.
            if lost or not math.isfinite(np.vdot(after, after)):
                finite &= np.isfinite(after).all(axis=0)
                lost = not finite.all()
                np.copyto(after, x, where=~finite)
            x = after
    return Solution(x, finite, len(steps) * solver.evaluations + started * solver.at_start)
