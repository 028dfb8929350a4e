r"""Exponential Runge–Kutta methods: the stiff linear part is solved exactly.

For :math:`\dot x = -ax + N(x)` only :math:`N` is approximated, so no rate :math:`a` limits the
step. The weights are made of :math:`\varphi_k(z) = \int_0^1 e^{(1-s)z} s^{k-1}/(k-1)!\,ds`.
"""

import functools
import math
from collections.abc import Callable
from typing import final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidSettings
from likewise.ode.solvers import Diagonal, Field, SemilinearField, Solver, State, Step, Turns


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


@final
class Exponential2(Solver):
    """Exponential Runge–Kutta of order two, two evaluations a step (Cox and Matthews 2002)."""

    order = 2
    evaluations = 2

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        nonlinear, (decay, full, correction) = _semilinear(field, h, x, _weights2)
        n1, n2, room, ends = *(np.empty_like(x) for _ in range(3)), Turns(x)

        def step(x: State) -> State:
            nonlinear(x, n1)
            a = full.add(n1, decay.times(x, ends.other(x)), room)
            nonlinear(a, n2)
            return correction.add(np.subtract(n2, n1, out=n2), a, room)

        return step


@final
class ExponentialAdams(Solver):
    r"""Exponential Adams–Bashforth, one evaluation a step (Cox and Matthews 2002).

    It continues N from the last steps: as a cubic where a step resolves the rate, and as a line
    where it does not. There the state follows N at once, and a cubic would answer every jump of
    N by larger ones. The first step is one of `Exponential2`, corrected once more; the next take
    as many steps before them as there are.
    """

    order = 3
    evaluations = 1
    at_start = 2

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        nonlinear, (decay, full, correction, *weights) = _semilinear(field, h, x, _adams)
        room, ends, past = np.empty_like(x), Turns(x), [np.empty_like(x) for _ in range(LAGS)]
        taken = 0

        def step(x: State) -> State:
            nonlocal taken
            past.insert(0, past.pop())
            nonlinear(x, past[0])
            end = decay.times(x, ends.other(x))
            if taken:
                known = min(taken + 1, LAGS)
                begin = known * (known - 1) // 2 - 1
                for weight, earlier in zip(weights[begin : begin + known], past, strict=False):
                    weight.add(earlier, end, room)
            else:
                full.add(past[0], end, room)
                before = past[0]
                for after in past[1:3]:
                    nonlinear(end, after)
                    change = np.subtract(after, before, out=past[3])
                    correction.add(change, end, room)
                    before = after
            taken += 1
            return end

        return step


@final
class Exponential4(Solver):
    """Exponential Runge–Kutta of order four, also where the problem is stiff.

    Five evaluations a step: Hochbruck and Ostermann, "Explicit exponential Runge–Kutta methods
    for semilinear parabolic problems" (2005), scheme (5.19). Methods with four lose order on stiff
    problems.
    """

    order = 4
    evaluations = 5

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        nonlinear, weights = _semilinear(field, h, x, _weights4)
        decay, half, a21, a31, a32, a41, a42, a51, a52, a54, b1, b4, b5 = weights
        n1, n2, n3, n4, middle, room = (np.empty_like(x) for _ in range(6))
        ends = Turns(x)

        def step(x: State) -> State:
            end = decay.times(x, ends.other(x))
            half.times(x, middle)
            nonlinear(x, n1)
            np.copyto(n2, middle)
            nonlinear(a21.add(n1, n2, room), n2)
            np.copyto(n3, middle)
            nonlinear(a32.add(n2, a31.add(n1, n3, room), room), n3)
            n23 = np.add(n2, n3, out=n2)
            np.copyto(n4, end)
            nonlinear(a42.add(n23, a41.add(n1, n4, room), room), n4)
            a54.add(n4, a52.add(n23, a51.add(n1, middle, room), room), room)
            n5 = n3
            nonlinear(middle, n5)
            return b5.add(n5, b4.add(n4, b1.add(n1, end, room), room), room)

        return step


Weights = tuple[Float[np.ndarray, " d"], ...]


def _weights2(h: float, z: Float[np.ndarray, " d"]) -> Weights:
    return phi(0, z), h * phi(1, z), h * phi(2, z)


LAGS = 4
"""Evaluations that a step of `ExponentialAdams` is made of, its own among them."""

DIFFERENCES = np.array([[1, 0, 0, 0], [1, -1, 0, 0], [1, -2, 1, 0], [1, -3, 3, -1]])
"""Backward differences of N, a row each, made of N at this step and those before."""

RESOLVED = 3.0
"""A step resolves a rate if it is at most so many times as long as the rate takes."""


def _adams(h: float, z: Float[np.ndarray, " d"]) -> Weights:
    """Return the weights of a first step, and those of two, three and four evaluations."""
    phi1, phi2, phi3, phi4 = h * phi(1, z), h * phi(2, z), h * phi(3, z), h * phi(4, z)
    # Weights of N and its backward differences ∇N, ∇²N, ∇³N.
    parts = np.array([phi1, phi2, phi3 + phi2 / 2, phi4 + phi3 + phi2 / 3])
    parts[2:, -z > RESOLVED] = 0.0
    weights: list[Float[np.ndarray, " d"]] = []
    for known in range(2, LAGS + 1):
        weights += list(DIFFERENCES[:known, :known].T @ parts[:known])
    return phi(0, z), phi1, phi2, *weights


def _weights4(h: float, z: Float[np.ndarray, " d"]) -> Weights:
    phi1, phi2, phi3 = (h * phi(k, z) for k in (1, 2, 3))
    half1, half2, half3 = (h * phi(k, z / 2) for k in (1, 2, 3))
    a52 = half2 / 2 - phi3 + phi2 / 4 - half3 / 2
    a54 = half2 / 4 - a52
    return (
        phi(0, z),
        phi(0, z / 2),
        half1 / 2,
        half1 / 2 - half2,
        half2,
        phi1 - 2 * phi2,
        phi2,
        half1 / 2 - 2 * a52 - a54,
        a52,
        a54,
        phi1 - 3 * phi2 + 4 * phi3,
        4 * phi3 - phi2,
        4 * phi2 - 8 * phi3,
    )


@functools.lru_cache(maxsize=64)
def _diagonals(
    weights: Callable[..., Weights], h: float, rates: bytes, dtype: np.dtype
) -> tuple[Diagonal, ...]:
    """Return weights in some precision; all blocks of people have the same."""
    z = -h * np.frombuffer(rates)
    return tuple(Diagonal(weight.astype(dtype)) for weight in weights(h, z))


def _semilinear(
    field: Field, h: float, x: State, weights: Callable[..., Weights]
) -> tuple[Callable[[np.ndarray, np.ndarray], None], tuple[Diagonal, ...]]:
    """Return N, and the weights of a step in the state's precision."""
    if not isinstance(field, SemilinearField):
        raise InvalidSettings(
            "An exponential solver needs a field whose linear part is known. Use RK4."
        )
    rates = field.rates.astype(np.float64).tobytes()
    return field.nonlinear, _diagonals(weights, h, rates, x.dtype)
