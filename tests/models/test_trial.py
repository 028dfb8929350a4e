"""Model files of strangers that would take all memory or all time, or bring a library down."""

import json

import numpy as np
import pytest

from likewise.errors import InvalidFile
from likewise.models import as_model, check, open_model

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
