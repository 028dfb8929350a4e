import json

import numpy as np
import pytest
import torch
from safetensors.torch import save
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import nn

from likewise.errors import InvalidFile, LikewiseError
from likewise.models import as_model, open_model, save_model
from likewise.models.model_files import KEY, read_network
from likewise.models.torch import MeanOfSigmoids


def every_layer() -> nn.Module:
    body = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.2))
    rest = nn.Sequential(nn.Linear(5, 4, bias=False), nn.Identity(), nn.Sigmoid())
    return nn.Sequential(body, nn.ReLU(), rest, nn.Linear(4, 3)).double()


@pytest.fixture
def saved(tmp_path):
    """Return what saves a model and opens it again."""

    def reopened(model, **choices):
        save_model(model, tmp_path / "m.safetensors", **choices)
        return as_model(open_model(str(tmp_path / "m.safetensors")))

    return reopened


def test_a_saved_model_gives_the_same_numbers(saved, tmp_path, rng):
    module, path = every_layer(), tmp_path / "m.safetensors"
    x, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)
    again, original = saved(module, classes=("low", 2, 3.5)), as_model(module)
    # Another library's sums: equal but for the last digits.
    assert np.allclose(again(x), original(x), rtol=1e-13, atol=1e-14)
    slopes = again.loss_gradient(x, y)
    assert np.allclose(slopes, original.loss_gradient(x, y), rtol=1e-12, atol=1e-14)
    assert again.card.classes == ("low", 2, 3.5)
    assert again.card.n_features == 6
    assert module.training  # saving changes nothing
    save_model(module, tmp_path / "again.safetensors", classes=("low", 2, 3.5))
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    cut = saved(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()), output="probabilities")
    assert cut.card.output == "logits"  # the sigmoid is cut off


@pytest.mark.parametrize("estimator", [LogisticRegression(), MLPClassifier((4,), max_iter=20)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_are_saved_with_their_classes(estimator, saved, rng):
    x = rng.normal(size=(80, 3))
    again = saved(estimator.fit(x, ["yes" if v > 0 else "no" for v in x[:, 0]]))
    assert again.card.classes == ("no", "yes")
    assert np.array_equal(again(x), as_model(estimator)(x))


def test_a_mixture_of_logistic_models_is_saved(saved, rng):
    weight = torch.tensor([3.0, 1.0], dtype=torch.float64)
    module = nn.Sequential(nn.Linear(3, 2, dtype=torch.float64), MeanOfSigmoids(weight))
    x = torch.from_numpy(rng.normal(size=(20, 3)))
    mean = module[0](x).sigmoid() @ (weight / 4)
    assert torch.allclose(module(x).exp()[:, 1], mean, atol=1e-12)
    sure = module[1](torch.full((1, 2), 80.0, dtype=torch.float64))
    assert abs(sure[0, 0] + 80) < 1e-12  # a mean of probabilities would say 1 - 1 = 0
    again = saved(module, classes=("no", "yes"))
    assert np.allclose(again(x.numpy()), module(x).detach().numpy(), rtol=1e-13, atol=1e-14)
    slopes = again.loss_gradient(x.numpy(), np.arange(20) % 2)
    direct = as_model(module).loss_gradient(x.numpy(), np.arange(20) % 2)
    assert np.allclose(slopes, direct, rtol=1e-12, atol=1e-14)


def hooked():
    module = nn.Sequential(nn.Linear(3, 2))
    module[0].register_forward_hook(lambda module, given, out: 2 * out)
    return module


def without_numbers():
    module = nn.Linear(3, 2)
    module.weight.data[0, 0] = torch.nan
    return module


@pytest.mark.parametrize(
    ("module", "words", "classes"),
    [
        (nn.Sequential(nn.Softmax(dim=1), nn.Linear(3, 2)), "Softmax layer cannot be saved", ()),
        (nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), "LayerNorm layer cannot be saved", ()),
        (nn.Bilinear(3, 3, 2), "Bilinear layer cannot .*: a saved model is a Sequential of", ()),
        (LogisticRegression, "is a class", ()),
        (hooked(), "layers alone do not say", ()),
        (without_numbers(), "not finite", ()),
        (nn.Linear(3, 2), "3 classes for 2 outputs", ("a", "b", "c")),
        (nn.Linear(3, 2), "neither text nor a number", (None, "b")),
    ],
)
def test_what_cannot_be_saved_is_one_sentence(module, words, classes, tmp_path):
    with pytest.raises(LikewiseError, match=words):
        save_model(module, tmp_path / "m.safetensors", classes=classes)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidFile, match="cannot be written: No such file"):
        save_model(nn.Linear(3, 2), tmp_path / "nowhere" / "m.safetensors")


WEIGHTS = {"0.weight": torch.ones(2, 3), "0.bias": torch.zeros(2)}


def described(tensors=WEIGHTS, **changes):
    """The bytes of a small model, with entries of its description changed."""
    about = {"format": 1, "output": "logits", "classes": [], "layers": [{"layer": "Linear"}]}
    return save(tensors, {KEY: json.dumps(about | changes)})


TWICE = [{"layer": "Linear"}] * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "format: "),
        ({"extra": 1}, "extra: "),
        ({"output": "code"}, "output: .*'logits'"),
        ({"classes": [[1], [2]]}, r"classes\.0"),
        ({"classes": ["a", "a"]}, "a class twice"),
        ({"classes": [1, 2, 3]}, "3 classes for 2 outputs"),
        ({"layers": []}, "belong to no layer"),
        ({"layers": [3]}, r"layers\.0: "),
        ({"layers": [{"layer": "__import__('os')"}]}, "not in the list"),
        ({"layers": [{"layer": "ReLU"}]}, "ReLU has weights bias, weight"),
        ({"layers": TWICE}, "has weights of no name"),
        ({"layers": [{"layer": "ReLU"}] * 30_000}, "layers: .* at most 1000 items"),
        ({"0.weight": torch.ones(3)}, "a weight of Linear has shape"),
        ({"0.weight": torch.full((2, 3), torch.inf)}, "not finite"),
        ({"0.weight": torch.ones(2, 3, dtype=torch.int64)}, "not finite numbers"),
        ({"0.bias": torch.ones(5)}, r"a bias has shape \(5,\)"),
        ({"7.weight": torch.ones(2, 3)}, "belong to no layer"),
        ({"0.weight.more": torch.ones(2, 3)}, r"has weights .*weight\.more"),
        (
            {"1.weight": torch.ones(2, 3), "1.bias": torch.ones(2), "layers": TWICE},
            "do not fit each other",
        ),
    ],
)
def test_a_hostile_file_is_one_sentence(changes, words):
    tensors = {name: value for name, value in changes.items() if "." in name}
    about = {name: value for name, value in changes.items() if "." not in name}
    with pytest.raises(InvalidFile, match=words) as caught:
        read_network(described(WEIGHTS | tensors, **about), "m.safetensors")
    assert str(caught.value).startswith("'m.safetensors' is damaged")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (save(WEIGHTS, {KEY: "[" * 100_000}), "Invalid JSON"),
        (save(WEIGHTS, {KEY: " " * 1_100_000}), "characters"),
        (save({"fc.weight": torch.ones(2, 3)}), r"likewise\.models\.save_model"),
    ],
)
def test_what_another_tool_or_nobody_wrote_is_one_sentence(content, words):
    with pytest.raises(InvalidFile, match=words):
        read_network(content, "m")


def test_half_precision_of_either_kind_is_read(tmp_path, rng):
    x = rng.normal(size=(9, 3))
    for dtype in (torch.bfloat16, torch.float16):
        module = nn.Linear(3, 2).to(dtype)
        content = described({"0.weight": module.weight.data, "0.bias": module.bias.data})
        expected = module.double()(torch.from_numpy(x)).detach().numpy()
        assert np.allclose(as_model(read_network(content, "m"))(x), expected, rtol=1e-13)
        save_model(nn.Linear(3, 2).to(dtype), tmp_path / "m.safetensors")


def test_a_projection_that_an_earlier_version_wrote_is_read(rng):
    basis, x = torch.eye(2, 3, dtype=torch.float64), rng.normal(size=(9, 3))
    content = described({"0.basis": basis}, layers=[{"layer": "FixedProjection"}])
    assert np.array_equal(as_model(read_network(content, "m"))(x), x * [0, 0, 1])
