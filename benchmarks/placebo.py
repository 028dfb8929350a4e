"""How often random attributes are flagged, on real data and real models.

    python benchmarks/placebo.py [--quick] [--json FILE] [--only WORD ...]

Each line draws a protected attribute at random for every person and audits the model by one method.
*evidence*: by the default verdict; *bound*: if the lower bound alone decided, the metric taken as
given and without a negative control. Ends with exit code 1 if, pooled over a method, more random
attributes are flagged than 5 % explain (a binomial limit of 99 %).
"""

import argparse
import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from likewise.audit_data import AuditData
from likewise.record import Record

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
from scipy.stats import binom

import likewise
from likewise.errors import LikewiseWarning
from likewise_studies import datasets

N = 1000
"""People who are audited, and people the metric is learned from, or pairs are found in."""

LEVEL = 0.05
METHODS = ("gradient_flow", "reach", "matched_pairs")
Sample = tuple[AuditData, AuditData]


def simulation() -> Sample:
    """Return people of two features, a label and noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8000, 4))
    y = (x @ [1.0, 1.0, 0.5, 0.0] + rng.logistic(size=8000) > 0).astype(int)
    everyone = AuditData.from_arrays(x, y)
    return everyone.take(slice(0, 4000)), everyone.take(slice(4000, 8000))


def split(read: Callable[[int], Any]) -> Callable[[], Sample]:
    def parts() -> Sample:
        found = read(0)
        return found.train, found.test

    return parts


DATA: dict[str, Callable[[], Sample]] = {
    "adult": split(datasets.adult),
    "compas": split(datasets.compas),
    "simulation": simulation,
}


def logistic(x: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=100.0, solver="newton-cholesky").fit(x, y)


def network(x: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge to be steep
        return MLPClassifier((50,), max_iter=40, random_state=0).fit(x[:5000], y[:5000])


def boosted(x: np.ndarray, y: np.ndarray) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=60, n_jobs=1, random_state=0).fit(x, y)


MODELS = {"logistic": logistic, "network": network, "xgboost": boosted}


@dataclasses.dataclass(frozen=True)
class Row:
    """What one line showed."""

    method: str
    data: str
    model: str
    attributes: int
    evidence: int
    bound: int
    seconds: float


def drawn(people: AuditData, rng: np.random.Generator) -> AuditData:
    """Return some of the people, with a random attribute."""
    some = people.take(np.sort(rng.choice(len(people), N, replace=False)))
    y = np.searchsorted(np.unique(people.y), some.y)
    random = {"random": rng.integers(0, 2, N)}
    return AuditData.from_arrays(some.x, y, random, features=some.features)


def flagged(method: str, model: Any, sample: Sample, rng: np.random.Generator) -> tuple[bool, bool]:
    """Tell whether one random attribute is evidence, and whether the bound alone would be."""
    others, people = (drawn(part, rng) for part in sample)
    if method == "matched_pairs":
        numbers = [name for name in people.features if "=" not in name]
        kept = numbers[:-1] or list(people.features[:-1])
        found = likewise.audit(model, people, may_matter=kept, pool=others, checks="core")
        return found.verdict == "evidence", found.verdict == "evidence"
    settings = likewise.Settings(checks="core", method=method)

    def record(**learned: int) -> Record:
        metric = likewise.metrics.sensitive_subspace(others, **learned)
        return likewise.audit(model, people, metric=metric, settings=settings).record

    # The jackknife only widens the interval, so it comes last and changes nothing without evidence.
    fixed = record(groups=0)
    alone = fixed.tests[fixed.decided_by.test].lower_bound > fixed.delta
    return fixed.verdict == "evidence" and record().verdict == "evidence", alone


def line(method: str, data: str, model: str, count: int) -> Row:
    """Draw attributes for one method, population and model."""
    began = time.perf_counter()
    sample = DATA[data]()
    train = sample[0]
    fitted = MODELS[model](train.x, np.searchsorted(np.unique(train.y), train.y))
    found = [
        flagged(method, fitted, sample, np.random.default_rng([seed, len(data)]))
        for seed in range(count)
    ]
    evidence, bound = np.sum(found, axis=0).tolist()
    return Row(method, data, model, count, evidence, bound, time.perf_counter() - began)


def main() -> None:
    """Run the lines, print them, and judge each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few attributes, a few minutes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--only", nargs="*", default=[], help="lines that hold one of these words")
    options = parser.parse_args()
    warnings.simplefilter("ignore", LikewiseWarning)
    rows: list[Row] = []
    for method in METHODS:
        for data in DATA:
            for model in MODELS:
                if method == "gradient_flow" and model == "xgboost":
                    continue  # it has no gradient
                if options.only and not {method, data, model} & set(options.only):
                    continue
                linear = model == "logistic"
                count = (8 if linear else 3) if options.quick else (134 if linear else 40)
                rows.append(row := line(method, data, model, count))
                print(
                    f"{method:<15}{data:<12}{model:<10}{count:>4} random attributes: evidence "
                    f"{row.evidence / count:.3f}, bound alone {row.bound / count:.3f}, "
                    f"{row.seconds:.0f} s",
                    flush=True,
                )
    if options.json is not None:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    failed = False
    for method in METHODS:
        mine = [row for row in rows if row.method == method]
        count, evidence = (sum(getattr(r, n) for r in mine) for n in ("attributes", "evidence"))
        limit = int(binom.ppf(0.99, count, LEVEL)) if count else 0
        print(f"{method}: {evidence} of {count} random attributes flagged (at most {limit})")
        failed |= evidence > limit
    sys.exit(failed)


if __name__ == "__main__":
    main()
