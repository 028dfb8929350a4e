"""Losses of the user's own: a torch function, or a pair of NumPy functions."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

import likewise
from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings
from likewise.loss import CustomLoss, as_loss

N = 120


def focal(out, y):
    log_p = F.log_softmax(out, dim=1).gather(1, y[:, None])[:, 0]
    return -((1 - log_p.exp()) ** 2) * log_p


def pinball(out, y):
    return torch.maximum(0.8 * (y - out), 0.2 * (out - y))


def quartic(out, y):
    return (out - y) ** 4


def quartic_slope(out, y):
    return 4 * (out - y) ** 3


quartic_pair = (quartic, quartic_slope)


def network(outputs):
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, outputs)
    return torch.nn.Sequential(*layers).double()


def data(labels, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    score = x @ [1.0, 0.5, -0.5] + rng.normal(size=N)
    y = (score > 0).astype(int) if labels == "classes" else score
    group = np.where(x[:, 0] + rng.normal(size=N) > 0, "a", "b")
    return AuditData.from_arrays(x, y, {"group": group})


CASES = {
    "focal": (focal, 2, "logits", "classes"),
    "pinball": (pinball, 1, "values", "numbers"),
    "a NumPy pair": (quartic_pair, 1, "values", "numbers"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_flow_is_that_of_a_plain_autograd_loop(case):
    loss, outputs, output, labels = CASES[case]
    module, people = network(outputs), data(labels)
    metric = likewise.metrics.ProjectionMetric(np.array([[1.0, 0.0, 0.0]]))
    steps = (0.05,) * 30
    settings = likewise.Settings(
        checks="core",
        method={"name": "gradient_flow", "lam": 2.0, "solver": "euler", "steps": list(steps)},
        columns={"output": output},
    )
    result = likewise.audit(module, people, metric=metric, loss=loss, settings=settings)
    value = loss if callable(loss) else loss[0]
    y = torch.from_numpy(people.y)
    x0 = torch.from_numpy(people.x)
    x = x0.clone()
    sigma = torch.diag(torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64))
    for step in steps:
        x = x.detach().requires_grad_()
        out = module(x)
        total = value(out[:, 0] if outputs == 1 else out, y).sum()
        (slope,) = torch.autograd.grad(total, x)
        x = x + step * (slope - 2 * 2.0 * (x - x0) @ sigma)
    with torch.no_grad():
        out = module(x)
        after = value(out[:, 0] if outputs == 1 else out, y).numpy()
    np.testing.assert_allclose(result.outcomes.loss_after, after, rtol=1e-10, atol=1e-12)
    assert result.record.settings.decide.loss == as_loss(loss).name
    assert as_loss(loss).name.endswith(value.__name__)


def test_matched_pairs_take_the_loss():
    frames = []
    for seed in (0, 1):
        people = data("classes", seed)
        frames.append(pd.DataFrame(people.x, columns=["p", "q", "r"]))
        frames[-1]["group"], frames[-1]["y"] = people.protected["group"], people.y
    frame, pool = frames
    choices = {"label": "y", "protected": "group", "may_matter": ["q", "r"], "checks": "core"}
    choices["pool"] = pool
    result = likewise.audit(network(2), frame, loss=focal, **choices)
    assert result.record.settings.decide.loss == as_loss(focal).name
    with pytest.raises(InvalidSettings, match="negative for some people"):
        likewise.audit(network(2), frame, loss=lambda out, y: -focal(out, y), **choices)


BAD = {
    "an average": (lambda out, y: F.cross_entropy(out, y), r"shape \(\) for 10 rows.*reduction"),
    "NaN": (lambda out, y: focal(out, y) * torch.nan, "NaN or infinite"),
    "negative": (lambda out, y: focal(out, y) - 1, "negative for some people"),
    "the wrong shape": (lambda out, y: out, r"shape \(10, 2\) for 10 rows"),
    "of a batch": (lambda out, y: focal(out, y) / len(y) + 0 * y, "who else is in the batch"),
    "no gradient": (lambda out, y: focal(out.detach(), y), "has no gradient"),
    "a failure": (lambda out, y: out @ out, "cannot be computed from outputs of shape"),
    "another gradient": (
        (lambda out, y: out[:, 0] ** 2, lambda out, y: np.stack([out[:, 0], 0 * y], axis=1)),
        "differences of its values say",
    ),
    "not a function": (7, "not int"),
    "one for numbers": ("squared", "not judged by the squared loss"),
    "three functions": ((quartic,) * 3, "pair of NumPy"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_loss_that_cannot_be_used_is_one_sentence(what):
    loss, words = BAD[what]
    people = data("classes")
    metric = likewise.metrics.ProjectionMetric(np.array([[1.0, 0.0, 0.0]]))
    with pytest.raises(InvalidSettings, match=words) as refused:
        likewise.audit(network(2), people, metric=metric, loss=loss, checks="core")
    assert "\n" not in str(refused.value)


def test_a_named_loss_needs_trust_and_travels_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "own_losses.py").write_text(
        "def value(out, y):\n    return (out - y) ** 4\n"
        "def slope(out, y):\n    return 4 * (out - y) ** 3\n"
        "quartic = (value, slope)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettings, match="--trust"):
        as_loss("own_losses:quartic")
    found = as_loss("own_losses:quartic", trust=True)
    assert isinstance(found, CustomLoss)
    assert found.name == "own_losses:quartic"
    again = pickle.loads(pickle.dumps(found))
    out, y = np.array([[2.0], [3.0]]), np.array([1.0, 1.0])
    assert again(out, y).tolist() == [1.0, 16.0]
    assert again.gradient(out, y).tolist() == [[4.0], [32.0]]
    assert again.fingerprint == found.fingerprint != as_loss(quartic_pair).fingerprint
    with pytest.raises(InvalidSettings, match="has no loss 'cubic'"):
        as_loss("own_losses:cubic", trust=True)
    with pytest.raises(InvalidSettings, match=r"There is no loss 'sqared'.*'squared'"):
        as_loss("sqared")
