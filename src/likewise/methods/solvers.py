r"""Solvers of initial value problems x' = g(x): Euler, Runge–Kutta, and an exponential method.

For :math:`\dot x = -ax + N(x)` the exponential method solves the stiff linear part exactly, so no
rate :math:`a` limits its step. Its weights are made of
:math:`\varphi_k(z) = \int_0^1 e^{(1-s)z} s^{k-1}/(k-1)!\,ds`.
"""

import abc
import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from likewise.errors import InvalidSettings

State = Float[np.ndarray, "r n"]
"""One row a coordinate, one column a person: this layout suits the matrix products best."""

Steps = tuple[float, ...]
Step = Callable[[np.ndarray], np.ndarray]


def partition(time: float, n: int, stops: Iterable[float] = ()) -> Steps:
    """Cut the time into about ``n`` steps, equal between one stop and the next.

    Each stop falls between two steps, so that a solution can be kept there; for that some
    stretches get a step more than their share.
    """
    steps: list[float] = []
    for begin, end in itertools.pairwise([0.0, *sorted({*stops, time})]):
        # The small allowance keeps rounding from adding a step to a stretch that fits exactly.
        count = max(1, math.ceil(n * (end - begin) / time - 1e-9))
        steps += [(end - begin) / count] * count
    return tuple(steps)


def steps_until(steps: Steps, times: Iterable[float]) -> dict[int, float]:
    """Say after how many steps each of ``times`` is reached."""
    reached = list(itertools.accumulate(steps))
    found: dict[int, float] = {}
    for time in times:
        index = min(range(len(reached)), key=lambda i: abs(reached[i] - time))
        if abs(reached[index] - time) > 1e-9 * max(1.0, reached[-1]):
            raise InvalidSettings(
                f"Time {time:g} lies between two steps (the nearest is at {reached[index]:g}). "
                "Choose a time that the steps add up to."
            )
        found[index + 1] = time
    return found


class SemilinearField(abc.ABC):
    r"""A field with a stiff linear part that is known and diagonal: :math:`\dot x = -ax + N(x)`."""

    rates: Float[np.ndarray, " r"]
    """The rates :math:`a \\ge 0`, one a coordinate."""

    @abc.abstractmethod
    def nonlinear(self, x: State, out: State) -> None:
        """Write :math:`N(x)` to ``out``, person by person; ``out`` may be ``x``."""


@dataclasses.dataclass(frozen=True)
class Solver:
    """A method of one step, or of more, whose stepper remembers the steps before.

    ``stepper`` returns the function that takes a state one step of a given length further; what
    that returns is overwritten by its call after next, for fresh memory for every step would cost
    more than the arithmetic. ``order`` says how fast the error falls with the step,
    ``evaluations`` how often a step evaluates the field, and ``at_start`` how much more often the
    first one does.
    """

    stepper: Callable[[SemilinearField, State, float], Step]
    order: int
    evaluations: int
    at_start: int = 0


def _euler(field: SemilinearField, x: State, h: float) -> Step:
    slope, scratch, ends = np.empty_like(x), np.empty_like(x), _in_turns(x)
    # x + h (N − a x), with the linear part taken together.
    left = Diagonal(1 - h * field.rates)
    ahead = Diagonal(np.full_like(field.rates, h))

    def step(x: State) -> State:
        field.nonlinear(x, slope)
        return ahead.add(slope, left.times(x, next(ends)), scratch)

    return step


def _rk4(field: SemilinearField, x: State, h: float) -> Step:
    def velocity(x: State) -> State:
        out = np.empty_like(x)
        field.nonlinear(x, out)
        return out - field.rates[:, None] * x

    def step(x: State) -> State:
        k1 = velocity(x)
        k2 = velocity(x + h / 2 * k1)
        k3 = velocity(x + h / 2 * k2)
        k4 = velocity(x + h * k3)
        return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)

    return step


LAGS = 4  # evaluations that a step of the exponential Adams method is made of, its own among them

DIFFERENCES = np.array([[1, 0, 0, 0], [1, -1, 0, 0], [1, -2, 1, 0], [1, -3, 3, -1]])
"""Backward differences of N, a row each, made of N at this step and those before."""

SLOW = 1e-3
"""A rate is none if it does not pull by more than this in a step: rounding leaves such rates."""


def _exponential(field: SemilinearField, x: State, h: float, *, multistep: bool) -> Step:
    decay, full, correction, *weights = _exponential_weights(
        h, field.rates.astype(np.float64).tobytes(), x.dtype
    )
    past = [np.empty_like(x) for _ in range(LAGS)]
    scratch, ends, corrections = np.empty_like(x), _in_turns(x), 2 if multistep else 1
    taken = 0

    def step(x: State) -> State:
        nonlocal taken
        past.insert(0, past.pop())
        field.nonlinear(x, past[0])
        end = decay.times(x, next(ends))
        if taken and multistep:
            known = min(taken + 1, LAGS)
            begin = known * (known - 1) // 2 - 1
            for weight, earlier in zip(weights[begin : begin + known], past, strict=False):
                weight.add(earlier, end, scratch)
        else:
            full.add(past[0], end, scratch)
            before = past[0]
            for after in past[1 : 1 + corrections]:
                field.nonlinear(end, after)
                correction.add(np.subtract(after, before, out=past[3]), end, scratch)
                before = after
        taken += 1
        return end

    return step


EULER = Solver(_euler, order=1, evaluations=1)
"""Forward Euler, equation (8). Theorem 2.2 bounds its error by the largest step."""

RK4 = Solver(_rk4, order=4, evaluations=4)  # the classical Runge–Kutta method of order four

EXPONENTIAL_RK2 = Solver(functools.partial(_exponential, multistep=False), order=2, evaluations=2)
"""The exponential Runge–Kutta method of order two: two evaluations a step, and no memory."""

ADAMS = Solver(functools.partial(_exponential, multistep=True), 2, evaluations=1, at_start=2)
"""Exponential Adams–Bashforth, one evaluation a step (Cox and Matthews 2002).

It continues N from the last steps: as a cubic in coordinates without a rate, and as a line in
the others. There the state follows N at once, and a cubic would answer every jump of N (a kink of
the loss) by larger ones. The first step is one of the exponential Runge–Kutta method of order two,
corrected once more; the next take as many steps before them as there are."""


def phi(k: int, z: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    r"""Return :math:`\varphi_k(z)`, with :math:`\varphi_0 = e^z`, to the last digits.

    The recurrence :math:`\varphi_{k+1} = (\varphi_k - 1/k!)/z` cancels where z is small; there
    the Taylor series :math:`\sum_j z^j/(j+k)!` takes over.
    """
    if k == 0:
        return np.exp(z)
    small = np.abs(z) < 1
    inside = np.where(small, z, 0.0)
    series = np.zeros_like(z)
    for j in reversed(range(20)):
        series = series * inside + 1 / math.factorial(j + k)
    outside = np.where(small, -1.0, z)
    value = np.expm1(outside) / outside
    for j in range(1, k):
        value = (value - 1 / math.factorial(j)) / outside
    return np.where(small, series, value)


@functools.lru_cache(maxsize=64)
def _exponential_weights(h: float, rates: bytes, dtype: np.dtype) -> tuple["Diagonal", ...]:
    """Return the weights of a first step, and those of two, three and four evaluations.

    All blocks of people have the same.
    """
    z = -h * np.frombuffer(rates)
    phi1, phi2, phi3, phi4 = (h * phi(k, z) for k in (1, 2, 3, 4))
    # Weights of N and its backward differences ∇N, ∇²N, ∇³N.
    parts = np.array([phi1, phi2, phi3 + phi2 / 2, phi4 + phi3 + phi2 / 3])
    parts[2:, -z > SLOW] = 0.0
    weights = [phi(0, z), phi1, phi2]
    for known in range(2, LAGS + 1):
        weights += list(DIFFERENCES[:known, :known].T @ parts[:known])
    return tuple(Diagonal(weight.astype(dtype)) for weight in weights)


FEW_RUNS = 4  # runs of equal factors up to which each takes a call of its own


@final
class Diagonal:
    """A diagonal matrix that acts on states.

    Most metrics have two runs of equal factors: what costs and what is free.
    """

    def __init__(self, factors: Float[np.ndarray, " r"]) -> None:
        from scipy.linalg import blas  # late: it takes a while to import

        self.factors = factors[:, None]
        cuts = [0, *(np.flatnonzero(np.diff(factors)) + 1).tolist(), len(factors)]
        self.runs = [(a, b, factors[a]) for a, b in itertools.pairwise(cuts) if a < b]
        # The routine that adds a multiple of a vector to another, in place.
        self.axpy = {"d": blas.daxpy, "f": blas.saxpy}[factors.dtype.char]

    def times(self, x: State, out: State) -> State:
        """Write the product with ``x`` to ``out``, and return that."""
        if len(self.runs) > FEW_RUNS:
            return np.multiply(x, self.factors, out=out)
        for a, b, factor in self.runs:
            np.multiply(x[a:b], factor, out=out[a:b])
        return out

    def add(self, x: State, out: State, scratch: State) -> State:
        """Add the product with ``x`` to ``out``, and return that."""
        if len(self.runs) > FEW_RUNS:
            return np.add(out, np.multiply(x, self.factors, out=scratch), out=out)
        flat, target, n = x.reshape(-1), out.reshape(-1), x.shape[1]
        for a, b, factor in self.runs:
            if factor:
                self.axpy(flat, target, (b - a) * n, factor, a * n, 1, a * n, 1)
        return out


def _in_turns(x: State) -> Iterator[State]:
    """Yield two arrays in turns, for the last state and the next one."""
    return itertools.cycle((np.empty_like(x), np.empty_like(x)))


@dataclasses.dataclass(frozen=True)
class Solution:
    """The last state, who stayed finite, states kept on the way, and evaluations.

    People who left the finite numbers stand at their last finite place.
    """

    x: State
    finite: Bool[np.ndarray, " n"]
    kept: Mapping[float, State]
    evaluations: int


def integrate(
    field: SemilinearField,
    x0: State,
    steps: Steps,
    solver: Solver,
    keep: Iterable[float] = (),
    *,
    confine: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Solution:
    r"""Solve :math:`\dot x = g(x)`, :math:`x(0) = x_0`, person by person.

    Parameters
    ----------
    keep
        Times, each a partial sum of ``steps``, at which the state is kept.
    confine
        Applied after every step: brings people back to where they may be.
    """
    wanted = steps_until(steps, keep)
    kept: dict[float, np.ndarray] = {}
    finite = np.ones(x0.shape[1], dtype=bool)
    lost = False
    x, before, step, started = x0, math.nan, None, 0
    with _in_place_and_quiet():
        for number, h in enumerate(steps, start=1):
            # Steps that differ by rounding are equal: a solver would begin anew at another.
            if step is None or abs(h - before) > 1e-12 * h:
                before, step, started = h, solver.stepper(field, x, h), started + 1
            after = step(x) if confine is None else confine(step(x))
            # One product is far cheaper than asking every number: it is not finite if one is not.
            if lost or not math.isfinite(np.vdot(after, after)):
                finite &= np.isfinite(after).all(axis=0)
                lost = not finite.all()
                np.copyto(after, x, where=~finite)
            x = after
            if number in wanted:
                kept[wanted[number]] = x.copy()  # the solver uses its memory again
    return Solution(x, finite, kept, len(steps) * solver.evaluations + started * solver.at_start)


@contextlib.contextmanager
def _in_place_and_quiet() -> Iterator[None]:
    """Let NumPy work on rows of a block in place, and say nothing of those that leave all bounds.

    With its usual buffers, NumPy would first copy whatever is shorter than they are.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.setbufsize(1024)
        try:
            yield
        finally:
            np.setbufsize(before)
