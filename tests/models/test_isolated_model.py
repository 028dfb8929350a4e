"""Model files of strangers that would take all memory or all time, or bring a library down."""

import catboost
import lightgbm
import numpy as np
import onnx.parser
import pandas
import pyarrow as pa
import pytest
import xgboost

from likewise.errors import InvalidFile, LikewiseError
from likewise.models import as_model, boosted, check, open_model

LARGE = """
    <ir_version: 8, opset_import: ["" : 15, "local" : 1]>
    g (float[n, 3] x) => (float[n, 2] y) <
        float[1, 1] one = {1.0}, int64[2] shape = {1000000000, 8},
        float[3, 2] w = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}
    > {
        large = local.Relu(one, shape)
        sum = ReduceSum <keepdims = 0> (large)
        z = MatMul(x, w)
        y = Add(z, sum)
    }
    <domain: "local", opset_import: ["" : 15]>
    Relu (one, shape) => (large) { large = Expand(one, shape) }
"""


def test_a_local_function_with_a_harmless_name_takes_no_more_memory_than_it_may(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(LARGE).SerializeToString())
    with pytest.raises(InvalidFile, match=r"GB of memory"):
        check(as_model(open_model(str(path))), np.ones((4, 3)))


@pytest.mark.slow
def test_boosted_trees_cut_off_inside_an_array_take_no_more_memory_than_they_may(
    tmp_path, monkeypatch
):
    # XGBoost reads on and on behind the end of such a file; a smaller limit ends that sooner.
    monkeypatch.setattr("likewise.run.isolated.MEMORY", 2**30)
    path = tmp_path / "m.ubj"
    path.write_bytes(b"{L" + (7).to_bytes(8, "big") + b"learner[")
    with pytest.raises(InvalidFile, match=r"more than 1\.\d GB of memory"):
        open_model(str(path))


def boosted_trees():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 3)), np.tile([0, 1], 40)


def asked(answer, table):
    return answer.ask(answer.prepare(table))


def with_categories(levels):
    rng = np.random.default_rng(0)
    towns, age = rng.choice(levels, 300), rng.normal(size=300)
    typed = pandas.DataFrame({"age": age, "town": towns}).astype({"town": "category"})
    trees = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1)
    trees.fit(typed, (towns == levels[-1]).astype(int) ^ (rng.random(300) < 0.1))
    return trees, trees.predict_proba(typed)[:, 1], pa.table({"age": age, "town": towns})


def test_xgboost_files_with_categories_are_asked_as_they_were_trained(tmp_path):
    trees, own, table = with_categories(["Bern", "Chur"])
    trees.save_model(tmp_path / "m.json")
    here, elsewhere = (open_model(str(tmp_path / "m.json"), trust=t).content for t in (True, False))
    # Single precision; and asked about some alone, it does not take them for others.
    for rows in (table, table.slice(0, 7)):
        assert asked(elsewhere.answer, rows) == pytest.approx(own[: len(rows)], abs=1e-6)
        assert np.array_equal(asked(here.answer, rows), asked(elsewhere.answer, rows))
        answer = boosted.table_answer(trees)
        assert asked(answer, rows)[:, 1] == pytest.approx(own[: len(rows)], abs=1e-6)


def test_categories_that_xgboost_may_have_cut_short_are_refused(tmp_path):
    trees, *_ = with_categories(["Genève", "Köln-Süd"])
    trees.save_model(tmp_path / "m.json")
    for given in (trees, str(tmp_path / "m.json")):
        with pytest.raises(LikewiseError, match=r"beyond ASCII cut short, as of 'town'"):
            as_model(open_model(given) if isinstance(given, str) else given)


@pytest.mark.slow
def test_other_libraries_answer_there_as_they_do_here(tmp_path):
    rng = np.random.default_rng(0)
    jobs, ages = rng.choice(["cook", "smith", "Maßschneider"], 300), rng.normal(size=300)
    y = (ages + (jobs == "cook") > rng.normal(size=300)).astype(int)
    frame = pandas.DataFrame({"age": ages, "job": jobs, "sure": rng.random(300) > 0.5})
    table = pa.Table.from_pandas(frame)
    typed = frame.astype({"job": "category"})
    options = {"objective": "binary", "verbose": -1, "num_leaves": 4}
    lightgbm.train(options, lightgbm.Dataset(typed, y), 5).save_model(str(tmp_path / "m.txt"))
    trees = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False)
    trees.fit(frame, y, cat_features=["job"]).save_model(str(tmp_path / "m.cbm"))
    for name in ("m.txt", "m.cbm"):
        here, elsewhere = (open_model(str(tmp_path / name), trust=t).content for t in (True, False))
        assert np.array_equal(asked(here.answer, table), asked(elsewhere.answer, table))
        assert len(np.unique(asked(here.answer, table))) > 5


def test_many_rows_are_asked_about_in_parts(tmp_path, monkeypatch):
    x, y = boosted_trees()
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(x, y)
    model.save_model(tmp_path / "m.ubj")
    monkeypatch.setattr("likewise.models.isolated_model.ROWS", 60)
    found = as_model(open_model(str(tmp_path / "m.ubj")))(x)
    assert found[:, 0] == pytest.approx(model.predict_proba(x)[:, 1], abs=1e-6)


@pytest.mark.slow
def test_one_changed_byte_in_a_catboost_file_is_a_sentence(tmp_path):
    choices = {"iterations": 3, "depth": 2, "verbose": 0, "allow_writing_files": False}
    trees = catboost.CatBoostClassifier(**choices, random_seed=0, thread_count=1)
    trees.fit(*boosted_trees())
    path = tmp_path / "m.cbm"
    trees.save_model(str(path))
    content = bytearray(path.read_bytes())
    assert as_model(open_model(str(path)))(np.ones((2, 3))).shape == (2, 2)
    content[-200] = 255  # in the offsets of its parts
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match="is damaged"):
        as_model(open_model(str(path)))(np.ones((2, 3)))
