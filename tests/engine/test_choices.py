"""Choices made in Python, in a settings file or by a flag are the same, and are written down."""

import dataclasses
import functools

import numpy as np
import pytest
import torch

import likewise
from helpers import people
from likewise.errors import InvalidSettings
from likewise.methods.unfair_map import Moved, UnfairMap
from likewise.models import as_model
from likewise.settings import Settings
from likewise.settings.choices import digest

CORE = Settings(checks="core")


@pytest.fixture(scope="module")
def metric():
    return likewise.metrics.sensitive_subspace(people(seed=1), groups=0, controls=0)


def audit(metric, method=None, settings=CORE, **more):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).double()
    return likewise.audit(model, people(), metric=metric, method=method, settings=settings, **more)


@pytest.mark.slow
def test_the_papers_simulation_is_written_down_as_it_was_run(metric):
    by_hand = audit(metric, likewise.GradientFlow.paper_simulation())
    flow = by_hand.record.settings.method
    # The steps 0.02/k^(2/3) add up to 0.39, and their price is 100.
    assert flow.params["lam"] == 100
    assert flow.params["time"] == pytest.approx(sum(0.02 / k ** (2 / 3) for k in range(1, 401)))
    again = audit(metric, settings=by_hand.record.settings)
    assert again.record.settings_hash == by_hand.record.settings_hash
    assert np.array_equal(again.outcomes.loss_after, by_hand.outcomes.loss_after)


@dataclasses.dataclass(frozen=True, eq=False)
class Shift(UnfairMap):
    """Adds the same numbers to everyone's features."""

    by: np.ndarray

    def bind(self, model, metric):
        return lambda x0, y: Moved(x0 + self.by, np.zeros(len(x0), dtype=int), 1)


def test_an_array_that_was_handed_over_is_noted_by_its_hash(metric):
    found = [audit(metric, Shift(np.full(4, by))).record.settings for by in (0.1, 0.2, 0.2)]
    assert found[0].hash != found[1].hash == found[2].hash
    with pytest.raises(InvalidSettings, match="handed over"):
        audit(metric, settings=found[0], trust=True)


def test_a_function_is_known_by_its_code_and_what_it_closes_over():
    def scaled(by, power=2):
        return lambda x, x0: by * (np.abs(x - x0) ** power).sum(axis=1)

    assert digest(scaled(1.0)) == digest(scaled(1.0))
    assert digest(scaled(np.ones(3))) == digest(scaled(np.ones(3)))
    others = [scaled(1.0), scaled(2.0), scaled(1.0, 3), scaled(np.ones(3)), lambda x, x0: 1.0]
    others += [functools.partial(scaled(1.0), 5), functools.partial(scaled(1.0), 6)]
    assert len({digest(one) for one in others}) == len(others)


@pytest.mark.parametrize("test", ["mean_loss_ratio", "error_rate_ratio"])
def test_what_does_not_suit_the_task_is_refused_before_anybody_moves(metric, test):
    output = "logits" if test == "mean_loss_ratio" else "values"
    model = as_model(torch.nn.Linear(4, 1).double(), output=output)
    with pytest.raises(InvalidSettings, match=test):
        likewise.audit(model, people(), metric=metric, settings=CORE.changed(decide__test=test))
