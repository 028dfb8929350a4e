"""One study: several methods, trained and audited on random splits of a data set."""

import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from likewise import GradientFlow, Settings, audit
from likewise.errors import LikewiseWarning
from likewise.executors import Threads
from likewise.methods.metric import FairMetric
from likewise.metrics import sensitive_subspace
from likewise.outcomes import Outcomes
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.groups import group_metrics
from likewise.stats.loss_ratio import LossRatioTest
from likewise.stats.tally import Tally
from likewise.training.networks import NetworkClassifier
from likewise_studies.datasets import Split
from likewise_studies.secondary import PairedAudit, PermutationTest, compare_pairs, shuffled_test


@dataclasses.dataclass(frozen=True)
class Study:
    """What the paper did with one data set.

    ``split`` returns the split with a given seed, ``methods`` are untrained models, ``flow`` has
    the paper's stated settings. ``privileged`` is, for each protected attribute, the level that the
    other is compared with; matched pairs are alike in the columns that ``may_matter``. The paper's
    test is made on the ``first`` people of the test split (all by default), and with permuted
    attributes so many times (``shuffles``: with 19 the least p-value is .05).
    """

    name: str
    title: str
    split: Callable[[int], Split]
    methods: Mapping[str, NetworkClassifier]
    flow: GradientFlow
    privileged: Mapping[str, str]
    may_matter: tuple[str, ...] = ()
    shuffles: int = 19
    first: int | None = None

    def settings(self) -> dict[str, Any]:
        """Return every choice as plain values."""
        return {
            "study": self.name,
            "methods": {name: repr(model) for name, model in self.methods.items()},
            "flow": repr(self.flow),
            "first": self.first,
            "may_matter": self.may_matter,
            "shuffles": self.shuffles,
        }

    @property
    def key(self) -> str:
        """A hash of all choices that the methods share: other results are not mixed in."""
        shared = {name: value for name, value in self.settings().items() if name != "methods"}
        kept = [field.name for kind in KINDS for field in dataclasses.fields(kind)]
        text = json.dumps([version("likewise"), kept, shared], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def piece(self, method: str, split: int) -> str:
        """Return the name of one piece of the study: the method, its choices, the split."""
        return f"{method}, split {split}: {self.methods[method]!r}"


@dataclasses.dataclass(frozen=True)
class Inference:
    """What our default inference says of the mean loss ratio: Hall's interval, metric refitted.

    Standard errors are under this metric, and with the uncertainty of having learned it; bounds
    one-sided, at 95 % confidence each; ``outcome`` is what follows for the tolerance 1.25.
    """

    estimate: float
    std_error: float
    std_error_refitted: float
    lower_bound: float
    upper_bound: float
    outcome: str


@dataclasses.dataclass(frozen=True)
class Row:
    """One method on one split.

    Performance and average odds differences (unprivileged minus privileged); the paper's loss-ratio
    test (19) and its error-rate test (21)--(22); our default inference, with the gradient flow and
    within the reach; the paper's test with permuted attributes, and matched pairs; processor time.
    """

    study: str
    method: str
    split: int
    n: int
    accuracy: float
    balanced_accuracy: float
    aod_sex: float
    aod_race: float
    S_n: float
    T_n: float
    T_n_rejected: bool
    S_tilde_n: float
    T_tilde_n: float
    T_tilde_n_rejected: bool
    flow: Inference
    reach: Inference
    shuffled: PermutationTest
    paired: PairedAudit
    train_seconds: float
    audit_seconds: float


KINDS = (Row, Inference, PermutationTest, PairedAudit)
"""What is kept of a piece: a journal of other fields is not mixed in."""


def run_one(study: Study, method: str, split: int) -> dict[str, Any]:
    """Train ``method`` on one split, audit it, and return the values of a `Row`."""
    began = time.process_time()
    people = study.split(split)
    model = train(study.methods[method], people, split)
    trained = time.process_time()
    metric = sensitive_subspace(people.test, C=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikewiseWarning)
        stated = audit(
            model,
            people.test,
            metric=sensitive_subspace(people.test, C=1.0, groups=0, controls=0),  # as in the paper
            method=study.flow,
            checks="core",
            executor=Threads(1),
        ).outcomes
        flow, reach = (
            infer(study, model, people, metric, name) for name in ("gradient_flow", "reach")
        )
        shuffled = shuffled_test(model, people, study.flow, stated, study.shuffles)
        paired = compare_pairs(model, people, study.may_matter)
    tested = stated.take(np.arange(len(stated))[: study.first])
    loss = LossRatioTest(interval="paper")(tested)
    error = ErrorRateRatioTest(interval="paper")(tested)
    row = Row(
        study=study.name,
        method=method,
        split=split,
        n=len(tested),
        **performance(stated, study.privileged),
        S_n=loss.estimate,
        T_n=loss.statistic,
        T_n_rejected=loss.rejected,
        S_tilde_n=error.estimate,
        T_tilde_n=error.statistic,
        T_tilde_n_rejected=error.rejected,
        flow=flow,
        reach=reach,
        shuffled=shuffled,
        paired=paired,
        train_seconds=trained - began,
        audit_seconds=time.process_time() - trained,
    )
    return dataclasses.asdict(row)


def infer(
    study: Study, model: NetworkClassifier, people: Split, metric: FairMetric, method: str
) -> Inference:
    """Audit as by default, but for the study's price and time of the flow; no check decides more.

    Within reach people keep to the free directions, as the published table has it.
    """
    flow = {"method__lam": study.flow.lam, "method__time": study.flow.time}
    settings = Settings(checks="core").changed(
        method=method, **(flow if method == "gradient_flow" else {})
    )
    result = audit(model, people.test, metric=metric, settings=settings, executor=Threads(1))
    test, refits = result.test("loss_ratio"), result.record.jackknife["loss_ratio"]
    errors = (refits.std_error_fixed, refits.std_error_refitted)
    return Inference(test.estimate, *errors, test.lower_bound, test.upper_bound, test.outcome)


def train(model: Any, people: Split, seed: int) -> Any:
    """Return a fresh copy of ``model``, trained on the training people."""
    data, fresh = people.train, clone(model).set_params(random_state=seed)
    if "directions" in fresh.get_params():
        # Learned with feature names, so that an attribute which is itself an input is recognised.
        metric = sensitive_subspace(data, C=1.0, groups=0, controls=0)
        fresh.set_params(directions=metric.directions)
    return fresh.fit(data.x, data.y, protected=dict(data.protected))


def performance(outcomes: Outcomes, privileged: Mapping[str, str]) -> dict[str, float]:
    """Return accuracy, balanced accuracy and average odds differences before anybody is moved."""
    rates = group_metrics(Tally.from_outcomes(outcomes))
    odds = {}
    for name, attribute, group in rates:
        if name == "selection_rate" and group != (base := privileged[attribute]):
            gaps = (
                rates[rate, attribute, group].value - rates[rate, attribute, base].value
                for rate in ("true_positive_rate", "false_positive_rate")
            )
            odds[f"aod_{attribute}"] = sum(gaps) / 2
    y, decided = outcomes.y, outcomes.decision_before
    accuracy = {
        "accuracy": float(accuracy_score(y, decided)),
        "balanced_accuracy": float(balanced_accuracy_score(y, decided)),
    }
    return {**accuracy, **odds}
