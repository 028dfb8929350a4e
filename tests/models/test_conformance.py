"""What every kind of model must do: the same numbers, row by row, anywhere, and with gradients."""

import dataclasses
import functools
import pickle
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.base import is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from likewise.errors import InvalidModel
from likewise.loss import decide, probabilities
from likewise.models import as_model, check, check_conversion, open_model, save_model

X = np.random.default_rng(0).normal(size=(200, 3))
COLUMNS = ["a", "b", "c"]
SINGLE = 1e-6
"""How near single precision is."""

ESTIMATORS = {
    "logistic": LogisticRegression(),
    "logistic by validation": LogisticRegressionCV(cv=2, Cs=2),
    **{f"MLP, {a}": MLPClassifier((6, 5), activation=a, max_iter=9) for a in ("relu", "identity")},
    **{f"MLP, {a}": MLPClassifier((6,), activation=a, max_iter=9) for a in ("tanh", "logistic")},
    "forest": RandomForestClassifier(8, random_state=0),
    "HistGB": HistGradientBoostingClassifier(max_iter=8),
    "XGBoost": xgboost.XGBClassifier(n_estimators=8, n_jobs=1),
    "LightGBM": lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1),
    "CatBoost": catboost.CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False),
    "calibrated": CalibratedClassifierCV(GaussianNB(), cv=2),
    "vote": VotingClassifier(
        [("a", GaussianNB()), ("b", DecisionTreeClassifier(max_depth=3))], voting="soft"
    ),
    "line": LinearRegression(),
    "Lasso": Lasso(0.01),
    "ElasticNet": ElasticNet(0.01),
    "MLP of numbers": MLPRegressor(hidden_layer_sizes=(6,), max_iter=9),
    "MLP of counts": MLPRegressor(hidden_layer_sizes=(6,), loss="poisson", max_iter=9),
    "forest of numbers": RandomForestRegressor(5, random_state=0),
    "XGBoost of numbers": xgboost.XGBRegressor(n_estimators=5, n_jobs=1),
}
SMOOTH = ("logistic", "MLP", "line", "Lasso", "ElasticNet", "torch", "saved")


@dataclasses.dataclass
class Kind:
    """A model as somebody has it, with the answers that it must give."""

    given: object
    wanted: np.ndarray
    classes: tuple
    near: float = 1e-12
    k: int = 2


class SingleOnly(nn.Module):
    """Has a dtype written into it, as many networks in the wild do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x.to(torch.float32))


def target(k):
    score = X[:, 0] + X[:, 1] ** 2
    return np.abs(score) * 10 if k == 0 else np.digitize(score, [0.5, 1.5][: k - 1])


def of_estimator(name, k=2, *, named=False):
    estimator = ESTIMATORS[name]
    rows = pd.DataFrame(X, columns=COLUMNS) if named else X
    k = 0 if is_regressor(estimator) else k
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few steps are enough here
        fitted = pickle.loads(pickle.dumps(estimator)).fit(rows, target(k))
    wanted = fitted.predict_proba(rows) if k else fitted.predict(rows)[:, None]
    return Kind(fitted, wanted, tuple(range(k)), k=k)


def of_module(module):
    with torch.no_grad():
        out = module.eval()(torch.from_numpy(X).to(next(module.parameters()).dtype))
    return Kind(module, torch.softmax(out.double(), 1).numpy(), (), SINGLE)


def of_file(name, folder):
    if name == "saved":
        torch.manual_seed(0)
        kind = of_module(nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)))
        save_model(kind.given, folder / "m.safetensors", classes=(0, 1))
        path, classes = folder / "m.safetensors", (0, 1)
    elif name.startswith("ONNX"):
        from skl2onnx import to_onnx

        kind = of_estimator("MLP, tanh" if "net" in name else "forest", 3)
        path, classes = folder / "m.onnx", kind.classes
        path.write_bytes(to_onnx(kind.given, X[:1].astype(np.float32)).SerializeToString())
    else:
        suffix = {"XGBoost": "ubj", "LightGBM": "txt", "CatBoost": "cbm"}[name.split()[0]]
        kind, path = of_estimator(name.split()[0]), folder / f"m.{suffix}"
        classes = (0, 1) if suffix == "cbm" else ()
        getattr(kind.given, "booster_", kind.given).save_model(str(path))
    return dataclasses.replace(kind, given=open_model(str(path)), near=SINGLE, classes=classes)


torch.manual_seed(1)
KINDS = {
    **{name: functools.partial(of_estimator, name) for name in ESTIMATORS},
    **{f"{n}, 3 classes": functools.partial(of_estimator, n, 3) for n in ("logistic", "MLP, relu")},
    **{f"{n}, 3 classes": functools.partial(of_estimator, n, 3) for n in ("XGBoost", "vote")},
    **{
        f"{name}, of names": functools.partial(of_estimator, name, named=True)
        for name in ("logistic", "forest", "XGBoost", "LightGBM", "CatBoost", "calibrated")
    },
    "torch": lambda: of_module(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))),
    "torch, norms": lambda: of_module(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.GELU())),
    "torch, single": lambda: of_module(SingleOnly()),
}
FILES = ("saved", "ONNX net", "ONNX trees", "XGBoost file", "LightGBM file", "CatBoost file")


@pytest.fixture(scope="module", params=[*KINDS, *FILES])
def kind(request, tmp_path_factory):
    name = request.param
    made = KINDS[name]() if name in KINDS else of_file(name, tmp_path_factory.mktemp("kind"))
    return name, made


def test_it_gives_the_numbers_of_the_original(kind):
    name, made = kind
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # names are given back where it was fitted with names
        model = as_model(made.given)
        check(model, X)
        out = model(X)
    regression = made.k == 0
    ours = out if regression else probabilities(out, model.card.output)
    gap = np.abs(ours - made.wanted) / (1 + np.abs(made.wanted) if regression else 1)
    assert gap.max() <= made.near
    assert model.card.task == ("regression" if regression else "classification")
    assert model.card.n_features == 3
    assert model.card.features == (tuple(COLUMNS) if "of names" in name else ())
    coded = name.startswith("XGBoost")  # it takes codes only: they are no label's values
    assert model.card.classes == (() if coded or regression else made.classes)
    if not regression and hasattr(made.given, "predict") and not coded:
        decided = decide(out, model.card.output)
        rows = pd.DataFrame(X, columns=COLUMNS) if "of names" in name else X
        assert (decided == np.ravel(made.given.predict(rows))).all()


def test_it_answers_alike_in_another_process_and_knows_itself(kind):
    model = as_model(kind[1].given)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again(X[:20]), model(X[:20]))
    assert len(model.card.fingerprint) == 64
    assert as_model(kind[1].given).card.fingerprint == model.card.fingerprint


def test_the_users_own_object_is_not_changed(kind):
    given = kind[1].given
    before = pickle.dumps(given)
    check(as_model(given), X)
    assert pickle.dumps(given) == before


def test_its_gradient_is_the_slope_of_its_outputs(kind, rng):
    name, made = kind
    model = as_model(made.given)
    smooth = name.startswith(SMOOTH) and "counts" not in name
    assert model.card.differentiable == smooth
    if not smooth or name == "torch, single":
        return
    x, weights = X[:9], rng.normal(size=model(X[:9]).shape)
    out, pullback = model.outputs_and_pullback(x)
    assert np.allclose(out, model(x), rtol=1e-12, atol=1e-13)
    for j, step in enumerate(1e-6 * np.eye(3)):
        slope = ((model(x + step) - model(x - step)) * weights).sum(axis=1) / 2e-6
        # Central differences are good to about 1e-9 here.
        np.testing.assert_allclose(pullback(weights)[:, j], slope, rtol=1e-5, atol=1e-6)
    if model.network:
        h = model.network[0].weight @ x.T + model.network[0].bias
        act = {"relu": lambda v: np.maximum(v, 0), "tanh": np.tanh, "": lambda v: v}
        act["sigmoid"] = lambda v: 1 / (1 + np.exp(-v))
        for layer in model.network[1:]:
            h = layer.weight @ act[layer.activation](h) + layer.bias
        np.testing.assert_allclose(h.T, out, rtol=1e-9, atol=1e-12)


def test_a_conversion_that_differs_anywhere_is_refused(rng):
    class Tampered(LogisticRegression):
        def predict_proba(self, X):
            p = super().predict_proba(X)
            p[X[:, 0] > 3] += [2e-6, -2e-6]
            return p

    x = rng.normal(size=(9000, 3))
    x[:, 0] = np.clip(x[:, 0], -2, 2)
    model = as_model(Tampered().fit(x, x[:, 0] > 0))
    check_conversion(model, x)
    x[8123, 0] = 4
    with pytest.raises(InvalidModel, match="not converted exactly: row 8123 differs by 2e-06"):
        check(model, x)
