"""Individually fair gradient boosting (BuDRO): robust to transport between near people."""

import dataclasses
import math
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.special import expit
from typing_extensions import override

from likewise.errors import import_optional
from likewise.training.sklearn_compat import (
    FairClassifier,
    TrainingData,
    checked_columns,
    joint_groups,
    learned_subspace,
)

Numbers = Float[np.ndarray, " n"]
Near = Float[np.ndarray, "n k"]


@final
@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class FairBoostingClassifier(FairClassifier):
    r"""Gradient-boosted trees, each fitted also to the worst transport among near people (BuDRO).

    Before each tree, people i are moved to near people j, at most by ``budget`` on average, so that
    the loss is largest, with their own labels:

    .. math:: \max_\Pi \sum_{ij} \Pi_{ij} \ell(f(x_j), y_i)
        \quad\text{with}\quad \sum_j \Pi_{ij} = \tfrac1n, \quad
        \sum_{ij} \Pi_{ij} d^2(x_i, x_j) \le \varepsilon,

    and the tree takes a gradient step on that loss, mixed with the ordinary one. The plan is over
    each person's nearest neighbours only, in place of all n², and smoothed: :math:`\Pi_{ij} \propto
    \exp((\ell_{ij} - \eta d_{ij}^2) / \tau)`, where :math:`\eta` is found by bisection.

    Parameters
    ----------
    may_matter
        Names (or numbers) of the features that may matter: d is the distance in them, in standard
        deviations, and neighbours come from all groups alike. None: d is the distance off the
        directions that predict the protected attributes.
    protected
        Names (or numbers) of the columns of ``X`` that are protected attributes, not features.
    weight
        Share of the worst transport in the loss: 0 is ordinary boosting, 1 the method as published.
        ``auto`` takes the largest of .1, .2, .35, .5, .7 and 1 that loses at most two points on a
        held-out fifth of the people (`held_out_`).
    budget
        :math:`\varepsilon`: the mean squared distance people are moved; the larger, the fairer.
    neighbours
        How many people near each person are considered.
    smooth
        :math:`\tau`.
    max_iter, learning_rate, max_depth
        Number of trees, step size, and depth.
    balanced
        Whether both classes count alike.
    random_state
        Seed of the boosting library and of who is held out.

    References
    ----------
    Vargo, Zhang, Yurochkin and Sun (2021), Individually fair gradient boosting.
    """

    strength = ("weight", (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0))
    binary_only = True
    weight_: float = dataclasses.field(init=False)
    start_: float = dataclasses.field(init=False)
    booster_: Any = dataclasses.field(init=False)

    may_matter: Any = None
    weight: float | str = "auto"
    budget: float = 0.1
    neighbours: int = 20
    smooth: float = 0.1
    max_iter: int = 100
    learning_rate: float = 0.1
    max_depth: int = 4
    balanced: bool = False

    @override
    def _needs_protected(self) -> bool:
        return self.may_matter is None

    @override
    def _learn(self, data: TrainingData, rng: np.random.Generator) -> None:
        each = np.ones(len(data.y)) if data.weight is None else data.weight
        share = np.bincount(data.y, each) / each.sum()
        self.start_ = 0.0 if self.balanced else float(np.log(share[1] / share[0]))
        each = each * 0.5 / share[data.y] if self.balanced else each
        plan = None
        if self.weight_ > 0:
            near, squared = self._near(data)
            plan = Transport(near, squared, data.y.astype(np.float64), self.budget, self.smooth)
        xgboost = _xgboost()
        people = xgboost.DMatrix(data.x, label=data.y)
        choices = {
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "base_score": 0.5,
            "seed": self.random_state if isinstance(self.random_state, int) else 0,
            "nthread": 1,
        }
        self.booster_ = xgboost.Booster(choices, [people])
        for step in range(self.max_iter):
            score = self._score(people) if step else np.full(len(data.y), self.start_)
            one, zero = each * data.y, each * (1 - data.y)
            if plan is not None:
                moved = plan(score, each)
                one = (1 - self.weight_) * one + self.weight_ * moved[0]
                zero = (1 - self.weight_) * zero + self.weight_ * moved[1]
            p = expit(score)
            curvature = np.maximum((one + zero) * p * (1 - p), 1e-6)
            self.booster_.boost(people, step, grad=one * (p - 1) + zero * p, hess=curvature)
        self.n_iter_ = self.max_iter

    def decision_function(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return the log-odds of the second class."""
        return self._score(_xgboost().DMatrix(self._rows(X)))

    @override
    def _probabilities(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
        p = expit(self._score(_xgboost().DMatrix(x)))
        return np.column_stack([1 - p, p])

    def _score(self, people: Any) -> Float[np.ndarray, " n"]:
        score = self.booster_.predict(people, output_margin=True)
        return self.start_ + np.asarray(score, dtype=np.float64)

    def _near(self, data: TrainingData) -> tuple[Int[np.ndarray, "n k"], Near]:
        """Return each person and their neighbours, with squared distances."""
        n, d = data.x.shape
        groups = np.zeros(n, dtype=np.int64)
        if self.may_matter is None:
            # Features are on comparable scales already.
            places = data.x
            if data.protected:
                free = learned_subspace(data).free
                places = data.x - (data.x @ free.T) @ free
        else:
            names: list[Any] = list(data.features) or list(range(d))
            wanted = checked_columns(self.may_matter, names, "may_matter")
            places = data.x[:, [names.index(name) for name in wanted]]
            spread = places.std(axis=0)
            places = places / np.where(spread > 0, spread, 1.0) if wanted else np.zeros((n, 1))
            groups = joint_groups(data.protected, n)
        found, far = [np.arange(n)[:, None]], [np.zeros((n, 1))]
        each = max(1, min(self.neighbours, n - 1) // (groups.max() + 1))
        for group in range(groups.max() + 1):
            rows = np.flatnonzero(groups == group)
            some = min(each, len(rows))
            distance, near = cKDTree(places[rows]).query(places, k=[*range(1, some + 1)])
            found.append(rows[near])
            far.append(np.asarray(distance))
        return np.hstack(found), np.hstack(far) ** 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Everyone may be moved to anyone near: a few trees on little data score badly.
        tags.classifier_tags.poor_score = True
        return tags


def _xgboost() -> Any:
    return import_optional("xgboost", "boosted", "Fair boosting")


@dataclasses.dataclass(frozen=True, eq=False)
class Transport:
    """The worst plan among near people, as the weights of both labels at every person."""

    near: Int[np.ndarray, "n k"]
    squared: Near
    y: Numbers
    budget: float
    smooth: float

    def __call__(self, score: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
        """Return how much weight of the second and of the first class is moved to everyone."""
        sign = (2 * self.y - 1)[:, None]
        loss = np.logaddexp(0, -sign * score[self.near])
        plan = self._plan(loss, weight) * weight[:, None]
        place, n = self.near.reshape(-1), len(score)
        one = np.bincount(place, (plan * self.y[:, None]).reshape(-1), n)
        zero = np.bincount(place, (plan * (1 - self.y)[:, None]).reshape(-1), n)
        return one, zero

    def _plan(self, loss: Near, weight: Numbers) -> Near:
        """Find the price at which the budget is just spent; nothing costs more than 1e4."""

        def excess(place: float) -> float:
            return self._spent(loss, math.expm1(place), weight)[0] - self.budget

        place, last = 0.0, math.log1p(1e4)
        if excess(place) > 0:
            place = last if excess(last) > 0 else brentq(excess, place, last, xtol=0.01)
        return self._spent(loss, math.expm1(place), weight)[1]

    def _spent(self, loss: Near, price: float, weight: Numbers) -> tuple[float, Near]:
        gain = (loss - price * self.squared) / self.smooth
        plan = np.exp(gain - gain.max(axis=1, keepdims=True))
        plan /= plan.sum(axis=1, keepdims=True)
        moved = (plan * self.squared).sum(axis=1)
        return float(np.average(moved, weights=weight)), plan
