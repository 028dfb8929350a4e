import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from likewise.losses import CLIP, Loss, decide, probabilities

logits = st.floats(-30, 30)


@given(a=logits, b=logits, c=logits, y=st.integers(0, 2))
def test_the_loss_is_the_negative_log_of_the_softmax(a, b, c, y):
    out = torch.tensor([[a, b, c]], dtype=torch.float64)
    loss = Loss("cross_entropy", "logits")(out, torch.tensor([y])).item()
    exact = -torch.log_softmax(out, dim=1)[0, y].item()
    assert math.isclose(loss, exact, rel_tol=1e-9, abs_tol=1e-14)


@pytest.mark.parametrize("margin", [20, 50, 300, 700])
def test_no_loss_rounds_to_zero(margin):
    # exp(-m) is right to the last digit: log(1 + e) = e - e**2 / 2 + …
    for out in ([[float(margin)]], [[0.0, margin]], [[0.0, margin, -9e9]]):
        loss = Loss("cross_entropy", "logits")(
            torch.tensor(out, dtype=torch.float64), torch.tensor([1])
        ).item()
        assert math.isclose(loss, math.log1p(math.exp(-margin)), rel_tol=1e-12)


def test_one_logit_two_logits_and_probabilities_agree():
    z = torch.linspace(-6, 6, 25, dtype=torch.float64)[:, None]
    y = (torch.arange(25) % 2).long()
    forms = [
        (z, "logits"),
        (torch.cat([-z / 2, z / 2], 1), "logits"),
        (z.sigmoid(), "probabilities"),
    ]
    forms.append((torch.cat([1 - z.sigmoid(), z.sigmoid()], 1), "probabilities"))
    first = Loss("cross_entropy", "logits")(z, y)
    for out, output in forms:
        assert torch.allclose(Loss("cross_entropy", output)(out, y), first, atol=1e-12)
        assert torch.equal(decide(out, output), decide(z, "logits"))
        assert torch.allclose(probabilities(out, output)[:, 1], z.sigmoid()[:, 0], atol=1e-12)


def test_sure_probabilities_are_clipped():
    p = torch.tensor([[0.0], [1.0], [0.5], [CLIP], [1.0]], dtype=torch.float64)
    y = torch.tensor([1, 1, 1, 1, 0])
    loss = Loss("cross_entropy", "probabilities")(p, y)
    most, least = -math.log(CLIP), -math.log(1 - CLIP)
    assert torch.allclose(loss, torch.tensor([most, least, math.log(2), most, most]).double())


def test_numbers_have_squared_and_absolute_losses():
    out, y = torch.tensor([[3.0], [-1.0]]).double(), torch.tensor([1.0, 0.5]).double()
    assert Loss("squared", "values")(out, y).tolist() == [4.0, 2.25]
    assert Loss("absolute", "values")(out, y).tolist() == [2.0, 1.5]
