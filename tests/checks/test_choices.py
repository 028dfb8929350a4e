"""Choices made in Python, in a settings file or by a flag are the same, and are written down."""

import numpy as np
import pytest
import torch

import likewise
from likewise.errors import InvalidSettings
from likewise.maps.feasible import Feasible
from likewise.settings import Settings

CORE = Settings(checks="core")
W = np.array([1.0, 0.8, -0.6])


def people(n=300, seed=0):
    """People with a whole number, which carries their trait, and two other features."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    x = np.column_stack([rng.integers(0, 3, n) + group, rng.normal(size=(n, 2))])
    y = (x @ W + rng.normal(size=n) > 1).astype(int)
    return likewise.AuditData.from_arrays(x, y, {"group": group})


@pytest.fixture(scope="module")
def metric():
    return likewise.sensitive_subspace(people(seed=1))


def linear(x):
    return (x @ torch.from_numpy(W).to(x) - 1)[:, None]


def audit(metric, map=None, settings=CORE, **more):
    model = likewise.as_model(linear, output="logits")
    return likewise.audit(model, people(), metric=metric, map=map, settings=settings, **more)


@pytest.mark.parametrize("wrap", [lambda map: map, lambda map: likewise.Worst((map,))])
def test_a_feasible_search_in_python_is_that_of_the_settings(metric, wrap):
    by_hand = audit(metric, wrap(likewise.Reach(feasible=True)))
    by_file = audit(metric, settings=CORE.changed(decide__map="reach", reach__feasible=True))
    assert by_hand.record.settings.reach.feasible
    assert np.array_equal(by_hand.outcomes.loss_after, by_file.outcomes.loss_after)
    whole = [case.after["x0"] for case in by_hand.worst(100)]
    assert set(whole) <= {0.0, 1.0, 2.0, 3.0}


def test_a_search_that_need_not_be_feasible_says_so(metric):
    assert likewise.Reach(feasible=False).feasible is None
    result = audit(metric, likewise.Reach(feasible=False))
    assert not result.record.settings.reach.feasible


def test_what_is_feasible_cannot_be_learned_from_nobody(metric):
    model = likewise.as_model(linear, output="logits")
    with pytest.raises(InvalidSettings, match="learned from people"):
        likewise.Reach(feasible=True).bind(model, metric)
    data = people()
    likewise.Reach(feasible=Feasible.of(data.x)).bind(model, metric)
