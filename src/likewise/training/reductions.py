"""Reductions: a mixture of logistic models with equal error rates in all groups."""

import warnings
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Shaped
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn
from typing_extensions import override

from likewise.audit_data import AuditData, missing
from likewise.errors import InvalidData, MissingExtra
from likewise.models.torch_layers import MeanOfSigmoids
from likewise.training.trained_classifier import TrainedClassifier, unchecked

SURE = 40.0
"""Score of a member that always says yes: a probability of 1, to the last digit."""


@final
class ReductionsClassifier(TrainedClassifier):
    """Logistic models mixed so that error rates hardly differ between groups (equalized odds).

    Trained by fairlearn's exponentiated gradient over the groups that all protected traits form
    together. Its answer is the weighted mean of the members' probabilities, and its decision the
    likelier class; fairlearn's own predictor draws a member at random instead.

    Parameters
    ----------
    difference_bound
        Largest difference in true and in false positive rates between a group and everyone.
    C
        Inverse strength of the members' regularisation.
    balanced
        Whether members weigh people so that both classes count alike.
    max_iter
        Iterations of the exponentiated gradient.
    random_state
        Seed of the members' solver.
    progress
        Accepted for the sake of the other methods; training takes seconds.

    References
    ----------
    Agarwal, Beygelzimer, Dudík, Langford and Wallach (2018), A reductions approach to fair
    classification.
    """

    @unchecked
    def __init__(
        self,
        *,
        difference_bound: float = 0.03,
        C: float = 1.0,
        balanced: bool = True,
        max_iter: int = 50,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.difference_bound = difference_bound
        self.C = C
        self.balanced = balanced
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    @override
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        if people.y.max() > 1:
            # scikit-learn's checks look for the beginning of this sentence.
            raise InvalidData(
                f"Only binary classification is supported: the label has {people.y.max() + 1} "
                "classes. Equalized odds compares rates of one positive class."
            )
        member = LogisticRegression(
            C=self.C,
            solver="liblinear",
            class_weight="balanced" if self.balanced else None,
            random_state=int(rng.integers(2**31 - 1)),
        )
        if not people.protected:
            self.n_iter_ = 1
            return mixture_of([1.0], [member.fit(people.x, people.y)], people.x.shape[1])
        weights, members = self._reduce(member, people)
        return mixture_of(weights, members, people.x.shape[1])

    def _reduce(
        self, member: LogisticRegression, people: AuditData
    ) -> tuple[list[float], list[Any]]:
        """Return the members that fairlearn ends with, and their weights."""
        fairlearn = require_fairlearn()
        mixture = fairlearn.ExponentiatedGradient(
            member,
            constraints=fairlearn.EqualizedOdds(difference_bound=self.difference_bound),
            max_iter=self.max_iter,
        )
        with warnings.catch_warnings():
            # About pandas in fairlearn's own code: nothing that the user could mend.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            mixture.fit(people.x, people.y, sensitive_features=groups(people))
        self.n_iter_ = max(1, int(mixture.last_iter_) + 1)
        # By label: fairlearn does not keep its weights in the order of its members.
        used = mixture.weights_[mixture.weights_ > 0]
        return [float(w) for w in used], [mixture.predictors_[label] for label in used.index]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def mixture_of(weights: list[float], members: list[Any], d: int) -> nn.Sequential:
    """Return the weighted mean of logistic models, as a module that gives log-probabilities."""
    scores = nn.Linear(d, len(members), dtype=torch.float64)
    with torch.no_grad():
        for row, member in enumerate(members):
            if isinstance(member, DummyClassifier):  # fairlearn's, where one answer is best for all
                scores.weight[row] = 0.0
                scores.bias[row] = SURE if member.constant else -SURE
            else:
                scores.weight[row] = torch.tensor(np.ravel(member.coef_))
                scores.bias[row] = float(np.ravel(member.intercept_)[0])
    return nn.Sequential(scores, MeanOfSigmoids(torch.tensor(weights, dtype=torch.float64)))


def require_fairlearn() -> Any:
    """Return fairlearn's reductions, or say how to install them."""
    try:
        import fairlearn.reductions
    except ImportError:
        raise MissingExtra(
            "ReductionsClassifier needs fairlearn, which is not installed. "
            "Install it with: pip install 'likewise[fairlearn]'."
        ) from None
    return fairlearn.reductions


def groups(people: AuditData) -> Shaped[np.ndarray, " n"]:
    """Return the number of the group that all protected traits together put each person in."""
    for name, column in people.protected.items():
        lost = int(missing(column).sum())
        if lost:
            raise InvalidData(
                f"{name!r} is missing for {lost} people; equalized odds needs everyone's group. "
                "Fill it in, or leave those people out of training."
            )
    codes = [
        np.unique(column.astype(str), return_inverse=True)[1]
        for column in people.protected.values()
    ]
    return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
