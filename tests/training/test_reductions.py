"""Reductions: the mixture, and the equal rates it is for."""

import sys

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from likewise.errors import InvalidData, MissingExtra, TrainingWarning
from likewise.training import ReductionsClassifier
from likewise.training.baselines import mixture_of


def member(coefficients: list[float], intercept: float) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array([coefficients]), np.array([intercept])
    return model


def sample(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    trait = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 3))
    x[:, 0] += 1.5 * trait
    return x, (x[:, 0] + x[:, 1] + rng.normal(size=2000) > 0.75).astype(int), trait


def odds_gap(decided: np.ndarray, y: np.ndarray, trait: np.ndarray) -> float:
    """Largest difference in true or false positive rates between the two groups."""
    return max(
        abs(decided[(y == c) & (trait == 0)].mean() - decided[(y == c) & (trait == 1)].mean())
        for c in (0, 1)
    )


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
    x, y, trait = sample(rng)
    fair = ReductionsClassifier(difference_bound=0.03).fit(x, y, protected={"trait": trait})
    with pytest.warns(TrainingWarning):
        plain = ReductionsClassifier().fit(x, y)
    assert odds_gap(plain.predict(x), y, trait) > 0.2
    assert odds_gap(fair.predict(x), y, trait) < 0.5 * odds_gap(plain.predict(x), y, trait)
    assert fair.score(x, y) > 0.7


def test_several_traits_form_groups_together_and_a_missing_one_is_refused(rng, monkeypatch):
    x, y, trait = sample(rng)
    other = rng.integers(0, 2, len(y))
    together, by_hand = (
        ReductionsClassifier(max_iter=10, random_state=0).fit(x, y, protected=given)
        for given in (np.stack([trait, other], axis=1), 2 * trait + other)
    )
    np.testing.assert_array_equal(together.predict_proba(x), by_hand.predict_proba(x))
    holes = trait.astype(object)
    holes[:7] = None
    with pytest.raises(InvalidData, match="'trait' is missing for 7 people"):
        ReductionsClassifier().fit(x, y, protected={"trait": holes})
    monkeypatch.setitem(sys.modules, "fairlearn.reductions", None)
    with pytest.raises(MissingExtra, match=r"pip install 'likewise\[fairlearn\]'"):
        ReductionsClassifier().fit(x, y, protected=trait)
