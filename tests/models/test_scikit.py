import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor

from likewise.errors import InvalidModel
from likewise.losses import decide, probabilities
from likewise.models import as_model, check, check_conversion


def classes(x, k):
    cuts = np.quantile(x[:, 0] + x[:, 1] ** 2, np.linspace(0, 1, k + 1)[1:-1])
    return np.array(["low", "middle", "top"])[np.digitize(x[:, 0] + x[:, 1] ** 2, cuts)]


def fit(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few steps are enough here
        return estimator.fit(x, y)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LogisticRegression(fit_intercept=False),
        LogisticRegressionCV(cv=2, Cs=2),
        *(
            MLPClassifier((6, 5), activation=activation, max_iter=15)
            for activation in ("relu", "tanh", "logistic", "identity")
        ),
    ],
    ids=lambda e: f"{type(e).__name__}-{getattr(e, 'activation', '')}",
)
def test_a_classifier_is_converted_exactly(estimator, k, rng):
    x = rng.normal(size=(300, 4))
    estimator = fit(estimator, x, classes(x, k))
    model = as_model(estimator)
    check(model, x)
    out = model(x)
    gap = np.abs(probabilities(out, "logits") - estimator.predict_proba(x)).max()
    assert gap < 1e-12  # the same sums in another order
    assert out.shape[1] == (1 if k == 2 else 3)
    assert model.card.classes == tuple(sorted(set(classes(x, k))))
    assert model.card.n_features == 4
    decided = np.array(model.card.classes)[decide(out, "logits")]
    assert (decided == estimator.predict(x)).all()


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        Ridge(),
        Lasso(0.01),
        ElasticNet(0.01),
        MLPRegressor(hidden_layer_sizes=(6,), max_iter=15),
        MLPRegressor(hidden_layer_sizes=(6,), loss="poisson", max_iter=15),
    ],
    ids=lambda e: f"{type(e).__name__}-{getattr(e, 'loss', '')}",
)
def test_a_regressor_is_converted_exactly(estimator, rng):
    x = rng.normal(size=(200, 3))
    estimator = fit(estimator, x, np.abs(x[:, 0]) * 1000)
    model = as_model(estimator)
    check(model, x)
    gap = np.abs(model(x)[:, 0] - estimator.predict(x))
    assert (gap <= 1e-12 * (1 + np.abs(estimator.predict(x)))).all()
    assert (model.card.task, model.card.output, model.card.classes) == ("regression", "values", ())


def test_a_target_given_as_a_column_is_one_number(rng):
    x = rng.normal(size=(50, 3))
    check(as_model(LinearRegression().fit(x, x[:, :1])), x)
    with pytest.raises(InvalidModel, match="predicts 2 numbers"):
        as_model(LinearRegression().fit(x, x[:, :2]))
    with pytest.raises(InvalidModel, match="predicts 2 numbers"):
        as_model(fit(MLPRegressor(hidden_layer_sizes=(3,), max_iter=5), x, x[:, :2]))


def test_the_old_one_versus_rest_is_converted_too(rng):
    # scikit-learn before 1.8 fits these itself; the probabilities are written out here.
    x = rng.normal(size=(200, 3))
    fitted = LogisticRegression().fit(x, classes(x, 3))
    fitted.multi_class = "ovr"
    sigmoids = 1 / (1 + np.exp(-fitted.decision_function(x)))
    ours = probabilities(as_model(fitted)(x), "logits")
    assert np.allclose(ours, sigmoids / sigmoids.sum(axis=1, keepdims=True), atol=1e-12)


def test_a_two_class_softmax_is_converted_too(rng):
    x = rng.normal(size=(200, 3))
    fitted = LogisticRegression().fit(x, classes(x, 2))
    fitted.multi_class = "multinomial"
    twice = 1 / (1 + np.exp(-2 * fitted.decision_function(x)))
    ours = probabilities(as_model(fitted)(x), "logits")
    assert np.allclose(ours[:, 1], twice, atol=1e-12)


def test_a_conversion_that_differs_anywhere_is_refused(rng):
    class Tampered(LogisticRegression):
        def predict_proba(self, X):
            p = super().predict_proba(X)
            p[X[:, 0] > 3] += [2e-6, -2e-6]
            return p

    x = rng.normal(size=(9000, 3))
    x[:, 0] = np.clip(x[:, 0], -2, 2)
    model = as_model(Tampered().fit(x, classes(x, 2)))
    check_conversion(model, x)
    x[8123, 0] = 4
    with pytest.raises(InvalidModel, match="not converted exactly: row 8123 differs by 2e-06"):
        check(model, x)


def test_a_search_stands_for_what_it_found(rng):
    x = rng.normal(size=(80, 3))
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2).fit(x, classes(x, 2))
    assert np.array_equal(as_model(search)(x), as_model(search.best_estimator_)(x))


@pytest.mark.parametrize("kind", [LogisticRegression, MLPClassifier, Ridge, MLPRegressor])
def test_an_estimator_that_is_not_fitted_is_refused(kind):
    with pytest.raises(InvalidModel, match=f"The {kind.__name__} has not been fitted"):
        as_model(kind())


def test_several_labels_at_once_are_refused(rng):
    x = rng.normal(size=(60, 3))
    with pytest.raises(InvalidModel, match="several labels at once"):
        as_model(fit(MLPClassifier((3,), max_iter=5), x, x[:, :2] > 0))


def test_other_classes_cannot_be_given_to_a_model_that_has_them(rng):
    x = rng.normal(size=(60, 3))
    with pytest.raises(InvalidModel, match="classes are 'low', 'middle'"):
        as_model(LogisticRegression().fit(x, classes(x, 2)), classes=("a", "b"))
    with pytest.raises(InvalidModel, match="returns logits, not values"):
        as_model(LogisticRegression().fit(x, classes(x, 2)), output="values")


def test_an_estimator_that_knows_its_module_is_checked_against_its_own_probabilities(rng):
    class Trained:
        classes_ = np.array(["no", "yes"])

        def __init__(self, factor):
            self.module, self.factor = torch.nn.Linear(3, 2).double(), factor

        def to_torch(self):
            return self.module

        def predict_proba(self, X):
            with torch.no_grad():
                return torch.softmax(self.factor * self.module(torch.from_numpy(X)), 1).numpy()

    x = rng.normal(size=(60, 3))
    model = as_model(Trained(1.0))
    check(model, x)
    assert (model.card.kind, model.card.classes) == ("Trained", ("no", "yes"))
    with pytest.raises(InvalidModel, match="The Trained was not converted exactly"):
        check(as_model(Trained(1.1)), x)


def test_people_of_one_class_are_judged_by_a_model_that_knows_its_classes(rng):
    x = rng.normal(size=(60, 3))
    model = as_model(LogisticRegression().fit(x, np.where(x[:, 0] > 0, "yes", "no")))
    y, classes = model.targets(np.array(["yes"] * 5))
    assert (y.tolist(), classes) == ([1] * 5, ("no", "yes"))


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)])
def test_places_along_axes_are_answered_as_rows_are(hidden, rng):
    x, axes = rng.normal(size=(300, 4)), rng.normal(size=(2, 4))
    y = (x[:, 0] > 0).astype(int)
    estimator = MLPClassifier(hidden, max_iter=2) if hidden else LogisticRegression()
    layered = as_model(fit(estimator, x, y))
    steps = rng.normal(size=(300, 9, 2))
    rows = (x[:, None] + steps @ axes).reshape(2700, 4)
    # Sums in another order.
    far, who = np.full(300, 9.0), np.arange(300)
    found = layered.along(x, axes, far)(steps, who)
    np.testing.assert_allclose(found, layered(rows), rtol=1e-11, atol=1e-13)
    assert layered.along(x[:0], axes, far[:0])(steps[:0], who[:0]).shape[0] == 0
    some = np.array([5, 5, 2])
    few = layered.along(x, axes, far)(steps[:3], some)
    expected = layered((x[some, None] + steps[:3] @ axes).reshape(27, 4))
    np.testing.assert_allclose(few, expected, rtol=1e-11, atol=1e-13)
