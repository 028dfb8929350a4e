"""What cannot be audited is refused in one sentence that says why."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn import functional as F

from likewise.errors import InvalidModel
from likewise.models import as_model, check

X = np.random.default_rng(0).normal(size=(40, 4))
WORDS = np.where(X[:, 0] > 0, "low", "top")


class After(nn.Module):
    """A linear layer with something done to its output."""

    def __init__(self, after, layer=None):
        super().__init__()
        self.layer, self.after = layer or nn.Linear(4, 2), after

    def forward(self, x):
        return self.after(self.layer(x))


class Stubborn(nn.Sequential):
    """Stays in training mode whatever is said."""

    def forward(self, x):
        return super().forward(self.train() and x)


def network(outputs=2):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))


def several(kind, target):
    return kind(hidden_layer_sizes=(3,), max_iter=9, random_state=0).fit(X, target)


FUNCTIONS = {
    "too few rows": (lambda x: x[:5, 0] * 0, r"shape \(5, 1\) for 40 rows"),
    "not-a-number": (lambda x: np.full(len(x), np.nan), "NaN or .* 40 of 40 .*drop_missing"),
    "imaginary": (lambda x: np.full(len(x), 0.5 + 1j), "no array of numbers"),
    "an error": (lambda x: x[:, 0, 0], "cannot be run on rows of 4 features: IndexError"),
    "one number": (lambda x: 7.0, r"shape \(\) for 40 rows"),
    "no probabilities": (lambda x: x[:, 0], "said to be probabilities"),
    "random numbers": (lambda x: np.random.default_rng().uniform(size=len(x)), "is random"),
    "ranks": (lambda x: x[:, 0].argsort().argsort() / len(x), "influence each other"),
}
TENSORS = {
    "a tuple": (lambda x: (1, x), "returns a tuple"),
    "too few rows of tensors": (lambda x: x[:3], r"shape \(3, 4\) for 40 rows"),
    "no columns": (lambda x: x[:, :0], "one row a person"),
    "logarithms": (lambda x: x.log(), "NaN or infinite numbers for .* of 40 rows"),
    "detached": (lambda x: x[:, :2].detach(), "no gradient"),
    "another width": (lambda x: x @ torch.zeros(3, 2, dtype=x.dtype), "rows of 4 features"),
}
MIXING = {
    "batch statistics": lambda h: F.batch_norm(h, None, None, training=True),
    "softmax over people": lambda h: h.softmax(dim=0),
    "running sum": lambda h: h.cumsum(dim=0),
    "sorted": lambda h: h.sort(dim=0).values,
}
RANDOM = {
    "dropout left on": lambda h: F.dropout(h, 0.3, training=True),
    "noise": lambda h: h + 1e-6 * torch.randn_like(h),
}
LOOKS, SAID = "look like probabilities", {"output": "probabilities"}
CASES = {
    **{name: (lambda f=f: f, words, {}) for name, (f, words) in FUNCTIONS.items()},
    **{name: (lambda f=f: f, w, {"output": "logits"}) for name, (f, w) in TENSORS.items()},
    **{name: (lambda a=a: After(a), r"random.*dropout", {}) for name, a in RANDOM.items()},
    "training mode": (
        lambda: Stubborn(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), "influence|rand", {},
    ),
    "softmax taken for logits": (lambda: After(nn.Softmax(dim=1)), LOOKS, {}),
    "sigmoid taken for logits": (lambda: After(nn.Sigmoid(), nn.Linear(4, 1)), LOOKS, {}),
    "logits said to be probabilities": (network, "said to be probabilities", SAID),
    "another number of classes": (
        network, "2 outputs, but there are 3 classes", {"classes": ("a", "b", "c")},
    ),
    "no values yet": (lambda: nn.LazyLinear(2), "no values yet", {}),
    "a number": (lambda: 3, "A int is not a model", {}),
    "a class": (lambda: nn.Linear, "is a class, not a model. Give an instance", {}),
    "a scaler": (lambda: StandardScaler().fit(X), "StandardScaler predicts nothing", {}),
    **{
        f"{kind.__name__}, not fitted": (kind, f"{kind.__name__} has not been fitted", {})
        for kind in (LogisticRegression, MLPClassifier, Ridge, MLPRegressor, RandomForestClassifier)
    },
    "a pipeline, not fitted": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression()), "has not been fitted", {},
    ),
    "a pipeline without a model": (
        lambda: Pipeline([("scale", StandardScaler()), ("last", "passthrough")]), "no model", {},
    ),
    "two lines": (lambda: LinearRegression().fit(X, X[:, :2]), "predicts 2 numbers", {}),
    "two numbers": (lambda: several(MLPRegressor, X[:, :2]), "predicts 2 numbers", {}),
    "two labels": (lambda: several(MLPClassifier, X[:, :2] > 0), "not converted exactly", {}),
    "other classes": (
        lambda: LogisticRegression().fit(X, WORDS), "classes are 'low', 'top'", {"classes": "ab"},
    ),
    "logits, not values": (
        lambda: LogisticRegression().fit(X, WORDS), "returns logits, not", {"output": "values"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_cannot_be_audited_is_one_sentence(name):
    make, words, choices = CASES[name]
    with pytest.raises(InvalidModel, match=words) as caught:
        check(as_model(make(), **choices), X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", MIXING)
@pytest.mark.parametrize("n", [2, 7, 1000])
def test_a_model_whose_rows_mix_is_refused_with_the_reason(kind, n, rng):
    with pytest.raises(InvalidModel, match="rows influence each other"):
        check(as_model(After(MIXING[kind]), output="logits"), rng.normal(size=(n, 4)))


@pytest.mark.parametrize("mode", [True, False])
def test_ordinary_layers_pass_whatever_mode_they_are_in(mode, rng):
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    check(as_model(module.train(mode)), rng.normal(size=(500, 4)))
    check(as_model(After(nn.Softmax(dim=1)), output="probabilities"), X)
    check(as_model(LinearRegression().fit(X, X[:, :1])), X)  # a target given as a column


def test_single_precision_rounding_is_no_mixing(rng):
    layers = nn.Sequential(nn.Linear(300, 500), nn.ReLU(), nn.Linear(500, 2))
    model = as_model(lambda x: layers(x.float()), output="logits")
    check(model, rng.normal(size=(500, 300)))
    assert model.dtype == np.float32


def test_other_columns_and_classes_than_the_models_are_refused():
    with pytest.raises(InvalidModel, match="The model takes 4 features, but the data have 6"):
        check(as_model(network()), np.ones((20, 6)))
    with pytest.raises(InvalidModel, match="3 classes"):
        check(as_model(network()), X, classes=(0, 1, 2))
    fitted = LogisticRegression().fit(X[:, :2], X[:, 0] > 0)
    fitted.feature_names_in_ = ["age", "hours"]
    check(as_model(fitted), X[:, :2], features=("age", "hours"))
    check(as_model(fitted), X[:, :2], features=("a", "b"))  # other names: nothing can be said
    with pytest.raises(InvalidModel, match=r"another order: column 1 is 'age'"):
        check(as_model(fitted), X[:, :2], features=("hours", "age"))
