"""The paper's other methods: Project and Reductions."""

import dataclasses
import warnings
from typing import Any, final

import numpy as np
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn
from typing_extensions import override

from likewise.audit_data import missing
from likewise.errors import InvalidData, import_optional
from likewise.methods.metric import span
from likewise.models.torch import MeanOfSigmoids
from likewise.training.networks import NetworkClassifier, SubspaceClassifier
from likewise.training.sklearn_compat import TrainingData, joint_groups

CERTAIN_LOGIT = 40.0
"""Score of a member that always says yes: a probability of 1, to the last digit."""


@final
@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class ProjectClassifier(SubspaceClassifier):
    """The network of `BaselineClassifier` behind a layer that removes the sensitive subspace.

    Parameters
    ----------
    directions
        Rows that span the subspace to be removed. None learns them from protected attributes.
    protected, hidden, learning_rate, max_iter, batch_size, balanced, random_state
        As in `BaselineClassifier`.
    """

    @override
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Sequential:
        directions = self._subspace(data)
        if not len(directions):
            return super()._train(data, rng)
        basis = torch.from_numpy(span(directions.numpy()))
        remove = nn.Linear(basis.shape[1], basis.shape[1], bias=False, dtype=basis.dtype)
        # The layer has nothing to learn, so people pass it once, before training.
        remove.requires_grad_(False).weight.copy_(torch.eye(basis.shape[1]) - basis.T @ basis)
        seen = dataclasses.replace(data, x=remove(torch.tensor(data.x)).numpy())
        return nn.Sequential(remove, *super()._train(seen, rng))


@final
@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class ReductionsClassifier(NetworkClassifier):
    """Logistic models mixed so that error rates hardly differ between groups (equalized odds).

    Trained by fairlearn's exponentiated gradient over the groups that all protected attributes
    form together. Its answer is the weighted mean of the members' probabilities, and its decision
    the likelier class; fairlearn's own predictor draws a member at random instead. fairlearn takes
    no sample weights: people are drawn by them, with replacement.

    Parameters
    ----------
    protected
        Names (or numbers) of the columns of ``X`` that are protected attributes, not features.
    difference_bound
        Largest difference in true and in false positive rates between a group and everyone.
    C, balanced, random_state
        Of the members: inverse strength of the regularisation, whether both classes count alike,
        and seed of the solver.
    max_iter
        Iterations of the exponentiated gradient.

    References
    ----------
    Agarwal, Beygelzimer, Dudík, Langford and Wallach (2018), A reductions approach to fair
    classification.
    """

    binary_only = True
    difference_bound: float = 0.03
    C: float = 1.0
    max_iter: int = 50

    @override
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Module:
        member = LogisticRegression(
            C=self.C,
            solver="liblinear",
            class_weight="balanced" if self.balanced else None,
            random_state=int(rng.integers(2**31 - 1)),
        )
        if not data.protected:
            self.n_iter_ = 1
            return mixture_of([1.0], [member.fit(data.x, data.y, data.weight)], data.x.shape[1])
        if data.weight is not None:
            n = len(data.y)
            data = data.take(rng.choice(n, n, p=data.weight / data.weight.sum()))
        for name, column in data.protected.items():
            if lost := int(missing(column).sum()):
                said = "equalized odds needs everyone's group. Leave them out of training"
                raise InvalidData(f"{name!r} is missing for {lost} people; {said}.")
        fairlearn = import_optional("fairlearn.reductions", "fairlearn", "ReductionsClassifier")
        mixture = fairlearn.ExponentiatedGradient(
            member,
            constraints=fairlearn.EqualizedOdds(difference_bound=self.difference_bound),
            max_iter=self.max_iter,
        )
        groups = joint_groups(data.protected, len(data.y))
        with warnings.catch_warnings():
            # About pandas in fairlearn's own code: nothing that the user could mend.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            mixture.fit(data.x, data.y, sensitive_features=groups)
        self.n_iter_ = max(1, int(mixture.last_iter_) + 1)
        # By label: fairlearn does not keep its weights in the order of its members.
        used = mixture.weights_[mixture.weights_ > 0]
        members = [mixture.predictors_[label] for label in used.index]
        return mixture_of(used.tolist(), members, data.x.shape[1])


def mixture_of(weights: list[float], members: list[Any], d: int) -> nn.Sequential:
    """Return the weighted mean of logistic models, as a module that gives log-probabilities."""
    scores = nn.Linear(d, len(members), dtype=torch.float64)
    with torch.no_grad():
        for row, member in enumerate(members):
            if isinstance(member, DummyClassifier):  # fairlearn's, where one answer is best for all
                scores.weight[row] = 0.0
                scores.bias[row] = CERTAIN_LOGIT if member.constant else -CERTAIN_LOGIT
            else:
                scores.weight[row] = torch.tensor(np.ravel(member.coef_))
                scores.bias[row] = float(np.ravel(member.intercept_)[0])
    return nn.Sequential(scores, MeanOfSigmoids(torch.tensor(weights, dtype=torch.float64)))
