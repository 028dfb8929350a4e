"""Models that hide their gradient are caught; honest ones are not accused of it."""

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier

import likewise
from likewise.audit_data import AuditData
from likewise.models import as_model
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    n = 1600
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 4)) + np.outer(group, [1.5, 0.5, 0, 0])
    y = (x @ [1.0, 1.0, 1.0, 0.0] + 0.8 * rng.normal(size=n) > 1).astype(int)
    fitted = MLPClassifier((12,), max_iter=400, random_state=0).fit(x[800:], y[800:])
    metric = likewise.metrics.sensitive_subspace(
        AuditData.from_arrays(x[800:], y[800:], {"group": group[800:]}),
        controls=0,
    )
    people = AuditData.from_arrays(x[:800], y[:800], {"group": group[:800]})
    module = as_model(fitted)
    return people, metric, module


def in_torch(model):
    """The same network, as a torch module."""
    modules = []
    for layer in model.network:
        modules += [torch.nn.ReLU()] if layer.activation else []
        modules.append(torch.nn.Linear(*layer.weight.T.shape, dtype=torch.float64))
        with torch.no_grad():
            modules[-1].weight.copy_(torch.from_numpy(layer.weight))
            modules[-1].bias.copy_(torch.from_numpy(layer.bias[:, 0]))
    return torch.nn.Sequential(*modules)


class Hidden(torch.nn.Module):
    """The network, with a function of its logits that has no gradient to follow."""

    def __init__(self, inner, last):
        super().__init__()
        self.inner, self.last = in_torch(inner), last

    def forward(self, x):
        return self.last(self.inner(x))


def rounded(logits):
    """Probabilities rounded to two digits: no gradient almost everywhere."""
    return torch.round(torch.sigmoid(logits) * 100) / 100


def saturated(logits):
    """Logits so large that the gradient of the loss vanishes wherever the decision is right."""
    return 40.0 * logits


def misses(record):
    return any("flow misses unfairness in this model" in warning for warning in record.warnings)


def test_an_honest_network_passes_and_flow_and_search_are_shown_together(world):
    people, metric, model = world
    record = likewise.audit(model, people, metric=metric, method="gradient_flow").record
    assert not misses(record)
    assert record.secondary[0].estimate > 1.05
    assert {test.method for test in record.secondary} == {"reach"}


@pytest.mark.parametrize(("last", "output"), [(rounded, "probabilities"), (saturated, "logits")])
def test_models_that_hide_their_gradient_are_caught(world, last, output):
    people, metric, model = world
    settings = Settings(method="gradient_flow", columns={"output": output})
    record = likewise.audit(Hidden(model, last), people, metric=metric, settings=settings).record
    assert misses(record)
    if last is rounded:  # the flow itself finds nothing
        assert record.verdict != "evidence"
