"""Boosting against the worst way of moving people to near ones (BuDRO)."""

from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, need
from likewise.training.manners import counted, unchecked
from likewise.training.neighbours import Neighbours, Standing
from likewise.training.transport import Transport


@final
class FairBoostingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Gradient-boosted trees whose every tree is fitted to the worst transport among near people.

    Before each tree, people i are moved to near people j, at most by ``budget`` on average, so that
    the loss is largest, with their own labels:

    .. math:: \max_\Pi \sum_{ij} \Pi_{ij} \ell(f(x_j), y_i)
        \quad\text{with}\quad \sum_j \Pi_{ij} = \tfrac1n, \quad
        \sum_{ij} \Pi_{ij} d^2(x_i, x_j) \le \varepsilon,

    and the tree takes a gradient step on that loss. The plan is over each person's nearest
    neighbours only, in place of all n², and smoothed: :math:`\Pi_{ij} \propto \exp((\ell_{ij} -
    \eta d_{ij}^2) / \tau)`, where :math:`\eta` is found by bisection.

    Parameters
    ----------
    may_matter
        Names (or numbers) of the features that may matter: d is the distance in them, in standard
        deviations. None: d is the distance off the directions that predict ``protected``.
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
    engine
        ``xgboost``, ``lightgbm``, or ``auto``: whichever is installed.
    random_state
        Seed of the boosting library.
    progress
        Whether to show a progress bar (on stderr, after two seconds).

    References
    ----------
    Vargo, Zhang, Yurochkin and Sun (2021), Individually fair gradient boosting.
    """

    @unchecked
    def __init__(
        self,
        *,
        may_matter: Any = None,
        budget: float = 0.1,
        neighbours: int = 20,
        smooth: float = 0.1,
        max_iter: int = 100,
        learning_rate: float = 0.1,
        max_depth: int = 4,
        balanced: bool = False,
        engine: str = "auto",
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.may_matter = may_matter
        self.budget = budget
        self.neighbours = neighbours
        self.smooth = smooth
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.balanced = balanced
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, protected: Any = None) -> "FairBoostingClassifier":
        """Train on features and labels of two classes.

        Parameters
        ----------
        X, y
            One row a person.
        protected
            Traits. With ``may_matter``, half of the neighbours are of other groups; without, they
            say which directions do not count in distances.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if type_of_target(y, input_name="y", raise_unknown=True) != "binary":
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}."
            )
        for name in ("budget", "neighbours", "smooth", "max_iter", "learning_rate", "max_depth"):
            if not getattr(self, name) > 0:
                raise InvalidSettings(f"{name} is {getattr(self, name)}; it must be positive.")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidData(
                f"The label has one class only ({self.classes_[0]!r}). Training needs two classes."
            )
        near, squared = self._near(X, codes, protected)
        self.plan_ = Transport(near, squared, codes.astype(np.float64), self.budget, self.smooth)
        share = np.bincount(codes) / len(codes)
        self.weight_ = 0.5 / share[codes] if self.balanced else np.ones(len(codes))
        start = 0.0 if self.balanced else float(np.log(share[1] / share[0]))
        self.start_ = start
        engine = _engine(self.engine)
        self.booster_ = (self._xgboost if engine == "xgboost" else self._lightgbm)(X)
        self.n_iter_ = self.max_iter
        del self.plan_
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return the log-odds of the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if type(self.booster_).__module__.startswith("xgboost"):
            xgboost = need("xgboost", "boosted", "Fair boosting")
            score = self.booster_.predict(xgboost.DMatrix(X), output_margin=True)
        else:
            score = self.booster_.predict(X, raw_score=True)
        return self.start_ + np.asarray(score, dtype=np.float64)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n 2"]:
        """Return the probability of each class, one row a person."""
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the likelier class of each person."""
        second = (self.decision_function(X) > 0).astype(int)
        return self.classes_[second]

    def _near(
        self, X: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], protected: Any
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Return each person and their neighbours, with squared distances."""
        n = len(X)
        k = min(self.neighbours, n - 1)
        names = [str(name) for name in getattr(self, "feature_names_in_", range(X.shape[1]))]
        people = AuditData.from_arrays(X, y, protected, features=names)
        if self.may_matter is None:
            off = X
            if people.protected:
                from likewise.metrics.learn import sensitive_subspace

                free = sensitive_subspace(people).free
                off = X - (X @ free.T) @ free
            groups, columns = [np.arange(n)], list(range(X.shape[1]))
            places = Standing.fit(off, columns)
            # Features are on comparable scales already.
            places = Standing(places.numbers, (), np.zeros(off.shape[1]), np.ones(off.shape[1]))
        else:
            off, columns = X, [_place(name, names) for name in self.may_matter]
            places = Standing.fit(X, columns)
            groups = [np.arange(n)]
            if people.protected:
                text = np.array(
                    ["\x1f".join(map(str, r)) for r in zip(*people.protected.values(), strict=True)]
                )
                groups = [np.flatnonzero(text == name) for name in np.unique(text)]
        found, far = [np.arange(n)[:, None]], [np.zeros((n, 1))]
        for rows in groups:
            some = max(1, k // len(groups))
            rows_found, distance = Neighbours.among(off, rows, places, some)(off, some)
            found.append(rows_found)
            far.append(distance)
        return np.hstack(found), np.hstack(far) ** 2

    def _slope(
        self, score: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return gradient and curvature of the worst transport's loss at everyone's score."""
        one, zero = self.plan_(score, self.weight_)
        p = expit(score)
        return one * (p - 1) + zero * p, np.maximum((one + zero) * p * (1 - p), 1e-6)

    def _xgboost(self, X: Float[np.ndarray, "n d"]) -> Any:
        xgboost = need("xgboost", "boosted", "Fair boosting")
        data = xgboost.DMatrix(X, label=self.plan_.y)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        choices = {
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "base_score": 0.5,
            "seed": seed,
            "nthread": 1,
        }
        booster = xgboost.Booster(choices, [data])
        steps = counted(range(self.max_iter), self.max_iter, "Fair boosting", show=self.progress)
        for step in steps:
            score = booster.predict(data, output_margin=True) if step else np.zeros(len(X))
            slope = self._slope(self.start_ + np.asarray(score, dtype=np.float64))
            booster.boost(data, step, grad=slope[0], hess=slope[1])
        return booster

    def _lightgbm(self, X: Float[np.ndarray, "n d"]) -> Any:
        lightgbm = need("lightgbm", "boosted", "Fair boosting")
        seed = self.random_state if isinstance(self.random_state, int) else 0
        choices = {
            "objective": "none",
            "max_depth": self.max_depth,
            "num_leaves": 2**self.max_depth,
            "learning_rate": self.learning_rate,
            "seed": seed,
            "num_threads": 1,
            "deterministic": True,
            "verbose": -1,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
        }
        booster = lightgbm.Booster(choices, lightgbm.Dataset(X, self.plan_.y, params=choices))
        score = np.zeros(len(X))
        steps = counted(range(self.max_iter), self.max_iter, "Fair boosting", show=self.progress)
        for _ in steps:
            slope = self._slope(self.start_ + score)
            booster.update(fobj=lambda *_, slope=slope: slope)
            score = np.asarray(booster.predict(X, raw_score=True), dtype=np.float64)
        return booster

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Everyone may be moved to anyone near: a few trees on little data score badly.
        tags.classifier_tags.poor_score = True
        return tags


def _place(name: Any, names: list[str]) -> int:
    if isinstance(name, int | np.integer) and str(name) not in names:
        if not 0 <= name < len(names):
            raise InvalidSettings(f"There is no feature number {name}.")
        return int(name)
    if str(name) not in names:
        raise InvalidSettings(f"There is no feature {name!r} that could matter.")
    return names.index(str(name))


def _engine(wanted: str) -> str:
    import importlib.util

    if wanted not in ("auto", "xgboost", "lightgbm"):
        raise InvalidSettings(f"engine is {wanted!r}; it is xgboost, lightgbm or auto.")
    if wanted != "auto":
        return wanted
    return "xgboost" if importlib.util.find_spec("xgboost") else "lightgbm"
