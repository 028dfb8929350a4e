import math
from fractions import Fraction

import numpy as np
import pytest

from likewise.ode.exponential import phi


def exact_phi(k: int, z: Fraction) -> float:
    """Sum the Taylor series in exact arithmetic."""
    return float(sum(z**j / math.factorial(j + k) for j in range(120)))


@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "z", [0.0, -1e-30, -1e-12, -1e-4, -0.3, -0.999999, -1.0, -1.000001, -3.7, -30.0]
)
def test_phi_is_right_to_the_last_digits(k, z):
    value = phi(k, np.array([z])).item()
    # Just outside |z| = 1 the recurrence loses at most two digits.
    assert value == pytest.approx(exact_phi(k, Fraction(z)), rel=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_phi_tends_to_its_limit_for_a_very_stiff_part(k):
    z = np.array([-1e6])
    assert phi(k, z).item() == pytest.approx(1e-6 / math.factorial(k - 1), rel=1e-5)
