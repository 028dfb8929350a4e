"""Remedies that the paper does not have, on its data: what each costs, and what it mends."""

import dataclasses
import time
import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.metrics import accuracy_score, balanced_accuracy_score

from likewise.errors import LikewiseWarning
from likewise.training import (
    BaselineClassifier,
    CounterpartAugmentedClassifier,
    CounterpartAverage,
    FairBoostingClassifier,
    SenSeIClassifier,
)
from likewise_studies.alike import Alike, ask_alike
from likewise_studies.study import Study, train

REMEDIES: Mapping[str, Any] = {
    "Counterpart average": CounterpartAverage(BaselineClassifier(), m=5),
    "Counterpart training": CounterpartAugmentedClassifier(BaselineClassifier()),
    "Fair boosting": FairBoostingClassifier(balanced=True, engine="xgboost"),
    "SenSeI": SenSeIClassifier(max_iter=1500),
}
"""Each at the strength of its defaults: none was tuned on these data."""


@dataclasses.dataclass(frozen=True)
class FurtherRow:
    """One remedy on one split.

    Parameters
    ----------
    accuracy, balanced_accuracy
        On the test people.
    alike
        The test by counterparts.
    seconds
        Processor time of training and test together.
    """

    study: str
    method: str
    split: int
    accuracy: float
    balanced_accuracy: float
    alike: Alike
    seconds: float

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "FurtherRow":
        """Return the row behind the plain values of `run_further`."""
        return cls(**{**values, "alike": Alike(**values["alike"])})


def run_further(study: Study, method: str, split: int) -> dict[str, Any]:
    """Train a remedy on one split, audit it by counterparts, and return a `FurtherRow`'s values."""
    began = time.process_time()
    people = study.split(split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikewiseWarning)
        model = train(study.remedies[method], people, split, study.may_matter)
        alike = ask_alike(model, people, study.may_matter)
    decided = model.predict(people.test.x)
    row = FurtherRow(
        study=study.name,
        method=method,
        split=split,
        accuracy=float(accuracy_score(people.test.y, decided)),
        balanced_accuracy=float(balanced_accuracy_score(people.test.y, decided)),
        alike=alike,
        seconds=time.process_time() - began,
    )
    return dataclasses.asdict(row)
