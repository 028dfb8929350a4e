import numpy as np
import pytest
import torch
from sklearn.linear_model import (
    LogisticRegression,
)

from likewise.errors import InvalidModel
from likewise.loss import probabilities
from likewise.models import as_model, check, check_conversion


def classes(x, k):
    cuts = np.quantile(x[:, 0] + x[:, 1] ** 2, np.linspace(0, 1, k + 1)[1:-1])
    return np.array(["low", "middle", "top"])[np.digitize(x[:, 0] + x[:, 1] ** 2, cuts)]


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
