import numpy as np
import pytest

from likewise.ode.solvers import FEW, Diagonal

FACTORS = {
    "two runs": np.array([3.0, 3.0, 3.0, -0.5, -0.5]),
    "one run": np.full(5, 0.25),
    "many runs": np.arange(1.0, 6.0),
    "none": np.zeros(0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", FACTORS)
def test_products_are_those_of_the_diagonal_matrix_however_states_lie_in_memory(
    name, order, dtype, rng
):
    factors = FACTORS[name].astype(dtype)
    x, out, room = (np.array(rng.normal(size=(7, len(factors))), dtype, order=order) for _ in "123")
    start, kept = out.copy(), x.copy()
    diagonal = Diagonal(factors)
    assert diagonal.add(x, out, room) is out
    # A sum of two products of size one, with or without one rounding in between.
    np.testing.assert_allclose(out, start + kept * factors, atol=8 * np.finfo(dtype).eps)
    assert diagonal.times(x, out) is out
    np.testing.assert_array_equal(out, kept * factors)
    np.testing.assert_array_equal(x, kept)


def test_the_cases_above_take_both_ways():
    runs = {name: len(Diagonal(factors).runs) for name, factors in FACTORS.items()}
    assert runs["two runs"] <= FEW < runs["many runs"]
