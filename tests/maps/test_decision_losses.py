"""Decisions from any kind of output."""

import numpy as np
import pytest

from likewise.errors import InvalidSettings
from likewise.maps.decision_losses import UnfavourableDecision, WrongDecision

P = np.array([0.1, 0.4, 0.6, 0.9])
LOGIT = np.log(P / (1 - P))


@pytest.mark.parametrize(
    ("out", "output"),
    [
        (P[:, None], "probabilities"),
        (np.column_stack([1 - P, P]), "probabilities"),
        (LOGIT[:, None], "logits"),
        (np.column_stack([LOGIT * 0 + 3, LOGIT + 3]), "logits"),
    ],
)
def test_every_form_of_two_classes_gives_the_same_decisions(out, output):
    y = np.array([0, 1, 1, 0])
    assert WrongDecision(output)(out, y).tolist() == [0, 1, 0, 1]
    assert WrongDecision(output, threshold=0.3)(out, y).tolist() == [0, 0, 0, 1]
    assert UnfavourableDecision(output)(out).tolist() == [1, 1, 0, 0]
    assert UnfavourableDecision(output, threshold=0.8)(out).tolist() == [1, 1, 1, 0]
    assert UnfavourableDecision(output, favourable=0)(out).tolist() == [0, 0, 1, 1]
    assert UnfavourableDecision(output, favourable=0, threshold=0.8)(out).tolist() == [0, 1, 1, 1]


def test_the_largest_of_many_classes_decides():
    out = np.eye(3)
    assert WrongDecision("logits")(out, np.array([0, 2, 2])).tolist() == [0, 1, 0]
    assert UnfavourableDecision("logits", favourable=2)(out).tolist() == [1, 1, 0]


def test_values_are_compared_with_the_threshold():
    assert UnfavourableDecision("values", threshold=10.0)(np.array([[9.0], [11.0]])).tolist() == [
        1,
        0,
    ]
    with pytest.raises(InvalidSettings, match="threshold"):
        UnfavourableDecision("logits", threshold=1.0)
