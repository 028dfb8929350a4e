"""Pairs whose members differ in what may matter, always in the same direction."""

import numpy as np
import pyarrow as pa
import pytest

from likewise.data.balance import unbalanced
from likewise.data.pairs import find_pairs


def pool(gap: float = 1.0, n: int = 1500) -> pa.Table:
    rng = np.random.default_rng(3)
    man = rng.random(n) < 0.5
    log = rng.normal(scale=1.2, size=n) + gap * man
    log[::50] = np.nan
    return pa.table(
        {
            "sex": np.where(man, "man", "woman"),
            "income": pa.array(np.exp(log) * 20_000, from_pandas=True),
            "log": pa.array(log, from_pandas=True),
            "coin": rng.choice(["heads", "tails"], size=n),
            "place": rng.choice(["a", "b"], size=n),
            "age": rng.integers(20, 70, size=n),
            "years": rng.integers(0, 35, size=n),
        }
    )


def found(trait: str, *may_matter: str, gap: float = 1.0) -> dict[str, str]:
    table = pool(gap)
    return unbalanced(find_pairs(table, trait, may_matter=may_matter), table)


def test_a_skewed_number_that_goes_with_the_trait_is_named():
    said = found("sex", "income", "age", "years")
    assert set(said) == {"man", "woman"}
    assert "'income'" in said["man"]
    assert "man above woman" in said["man"]


@pytest.mark.parametrize(
    ("trait", "columns"),
    [
        ("sex", ("log", "age", "years")),
        ("coin", ("income", "age", "years")),
        ("sex", ("place",)),
        ("sex", ("age",)),
    ],
)
def test_pairs_that_are_alike_on_average_are_not(trait, columns):
    assert found(trait, *columns) == {}


def test_without_a_gap_skew_does_no_harm():
    assert found("sex", "income", "age", "years", gap=0.0) == {}
