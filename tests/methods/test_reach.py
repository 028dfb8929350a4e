import numpy as np
import pytest
import torch

from likewise.errors import InvalidMetric, InvalidModel, InvalidSettings
from likewise.methods.metric import FairMetric, ProjectionMetric, ignoring
from likewise.methods.plausible_region import Ellipsoid
from likewise.methods.reach import Reach
from likewise.models.base import Model, ModelCard


class Function(Model):
    """A function of tensors, as a model that gives logits (or values)."""

    def __init__(self, function, *, differentiable=True, task="classification"):
        self.function = function
        output = "logits" if task == "classification" else "values"
        self.card = ModelCard("function", output, differentiable=differentiable)
        self.rows = 0

    def __call__(self, x):
        self.rows += len(x)
        return self.function(torch.from_numpy(x)).numpy()

    def outputs_and_pullback(self, x):
        self.rows += len(x)
        at = torch.from_numpy(x).requires_grad_()
        out = self.function(at)
        return out.detach().numpy(), lambda g: torch.autograd.grad(out, at, torch.from_numpy(g))[
            0
        ].numpy()


def normal(*shape, seed=0):
    """The same numbers as ever for a seed: what is expected below was found with them."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.numpy()


def setting(d=8, k=2, n=300, seed=0):
    """People, labels, and a metric with k free directions and the reach of a sample."""
    metric = ignoring(normal(k, d, seed=seed + 1))
    sample = normal(500, d, seed=seed + 2) @ normal(d, d, seed=seed + 3)
    reach = Ellipsoid.from_sample(sample @ metric.free.T)
    x0 = normal(n, d, seed=seed + 4) @ normal(d, d, seed=seed + 3)
    y = np.arange(n) % 2
    return x0, y, ProjectionMetric(metric.free, reach=reach)


def logistic(d=8, seed=9, **more):
    w = normal(d, seed=seed)
    return Function(lambda x: (x @ torch.from_numpy(w))[:, None], **more), w


def network(d=8, hidden=30, seed=5, **more):
    a, b = map(torch.from_numpy, (normal(d, hidden, seed=seed), normal(hidden, 2, seed=seed + 1)))
    return Function(lambda x: torch.tanh(x @ a / 2) @ b, **more)


# Share of the largest possible loss that is found; with random directions in 8 dimensions and 60
# calls, some of it is missed.
@pytest.mark.parametrize(("k", "share"), [(1, 0.9999), (2, 0.9999), (3, 0.99), (5, 0.97), (7, 0.8)])
def test_a_linear_model_is_worst_on_the_rim_where_algebra_says(k, share):
    x0, y, metric = setting(d=8, k=k)
    model, w = logistic(differentiable=False)
    moved = Reach().bind(model, metric)(x0, y)
    # The margin is linear, so on the ellipsoid it falls at most by the length of the image of w.
    sign = 2 * y - 1
    reach, along = metric.reach, metric.free @ w
    stays = sign * ((x0 - x0 @ metric.free.T @ metric.free) @ w)
    lowest = stays + sign * (reach.mean @ along) - np.linalg.norm(reach.axes @ along)
    lowest = np.minimum(lowest, sign * (x0 @ w))  # those beyond the ellipsoid may stay
    found = sign * (moved.x @ w)
    drop, most = sign * (x0 @ w) - found, sign * (x0 @ w) - lowest
    assert (found >= lowest - 1e-9).all()
    assert drop.sum() >= share * most.sum()


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_everyone_ends_within_reach_or_where_they_were(k):
    x0, y, metric = setting(k=k)
    x0 = 3 * x0  # many of them beyond the ellipsoid
    moved = Reach().bind(network(), metric)(x0, y)
    inside = metric.reach.distance(moved.x @ metric.free.T) <= 1 + 1e-9
    stayed = (moved.x == x0).all(axis=1)
    assert (inside | stayed).all()
    assert metric.reach.distance(x0 @ metric.free.T).max() > 1
    # Free moves cost nothing; coordinates are near 30, so their rounding squared is below 1e-25.
    assert metric.squared_distance(moved.x, x0).max() < 1e-25


@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize("differentiable", [True, False])
def test_nobody_is_served_better_and_the_budget_is_kept(k, differentiable):
    x0, y, metric = setting(k=k)
    model = network(differentiable=differentiable)
    for budget in (1, 2, 10, 60):
        model.rows = 0
        moved = Reach(budget=budget).bind(model, metric)(x0, y)
        assert model.rows <= budget * len(x0)
        assert moved.evaluations <= budget
        assert (model.loss(model(moved.x), y) >= model.loss(model(x0), y)).all()


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_basis_chosen_for_the_free_directions_does_not_matter(k):
    x0, y, metric = setting(k=k)
    turn = np.linalg.qr(normal(k, k, seed=11)).Q
    reach = metric.reach
    turned = ProjectionMetric(
        turn @ metric.free,
        reach=Ellipsoid(turn @ reach.mean, turn @ reach.covariance @ turn.T, reach.radius),
    )
    here, there = (Reach().bind(network(), m)(x0, y) for m in (metric, turned))
    # The same search in other coordinates: only rounding differs.
    np.testing.assert_allclose(here.x, there.x, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("k", [2, 7])
def test_a_row_does_not_depend_on_its_block(k, monkeypatch):
    x0, y, metric = setting(k=k)
    bound = Reach().bind(network(), metric)
    whole = bound(x0, y).x
    order = np.random.default_rng(3).permutation(len(x0))
    np.testing.assert_allclose(bound(x0[order], y[order]).x, whole[order], atol=1e-9, rtol=0)
    np.testing.assert_allclose(bound(x0[:7], y[:7]).x, whole[:7], atol=1e-9, rtol=0)
    monkeypatch.setattr("likewise.methods.reach.NUMBERS", 8 * 60 * 13)
    np.testing.assert_allclose(bound(x0, y).x, whole, atol=1e-9, rtol=0)
    assert bound(x0[:0], y[:0]).x.shape == (0, 8)


def test_nothing_free_or_no_variation_moves_nobody():
    x0, y, metric = setting()
    nothing = ProjectionMetric(metric.free[:0], reach=Ellipsoid.from_sample(np.zeros((5, 0))))
    flat = ProjectionMetric(metric.free, reach=Ellipsoid.from_sample(np.ones((5, 2))))
    for other in (nothing, flat):
        moved = Reach().bind(network(), other)(x0, y)
        assert np.array_equal(moved.x, x0)
        assert moved.evaluations == 1


def test_bad_choices_are_refused_in_a_sentence():
    x0, y, metric = setting()
    with pytest.raises(InvalidSettings, match="at least one model call, not 0"):
        Reach(budget=0)
    with pytest.raises(InvalidMetric, match="how far a similar person may be"):
        Reach().bind(network(), ignoring([1.0] * 8))

    class Odd(FairMetric):
        def squared_distance(self, x, x0):
            return np.abs(x - x0).sum(axis=1)

    with pytest.raises(InvalidMetric, match="Only quadratic metrics"):
        Reach().bind(network(), Odd())
    broken = Function(lambda x: torch.where(x[:, :1] > 2, torch.nan, x[:, :1]))
    with pytest.raises(InvalidModel, match="NaN or infinity"):
        Reach().bind(broken, metric)(x0, y)
