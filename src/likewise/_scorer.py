"""A scorer for scikit-learn's searches: how far comparable people are from equal treatment."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from likewise._audit import audit
from likewise.errors import InvalidData, InvalidModel, InvalidSettings, LikewiseWarning
from likewise.settings import Settings

WEIGHT = "sample weight "
"""Column of the weights; ends in a blank, as no column of the user's does."""


@final
class FairnessScorer(BaseEstimator):  # type: ignore[misc]
    """A scorer for `GridSearchCV` and others: minus the largest absolute log ratio.

    Zero is equal treatment of comparable people; −.22 is a ratio of 1.25. In each fold, every half
    of its people is the other's reference sample. The score says nothing of accuracy: use it
    beside another one (``scoring={"accuracy": "accuracy", "fair": likewise.scorer(…)}``). Tuning on
    it spends the error rate: audit the model that was chosen on other people.

    Parameters
    ----------
    may_matter
        Names (for an array: numbers) of the columns that may matter.
    protected
        Names (or numbers) of columns of ``X``. If the attributes are no columns, request them
        with ``set_score_request(protected=True)`` and pass them to the search's ``fit``.
    favourable
        The decision that people want.

    Examples
    --------
    >>> import likewise, numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"income": rng.normal(size=800), "sex": rng.integers(0, 2, 800)})
    >>> y = X["income"] + rng.normal(size=800) > 0
    >>> fair = likewise.scorer(may_matter=["income"], protected="sex")
    >>> scores = cross_val_score(LogisticRegression(), X, y, scoring=fair, cv=2)
    >>> bool((scores > -0.3).all())
    True
    """

    __metadata_request__score: ClassVar[Mapping[str, Any]] = {"estimator": UNUSED}

    def __init__(
        self, *, may_matter: Sequence[Any], protected: Any = (), favourable: Any = None
    ) -> None:
        self.may_matter = may_matter
        self.protected = protected
        self.favourable = favourable

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        protected: Any = None,
    ) -> float:
        """Audit a fitted estimator on the people of a fold, and return its score.

        ``X`` is a data frame or an array; ``y`` is not used; ``protected`` are attributes that are
        no columns of ``X``: one column, or a mapping.
        """
        if not (kept := _names(self.may_matter)):
            raise InvalidSettings("The scorer was given no columns that may matter (may_matter=…).")
        table, framed = _table(X), nw.dependencies.is_into_dataframe(X)
        read = () if framed else tuple(table.column_names)
        names = _names(self.protected)
        if protected is not None:
            given = protected if isinstance(protected, Mapping) else {"protected ": protected}
            names += [str(name) for name in given]
            for name, column in given.items():
                table = table.append_column(str(name), pa.array(np.asarray(column).tolist()))
        if not names:
            raise InvalidSettings("The scorer was given no protected attributes (protected=…).")
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            table = table.append_column(WEIGHT, pa.array(weights)).filter(pa.array(weights != 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LikewiseWarning)
            result = audit(
                estimator,
                table,
                protected=names,
                may_matter=kept,
                favourable=self.favourable,
                weights=None if sample_weight is None else WEIGHT,
                checks="core",
                settings=Settings().changed(model__columns=read),
            )
        assert result.record.matched_pairs is not None
        if result.record.model.task == "regression":
            raise InvalidModel("The score compares decisions, and the estimator is a regressor.")
        deviations = [row.deviation for row in result.record.matched_pairs.comparisons]
        known = [deviation for deviation in deviations if not math.isnan(deviation)]
        if not known:
            raise InvalidData(f"A fold of {len(table)} people is too small: {result.sentence}")
        return -max(known)

    __call__ = score


scorer = FairnessScorer


def _names(columns: Any) -> list[str]:
    """Return names of columns; a number is that of an array's column."""
    given = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    return [f"x{name}" if isinstance(name, int | np.integer) else str(name) for name in given]


def _table(X: Any) -> pa.Table:
    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True).to_arrow()
    array = np.asarray(X)
    if array.ndim != 2:
        raise InvalidData(f"X has {array.ndim} dimensions; the scorer needs rows and columns.")
    return pa.table({f"x{j}": array[:, j] for j in range(array.shape[1])})
