"""Labels that are not the model's classes are mapped by the user, never by the alphabet."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.errors import InvalidData, InvalidSettings
from likewise.models.base import ModelCard, label_classes, targets

METRIC = likewise.metrics.ProjectionMetric(np.array([[1.0, 0.0]])).with_reach(np.eye(2))
CHOICES = {"label": "decision", "protected": "group", "metric": METRIC, "checks": "core"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["group"] = np.where(rng.random(60) > 0.5, "f", "m")
    approved = frame.a + rng.normal(size=60) > 0
    frame["decision"] = np.where(approved, "approved", "declined")
    return frame


def network():
    net = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.5, 0.2]], dtype=torch.float64))
        net.bias.zero_()
    return net


@pytest.mark.parametrize(
    "form", [lambda f: f, lambda f: f.astype({"decision": "category"}), pa.Table.from_pandas]
)
def test_labels_in_words_are_refused_for_a_model_of_numbers_and_mapped_as_was_said(form, frame):
    people = form(frame)
    with pytest.raises(InvalidData) as refused:
        likewise.audit(network(), people, **CHOICES)
    said = str(refused.value)
    assert "labels are 'approved', 'declined'" in said
    assert "classes of the torch module Linear are 0, 1" in said
    assert "--label-map approved=CLASS,declined=CLASS" in said  # which is which is not guessed
    label_map = {"approved": 1, "declined": 0}
    result = likewise.audit(network(), people, label_map=label_map, **CHOICES)
    coded = frame.assign(decision=(frame.decision == "approved").astype(int))
    plain = likewise.audit(network(), coded, **CHOICES)
    assert np.array_equal(result.outcomes.loss_after, plain.outcomes.loss_after)
    assert result.record.model.classes == ("declined", "approved")


def test_labels_that_are_spelled_alike_need_no_map(frame):
    estimator = LogisticRegression().fit(frame[["a", "b"]], frame["decision"])
    result = likewise.audit(estimator, frame, **CHOICES)
    assert result.record.model.classes == ("approved", "declined")
    truth = frame.assign(decision=frame.decision == "approved")
    for kind, name in ((bool, "False"), (float, "0.0"), (int, "0")):
        values = truth.astype({"decision": kind})
        assert likewise.audit(network(), values, **CHOICES).record.model.classes[0] == name


CASES = {
    "codes as text": (["0", "1"], (), {}, ("0", "1")),
    "known classes in their order": (["no", "yes"], ("yes", "no"), {}, ("yes", "no")),
    "mapped to names": (["n", "y"], ("yes", "no"), {"y": "yes", "n": "no"}, ("y", "n")),
}


@pytest.mark.parametrize("case", CASES)
def test_classes_are_in_the_order_of_the_models_outputs(case):
    labels, known, label_map, wanted = CASES[case]
    y = np.array(labels)
    classes = label_classes(y, ModelCard("model", "logits", known), label_map)
    assert classes == wanted
    assert targets(y, classes).tolist() == [wanted.index(value) for value in labels]


REFUSED = {
    "minus one and one": ([-1, 1], (), {}, InvalidData, r"labels are -1, 1.*are 0, 1"),
    "more than classes": (
        ["A", "N", "U", "Y"], (False, True), {}, InvalidData, "Write one label for each class",
    ),
    "a stranger": (["no", "maybe"], ("yes", "no"), {}, InvalidData, "'maybe'"),
    "half a map": (["n", "y"], (0, 1), {"y": "1"}, InvalidData, "labels are 'n', 'y'"),
    "no such class": (["n", "y"], (0, 1), {"y": "2"}, InvalidSettings, r"'2'.*not a class.*0, 1"),
    "two for one": (
        ["n", "y"], (0, 1), {"y": "1", "n": "1"}, InvalidSettings, "Two labels stand for",
    ),
    "numbers": (np.linspace(0, 1, 30).tolist(), (), {}, InvalidData, "output='values'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_mean_nothing_to_the_model_are_one_sentence(case):
    labels, known, label_map, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        label_classes(np.array(labels), ModelCard("model", "logits", known), label_map)
