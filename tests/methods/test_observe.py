import numpy as np
import torch
from scipy.special import softmax

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ignoring
from likewise.methods.observe import observe
from likewise.methods.unfair_map import Moved
from likewise.models import as_model
from likewise.outcomes import Status


def stay(status=None):
    """A map that moves nobody."""

    def bound(x0, y):
        code = np.zeros(len(x0), dtype=np.int64) if status is None else status
        return Moved(x0, code, 0)

    return bound


def test_outcomes_are_the_model_s_losses_decisions_and_probabilities(smooth, metric, people):
    x, y = people
    bound = GradientFlow(steps=8).bind(smooth, metric)
    observed = observe(smooth, bound, metric, x, y)
    seen, x1 = observed.outcomes, observed.x
    p0, p1 = (softmax(smooth(at), axis=1) for at in (x, x1))
    true = p1[np.arange(60), y]
    np.testing.assert_allclose(seen.loss_after, -np.log(true), rtol=1e-10)
    np.testing.assert_allclose(seen.probability_after, true, rtol=1e-12)
    np.testing.assert_array_equal(seen.decision_before, p0.argmax(1))
    np.testing.assert_array_equal(seen.decision_after != seen.y, p1.argmax(1) != y)
    np.testing.assert_allclose(seen.fair_distance, metric.squared_distance(x1, x))
    assert seen.counts() == {"moved": 60, "diverged": 0, "undefined": 0}
    assert (seen.loss_after >= seen.loss_before).all()


def test_a_zero_loss_before_is_undefined_and_not_dropped():
    model = as_model(torch.nn.Linear(1, 1, dtype=torch.float64))
    metric = ignoring([[1.0]])
    with torch.no_grad():
        model.function.double.weight.fill_(1.0)
        model.function.double.bias.fill_(0.0)
    x, y = np.array([[800.0], [0.0]]), np.array([1, 1])

    def push(x0, y):
        return Moved(x0 - 800, np.zeros(2, dtype=np.int64), 1)

    seen = observe(model, push, metric, x, y).outcomes
    assert seen.loss_before[0] == 0 < seen.loss_after[0]
    assert seen.status.tolist() == [Status.UNDEFINED, Status.MOVED]
    # Zero over zero is no change, and has the ratio one.
    still = observe(model, stay(), metric, x, y).outcomes
    assert still.status.tolist() == [Status.MOVED, Status.MOVED]
    assert still.ratio.tolist() == [1.0, 1.0]


def test_a_loss_that_is_not_a_number_is_diverged_and_a_status_of_the_map_stays(
    smooth, metric, people
):
    def push(x0, y):
        return Moved(x0 * np.inf, np.zeros(len(x0), dtype=np.int64), 1)

    gone = stay(np.full(60, int(Status.DIVERGED)))
    for bound, keeps in ((push, False), (push, True), (gone, False)):
        seen = observe(smooth, bound, metric, *people, keeps_start=keeps).outcomes
        assert set(seen.status.tolist()) == {Status.DIVERGED}
