"""The remedies that are tried, each at several strengths, around any classifier of data frames."""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings, in_short

AUGMENTED = (0.25, 0.4, 0.55, 0.75, 1.0)
AVERAGED = (0.25, 0.5)
BUDGETS = (0.02, 0.2)
RHOS = (0.5, 5.0)
EPOCHS = 40
"""How often SenSeI sees everyone, in 300 to 3000 steps."""

AVERAGED_ALONE = (0.2, 0.35, 0.5, 0.75, 1.0)
"""Weights of the average for a model that cannot be trained again, where nothing else is tried."""

TREES = ("Boost", "XGB", "LGBM")
PROBE = 400
"""People that an estimator is tried out on, to see whether it reads the table as it is."""


@dataclasses.dataclass(frozen=True, eq=False)
class Remedy:
    """A way to train a model.

    Parameters
    ----------
    words
        What it is, and how strong.
    fit
        From features, labels and traits to a fitted classifier.
    """

    words: str
    fit: Callable[[Any, Any, Mapping[str, Any]], Any]


def baseline(model: Any) -> Any:
    """Return the model itself, not fitted: boosted trees, a network, or what is given."""
    from sklearn.base import is_regressor
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    from likewise.training.frame_features import frame_features

    if isinstance(model, str) and model == "boosted":
        return make_pipeline(frame_features(), HistGradientBoostingClassifier(random_state=0))
    if isinstance(model, str):
        network = MLPClassifier((50,), max_iter=100, early_stopping=True, random_state=0)
        return make_pipeline(frame_features(), network)
    if is_regressor(model):
        raise InvalidSettings(
            f"The {type(model).__name__} predicts a number; remedies are for classifiers."
        )
    if not hasattr(model, "predict_proba"):
        raise InvalidSettings(
            f"The {type(model).__name__} gives no probabilities, which remedies need. Put it into "
            "scikit-learn's CalibratedClassifierCV."
        )
    return model


def reading(base: Any, x: Any, y: Any) -> Any:
    """Return the model so that it reads this table: as it is, or else behind features made of it.

    An estimator of numbers gets a feature for each level of a category, and where gaps are.
    """
    from sklearn.pipeline import make_pipeline

    from likewise.training.frame_features import frame_features

    gaps = np.flatnonzero(x.isna().any(axis=1).to_numpy())[: PROBE // 4]
    firsts = np.concatenate([np.flatnonzero(y == one)[:20] for one in np.unique(y)])
    some = np.unique(np.concatenate([np.arange(min(PROBE, len(x))), gaps, firsts]))
    problems = []
    for choice in (base, make_pipeline(frame_features(), base)):
        try:
            _plain(choice, balanced=False)(x.iloc[some], y[some], {})
        except Exception as error:  # whatever the estimator of the user raises
            problems.append(in_short(error))
            continue
        return choice
    raise InvalidSettings(
        f"The {type(base).__name__} cannot be trained on this table: {problems[0]}."
    )


def _plain(base: Any, *, balanced: bool) -> Callable[[Any, Any, Mapping[str, Any]], Any]:
    from sklearn.base import clone

    from likewise.training import CounterpartAugmentedClassifier

    return lambda x, y, traits: CounterpartAugmentedClassifier(
        clone(base), weight=0.0, balanced=balanced, random_state=0
    ).fit(x, y)


def remedies(
    base: Any, may_matter: Sequence[str], *, balanced: bool, classes: int = 2
) -> list[Remedy]:
    """Return the model itself, and every remedy at every strength.

    Parameters
    ----------
    balanced
        Whether all classes count alike in training, as they do in balanced accuracy.
    classes
        How many there are: fair boosting knows two.
    """
    from sklearn.base import clone

    from likewise.training import CounterpartAugmentedClassifier

    kept = list(may_matter)
    plain = _plain(base, balanced=balanced)

    def augmented(w: float) -> Remedy:
        return Remedy(
            f"trained on counterparts, weight {w:g}",
            lambda x, y, traits: CounterpartAugmentedClassifier(
                clone(base), may_matter=kept, weight=w, balanced=balanced, random_state=0
            ).fit(x, y, traits),
        )

    found = [Remedy("baseline", plain)]
    found += [augmented(w) for w in AUGMENTED] + [averaged(plain, kept, w) for w in AVERAGED]
    last = type(getattr(base, "steps", [("", base)])[-1][1]).__name__
    boosted = any(importlib.util.find_spec(name) for name in ("xgboost", "lightgbm"))
    if boosted and classes == 2 and any(word in last for word in TREES):
        found += [
            Remedy(f"fair boosting, budget {e:g}", _boosted(e, kept, balanced)) for e in BUDGETS
        ]
    if "MLP" in last and importlib.util.find_spec("torch"):
        found += [Remedy(f"SenSeI, rho {r:g}", _sensei(r, kept, balanced)) for r in RHOS]
    return found


def averages(model: Any, may_matter: Sequence[str]) -> list[Remedy]:
    """Return the remedies for a model that cannot be trained again: averages of its answers."""
    kept = list(may_matter)
    found = [averaged(lambda x, y, traits: model, kept, w) for w in (0.0, *AVERAGED_ALONE)]
    return [Remedy("baseline", found[0].fit), *found[1:]]


def averaged(
    fit: Callable[[Any, Any, Mapping[str, Any]], Any], may_matter: Sequence[str], weight: float
) -> Remedy:
    """Return the average over counterparts of what a model answers."""
    from likewise.training import CounterpartAverage

    return Remedy(
        f"average over counterparts, weight {weight:g}",
        lambda x, y, traits: CounterpartAverage(
            fit(x, y, traits), may_matter=list(may_matter), weight=weight, m=10, prefit=True
        ).fit(x, y, traits),
    )


def _boosted(
    budget: float, may_matter: Sequence[str], balanced: bool
) -> Callable[[Any, Any, Mapping[str, Any]], Any]:
    def fit(x: Any, y: Any, traits: Mapping[str, Any]) -> Any:
        from likewise.training import FairBoostingClassifier

        front, features, kept = _features(x, may_matter)
        trees = FairBoostingClassifier(
            may_matter=np.flatnonzero(kept).tolist(),
            budget=budget,
            balanced=balanced,
            random_state=0,
        )
        return _behind(front, trees.fit(features, y, traits))

    return fit


def _sensei(
    rho: float, may_matter: Sequence[str], balanced: bool
) -> Callable[[Any, Any, Mapping[str, Any]], Any]:
    def fit(x: Any, y: Any, traits: Mapping[str, Any]) -> Any:
        from likewise.metrics.learn import sensitive_subspace
        from likewise.training import SenSeIClassifier

        front, features, kept = _features(x, may_matter)
        free = AuditData.from_arrays(features[:, ~kept], y, traits)
        directions = np.zeros((0, features.shape[1]))
        if free.x.shape[1]:
            learned = np.asarray(sensitive_subspace(free, C=1.0, groups=0, placebos=0).directions)
            directions = np.zeros((len(learned), features.shape[1]))
            directions[:, ~kept] = learned
        steps = int(np.clip(EPOCHS * len(y) / 250, 300, 3000))  # batches of 250
        network = SenSeIClassifier(
            directions, rho=rho, max_iter=steps, balanced=balanced, random_state=0
        )
        return _behind(front, network.fit(features, y))

    return fit


def _features(x: Any, may_matter: Sequence[str]) -> tuple[Any, Float[np.ndarray, "n d"], Any]:
    """Return what makes features, the features, and which of them may matter."""
    from likewise.training.frame_features import frame_features, origins

    front = frame_features().fit(x)
    kept = np.isin(np.array(origins(front), dtype=object), np.array(may_matter, dtype=object))
    return front, np.asarray(front.transform(x)), kept


def _behind(front: Any, last: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline([("columns", front), ("model", last)])
