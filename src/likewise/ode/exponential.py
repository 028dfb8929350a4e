r"""Exponential Runge–Kutta methods: the stiff linear part is solved exactly.

For :math:`\dot x = -ax + N(x)` only :math:`N` is approximated, so no rate :math:`a` limits the
step. The weights are made of :math:`\varphi_k(z) = \int_0^1 e^{(1-s)z} s^{k-1}/(k-1)!\,ds`.
"""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from likewise.errors import InvalidSettings
from likewise.ode.solvers import Field, SemilinearField, Solver, Step


def phi(k: int, z: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
    r"""Return :math:`\varphi_k(z)`, with :math:`\varphi_0 = e^z`, to the last digits.

    The recurrence :math:`\varphi_{k+1} = (\varphi_k - 1/k!)/z` cancels where z is small; there
    the Taylor series :math:`\sum_j z^j/(j+k)!` takes over.
    """
    if k == 0:
        return torch.exp(z)
    small = z.abs() < 1
    inside = torch.where(small, z, torch.zeros_like(z))
    series = torch.zeros_like(z)
    for j in reversed(range(20)):
        series = series * inside + 1 / math.factorial(j + k)
    outside = torch.where(small, -torch.ones_like(z), z)
    value = torch.expm1(outside) / outside
    for j in range(1, k):
        value = (value - 1 / math.factorial(j)) / outside
    return torch.where(small, series, value)


@final
class Exponential2(Solver):
    """Exponential Runge–Kutta of order two, two evaluations a step (Cox and Matthews 2002)."""

    order = 2
    evaluations = 2

    @override
    def stepper(self, field: Field, h: float) -> Step:
        field = _semilinear(field)
        z = -h * field.rates.double()
        decay, full, correction = (
            w.to(field.rates.dtype) for w in (phi(0, z), h * phi(1, z), h * phi(2, z))
        )

        def step(x: Tensor) -> Tensor:
            n1 = field.nonlinear(x)
            a = (decay * x).addcmul_(full, n1)
            return a.addcmul(correction, field.nonlinear(a) - n1)

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
    def stepper(self, field: Field, h: float) -> Step:
        field = _semilinear(field)
        z = -h * field.rates.double()
        phi1, phi2, phi3 = (h * phi(k, z) for k in (1, 2, 3))
        half1, half2, half3 = (h * phi(k, z / 2) for k in (1, 2, 3))
        a52 = half2 / 2 - phi3 + phi2 / 4 - half3 / 2
        a54 = half2 / 4 - a52
        decay, half, a21, a31, a32, a41, a42, a51, a52, a54, b1, b4, b5 = (
            w.to(field.rates.dtype)
            for w in (
                *(torch.exp(z), torch.exp(z / 2), half1 / 2),
                *(half1 / 2 - half2, half2),
                *(phi1 - 2 * phi2, phi2),
                *(half1 / 2 - 2 * a52 - a54, a52, a54),
                *(phi1 - 3 * phi2 + 4 * phi3, 4 * phi3 - phi2, 4 * phi2 - 8 * phi3),
            )
        )

        def step(x: Tensor) -> Tensor:
            n1 = field.nonlinear(x)
            middle, end = half * x, decay * x
            n2 = field.nonlinear(middle.addcmul(a21, n1))
            n3 = field.nonlinear(middle.addcmul(a31, n1).addcmul_(a32, n2))
            n23 = n2 + n3
            n4 = field.nonlinear(end.addcmul(a41, n1).addcmul_(a42, n23))
            n5 = field.nonlinear(middle.addcmul_(a51, n1).addcmul_(a52, n23).addcmul_(a54, n4))
            return end.addcmul_(b1, n1).addcmul_(b4, n4).addcmul_(b5, n5)

        return step


def _semilinear(field: Field) -> SemilinearField:
    if not isinstance(field, SemilinearField):
        raise InvalidSettings(
            "An exponential solver needs a field whose linear part is known. Use RK4."
        )
    return field
