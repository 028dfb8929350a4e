"""A warning when one penalty cannot suit all columns."""

import warnings

import numpy as np
import pytest

from likewise.data import warn_about_scales
from likewise.errors import ScaleWarning

N = 1000


def columns(*scales: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, len(scales))) * np.array(scales)


def said_about(x, features):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_about_scales(x, features, 50)
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize(
    "scales",
    [(1, 1), (0.2, 5), (13, 13), (20, 20), (0.05, 0.05)],
    ids=["one", "near", "fine", "large", "small"],
)
def test_comparable_columns_are_silent(scales):
    assert not said_about(columns(*scales), ("a", "b"))


@pytest.mark.parametrize(
    ("scales", "named"),
    [((1, 7500), "'b'"), ((0.01, 1), "'a'"), ((0.1, 15), "'b'")],
    ids=["huge", "tiny", "apart"],
)
def test_incomparable_columns_are_named(scales, named):
    with pytest.warns(ScaleWarning, match=named):
        warn_about_scales(columns(*scales), ("a", "b"), 50)


def test_the_warning_says_what_a_standard_deviation_costs():
    x = np.array([[0.0, 0.0], [2.0, 200.0]])
    with pytest.warns(ScaleWarning, match=r"'b' \(standard deviation 100\) costs 5e\+05"):
        warn_about_scales(x, ("a", "b"), 50)


def test_rare_one_hot_columns_and_constants_do_not_count():
    x = columns(1.0, 1.0, 1.0)
    x[:, 1] = np.arange(N) == 0
    x[:, 2] = 1e9
    assert not said_about(x, ("a", "rare", "constant"))
    assert not said_about(x[:, 1:], ("rare", "constant"))


def test_raw_adult_warns_and_encoded_adult_does_not(adult):
    warn_about_scales(adult.test.x, adult.test.features)
    raw = adult.encoder.decode(adult.test.x).select(list(adult.encoder.columns[:5]))
    x = np.stack([column.to_numpy().astype(float) for column in raw.columns], axis=1)
    with pytest.warns(ScaleWarning, match="'capital-gain'"):
        warn_about_scales(x, adult.encoder.columns[:5])
