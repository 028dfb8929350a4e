import json
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from likewise.errors import InvalidFile, TrustRequired
from likewise.models import as_model, check, open_model


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        MLPClassifier((4,), max_iter=20),
        CalibratedClassifierCV(GaussianNB(), cv=2),
        make_pipeline(
            ColumnTransformer([("s", StandardScaler(), [0])], remainder="passthrough"),
            LogisticRegression(),
        ),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_of_reviewed_types_open_without_trust(estimator, tmp_path, rng):
    x = rng.normal(size=(100, 3))
    estimator.fit(x, x[:, 0] > 0)
    skops.io.dump(estimator, tmp_path / "m.skops")
    again, model = as_model(open_model(str(tmp_path / "m.skops"))), as_model(estimator)
    rows = x if model.front is None else model.front(x)[0]
    check(again, rows)
    assert np.array_equal(again(rows), model(rows))


def test_trees_need_trust_and_say_which_type(tmp_path, rng):
    x = rng.normal(size=(100, 3))
    forest = RandomForestClassifier(5).fit(x, x[:, 0] > 0)
    skops.io.dump(forest, tmp_path / "m.skops")
    with pytest.raises(TrustRequired, match=r"sklearn\.tree\._tree\.Tree.*--trust"):
        open_model(str(tmp_path / "m.skops"))
    model = as_model(open_model(str(tmp_path / "m.skops"), trust=True))
    ours = model(x)
    assert np.abs(ours - forest.predict_proba(x)).max() < 1e-6


def rewritten(path, change):
    """Change the schema inside a skops file."""
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts["schema.json"] = change(parts["schema.json"].decode()).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)


@pytest.fixture
def good(tmp_path, rng):
    x = rng.normal(size=(60, 3))
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    skops.io.dump(model.fit(x.round(), x[:, 0] > 0), tmp_path / "m.skops")
    return tmp_path / "m.skops"


def test_a_hostile_type_needs_trust_and_is_not_run(good, tmp_path):
    trace = tmp_path / "trace"

    def hostile(schema):
        tree = json.loads(schema)
        call = {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode"}
        tree["content"]["content"] = {
            **call,
            "__id__": 1,
            "content": {"args": ["touch", str(trace)]},
        }
        return json.dumps(tree)

    rewritten(good, hostile)
    with pytest.raises((TrustRequired, InvalidFile)):
        open_model(str(good))
    assert not trace.exists()


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("likewise.models.model_files.MOST_UNPACKED", 1_000_000)
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 5_000_000)
    with pytest.raises(InvalidFile, match=r"unpacks to 5e\+06 bytes"):
        open_model(str(path))
