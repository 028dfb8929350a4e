"""SenSR: its written-out gradients, its attacks, and what they are for."""

import numpy as np
import pytest
import torch
from torch import nn

from likewise.training import BaselineClassifier, SenSRClassifier
from likewise.training.networks import new_network
from likewise.training.sensr import AdamAscent, Attack, Head


def attack_on(network: nn.Sequential, directions: torch.Tensor, **changes: float) -> Attack:
    model = SenSRClassifier(**{"subspace_rate": 0.5, **changes})
    model.subspace_rate_ = float(model.subspace_rate)
    return Attack(model, network, directions)


def sample(rng: np.random.Generator, n: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    trait = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 6))
    x[:, 0] += 2 * trait
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=n) > 1).astype(int)
    return x, y, trait


@pytest.mark.parametrize("k", [2, 3])
def test_the_written_out_gradient_is_autograds(k, rng):
    network = new_network(5, 20, k, rng).double()
    y = torch.from_numpy(rng.integers(0, k, 40))
    hidden = torch.from_numpy(rng.normal(size=(40, 20))).requires_grad_()
    head = Head(network[2].weight.detach(), network[2].bias.detach(), y)

    loss = nn.functional.cross_entropy(network[2](hidden.relu()), y)
    (gradient,) = torch.autograd.grad(loss, hidden)

    assert head.loss(hidden).item() == pytest.approx(loss.item(), rel=1e-12)
    torch.testing.assert_close(head.slope(hidden.detach()), gradient, rtol=1e-10, atol=1e-14)


def test_ascent_is_adam(rng):
    start = torch.from_numpy(rng.normal(size=(3, 2)))
    ours, theirs = AdamAscent(start.clone()), start.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1, maximize=True)

    for _ in range(20):
        gradient = torch.from_numpy(rng.normal(size=(3, 2)))
        ours.step(gradient, 0.1)
        theirs.grad = gradient
        optimizer.step()

    # They add the same tiny constant to the root before and after its bias correction.
    torch.testing.assert_close(ours.x, theirs.detach(), rtol=1e-6, atol=1e-6)


def test_the_first_attack_moves_within_the_subspace_and_the_second_within_its_budget(rng):
    network = new_network(6, 30, 2, rng, bias=0.1)
    x, y, _ = sample(rng, 200)
    batch = torch.from_numpy(x).float()
    directions = torch.zeros(2, 6)
    directions[0, 0], directions[1, :2] = 3.0, 1.0

    moved = attack_on(network, directions)(batch, torch.from_numpy(y)) - batch

    assert moved[:, :2].abs().max() > 0.5
    # Outside the subspace everyone moves by the budget 50 × 1e-4, up to float32 rounding.
    torch.testing.assert_close(moved[:, 2:].abs(), torch.full((200, 4), 5e-3), atol=1e-6, rtol=0)


def test_both_attacks_raise_the_loss(rng):
    network = new_network(6, 30, 2, rng, bias=0.1)
    x, y, _ = sample(rng, 300)
    batch, classes = torch.from_numpy(x).float(), torch.from_numpy(y)
    before = nn.functional.cross_entropy(network(batch), classes)

    moved = attack_on(network, torch.eye(1, 6))(batch, classes)
    assert nn.functional.cross_entropy(network(moved), classes) > before


def test_lam_falls_while_people_move_less_than_the_radius_and_rises_otherwise(rng):
    network = new_network(6, 30, 2, rng, bias=0.1)
    x, y, _ = sample(rng, 300)
    batch, classes = torch.from_numpy(x).float(), torch.from_numpy(y)

    near = attack_on(network, torch.eye(1, 6), full_rate=1e-5)
    far = attack_on(network, torch.eye(1, 6), full_rate=1e-2, lam=1e-5)
    near(batch, classes)
    far(batch, classes)

    assert near.lam < 2.0
    assert far.lam > 1e-5


def test_a_failed_second_attack_skips_the_step_and_shortens_the_next(rng):
    network = new_network(6, 30, 2, rng, bias=0.1)
    x, y, _ = sample(rng, 300)
    attack = attack_on(network, torch.eye(1, 6), full_rate=0.1, lam=1e3)

    assert attack(torch.from_numpy(x).float(), torch.from_numpy(y)) is None
    assert attack.full_rate == pytest.approx(0.0999)
    assert attack.lam == 1e3


def test_sensr_learns_not_to_look_at_the_subspace(rng):
    x, y, trait = sample(rng)
    baseline = BaselineClassifier(max_iter=600, learning_rate=3e-3, random_state=0).fit(x, y)
    sensr = SenSRClassifier(
        subspace_rate=10.0, max_iter=600, learning_rate=3e-3, random_state=0
    ).fit(x, y, protected=trait)
    moved = x + np.eye(1, 6)

    def change(model):
        return np.abs(model.predict_proba(moved) - model.predict_proba(x)).mean()

    assert change(sensr) < 0.1 * change(baseline)
    assert sensr.score(x, y) > 0.65  # a half of what decides is left to it


def test_sensr_takes_three_classes(rng):
    x, y, trait = sample(rng, 600)
    classes = np.array(["low", "middle", "high"])[y + (x[:, 2] > 0)]

    model = SenSRClassifier(subspace_rate=1.0, max_iter=200, learning_rate=3e-3).fit(
        x, classes, protected=trait
    )

    assert model.predict_proba(x).shape == (600, 3)
    assert model.score(x, classes) > 0.45
