"""The audit value as a scorer, for scikit-learn's cross-validation and searches."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, nearest
from likewise.maps.counterparts import Counterparts
from likewise.metrics.fair_metric import FairMetric
from likewise.settings import Settings
from likewise.walk import audit


@final
@dataclasses.dataclass(frozen=True, eq=False)
class AuditScorer:
    """Scores an estimator by its audit value on the people of a fold, the smaller the better.

    Parameters
    ----------
    people
        Everybody with traits and label, by the index of the data frame that is cross-validated.
    """

    people: Any
    label: str
    protected: tuple[str, ...]
    may_matter: tuple[str, ...] | None
    metric: FairMetric | None
    seed: int

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Return minus the audit value: of the worst served group, or of the test that decides."""
        index = getattr(X, "index", None)
        if index is None or not index.isin(self.people.index).all():
            raise InvalidData(
                "The scorer finds traits by the index of a data frame: cross-validate one whose "
                "index is that of people."
            )
        fold, others = self.people.loc[index], self.people.drop(index)
        settings = Settings(checks="core", seed=self.seed).changed(
            columns__label=self.label, columns__protected=self.protected
        )
        if self.may_matter is not None:
            question = Counterparts(may_matter=self.may_matter, seed=self.seed)
            found = audit(estimator, fold, pool=others, map=question, settings=settings)
            part = found.record.counterparts
            assert part is not None
            return -part.worst_served().estimate
        metric = self.metric
        if metric is None:
            from likewise.metrics.learn import sensitive_subspace

            metric = sensitive_subspace(self._arrays(others, X.columns))
        found = audit(estimator, self._arrays(fold, X.columns), metric=metric, settings=settings)
        return -found.record.tests[found.record.decided_by.test].estimate

    def _arrays(self, rows: Any, features: Any) -> AuditData:
        names = list(features)
        if text := [name for name in names if rows[name].dtype.kind not in "biuf"]:
            raise InvalidData(
                f"Column {text[0]!r} is no number, and a metric is learned from numbers. Name the "
                "columns that may matter (may_matter=…) instead."
            )
        return AuditData.from_arrays(
            rows[names].to_numpy(dtype=np.float64),
            rows[self.label].to_numpy(),
            {name: rows[name].to_numpy() for name in self.protected},
            features=[str(name) for name in features],
        )


def make_scorer(
    people: Any,
    *,
    label: str,
    protected: Sequence[str],
    may_matter: Sequence[str] | None = None,
    metric: FairMetric | None = None,
    seed: int = 0,
) -> AuditScorer:
    """Return a scorer for `cross_val_score` and searches: minus the audit value of each fold.

    Counterparts come from the people outside the fold, and so does what a metric is learned from.
    Tuning on it spends the error rate: audit the model that was chosen on people who had no part in
    choosing.

    Parameters
    ----------
    people
        A data frame with features, label and protected traits, whose index is that of the frame
        that is cross-validated.
    label, protected
        Names of columns.
    may_matter
        Columns that may matter: counterparts decide.
    metric
        A fair metric; without it, and without ``may_matter``, one is learned outside each fold.
    """
    if may_matter is not None and metric is not None:
        raise InvalidSettings("Name the columns that may matter, or give a metric: not both.")
    names = tuple(protected)
    if not names:
        raise InvalidSettings("Name at least one protected trait.")
    if not getattr(getattr(people, "index", None), "is_unique", False):
        raise InvalidData(
            "People are found by the index of their data frame (pandas), in which nobody may "
            "occur twice: people.reset_index(drop=True) makes one."
        )
    for name in (label, *names, *(may_matter or ())):
        if name not in people.columns:
            raise InvalidData(
                f"The people have no column {name!r}.{nearest(name, list(people.columns))}"
            )
    kept = None if may_matter is None else tuple(may_matter)
    return AuditScorer(people, label, names, kept, metric, seed)
