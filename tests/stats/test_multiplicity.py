"""Many tests at once: Holm's correction."""

import math

import pytest
from statsmodels.stats.multitest import multipletests

from likewise.errors import InvalidSample
from likewise.stats.multiplicity import holm_adjusted


@pytest.mark.parametrize("m", [1, 3, 12])
def test_holm_agrees_with_statsmodels(rng, m):
    values = (rng.random(m) ** 2).tolist()
    values[m // 2] = values[0]  # a tie
    ours = holm_adjusted({f"test {k}": p for k, p in enumerate(values)})
    _, adjusted, *_ = multipletests(values, 0.1, method="holm")
    assert list(ours.values()) == pytest.approx(adjusted.tolist(), rel=1e-12)
    assert list(ours) == [f"test {k}" for k in range(m)]


def test_a_test_that_could_not_be_made_has_to_be_counted():
    with pytest.raises(InvalidSample, match=r"'race' is nan.*counts as p = 1"):
        holm_adjusted({"sex": 0.01, "race": math.nan})
