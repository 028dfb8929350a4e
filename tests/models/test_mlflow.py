import catboost
import joblib
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
import torch
import xgboost
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from likewise.errors import InvalidFile, MissingExtra, TrustRequired
from likewise.losses import probabilities
from likewise.models import as_model, open_model
from likewise.models.mlflow_folder import read_flavours

LISTING = """\
artifact_path: model
flavors:
  python_function:
    env:
      conda: conda.yaml
      virtualenv: python_env.yaml
    loader_module: mlflow.{flavour}
    model_path: model.pkl
    python_version: 3.11.7
  {flavour}:
    code: null
    {entry}: {file}
mlflow_version: 3.1.0
model_id: m-0123
signature:
  inputs: '[{{"type": "double", "name": "flavors:"}}]'
utc_time_created: '2026-01-01 10:00:00.000000'
"""


def folder(path, flavour, entry, file):
    path.mkdir(exist_ok=True)
    (path / "MLmodel").write_text(LISTING.format(flavour=flavour, entry=entry, file=file))
    return path


@pytest.fixture
def x(rng):
    return rng.normal(size=(120, 3))


@pytest.fixture
def logistic(x):
    return LogisticRegression().fit(x, x[:, 0] > 0)


def test_a_pickled_model_inside_needs_trust(tmp_path, logistic, x):
    place = folder(tmp_path / "m", "sklearn", "pickled_model", "model.pkl")
    joblib.dump(logistic, place / "model.pkl")
    with pytest.raises(TrustRequired, match=r"model\.pkl' can run code"):
        open_model(str(place))
    model = as_model(open_model(str(place), trust=True))
    assert np.array_equal(model(x), as_model(logistic)(x))
    assert len(model.card.fingerprint) == 64


def test_a_safe_model_inside_needs_none(tmp_path, logistic, x):
    place = folder(tmp_path / "skops", "sklearn", "pickled_model", "model.skops")
    skops.io.dump(logistic, place / "model.skops")
    assert np.array_equal(as_model(open_model(str(place)))(x), as_model(logistic)(x))
    place = folder(tmp_path / "onnx", "onnx", "data", "model.onnx")
    (place / "model.onnx").write_bytes(
        to_onnx(logistic, x[:1].astype(np.float32)).SerializeToString()
    )
    ours = probabilities(as_model(open_model(str(place)))(x), "logits")
    assert np.abs(ours - logistic.predict_proba(x)).max() < 1e-6


def test_a_torch_model_inside_is_found(tmp_path):
    place = folder(tmp_path / "m", "pytorch", "model_data", "data")
    (place / "data").mkdir()
    torch.save(torch.nn.Linear(3, 2), place / "data" / "model.pth")
    assert as_model(open_model(str(place), trust=True)).card.n_features == 3


@pytest.mark.parametrize("k", [2, 3])
def test_native_boosted_trees_inside_are_read(k, tmp_path, x):
    y = np.digitize(x[:, 0], [-0.5, 0.5][: k - 1])
    for suffix in ("ubj", "json"):
        trees = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(x, y)
        place = folder(tmp_path / suffix, "xgboost", "data", f"model.{suffix}")
        trees.save_model(place / f"model.{suffix}")
        model = as_model(open_model(str(place)), classes=tuple(range(k)))
        expected = trees.predict_proba(x)[:, 1:] if k == 2 else trees.predict_proba(x)
        assert np.abs(model(x) - expected).max() < 1e-6
        assert model.card.n_features == 3
    trees = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y)
    place = folder(tmp_path / "lgb", "lightgbm", "data", "model.lgb")
    trees.booster_.save_model(place / "model.lgb")
    model = as_model(open_model(str(place), trust=True))
    expected = trees.predict_proba(x)[:, 1:] if k == 2 else trees.predict_proba(x)
    assert np.abs(model(x) - expected).max() < 1e-12
    assert model.card.features == ()


def test_catboost_files_know_their_classes_columns_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "job": rng.choice(["cook", "smith"], 120)})
    y = np.where(frame.a + (frame.job == "cook") > 0.5, "yes", "no")
    trees = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False)
    trees.fit(frame, y, cat_features=["job"])
    trees.save_model(str(tmp_path / "m.cbm"))
    opened = open_model(str(tmp_path / "m.cbm"))
    assert opened.content.classes == ("no", "yes")
    table = pa.Table.from_pandas(frame)
    assert np.abs(opened.content.answer(table) - trees.predict_proba(frame)).max() < 1e-12
    (tmp_path / "m.cbm").write_bytes((tmp_path / "m.cbm").read_bytes()[:300])
    with pytest.raises(InvalidFile, match="damaged or no CatBoost"):
        open_model(str(tmp_path / "m.cbm"))


def test_boosted_regressions_give_values_and_rankings_are_refused(tmp_path, x):
    trees = xgboost.XGBRegressor(n_estimators=5).fit(x, x[:, 0])
    trees.save_model(tmp_path / "m.ubj")
    model = as_model(open_model(str(tmp_path / "m.ubj"), trust=True))
    assert model.card.task == "regression"
    assert np.abs(model(x)[:, 0] - trees.predict(x)).max() < 1e-6
    ranker = xgboost.XGBRanker(n_estimators=2).fit(x, x[:, 0] > 0, qid=np.zeros(120))
    ranker.save_model(tmp_path / "r.ubj")
    with pytest.raises(InvalidFile, match=r"trained for 'rank:"):
        open_model(str(tmp_path / "r.ubj"), trust=True)


@pytest.mark.parametrize("suffix", [".ubj", ".json", ".lgb", ".txt"])
@pytest.mark.parametrize("damage", ["half", "junk", "braces"])
def test_damaged_boosted_trees_are_one_sentence(suffix, damage, tmp_path, x):
    path = tmp_path / f"m{suffix}"
    if suffix in (".ubj", ".json"):
        xgboost.XGBClassifier(n_estimators=5).fit(x, x[:, 0] > 0).save_model(path)
    else:
        trees = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x, x[:, 0] > 0)
        trees.booster_.save_model(path)
    content = path.read_bytes()
    path.write_bytes(
        {"half": content[: len(content) // 2], "junk": b"junk" * 99}.get(damage, b"{}")
    )
    with pytest.raises(InvalidFile, match="damaged or no") as caught:
        open_model(str(path), trust=True)
    assert "\n" not in str(caught.value)


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    import sys

    for name, suffix in (("xgboost", "ubj"), ("lightgbm", "lgb")):
        (tmp_path / f"m.{suffix}").write_bytes(b"1")
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=rf"needs {name}.*pip install 'likewise\[boosted\]'"):
            open_model(str(tmp_path / f"m.{suffix}"), trust=True)


def test_flavours_are_read_and_nothing_else():
    text = LISTING.format(flavour="sklearn", entry="pickled_model", file="'model.pkl'")
    flavours = read_flavours(text)
    assert list(flavours) == ["python_function", "sklearn"]
    assert flavours["sklearn"] == {"code": "null", "pickled_model": "model.pkl"}
    assert read_flavours("signature:\n  sklearn:\n    pickled_model: x\n") == {}


@pytest.mark.parametrize(
    ("flavour", "entry", "file", "words"),
    [
        ("sklearn", "pickled_model", "../secret.pkl", "points outside its folder"),
        ("sklearn", "pickled_model", "/etc/passwd", "points outside its folder"),
        ("sklearn", "pickled_model", "model.pkl", "which is not there"),
        ("sklearn", "other_entry", "model.pkl", "does not say where"),
        ("h2o", "data", "model.h2o", r"has: python_function, h2o; these can: sklearn"),
    ],
)
def test_a_folder_that_lies_is_one_sentence(flavour, entry, file, words, tmp_path):
    (tmp_path / "secret.pkl").write_bytes(b"1")
    with pytest.raises(InvalidFile, match=words):
        open_model(str(folder(tmp_path / "m", flavour, entry, file)), trust=True)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "secret.pkl").write_bytes(b"1")
    place = folder(tmp_path / "m", "sklearn", "pickled_model", "model.pkl")
    (place / "model.pkl").symlink_to(tmp_path / "secret.pkl")
    with pytest.raises(InvalidFile, match="points outside its folder"):
        open_model(str(place), trust=True)


def test_a_folder_without_a_listing_is_one_sentence(tmp_path):
    with pytest.raises(InvalidFile, match="without a readable MLmodel"):
        open_model(str(tmp_path))
    (tmp_path / "MLmodel").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile, match="without a readable MLmodel"):
        open_model(str(tmp_path))


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000], ids=["zero byte", "too long"])
def test_names_that_no_file_can_have_are_refused(tmp_path, name):
    place = folder(tmp_path / "m", "onnx", "data", name)
    with pytest.raises(InvalidFile, match="which is not there"):
        open_model(str(place))
