"""Remedies with counterparts for any estimator: average over them, or train on them as well."""

from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import (
    has_fit_parameter,
)

from likewise.errors import InvalidSettings
from likewise.training.manners import counted, unchecked
from likewise.training.neighbours import (
    Neighbours,
    Standing,
    is_frame,
    lend,
    split_columns,
    take,
)
from likewise.training.with_counterparts import WithCounterparts

ROWS = 200_000
"""Rows a model is asked about at a time."""


@final
class CounterpartAverage(WithCounterparts):
    r"""Predicts the mean over a person's counterparts of all groups, for any model.

    .. math:: \bar f(x) = (1 - w) f(x)
        + \frac{w}{G m} \sum_{g} \sum_{j \in N_g(x_L)} f(x_L, x_{jF}),

    over the m people of each group nearest in the columns that may matter, L, who lend their free
    columns F. With ``weight`` w = 1 this is one number for all people alike in what may matter:
    exact parity by construction, at the cost of all that free columns tell beyond these.

    Parameters
    ----------
    estimator
        Any classifier with `predict_proba`; logistic regression if none is given.
    may_matter
        Names (or numbers) of the columns that may matter; None: all, and then nothing changes.
    weight
        How much the average counts, from 0 (the model itself) to 1.
    m
        Counterparts of each group.
    prefit
        Whether ``estimator`` is fitted already; then `fit` only remembers the pool.
    progress
        Whether to show a progress bar (on stderr, after two seconds).
    """

    @unchecked
    def __init__(
        self,
        estimator: Any = None,
        *,
        may_matter: Any = None,
        weight: float = 1.0,
        m: int = 20,
        prefit: bool = False,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.may_matter = may_matter
        self.weight = weight
        self.m = m
        self.prefit = prefit
        self.progress = progress

    def fit(self, X: Any, y: Any, protected: Any = None) -> "CounterpartAverage":
        """Fit the model, unless it is fitted, and remember who can be a counterpart.

        Parameters
        ----------
        X, y
            One row a person.
        protected
            Traits whose groups count alike in the average: one column, several, or a mapping.
        """
        X, y = self._people(X, y)
        if self.weight > 1:
            raise InvalidSettings(f"weight is {self.weight}; it must be at most 1.")
        base = LogisticRegression() if self.estimator is None else self.estimator
        self.estimator_ = base if self.prefit else clone(base).fit(X, y)
        self.classes_ = np.asarray(self.estimator_.classes_)
        groups = self._groups(len(X), protected)
        kept, self.free_ = split_columns(X, self.may_matter)
        self.pool_ = X
        places = Standing.fit(X, kept)
        self.neighbours_ = [
            Neighbours.among(X, np.flatnonzero(groups == name), places, self.m)
            for name in np.unique(groups)
        ]
        self.kept_ = kept
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row a person."""
        X = self._rows(X)
        if not self.free_ or self.weight == 0:
            return np.asarray(self.estimator_.predict_proba(X))
        first, inverse = _different(X, self.kept_)
        people = take(X, first)
        total = np.zeros((len(people), len(self.classes_)))
        for near in self.neighbours_:
            m = min(self.m, len(near.rows))
            size = max(1, ROWS // m)
            starts = range(0, len(people), size)
            for start in counted(starts, len(starts), "Averaging", show=self.progress):
                who = np.arange(start, min(start + size, len(people)))
                donors, _ = near(take(people, who), m)
                rows = lend(people, np.repeat(who, m), self.pool_, donors.reshape(-1), self.free_)
                out = np.asarray(self.estimator_.predict_proba(rows))
                total[who] += out.reshape(len(who), m, -1).mean(axis=1)
        average = (total / len(self.neighbours_))[inverse]
        if self.weight == 1:
            return average
        own = np.asarray(self.estimator_.predict_proba(X))
        return (1 - self.weight) * own + self.weight * average


@final
class CounterpartAugmentedClassifier(WithCounterparts):
    r"""Any classifier, trained also on counterparts: own label, another person's free columns.

    Beside each person :math:`(x_L, x_F, y)` stand m people :math:`(x_L, x_{jF}, y)` with the free
    columns of people j of other groups, nearest in the columns that may matter, each with weight
    w/m. What free columns say about the label beyond those that may matter is so unlearned.

    Parameters
    ----------
    estimator
        Any classifier; logistic regression if none is given. If it takes no ``sample_weight``,
        people are drawn by their weights instead.
    may_matter
        Names (or numbers) of the columns that may matter; None: all, and then nothing changes.
    weight
        w: how much all counterparts of a person count, in units of the person.
    m
        Counterparts of a person.
    balanced
        Whether all classes count alike.
    random_state
        Seed of the draws, where they are needed.
    progress
        Whether to show a progress bar (on stderr, after two seconds).
    """

    @unchecked
    def __init__(
        self,
        estimator: Any = None,
        *,
        may_matter: Any = None,
        weight: float = 1.0,
        m: int = 4,
        balanced: bool = False,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.may_matter = may_matter
        self.weight = weight
        self.m = m
        self.balanced = balanced
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, protected: Any = None) -> "CounterpartAugmentedClassifier":
        """Train on people and their counterparts.

        Parameters
        ----------
        X, y
            One row a person.
        protected
            Traits: counterparts are of another group. Without any, they are anybody near.
        """
        X, y = self._people(X, y)
        base = clone(LogisticRegression() if self.estimator is None else self.estimator)
        if takes_codes(base):
            y = np.searchsorted(self.classes_, y)
        kept, free = split_columns(X, self.may_matter)
        share = class_weights(y) if self.balanced else np.ones(len(y))
        if not free or self.weight == 0:
            self.estimator_ = (
                fit_weighted(base, X, y, share, self.random_state)
                if self.balanced
                else base.fit(X, y)
            )
            return self
        groups = self._groups(len(X), protected)
        places = Standing.fit(X, kept)
        names = np.unique(groups)
        person, donor, counts = [], [], []
        for name in counted(names, len(names), "Counterparts", show=self.progress):
            mine = np.flatnonzero(groups == name)
            others = np.flatnonzero(groups != name) if len(names) > 1 else np.arange(len(X))
            m = min(self.m, len(others))
            found, _ = Neighbours.among(X, others, places, m)(take(X, mine), m)
            person.append(np.repeat(mine, m))
            donor.append(found.reshape(-1))
            counts.append(np.full(found.size, self.weight / m))
        i, j = np.concatenate(person), np.concatenate(donor)
        every = np.concatenate([np.arange(len(X)), i])
        rows = lend(X, every, X, np.concatenate([np.arange(len(X)), j]), free)
        weight = np.concatenate([np.ones(len(X)), *counts]) * share[every]
        self.estimator_ = fit_weighted(base, rows, y[every], weight, self.random_state)
        return self


def class_weights(y: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return weights under which all classes count alike, with mean one."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    return (len(y) / len(counts) / counts)[codes]


def takes_codes(estimator: Any) -> bool:
    """Tell whether an estimator takes 0, 1, … for labels and no others (XGBoost)."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return type(last).__module__.startswith("xgboost")


def fit_weighted(
    estimator: Any, X: Any, y: Any, weight: Float[np.ndarray, " n"], random_state: Any
) -> Any:
    """Fit with weights, handed to the last step of a pipeline; else on people drawn by them."""
    last = estimator.steps[-1] if hasattr(estimator, "steps") else ("", estimator)
    if has_fit_parameter(last[1], "sample_weight"):
        name = f"{last[0]}__sample_weight" if last[0] else "sample_weight"
        return estimator.fit(X, y, **{name: weight})
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    rows = rng.choice(len(weight), int(weight.sum()), p=weight / weight.sum())
    return estimator.fit(take(X, rows), y[rows])


def _different(X: Any, columns: list[Any]) -> tuple[Any, Any]:
    """Return the first row of each combination of values, and everyone's combination."""
    if is_frame(X):
        codes = (
            X.groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
            if columns
            else (np.zeros(len(X), dtype=np.int64))
        )
    else:
        chosen = X[:, columns] if columns else np.zeros((len(X), 1))
        codes = np.unique(chosen, axis=0, return_inverse=True)[1].reshape(-1)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
