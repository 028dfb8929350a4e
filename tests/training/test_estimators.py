"""The contract that all training methods share."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from likewise.errors import InvalidData, InvalidSettings, LikewiseError, TrainingWarning
from likewise.training import (
    BaselineClassifier,
    ProjectClassifier,
    ReductionsClassifier,
    SenSRClassifier,
)

SMALL = [
    BaselineClassifier(max_iter=5),
    ProjectClassifier(max_iter=5),
    ReductionsClassifier(max_iter=5),
    SenSRClassifier(max_iter=5),
]
NEEDING_TRAITS = SMALL[1:]


@dataclasses.dataclass(frozen=True)
class People:
    x: np.ndarray
    y: np.ndarray
    trait: np.ndarray


@pytest.fixture
def people(rng: np.random.Generator) -> People:
    """People of two groups; the first feature tells the group, the label leans on it."""
    trait = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 4))
    x[:, 0] += 2 * trait
    y = (x[:, 0] + x[:, 1] + rng.normal(size=600) > 1).astype(int)
    return People(x, y, trait)


@pytest.mark.filterwarnings("ignore::likewise.errors.TrainingWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [*SMALL, BaselineClassifier(max_iter=60, learning_rate=0.01)],
    ids=lambda e: f"{type(e).__name__}-{e.max_iter}",
)
def test_scikit_learn_accepts_the_estimator(estimator):
    results = check_estimator(estimator, on_fail="raise")

    assert sum(result["status"] == "passed" for result in results) > 50


@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: type(e).__name__)
def test_the_same_random_state_gives_the_same_model(estimator, people):
    def probabilities(seed):
        model = clone(estimator).set_params(random_state=seed)
        return model.fit(people.x, people.y, people.trait).predict_proba(people.x)

    np.testing.assert_array_equal(probabilities(1), probabilities(1))
    if not isinstance(estimator, ReductionsClassifier):  # liblinear's answer has no luck in it
        assert np.abs(probabilities(1) - probabilities(2)).max() > 1e-3


@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: type(e).__name__)
def test_the_torch_module_gives_the_same_probabilities_and_can_be_pickled(estimator, people):
    model = clone(estimator).fit(people.x, people.y, {"trait": people.trait})
    logits = pickle.loads(pickle.dumps(model)).to_torch()(torch.from_numpy(people.x))

    assert logits.dtype == torch.float64
    # Both are float64; a softmax of two columns costs a few units in the last place.
    np.testing.assert_allclose(
        torch.softmax(logits, dim=1).detach().numpy(), model.predict_proba(people.x), atol=1e-14
    )


@pytest.mark.parametrize("estimator", NEEDING_TRAITS, ids=lambda e: type(e).__name__)
def test_without_protected_traits_the_unconstrained_model_is_trained_with_a_warning(
    estimator, people
):
    with pytest.warns(TrainingWarning, match="no protected traits"):
        clone(estimator).fit(people.x, people.y)


def test_project_without_traits_is_the_baseline(people):
    with pytest.warns(TrainingWarning):
        project = ProjectClassifier(max_iter=20, random_state=3).fit(people.x, people.y)
    baseline = BaselineClassifier(max_iter=20, random_state=3).fit(people.x, people.y)

    np.testing.assert_array_equal(project.predict_proba(people.x), baseline.predict_proba(people.x))


def test_the_baseline_says_nothing_about_traits(people):
    with_traits = BaselineClassifier(max_iter=5, random_state=0).fit(
        people.x, people.y, people.trait
    )
    without = BaselineClassifier(max_iter=5, random_state=0).fit(people.x, people.y)

    np.testing.assert_array_equal(
        with_traits.predict_proba(people.x), without.predict_proba(people.x)
    )


def test_the_defaults_are_the_papers():
    baseline, sensr = BaselineClassifier(), SenSRClassifier()

    assert (baseline.hidden, baseline.learning_rate) == (50, 1e-4)
    assert (baseline.max_iter, baseline.batch_size) == (8000, 250)
    assert (sensr.hidden, sensr.learning_rate, sensr.max_iter) == (100, 1e-5, 20000)
    assert (sensr.subspace_steps, sensr.subspace_rate) == (10, 10.0)
    assert (sensr.full_steps, sensr.full_rate, sensr.radius) == (50, 1e-4, 1e-3)


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (BaselineClassifier(max_iter=0), InvalidSettings, "max_iter is 0"),
        (BaselineClassifier(learning_rate=-1.0), InvalidSettings, "learning_rate is -1.0"),
        (SenSRClassifier(np.ones((2, 3)), max_iter=1), InvalidSettings, r"shape \(2, 3\).* 4 col"),
        (ProjectClassifier(np.full((1, 4), np.nan), max_iter=1), InvalidSettings, "not finite"),
    ],
)
def test_choices_without_sense_are_one_sentence(estimator, error, words, people):
    with pytest.raises(error, match=words) as caught:
        estimator.fit(people.x, people.y)

    assert isinstance(caught.value, LikewiseError)
    assert "\n" not in str(caught.value)


def test_a_label_with_one_class_is_refused(people):
    with pytest.raises(InvalidData, match="one class only"):
        BaselineClassifier(max_iter=1).fit(people.x, np.ones(len(people.x)))


def test_torch_threads_are_left_as_they_were(people):
    torch.set_num_threads(2)
    BaselineClassifier(max_iter=1).fit(people.x, people.y)

    assert torch.get_num_threads() == 2


def test_people_in_reverse_order_are_predicted_too(rng):
    x = rng.normal(size=(60, 3))
    model = BaselineClassifier(max_iter=5, random_state=0).fit(x, x[:, 0] > 0)

    np.testing.assert_allclose(
        model.predict_proba(x[::-1]),
        model.predict_proba(x)[::-1],
        rtol=1e-12,  # rounding alone
    )
