"""Project: what it must be blind to, and that it still learns."""

import numpy as np
import torch

from likewise.audit_data import AuditData
from likewise.methods.learn_metric import sensitive_subspace
from likewise.training import ProjectClassifier


def sample(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    trait = rng.integers(0, 2, 800)
    x = rng.normal(size=(800, 5))
    x[:, 0] += 2 * trait
    return x, (x[:, 0] + 2 * x[:, 1] > 1).astype(int), trait


def test_project_does_not_see_the_learned_subspace(rng):
    x, y, trait = sample(rng)
    model = ProjectClassifier(max_iter=300, learning_rate=1e-3).fit(
        x, y, protected={"trait": trait}
    )
    people = AuditData.from_arrays(x, y, {"trait": trait})
    free = sensitive_subspace(people, C=1.0, groups=0, placebos=0).free

    network = model.to_torch()
    before = network(torch.from_numpy(x))
    after = network(torch.from_numpy(x + 100 * free[0]))

    # Moving 100 units along a removed direction leaves rounding only: 100 × 1e-16 × a few.
    assert (before - after).abs().max() < 1e-11
    assert model.score(x, y) > 0.7


def test_project_takes_directions_of_any_length_and_number(rng):
    x, y, _ = sample(rng)
    once = ProjectClassifier([[3.0, 0, 0, 0, 0]], max_iter=20, random_state=0).fit(x, y)
    twice = ProjectClassifier(
        [[1.0, 0, 0, 0, 0], [7.0, 0, 0, 0, 0]], max_iter=20, random_state=0
    ).fit(x, y)

    np.testing.assert_allclose(once.predict_proba(x), twice.predict_proba(x), atol=1e-6)
