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
from sklearn.preprocessing import StandardScaler

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
    assert np.abs(model(x) - forest.predict_proba(x)).max() < 1e-6


def rewritten(path, change):
    """Write a model with its files changed, given their names and contents."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    skops.io.dump(LogisticRegression().fit(x, x[:, 0] > 0), path)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, change(name, content))
    return str(path)


def test_a_hostile_type_needs_trust_and_is_not_run(tmp_path):
    trace = tmp_path / "trace"

    def hostile(name, content):
        if name != "schema.json":
            return content
        tree = json.loads(content)
        call = {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode"}
        content = {"args": ["touch", str(trace)]}
        tree["content"]["content"] = {**call, "__id__": 1, "content": content}
        return json.dumps(tree)

    with pytest.raises((TrustRequired, InvalidFile)):
        open_model(rewritten(tmp_path / "m.skops", hostile))
    assert not trace.exists()


def test_a_file_whose_array_claims_to_be_huge_is_refused(tmp_path):
    def huge(name, content):
        if not name.endswith(".npy"):
            return content
        header = str({"descr": "<f8", "fortran_order": False, "shape": (10**12,)}).encode()
        header = header.ljust(117) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header

    with pytest.raises(InvalidFile, match="an array of shape"):
        open_model(rewritten(tmp_path / "m.skops", huge))


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("likewise.models.model_files.MOST_UNPACKED", 1_000_000)
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 5_000_000)
    with pytest.raises(InvalidFile, match=r"unpacks to 5e\+06 bytes"):
        open_model(str(path))
