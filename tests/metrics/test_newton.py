import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from likewise.errors import InvalidMetric
from likewise.metrics import newton
from likewise.metrics.newton import Standardised, fit


def sample(rng, n=400, d=5, classes=2):
    x = rng.normal(size=(n, d)) * np.array([1.0, 3.0, 0.2, 1.0, 1.0][:d]) + 2.0
    scores = (x - 2.0) @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))
    y = scores.argmax(axis=1)
    target = y[:, None].astype(float) if classes == 2 else np.eye(classes)[y]
    return x, y, target


def scikit(x, y, weight, C):
    """The outside authority, at its tightest."""
    return LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(
        x, y, sample_weight=weight
    )


@pytest.mark.parametrize("dense_limit", [newton.DENSE_LIMIT, 1])  # 1: conjugate gradients
@pytest.mark.parametrize(("classes", "kind"), [(2, "binary"), (4, "classes")])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_classes_are_fitted_as_by_scikit_learn(rng, monkeypatch, dense_limit, classes, kind, C):
    monkeypatch.setattr(newton, "DENSE_LIMIT", dense_limit)
    x, y, target = sample(rng, classes=classes)
    weight = rng.exponential(size=len(x))

    ours = fit(Standardised.of(x), target, weight, kind, C)
    theirs = scikit(x, y, weight, C)

    assert ours.gradient <= newton.TOLERANCE
    # Both stop at gradients near 1e-11; curvature is at least 1e-4 here.
    np.testing.assert_allclose(ours.coefficients, theirs.coef_, rtol=1e-6, atol=1e-7)
    probability = theirs.predict_log_proba(x)
    scores = ours.scores(Standardised.of(x))
    full = np.column_stack([0 * scores, scores]) if classes == 2 else scores
    np.testing.assert_allclose(
        full[:, 1] - full[:, 0], probability[:, 1] - probability[:, 0], atol=1e-6
    )


def test_numbers_are_fitted_as_by_ridge_regression(rng):
    x, _, _ = sample(rng)
    y = x @ rng.normal(size=5) + rng.normal(size=len(x))
    weight = rng.exponential(size=len(x))
    ours = fit(Standardised.of(x), y[:, None], weight, "number", 0.5)
    theirs = Ridge(alpha=2.0).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coefficients[0], theirs.coef_, rtol=1e-9)


def test_columns_in_cents_and_in_years_are_fitted_together(rng):
    # The optimum of the penalised problem is known: rescaling x and the penalty alike.
    x, _, target = sample(rng)
    scale = 10.0 ** np.array([-4, -2, 0, 3, 6])
    weight = np.ones(len(x))
    fitted = fit(Standardised.of(x * scale + 5 * scale), target, weight, "binary", 1.0)
    assert fitted.gradient <= newton.TOLERANCE
    mean = 1 / (1 + np.exp(-fitted.scores(Standardised.of(x * scale + 5 * scale))))
    gradient = ((mean - target).T @ (x * scale))[0] + fitted.coefficients[0]
    size = np.abs(mean - target).T @ np.abs(x * scale)
    # First-order condition in the original columns, relative to what is summed up.
    assert np.max(np.abs(gradient) / size) < 1e-9


def test_separable_classes_have_a_finite_optimum(rng):
    x = rng.normal(size=(200, 3))
    target = (x[:, :1] > 0).astype(float)
    x[:, 0] += np.sign(x[:, 0])
    for C in (1.0, 1e6):
        fitted = fit(Standardised.of(x), target, np.ones(200), "binary", C)
        assert fitted.gradient <= newton.TOLERANCE
        assert np.isfinite(fitted.coefficients).all()


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_repeated_columns_share_their_coefficient(rng, size):
    x, _, target = sample(rng)
    fitted = fit(Standardised.of(size * np.hstack([x, x])), target, np.ones(len(x)), "binary", 1.0)
    first, second = fitted.coefficients[0, :5], fitted.coefficients[0, 5:]
    # At size 1e6 only a penalty of 1e-15 tells the two apart: a few digits are all there are.
    tolerance = 1e-9 if size == 1 else 1e-2
    np.testing.assert_allclose(first, second, atol=tolerance * np.abs(first).max())


def test_constant_columns_have_coefficient_zero(rng):
    x, _, target = sample(rng)
    x[:, 2] = 1 / 3
    fitted = fit(Standardised.of(x), target, np.ones(len(x)), "binary", 1.0)
    assert fitted.coefficients[0, 2] == 0


def test_rows_without_weight_are_left_out(rng):
    x, _, target = sample(rng)
    kept = rng.random(len(x)) < 0.7
    whole = fit(Standardised.of(x), target, kept.astype(float), "binary", 1.0)
    part = fit(Standardised.of(x[kept]), target[kept], np.ones(kept.sum()), "binary", 1.0)
    np.testing.assert_allclose(whole.coefficients, part.coefficients, rtol=1e-7)


def test_a_start_near_the_solution_saves_work_and_changes_nothing(rng):
    x, _, target = sample(rng)
    columns, weight = Standardised.of(x), np.ones(len(x))
    cold = fit(columns, target, weight, "binary", 1.0)
    weight[:40] = 0
    again = fit(columns, target, weight, "binary", 1.0)
    warm = fit(columns, target, weight, "binary", 1.0, start=cold.theta)
    assert warm.iterations < again.iterations
    np.testing.assert_allclose(warm.coefficients, again.coefficients, rtol=1e-8)


def test_more_columns_than_people_are_no_difficulty(rng):
    x = rng.normal(size=(60, 2000))
    target = (x[:, :1] > 0).astype(float)
    ours = fit(Standardised.of(x), target, np.ones(60), "binary", 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LogisticRegression(solver="newton-cg", tol=1e-12, max_iter=500).fit(
            x, target[:, 0]
        )
    # Newton-cg stops earlier than its tolerance says.
    np.testing.assert_allclose(ours.coefficients[0], theirs.coef_[0], atol=1e-5)


def test_failure_to_converge_is_said(rng, monkeypatch):
    x, _, target = sample(rng)
    monkeypatch.setattr(newton, "ITERATIONS", 2)
    with pytest.raises(InvalidMetric, match="did not converge in 2 steps"):
        fit(Standardised.of(x), target, np.ones(len(x)), "binary", 1.0)


def test_features_beyond_arithmetic_are_refused():
    with pytest.raises(InvalidMetric, match="too large"):
        Standardised.of(np.array([[1e200], [-1e200]]))
