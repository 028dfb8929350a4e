"""Twenty forms of one network give the same numbers, and what cannot be read says what to do."""

import dataclasses
import importlib
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from sklearn.neural_network import MLPClassifier
from torch import nn

import likewise
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import InvalidData, InvalidModel
from likewise.handle import adapt
from likewise.loss import BOUNDS, probabilities
from likewise.models import as_model, open_model, save_model
from likewise.models.adapt import table_model

COLUMNS = ["a", "b", "c"]
rng = np.random.default_rng(1)
WEIGHTS = [rng.normal(size=shape) for shape in ((6, 3), (6,), (2, 6), (2,))]


def arrays(x):
    hidden = np.tanh(np.asarray(x, dtype=float) @ WEIGHTS[0].T + WEIGHTS[1])
    return hidden @ WEIGHTS[2].T + WEIGHTS[3]


def plain(dtype=torch.float64):
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).to(dtype)
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), WEIGHTS, strict=True):
            parameter.copy_(torch.from_numpy(value))
    return net


@dataclasses.dataclass
class Output:
    logits: torch.Tensor


class Around(nn.Module):
    """A module that hands on what the network returns in another form."""

    def __init__(self, wrap, net=None):
        super().__init__()
        self.net, self.wrap = net or plain(), wrap

    def forward(self, x):
        return self.wrap(self.net(x))


class Predictor:
    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        return softmax(arrays(rows), axis=1)


def scores(rows):
    return [{"0": float(p[0]), "1": float(p[1])} for p in softmax(arrays(rows), axis=1)]


def multilayer():
    model = MLPClassifier((6,), activation="tanh", max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rng.normal(size=(40, 3)), np.arange(40) % 2)
    model.coefs_ = [WEIGHTS[0].T, (WEIGHTS[2][1:] - WEIGHTS[2][:1]).T]
    model.intercepts_ = [WEIGHTS[1], WEIGHTS[3][1:] - WEIGHTS[3][:1]]
    return model


def saved(folder):
    save_model(plain(), folder / "net.safetensors")
    return open_model(str(folder / "net.safetensors"))


def exported(folder):
    rows = torch.export.Dim("rows", min=1, max=1 << 24)
    some = (torch.zeros(2, 3, dtype=torch.float64),)
    program = torch.export.export(plain(), some, dynamic_shapes=({0: rows},))
    torch.export.save(program, folder / "net.pt2")
    return open_model(str(folder / "net.pt2"), trust=True)


single = plain(torch.float32)
ZOO = {
    "a Sequential": lambda _: plain(),
    "in single precision": lambda _: single,
    "a module of one's own": lambda _: Around(lambda out: out),
    "net.forward": lambda _: plain().forward,
    "net.forward in single precision": lambda _: single.forward,
    "a function of tensors": lambda _: lambda x: plain()(x),
    "a function of tensors in single precision": lambda _: lambda x: single(x),
    "a function that casts to be in single precision": lambda _: lambda x: single(x.float()),
    "a scripted module": lambda _: torch.jit.script(plain()),
    "a traced module": lambda _: torch.jit.trace(single, torch.zeros(2, 3)),
    "an object with logits": lambda _: Around(lambda out: Output(out)),
    "a dictionary with logits": lambda _: Around(lambda out: {"logits": out, "hidden": out}),
    "a tuple": lambda _: Around(lambda out: (out, out)),
    "a function with logits": lambda _: lambda x: Output(plain()(x)),
    "a final softmax": lambda _: nn.Sequential(*plain(), nn.Softmax(dim=1)),
    "wrapped for several devices": lambda _: nn.DataParallel(plain()),
    "a saved network": saved,
    "an exported program": exported,
    "a network of scikit-learn": lambda _: multilayer(),
    "a function of arrays": lambda _: lambda x: softmax(arrays(x), axis=1),
    "a function of frames": lambda _: lambda f: softmax(arrays(f[["a", "b", "c"]]), axis=1)[:, 1],
    "a class with predict_proba": lambda _: Predictor(),
    "scores by class": lambda _: scores,
    "labels and scores": lambda _: (
        lambda rows: [
            [{"label": name, "score": p} for name, p in row.items()] for row in scores(rows)
        ]
    ),
    "a dictionary of columns": lambda _: (
        lambda rows: dict(zip("01", softmax(arrays(rows), axis=1).T, strict=True))
    ),
}
COARSE = ("in single precision", "a traced module")


@pytest.fixture(scope="module")
def frame():
    x = np.random.default_rng(2).normal(size=(60, 3))
    frame = pd.DataFrame(x, columns=COLUMNS)
    frame["group"] = np.where(x[:, 0] > 0, "f", "m")
    frame["y"] = (arrays(x).argmax(axis=1) ^ (np.arange(60) % 5 == 0)).astype(int)
    return frame


METRIC = likewise.metrics.ProjectionMetric(np.array([[1.0, 0.0, 0.0]])).with_reach(
    np.random.default_rng(3).normal(size=(90, 3))
)
CHOICES = {
    True: likewise.Settings(checks="core", method={"name": "gradient_flow", "time": 0.5}),
    False: likewise.Settings(checks="core", method={"name": "reach", "budget": 4}),
}


@pytest.fixture(scope="module")
def of_plain_network(frame):
    people = likewise.read(frame, label="y", protected=["group"])
    return likewise.audit(plain(), people, metric=METRIC, settings=CHOICES[True]).outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ZOO)
def test_every_form_of_a_network_gives_the_same_numbers(kind, frame, of_plain_network, tmp_path):
    given = ZOO[kind](tmp_path)
    people = likewise.read(frame, label="y", protected=["group"])
    model, _ = adapt(given, people, attributes=("group",))
    near = 1e-6 if kind.endswith(COARSE) else 1e-12
    wanted = softmax(arrays(people.x), axis=1)
    ask = table_model(model, people)
    assert ask.columns == tuple(COLUMNS)
    found = probabilities(ask(people.table), model.card.output)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=near)
    ask.check(people.table, (0, 1))
    # With a gradient, the flow ends where that of the plain network does.
    settings = CHOICES[model.card.differentiable]
    mine = likewise.audit(given, people, metric=METRIC, settings=settings).outcomes
    theirs = of_plain_network
    # Losses of probabilities are those of probabilities within [0.001, 0.999].
    own = theirs.loss_before
    own = own if model.card.differentiable else np.clip(own, *BOUNDS)
    np.testing.assert_allclose(mine.loss_before, own, atol=20 * near + 1e-9)
    if model.card.differentiable:
        rounding = 2e-3 if near > 1e-9 else 1e-6
        np.testing.assert_allclose(mine.loss_after, theirs.loss_after, rtol=rounding)


@pytest.mark.parametrize("encoded", [False, True])
def test_functions_of_features_are_told_apart_by_trying(encoded, frame):
    encoder = Encoder.fit(frame, label="y", protected=["group"])
    people = likewise.read(frame, label="y", protected=["group"], encoder=encoder)
    if not encoded:
        people = AuditData.from_arrays(frame[COLUMNS].to_numpy(), people.y)
    for kind in ("a function of tensors in single precision", "scores by class"):
        model, about = adapt(ZOO[kind](None), people)
        assert model.card.differentiable == ("tensors" in kind)
        assert model.card.classes == (() if "tensors" in kind else ("0", "1"))
        for ready in (model, as_model(ZOO[kind](None), **about)):
            found = probabilities(ready(people.x), model.card.output)
            np.testing.assert_allclose(found, softmax(arrays(people.x), axis=1), atol=1e-6)


SENTENCES = {
    "a regression": (lambda: nn.Linear(3, 1), InvalidData, r"output='values'"),
    "several tensors": (
        lambda: Around(lambda out: {"one": out, "two": out}), InvalidModel, "returns a dict",
    ),
    "the best score alone": (
        lambda: lambda rows: [[{"label": n, "score": s}] for n, s in map(best, scores(rows))],
        InvalidModel, "top_k=None",
    ),
    "a function of too many columns": (
        lambda: lambda rows: rows["z"], InvalidModel, r"answers neither.*model\.columns",
    ),
}  # fmt: skip


def best(row):
    return max(row.items(), key=lambda pair: pair[1])


@pytest.mark.parametrize("what", SENTENCES)
def test_what_cannot_be_read_says_what_to_do(what, frame):
    make, error, words = SENTENCES[what]
    numbers = frame.assign(y=arrays(frame[COLUMNS])[:, 0]) if what == "a regression" else frame
    with pytest.raises(error, match=words) as refused:
        likewise.audit(
            make(), numbers, label="y", protected="group", metric=METRIC, settings=CHOICES[True]
        )
    assert "\n" not in str(refused.value)


def test_a_torch_regression_that_says_so_is_audited(frame):
    numbers = frame.assign(y=arrays(frame[COLUMNS])[:, 0])
    net = nn.Linear(3, 1)
    result = likewise.audit(
        net, numbers, label="y", protected="group", output="values", metric=METRIC,
        settings=CHOICES[True],
    )  # fmt: skip
    assert result.record.model.task == "regression"


def booster(name, frame):
    library, x, y = importlib.import_module(name), frame[COLUMNS], frame["y"]
    if name == "xgboost":
        data = library.DMatrix(x, y)
        made = library.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
        return made, made.predict(data)
    if name == "lightgbm":
        options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5}
        made = library.train(options, library.Dataset(x, y), 5)
        return made, made.predict(x)
    options = {"loss_function": "Logloss", "iterations": 5, "verbose": 0}
    made = library.CatBoost({**options, "allow_writing_files": False}).fit(x, y)
    return made, made.predict(x, prediction_type="Probability")[:, 1]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_boosters_that_are_no_estimators_are_read_as_their_files_are(name, frame):
    made, wanted = booster(name, frame)
    people = likewise.read(frame, label="y", protected=["group"])
    model, _ = adapt(made, people, attributes=("group",))
    ask = table_model(model, people)
    assert ask.columns == tuple(COLUMNS)
    np.testing.assert_allclose(ask(people.table)[:, -1], wanted, atol=1e-6)
