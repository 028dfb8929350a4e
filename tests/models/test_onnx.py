import warnings

import numpy as np
import onnx.parser
import pyarrow as pa
import pytest
from onnx import TensorProto
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import InvalidFile, InvalidModel
from likewise.handle import adapt
from likewise.loss import probabilities
from likewise.models import as_model, check, open_model
from likewise.models.adapt import table_model


@pytest.fixture
def opened(tmp_path):
    """Return what writes a graph to a file, and opens that."""

    def write(proto, trust=False):
        content = proto if isinstance(proto, bytes) else proto.SerializeToString()
        (tmp_path / "m.onnx").write_bytes(content)
        return open_model(str(tmp_path / "m.onnx"), trust=trust)

    return write


@pytest.mark.parametrize(
    ("estimator", "zipmap", "dtype", "near"),
    [
        (LogisticRegression(), True, np.float32, 1e-6),
        (LogisticRegression(), False, np.float64, 1e-14),
        (GradientBoostingClassifier(n_estimators=20), False, np.float32, 1e-6),
    ],
)
def test_an_onnx_classifier_gives_the_probabilities_of_the_original(
    estimator, zipmap, dtype, near, rng, opened
):
    x = rng.normal(size=(400, 5))
    names = np.array(["low", "middle", "top"])
    estimator.fit(x, names[np.digitize(x[:, 0] + x[:, 1] ** 2, [0.5, 1.5])])
    options = {} if zipmap else {id(estimator): {"zipmap": False}}
    model = as_model(opened(to_onnx(estimator, x[:1].astype(dtype), options=options)))
    check(model, x, classes=tuple(names))
    # In float32 gaps of 5e-8 to 4e-7 are seen.
    ours = probabilities(model(x), model.card.output)
    assert np.abs(ours - estimator.predict_proba(x)).max() < near
    assert model.card.classes == tuple(names.tolist())
    assert model.card.n_features == 5
    assert as_model(model, output="probabilities") is model
    assert (model.card.output, model.dtype) == ("probabilities", dtype)
    assert not model.card.differentiable


@pytest.mark.parametrize("trust", [False, True])
def test_a_graph_of_one_matrix_is_given_gaps(trust, rng, opened):
    x = rng.normal(size=(200, 2))
    trees = GradientBoostingClassifier(n_estimators=3).fit(x, x[:, 0] > 0)
    gappy = pa.array(x[:, 1], mask=np.arange(200) % 7 == 0)
    table = pa.table({"a": x[:, 0], "b": gappy})
    people = AuditData(np.empty((200, 0)), np.zeros(200), table=table)
    model, _ = adapt(opened(to_onnx(trees, x[:1].astype(np.float32)), trust), people)
    found = table_model(model, people)(table)
    assert np.abs(found - trees.predict_proba(x))[gappy.is_valid()].max() < 1e-6


def test_a_graph_of_values_agrees_with_its_original(rng, opened):
    x = rng.normal(size=(400, 5))
    line = LinearRegression().fit(x, x[:, 0])
    model = as_model(opened(to_onnx(line, x[:1].astype(np.float32))))
    check(model, x)
    assert model.card.task == "regression"
    assert np.abs(model(x)[:, 0] - line.predict(x)).max() < 1e-6


def network_graph(rows, last=None):
    """A small network as torch's exporter writes one."""
    rest = f"z = MatMul(x, w) logits = {last}(z)" if last else "logits = MatMul(x, w)"
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        f"network (float[{rows}, 3] x) => (float[{rows}, 2] logits) "
        f"<float[3, 2] w = {{0.5, -1.0, 2.0, 0.25, -0.125, 1.0}}> {{ {rest} }}"
    )


@pytest.mark.parametrize("rows", ["n", 1, 7])
def test_a_network_made_for_any_number_of_rows_takes_all(rows, rng, opened):
    model = as_model(opened(network_graph(rows)))
    x = rng.normal(size=(50, 3))
    check(model, x)
    weight = np.array([[0.5, -1], [2, 0.25], [-0.125, 1]])
    assert np.abs(model(x) - x @ weight).max() < 1e-5
    assert model.card.output == "logits"


def test_what_a_network_returns_is_read_off_its_last_operator_or_said(opened, rng):
    found = opened(network_graph("n", "Softmax"))
    assert as_model(found).card.output == "probabilities"
    with pytest.raises(InvalidModel, match="returns probabilities, not values"):
        as_model(found, output="values")
    found = opened(network_graph("n", "Exp"))
    assert as_model(found).card.output == "logits"
    assert as_model(found, output="values").card.task == "regression"
    with pytest.raises(InvalidModel, match="said to be probabilities"):
        check(as_model(found, output="probabilities"), rng.normal(size=(20, 3)))


def test_a_graph_that_reads_text_goes_through_decoded_rows(rng, opened):
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    table = pa.table(
        {"job": np.array(["cook", "judge"])[rng.integers(0, 2, 200)], "age": rng.normal(40, 9, 200)}
    )
    steps = ColumnTransformer(
        [("text", OneHotEncoder(), ["job"]), ("numbers", StandardScaler(), ["age"])]
    )
    whole = make_pipeline(steps, LogisticRegression())
    whole.fit(table.to_pandas(), table["age"].to_numpy() > 40)
    kinds = [("job", StringTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = opened(to_onnx(whole, initial_types=kinds))
    with pytest.raises(InvalidModel, match=r"reads original columns.*not arrays"):
        as_model(found)(np.zeros((2, 3)))
    encoder = Encoder.fit(table)
    people = AuditData(encoder.encode(table), np.zeros(200), table=table, encoder=encoder)
    model, _ = adapt(found, people)
    ours = model(encoder.encode(table))
    assert np.abs(ours - whole.predict_proba(table.to_pandas())).max() < 1e-6


def external():
    proto = network_graph("n")
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    return proto


def in_a_branch(inner):
    proto = network_graph("n")
    node = proto.graph.node.add(op_type="If", name="choice")
    node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH, g=inner.graph)
    return proto


def of_images():
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "images (float[n, 3, 9, 9] x) => (float[n, 3, 9, 9] y) { y = Relu(x) }"
    )


REFUSED = {
    "weights elsewhere": (external, "keeps weights in other files"),
    "weights of a branch elsewhere": (lambda: in_a_branch(external()), "weights in other files"),
    "an operator nobody knows": (lambda: network_graph("n", "RunMyCode"), "or no ONNX model"),
    "images": (of_images, "its input 'x' is a"),
    "half": (lambda: network_graph("n").SerializeToString()[:60], "damaged"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_a_graph_that_cannot_be_read_is_one_sentence(what, opened):
    make, words = REFUSED[what]
    with pytest.raises(InvalidFile, match=words) as caught:
        opened(make())
    assert "\n" not in str(caught.value)
