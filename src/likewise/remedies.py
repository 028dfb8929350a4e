"""The remedies that are tried, each at several strengths, around any classifier of data frames."""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from likewise.errors import InvalidSettings

AUGMENTED = (0.25, 0.4, 0.55, 0.75, 1.0)
AVERAGED = (0.25, 0.5)
BUDGETS = (0.02, 0.2)


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


def encoder() -> Any:
    """Return what turns a data frame into features: categories as ones, numbers standardised."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    return make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )


def baseline(model: Any) -> Any:
    """Return the model itself, not fitted: boosted trees, a network, or what is given."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    if not isinstance(model, str):
        return model
    if model == "boosted":
        return make_pipeline(encoder(), HistGradientBoostingClassifier(random_state=0))
    if model == "network":
        network = MLPClassifier((50,), max_iter=30, early_stopping=True, random_state=0)
        return make_pipeline(encoder(), network)
    raise InvalidSettings(f"The model is 'boosted', 'network' or an estimator (got {model!r}).")


def remedies(base: Any, may_matter: Sequence[str], *, balanced: bool) -> list[Remedy]:
    """Return the model itself, and every remedy at every strength.

    Parameters
    ----------
    balanced
        Whether all classes count alike in training, as they do in balanced accuracy.
    """
    from sklearn.base import clone

    from likewise.training import CounterpartAugmentedClassifier, CounterpartAverage

    kept = list(may_matter)

    def plain(x: Any, y: Any, traits: Mapping[str, Any]) -> Any:
        return CounterpartAugmentedClassifier(
            clone(base), weight=0.0, balanced=balanced, random_state=0
        ).fit(x, y)

    def augmented(w: float) -> Remedy:
        return Remedy(
            f"trained on counterparts, weight {w:g}",
            lambda x, y, traits: CounterpartAugmentedClassifier(
                clone(base), may_matter=kept, weight=w, balanced=balanced, random_state=0
            ).fit(x, y, traits),
        )

    def averaged(w: float) -> Remedy:
        return Remedy(
            f"average over counterparts, weight {w:g}",
            lambda x, y, traits: CounterpartAverage(
                plain(x, y, traits), may_matter=kept, weight=w, m=10, prefit=True
            ).fit(x, y, traits),
        )

    found = [Remedy("baseline", plain)]
    found += [augmented(w) for w in AUGMENTED] + [averaged(w) for w in AVERAGED]
    trees = "Boosting" in type(getattr(base, "steps", [("", base)])[-1][1]).__name__
    if trees and any(importlib.util.find_spec(name) for name in ("xgboost", "lightgbm")):
        found += [
            Remedy(f"fair boosting, budget {e:g}", _boosted(e, kept, balanced)) for e in BUDGETS
        ]
    return found


def _boosted(
    budget: float, may_matter: Sequence[str], balanced: bool
) -> Callable[[Any, Any, Mapping[str, Any]], Any]:
    def fit(x: Any, y: Any, traits: Mapping[str, Any]) -> Any:
        from sklearn.pipeline import Pipeline

        from likewise.training import FairBoostingClassifier

        front = encoder().fit(x)
        names = [name.partition("__")[2] for name in front.get_feature_names_out()]
        kept = [
            k
            for k, name in enumerate(names)
            if any(name == c or name.startswith(f"{c}_") for c in may_matter)
        ]
        trees = FairBoostingClassifier(
            may_matter=kept, budget=budget, balanced=balanced, random_state=0
        )
        trees.fit(np.asarray(front.transform(x)), y, traits)
        return Pipeline([("columns", front), ("trees", trees)])

    return fit
