import math
import warnings

import numpy as np
import pytest
import torch
from scipy.special import expit

from likewise.loss import CLIP, Loss, decide, probabilities


@pytest.mark.parametrize("margin", [20, 50, 300, 700])
def test_no_loss_or_gradient_rounds_to_zero_or_overflows(margin):
    loss = Loss("cross_entropy", "logits")
    for out in ([[float(margin)]], [[0.0, margin]], [[0.0, margin, -9e9]]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            right = loss.gradient(np.array(out), np.array([1]))[0]
            wrong = loss.gradient(np.array(out), np.array([0]))[0]
            value = loss(np.array(out), np.array([1])).item()
        # exp(-m) is right to the last digit: log(1 + e) = e - e**2 / 2 + …
        assert math.isclose(value, math.log1p(math.exp(-margin)), rel_tol=1e-12)
        # The true logit pulls with σ(-m) = e^-m / (1 + e^-m), the wrong one with σ(m).
        assert math.isclose(right[-1 if len(right) < 3 else 1], -expit(-margin), rel_tol=1e-12)
        assert math.isclose(wrong[-1 if len(wrong) < 3 else 1], expit(margin), rel_tol=1e-12)


@pytest.mark.parametrize("output", ["logits", "probabilities"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_gradient_of_cross_entropy_is_that_of_autograd(k, output, rng):
    z, y = 3 * rng.normal(size=(200, k)), rng.integers(0, max(k, 2), 200)
    out = probabilities(z, "logits")[:, -k:] if output == "probabilities" else z
    rows = torch.from_numpy(out.copy()).requires_grad_()
    true = rows[torch.arange(200), torch.from_numpy(y) if k > 1 else 0]
    if k == 1 and output == "logits":
        losses = torch.nn.functional.softplus(torch.from_numpy(1 - 2 * y) * true, threshold=100)
    elif output == "logits":
        losses = -torch.log_softmax(rows, 1)[torch.arange(200), torch.from_numpy(y)]
    else:
        true = torch.where(torch.from_numpy(y) == 1, true, 1 - true) if k == 1 else true
        losses = -true.clamp(CLIP, 1 - CLIP).log()
    (expected,) = torch.autograd.grad(losses.sum(), rows)
    loss = Loss("cross_entropy", output)
    assert np.allclose(loss(out, y), losses.detach().numpy(), rtol=1e-12, atol=1e-14)
    assert np.allclose(loss.gradient(out, y), expected.numpy(), rtol=1e-12, atol=1e-15)


def test_one_logit_two_logits_and_probabilities_agree():
    z = np.linspace(-6, 6, 25)[:, None]
    y = np.arange(25) % 2
    p = expit(z)
    forms = [
        (z, "logits"),
        (np.hstack([-z / 2, z / 2]), "logits"),
        (p, "probabilities"),
        (np.hstack([1 - p, p]), "probabilities"),
    ]
    first = Loss("cross_entropy", "logits")(z, y)
    for out, output in forms:
        assert np.allclose(Loss("cross_entropy", output)(out, y), first, rtol=1e-5, atol=1e-12)
        assert np.array_equal(decide(out, output), decide(z, "logits"))
        assert np.allclose(probabilities(out, output)[:, 1], p[:, 0], rtol=1e-5, atol=1e-12)


def test_numbers_have_squared_and_absolute_losses():
    out, y = np.array([[3.0], [-1.0]]), np.array([1.0, 0.5])
    assert Loss("squared", "values")(out, y).tolist() == [4.0, 2.25]
    assert Loss("absolute", "values")(out, y).tolist() == [2.0, 1.5]
    assert Loss("squared", "values").gradient(out, y).tolist() == [[4.0], [-3.0]]
    assert Loss("absolute", "values").gradient(out, y).tolist() == [[1.0], [-1.0]]
