import importlib
import pickle
import sys

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from likewise.errors import InvalidFile, InvalidModel, InvalidSettings, MissingExtra, TrustRequired
from likewise.models import as_model, open_model
from likewise.settings.choices import MODELS


def test_an_import_needs_trust_and_imports_nothing_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sly_module.py").write_text("open('trace', 'w')\nmodel = 1\n")
    with pytest.raises(TrustRequired, match="--trust"):
        open_model("sly_module:model")
    assert not (tmp_path / "trace").exists()
    assert "sly_module" not in sys.modules


def test_a_function_is_known_by_the_file_it_stands_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = set()
    for answer in (0.25, 0.75):
        code = f"def score(rows):\n    return rows[:, 0] * 0 + {answer}\n"
        (tmp_path / "scored_by_hand.py").write_text(code)
        sys.modules.pop("scored_by_hand", None)
        importlib.invalidate_caches()
        known.add(as_model(open_model("scored_by_hand:score", trust=True)).card.fingerprint)
    assert len(known) == 2
    assert "" not in known


def test_pickles_open_with_trust(tmp_path, rng):
    x = rng.normal(size=(80, 3))
    fitted = LogisticRegression().fit(x, x[:, 0] > 0)
    joblib.dump(fitted, tmp_path / "a.joblib", compress=3)
    (tmp_path / "c.pickle").write_bytes(pickle.dumps(fitted))
    for name in ("a.joblib", "c.pickle"):
        model = as_model(open_model(str(tmp_path / name), trust=True))
        assert np.array_equal(model(x), as_model(fitted)(x))
    module = nn.Sequential(nn.Linear(3, 2))
    torch.save(module, tmp_path / "m.pt")
    assert as_model(open_model(str(tmp_path / "m.pt"), trust=True)).card.n_features == 3
    torch.save(module.state_dict(), tmp_path / "m.pth")
    with pytest.raises(InvalidModel, match="Weights alone"):
        open_model(str(tmp_path / "m.pth"), trust=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("netwrok.safetensors", r"no model file.*Did you mean 'network\.safetensors'"),
        ("nowhere/network.safetensors", "no folder"),
        ("model.h5", r"must end in one of \.safetensors"),
    ],
)
def test_what_is_no_model_file_is_one_sentence(name, words, tmp_path):
    (tmp_path / "model.h5").write_bytes(b"1")
    (tmp_path / "network.safetensors").write_bytes(b"1")
    with pytest.raises(InvalidFile, match=words):
        open_model(str(tmp_path / name))


def test_an_attribute_of_the_working_folder_opens_with_trust(tmp_path, monkeypatch):
    (tmp_path / "own_package_of_test.py").write_text(
        "import torch\nclass here:\n    model = torch.nn.Linear(3, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    model = as_model(open_model("own_package_of_test:here.model", trust=True))
    assert model.card.n_features == 3
    assert sys.path == path
    with pytest.raises(InvalidSettings, match=r"has no model 'here\.modle'\."):
        open_model("own_package_of_test:here.modle", trust=True)
    with pytest.raises(InvalidSettings, match="cannot be imported: ModuleNotFoundError"):
        open_model("no_such_package_at_all:model", trust=True)


@pytest.mark.parametrize("suffix", [".pkl", ".pt2", ".pt"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05X", b"junk" * 99, b"PK\x03\x04"])
def test_a_damaged_file_is_one_sentence_even_with_trust(suffix, content, tmp_path):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"damaged|empty") as caught:
        open_model(str(path), trust=True)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_not_installed_is_named(tmp_path):
    (tmp_path / "m.pickle").write_bytes(b"cno_such_package_at_all\nModel\n.")
    with pytest.raises(InvalidFile, match="needs the package 'no_such_package_at_all'"):
        open_model(str(tmp_path / "m.pickle"), trust=True)


def read_weights(content, source):
    """Read a kind of file that another package knows: two numbers of a logistic model."""
    slope, offset = map(float, content.split())
    return lambda rows: 1 / (1 + np.exp(-slope * np.asarray(rows)[:, 0] - offset))


def test_another_package_adds_a_kind_of_model_file_by_its_suffix(tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS.__dict__, "places", {".weights": f"{__name__}:read_weights"})
    (tmp_path / "model.weights").write_text("2 1")
    model = as_model(open_model(str(tmp_path / "model.weights")))
    assert model(np.zeros((2, 1)))[0, 0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert len(model.card.fingerprint) == 64
    (tmp_path / "model.other").write_text("2 1")
    with pytest.raises(InvalidFile, match=r"\.weights"):
        open_model(str(tmp_path / "model.other"))


@pytest.mark.parametrize(
    ("package", "suffix"), [("onnx", "onnx"), ("onnxruntime", "onnx"), ("skops.io", "skops")]
)
def test_a_missing_extra_is_named(package, suffix, tmp_path, monkeypatch):
    (tmp_path / f"m.{suffix}").write_bytes(b"content")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'likewise\[{suffix}\]'"):
        open_model(str(tmp_path / f"m.{suffix}"), trust=True)
