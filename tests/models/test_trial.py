"""Model files of strangers that would take all memory or all time, or bring a library down."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from likewise.errors import InvalidFile, InvalidModel
from likewise.models import as_model, check, native, open_model

onnx = pytest.importorskip("onnx")


def graph(*nodes, tensors=()):
    """Return an ONNX file that takes three features and gives two numbers a person."""
    float_ = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        list(nodes),
        "g",
        [onnx.helper.make_tensor_value_info("x", float_, ["n", 3])],
        [onnx.helper.make_tensor_value_info("y", float_, ["n", 2])],
        [onnx.numpy_helper.from_array(array, name) for name, array in tensors],
    )
    opsets = [onnx.helper.make_opsetid("", 15)]
    return onnx.helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("rows", [10**9])
def test_a_graph_that_asks_for_all_memory_is_refused(rows, tmp_path):
    make = onnx.helper.make_node
    content = graph(
        make("Expand", ["one", "shape"], ["large"]),
        make("ReduceSum", ["large"], ["sum"], keepdims=0),
        make("MatMul", ["x", "w"], ["z"]),
        make("Add", ["z", "sum"], ["y"]),
        tensors=[
            ("one", np.ones((1, 1), np.float32)),
            ("shape", np.array([rows, 8], np.int64)),
            ("w", np.ones((3, 2), np.float32)),
        ],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"m\.onnx' cannot be audited: it takes more than"):
        open_model(str(path))


def test_a_modest_graph_is_opened_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("likewise.models.trial.BYTES", 1)  # nothing would open within it
    make = onnx.helper.make_node
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    path = tmp_path / "m.onnx"
    path.write_bytes(graph(make("MatMul", ["x", "w"], ["y"]), tensors=[("w", weight)]))
    check(as_model(open_model(str(path))), np.ones((4, 3)))


def test_boosted_trees_cut_off_inside_an_array_take_no_more_memory_than_they_may(
    tmp_path, monkeypatch
):
    pytest.importorskip("xgboost")
    # XGBoost reads on and on behind the end of such a file; a smaller limit ends that sooner.
    monkeypatch.setattr("likewise.models.trial.BYTES", 600 * 2**20)
    path = tmp_path / "m.ubj"
    path.write_bytes(b"{L" + (7).to_bytes(8, "big") + b"learner[")
    with pytest.raises(InvalidFile, match=r"it takes more than 0\.6 GB of memory"):
        open_model(str(path))


def boosted_trees():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 3)), np.tile([0, 1], 40)


@pytest.mark.parametrize(
    ("part", "value"),
    [("left_children", 0), ("left_children", -2), ("right_children", 99), ("split_indices", 3)],
    ids=["in a circle", "out of the tree", "beyond its end", "to no feature"],
)
def test_xgboost_trees_whose_branches_lead_nowhere_are_refused(part, value):
    xgboost = pytest.importorskip("xgboost")
    from likewise.models.tree_shape import check_xgboost

    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(*boosted_trees())
    good = bytes(model.get_booster().save_raw("json"))
    check_xgboost(good)
    forged = json.loads(good)
    tree = forged["learner"]["gradient_booster"]["model"]["trees"][1]
    assert tree["left_children"][0] == 1
    tree[part][0] = value
    with pytest.raises(InvalidFile, match="a branch leads nowhere"):
        check_xgboost(json.dumps(forged).encode())


def test_xgboost_rounds_that_are_not_those_of_its_trees_are_refused():
    xgboost = pytest.importorskip("xgboost")
    from likewise.models.tree_shape import check_xgboost

    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(*boosted_trees())
    forged = json.loads(bytes(model.get_booster().save_raw("json")))
    rounds = forged["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    assert rounds == [0, 1, 2, 3]
    rounds[0] = -1
    with pytest.raises(InvalidFile, match="a branch leads nowhere"):
        check_xgboost(json.dumps(forged).encode())


@pytest.mark.parametrize(
    ("part", "value"),
    [("left_child", "0"), ("right_child", "-9"), ("left_child", "99"), ("split_feature", "3")],
)
def test_lightgbm_trees_whose_branches_lead_nowhere_are_refused(part, value):
    lightgbm = pytest.importorskip("lightgbm")
    from likewise.models.tree_shape import check_lightgbm

    options = {"objective": "binary", "num_leaves": 4, "verbose": -1, "min_data_in_leaf": 5}
    good = lightgbm.train(options, lightgbm.Dataset(*boosted_trees()), 3).model_to_string()
    check_lightgbm(good.encode())
    forged = re.sub(rf"\n{part}=[-0-9]+", f"\n{part}={value}", good, count=1)
    assert forged != good
    with pytest.raises(InvalidFile, match="a branch leads nowhere"):
        check_lightgbm(forged.encode())


def test_a_skops_file_whose_array_claims_to_be_huge_is_refused(tmp_path):
    skops = pytest.importorskip("skops.io")
    import io
    import zipfile

    from sklearn.linear_model import LogisticRegression

    x = np.random.default_rng(0).normal(size=(50, 3))
    good = skops.dumps(LogisticRegression().fit(x, x[:, 0] > 0))
    source = zipfile.ZipFile(io.BytesIO(good))
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".npy"):
                header = str({"descr": "<f8", "fortran_order": False, "shape": (10**12,)}).encode()
                header = header.ljust(117) + b"\n"
                content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
            target.writestr(name, content)
    with pytest.raises(InvalidFile, match="an array of shape"):
        open_model(str(path))


def test_a_chain_of_many_thousand_layers_is_refused_at_once(tmp_path):
    import safetensors.numpy

    about = {
        "format": 1,
        "output": "logits",
        "classes": [],
        "layers": [{"layer": "ReLU"}] * 30_000 + [{"layer": "Linear"}],
    }
    tensors = {"30000.weight": np.ones((2, 3)), "30000.bias": np.ones(2)}
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file(tensors, path, {"likewise.model": json.dumps(about)})
    with pytest.raises(InvalidFile, match="it has 30001 layers, more than 1000"):
        open_model(str(path))


def with_categories(levels, library="pandas"):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    towns, age = rng.choice(levels, 300), rng.normal(size=300)
    kind = "category" if library == "pandas" else frames.Categorical
    frame = frames.DataFrame({"age": age, "town": towns})
    typed = frame.astype({"town": kind}) if library == "pandas" else frame.cast({"town": kind})
    xgboost = pytest.importorskip("xgboost")
    trees = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1)
    trees.fit(typed, (towns == levels[-1]).astype(int) ^ (rng.random(300) < 0.1))
    return trees, trees.predict_proba(typed)[:, 1], pa.table({"age": age, "town": towns})


@pytest.mark.parametrize(
    ("levels", "library"),
    [
        (["Bern", "Chur"], "pandas"),
        (["Genève", "Köln-Süd", "Zürich, Kreis 4"], "pandas"),
        (["Köln", "Ulm"], "pandas"),  # XGBoost's 'Köl' and 'nUl' are text, too
        (["женский", "мужской"], "pandas"),
        (["Genève", "Köln-Süd", "Zürich, Kreis 4"], "polars"),
    ],
    ids=str,
)
def test_xgboost_files_with_categories_of_any_letters_are_asked_as_they_were_trained(
    levels, library, tmp_path
):
    trees, own, table = with_categories(levels, library)
    trees.save_model(tmp_path / "m.json")
    tried = levels[0] in ("Köln", "женский")  # the trial takes time, and is of one kind
    opened = open_model(str(tmp_path / "m.json"), trust=tried).content
    # Single precision; and asked about some alone, it does not take them for others.
    for rows in (table, table.slice(0, 7)):
        assert opened.answer(rows) == pytest.approx(own[: len(rows)], abs=1e-6)
        answer = native.table_answer(trees)
        assert answer(rows)[:, 1] == pytest.approx(own[: len(rows)], abs=1e-6)


def test_a_category_that_xgboost_has_cut_too_short_or_never_saw_is_named():
    trees, *_ = with_categories(["Łódź Górna", "Łódź Łęg 1", "Łódź Łęg 2", "Łódź Żab 3"])
    answer = native.table_answer(trees)
    for town, problem in (("Bern", "was not trained with 'Bern'"), ("Łódź Łęg 2", "too little")):
        with pytest.raises(InvalidModel, match=problem):
            answer(pa.table({"age": [0.0], "town": [town]}))
