"""Networks: weights and batches, Project, the attack of SenSR, and Reductions."""

import sys

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from likewise.errors import InvalidData, LikewiseWarning, MissingExtra
from likewise.training import BaselineClassifier, ReductionsClassifier, SenSRClassifier
from likewise.training.baselines import mixture_of
from likewise.training.networks import new_network
from likewise.training.sensr import Attack, Head
from likewise.training.sklearn_compat import TrainingData


def attack_on(network, directions, **changes):
    model = SenSRClassifier(**{"subspace_rate": 0.5, **changes})
    model.subspace_rate_ = float(model.subspace_rate)
    return Attack(model, network, directions)


def sample(rng, n=2000, noise=1.0):
    attribute = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 6))
    x[:, 0] += 2 * attribute
    y = (x[:, 0] + x[:, 1] + noise * rng.normal(size=n) > 1).astype(int)
    return x, y, attribute


@pytest.fixture
def attacked(rng):
    """Return a network, and people to attack it with, as tensors."""
    x, y, _ = sample(rng, 300, 0.5)
    return new_network(6, 30, 2, rng, bias=0.1), torch.from_numpy(x).float(), torch.from_numpy(y)


@pytest.mark.parametrize("balanced", [True, False])
def test_a_batch_holds_equally_many_of_each_class_or_looks_like_the_sample(rng, balanced):
    y = np.repeat([0, 1, 2], [500, 460, 40])
    data = TrainingData(np.zeros((1000, 1)), y, {}, None, ())
    model = BaselineClassifier(batch_size=90, max_iter=300, balanced=balanced)
    drawn = [np.bincount(y[rows.numpy()], minlength=3) for rows in model._batches(data, rng)]
    assert len(drawn) == 300
    if balanced:
        assert (np.array(drawn) == 30).all()
    else:
        # 27 000 draws at a rate of .04: six standard errors are .007.
        assert abs(np.sum(drawn, axis=0)[2] / 27_000 - 0.04) < 0.007


@pytest.mark.parametrize("k", [2, 3])
def test_the_first_attack_is_adam(k, rng):
    network = new_network(6, 30, k, rng, bias=0.1).double()
    batch, classes = torch.from_numpy(rng.normal(size=(300, 6))), torch.arange(300) % k
    directions = torch.eye(2, 6).double()
    ours, _ = attack_on(network, directions)._within(
        network[0](batch), network[0].weight, Head(*list(network.parameters())[2:], classes)
    )
    theirs = torch.zeros(len(batch), 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.5, maximize=True)
    for _ in range(10):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(batch + theirs @ directions), classes).backward()
        optimizer.step()
    # Both add a tiny constant to the root, one before and one after its bias correction; a few
    # people at a kink take another way for that.
    assert (ours - theirs).abs().median() < 0.01
    assert ours.abs().median() > 1


def test_attacks_move_within_the_subspace_and_their_budget_and_raise_the_loss(attacked):
    network, batch, classes = attacked
    directions = torch.zeros(2, 6)
    directions[0, 0], directions[1, :2] = 3.0, 1.0
    moved = attack_on(network, directions)(batch, classes)
    assert (moved - batch)[:, :2].abs().max() > 0.5
    # Outside the subspace everyone moves by the budget 50 × 1e-4, up to float32 rounding.
    assert ((moved - batch)[:, 2:].abs() - 5e-3).abs().max() < 1e-6
    loss = nn.functional.cross_entropy
    assert loss(network(moved), classes) > loss(network(batch), classes)


def test_lam_follows_the_radius_and_a_failed_second_attack_skips_the_step(attacked):
    network, batch, classes = attacked
    near = attack_on(network, torch.eye(1, 6), full_rate=1e-5)
    far = attack_on(network, torch.eye(1, 6), full_rate=1e-2, lam=1e-5)
    near(batch, classes)
    far(batch, classes)
    assert near.lam < 2.0
    assert far.lam > 1e-5
    failed = attack_on(network, torch.eye(1, 6), full_rate=0.1, lam=1e3)
    assert failed(batch, classes) is None
    assert failed.full_rate == pytest.approx(0.0999)
    assert failed.lam == 1e3


def member(coefficients: list[float], intercept: float) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array([coefficients]), np.array([intercept])
    return model


def test_the_mixture_is_the_weighted_mean_of_its_members_to_the_last_digits(rng):
    x = rng.normal(size=(50, 2))
    mixture = mixture_of([0.3, 0.7], [member([1.0, -2.0], 0.5), member([0.2, 3.0], -1.0)], 2)
    mean = 0.3 * expit(x @ [1.0, -2.0] + 0.5) + 0.7 * expit(x @ [0.2, 3.0] - 1.0)
    out = mixture(torch.from_numpy(x))
    np.testing.assert_allclose(torch.softmax(out, dim=1)[:, 1].detach().numpy(), mean, rtol=1e-13)
    mixture = mixture_of([0.5, 0.5], [member([1.0], 0.0), member([1.0], -5.0)], 1)
    low, high = mixture(torch.tensor([[800.0]], dtype=torch.float64))[0].tolist()
    # P(0) = (e^-800 + e^-795) / 2 underflows; its logarithm does not.
    assert low == pytest.approx(np.log((np.exp(-5) + 1) / 2) - 795, rel=1e-14)
    assert high == 0
    always = DummyClassifier(strategy="constant", constant=1)  # one answer for all
    mixture = mixture_of([0.25, 0.75], [always, member([0.0, 0.0], 0.0)], 2)
    shares = torch.softmax(mixture(torch.zeros(1, 2, dtype=torch.float64)), dim=1)[0]
    assert shares.tolist() == pytest.approx([0.375, 0.625], rel=1e-12)


def test_rates_differ_less_between_groups_than_without_the_constraint(rng):
    x, y, attribute = sample(rng)

    def odds_gap(model):
        rates = [
            [model.predict(x[(y == c) & (attribute == g)]).mean() for g in (0, 1)] for c in (0, 1)
        ]
        return np.ptp(rates, axis=1).max()

    fair = ReductionsClassifier(difference_bound=0.03).fit(x, y, protected={"attribute": attribute})
    with pytest.warns(LikewiseWarning):
        plain = ReductionsClassifier().fit(x, y)
    assert odds_gap(plain) > 0.2
    assert odds_gap(fair) < 0.5 * odds_gap(plain)
    assert fair.score(x, y) > 0.7


def test_several_traits_form_groups_together_and_a_missing_one_is_refused(rng, monkeypatch):
    x, y, attribute = sample(rng)
    other = rng.integers(0, 2, len(y))
    together, by_hand = (
        ReductionsClassifier(max_iter=10, random_state=0).fit(x, y, protected=given)
        for given in (np.stack([attribute, other], axis=1), 2 * attribute + other)
    )
    np.testing.assert_array_equal(together.predict_proba(x), by_hand.predict_proba(x))
    holes = attribute.astype(object)
    holes[:7] = None
    with pytest.raises(InvalidData, match="'attribute' is missing for 7 people"):
        ReductionsClassifier().fit(x, y, protected={"attribute": holes})
    monkeypatch.setitem(sys.modules, "fairlearn.reductions", None)
    with pytest.raises(MissingExtra, match=r"pip install 'likewise\[fairlearn\]'"):
        ReductionsClassifier().fit(x, y, protected=attribute)
