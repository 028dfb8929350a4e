import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from likewise.errors import InvalidModel
from likewise.models import as_model, check


class Around(nn.Module):
    """A linear layer with something done to its output."""

    def __init__(self, after):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.after = after

    def forward(self, x):
        return self.after(self.layer(x))


RANDOM = {
    "dropout left on": lambda h: F.dropout(h, 0.3, training=True),
    "noise": lambda h: h + 1e-6 * torch.randn_like(h),
}
MIXING = {
    "batch statistics": lambda h: F.batch_norm(h, None, None, training=True),
    "softmax over people": lambda h: h.softmax(dim=0),
    "centred": lambda h: h - h.mean(dim=0),
    "running sum": lambda h: h.cumsum(dim=0),
    "sorted": lambda h: h.sort(dim=0).values,
    "first row added": lambda h: h + h[:1],
    "ranked": lambda h: h.argsort(dim=0).argsort(dim=0).double() + 0 * h,
}


@pytest.mark.parametrize("kind", RANDOM)
def test_a_random_model_is_refused_with_the_reason(kind, rng):
    with pytest.raises(InvalidModel, match=r"is random.*dropout"):
        check(as_model(Around(RANDOM[kind])), rng.normal(size=(100, 4)))


@pytest.mark.parametrize("kind", MIXING)
@pytest.mark.parametrize("n", [2, 7, 1000])
def test_a_model_whose_rows_mix_is_refused_with_the_reason(kind, n, rng):
    with pytest.raises(InvalidModel, match="rows influence each other"):
        check(as_model(Around(MIXING[kind]), output="logits"), rng.normal(size=(n, 4)))


def test_modes_set_in_forward_are_found_by_behaviour(rng):
    class Stubborn(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

        def forward(self, x):
            return self.layers.train()(x)

    with pytest.raises(InvalidModel, match=r"influence|random"):
        check(as_model(Stubborn()), rng.normal(size=(64, 4)))


@pytest.mark.parametrize("mode", [True, False])
def test_ordinary_layers_pass_whatever_mode_they_are_in(mode, rng):
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    check(as_model(module.train(mode)), rng.normal(size=(500, 4)))


def test_single_precision_rounding_is_no_mixing(rng):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(300, 500), nn.ReLU(), nn.Linear(500, 2))

        def forward(self, x):
            return self.layers(x.float())

    model = as_model(Wide())
    assert model.dtype == np.float32
    check(model, rng.normal(size=(500, 300)))


def test_columns_in_another_order_are_refused(rng):
    from sklearn.linear_model import LogisticRegression

    x = rng.normal(size=(60, 2))
    fitted = LogisticRegression().fit(x, x[:, 0] > 0)
    fitted.feature_names_in_ = ["age", "hours"]
    model = as_model(fitted)
    check(model, x, features=("age", "hours"))
    check(model, x, features=("a", "b"))  # other names: nothing can be said
    with pytest.raises(InvalidModel, match=r"another order: column 1 is 'age'"):
        check(model, x, features=("hours", "age"))
