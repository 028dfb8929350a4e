"""Notes on model and label: labels predicted by remaining columns, trained on the pool."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import ttest_ind, ttest_rel
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import BoundMatchedPairs
from likewise.methods.redraws import FOLDS, MOST_LEVELS, gradient_boosting
from likewise.methods.reference_sample import CovariateCoding, plain
from likewise.models.base import targets
from likewise.record import MatchedPairsRecord
from likewise.report.formats import listed, number
from likewise.verdict import Verdict

LEVEL = 0.01
LOSS_RATIO, SAMPLE = 0.9, 10_000
"""Part of the audited people's loss below which the reference sample's is too low, and people of
either kind whose losses are compared."""

PEOPLE = (5_000, 21)
"""People by whom it is told whether labels are predicted, and the stream they are drawn by."""

MIN_PEOPLE = 200
IMPROVEMENT = 0.01
"""Part of the loss by which the remaining columns must lower it."""

NAMED = 5
"""Columns that a note names."""


@final
@dataclasses.dataclass(frozen=True)
class TrainingPool(Check):
    """Compares the model's loss on the reference sample with that on the people audited."""

    name: ClassVar[str] = "training_pool"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        if not method.pool.given:
            return Finding()
        labels = set(method.pool.people.y.tolist())
        strange = method.classes and not labels.issubset(method.classes)
        if method.setup.unlabelled or len(labels) < 2 or strange:
            about = "whether the model was trained on the reference sample"
            return Finding(notes=(f"Not checked, for want of labels that it knows: {about}.",))
        ours, theirs = (losses(method, people) for people in (method.people, method.pool.people))
        if theirs.mean() > LOSS_RATIO * ours.mean():
            return Finding()
        welch = ttest_ind(ours, theirs, equal_var=False, alternative="greater")
        if not welch.pvalue < LEVEL:
            return Finding()
        return Finding(
            warnings=(
                f"The model's loss is {number(float(theirs.mean()))} on the reference sample and "
                f"{number(float(ours.mean()))} on the people audited: it may have been trained on "
                "the reference sample. Give people whom it has not seen (--pool).",
            )
        )


def losses(method: BoundMatchedPairs, people: AuditData) -> Float[np.ndarray, " m"]:
    """Return the model's losses; by cluster if there are any, whose rows depend on each other."""
    some = people.take(np.arange(0, len(people), max(1, len(people) // SAMPLE)))
    assert some.table is not None
    asked, _ = method.context.prepared_pool(method.model)
    found = method.model.loss(asked(plain(some.table)), targets(some.y, method.classes))
    unit = _units(some)
    return np.bincount(unit, found) / np.bincount(unit)


def _units(people: AuditData) -> Int[np.ndarray, " n"]:
    """Return numbers of clusters, or of people."""
    if people.cluster is None:
        return np.arange(len(people))
    return np.unique(people.cluster, return_inverse=True)[1]


@final
@dataclasses.dataclass(frozen=True)
class LabelPrediction(Check):
    """Cross-fits the label without and with the remaining columns, given factors and groups."""

    name: ClassVar[str] = "label_prediction"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        record: MatchedPairsRecord = verdict.record["matched_pairs"]
        differs = any(
            row.difference_interval[0] > 0 or row.difference_interval[1] < 0
            for row in record.comparisons
        )
        remaining = [name for name in method.remaining if name not in method.context.groups]
        unlabelled = method.setup.unlabelled or not method.classes
        possible = differs and remaining and not unlabelled and not method.scored
        if not possible or label_gain(method, remaining) < IMPROVEMENT:
            return Finding()
        label = method.settings.columns.label or "the label"
        predict = "predicts" if len(remaining) == 1 else "predict"
        return Finding(
            notes=(
                f"{listed(remaining, most=NAMED)} {predict} {label} beyond "
                f"{listed(method.context.keep, most=NAMED)} and the groups. A calibrated model "
                "would also differ here; which of these columns may matter?",
            )
        )


def label_gain(method: BoundMatchedPairs, remaining: Sequence[str]) -> float:
    """Return by which part the remaining columns lower the loss of predicting the label.

    Losses are cross-fitted by gradient boosting. 0 if that is not beyond chance, by a one-sided
    t-test of people's losses (or of clusters').
    """
    from sklearn.model_selection import GroupKFold, cross_val_predict

    people = method.setup.sample(*PEOPLE).in_columns()
    assert people.table is not None
    table, y = plain(people.table), targets(people.y, method.classes)
    unit = _units(people)
    if len(np.unique(unit)) < MIN_PEOPLE or np.bincount(y).max() > len(y) - FOLDS:
        return 0.0
    groups = [np.unique(g.astype(str), return_inverse=True)[1] for g in people.protected.values()]
    place, found = np.unique(y, return_inverse=True)[1], []
    for columns in (method.context.keep, (*method.context.keep, *remaining)):
        known = CovariateCoding.fit(columns, table, table).covariates(table)
        x = np.column_stack([known.numeric, np.minimum(known.category, MOST_LEVELS), *groups])
        learner = gradient_boosting(np.arange(x.shape[1]) >= known.numeric.shape[1])
        folds = {"groups": unit, "cv": GroupKFold(FOLDS)}  # a cluster's rows are in one fold
        with warnings.catch_warnings():  # of classes that a fold lacks: their probability is 0
            warnings.simplefilter("ignore", RuntimeWarning)
            p = cross_val_predict(learner, x, place, method="predict_proba", **folds)
        loss = -np.log(np.clip(p[np.arange(len(p)), place], 1e-3, 1))
        found.append(np.bincount(unit, loss))
    without, with_them = found
    if not ttest_rel(without, with_them, alternative="greater").pvalue < LEVEL:
        return 0.0
    return 1 - float(with_them.sum() / without.sum())
