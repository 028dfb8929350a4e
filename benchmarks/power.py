"""How often planted unfairness is found: real counterparts against the reach with its placebo.

    python benchmarks/power.py [--quick] [--draws 100] [--json FILE]

Income goes by two columns that may matter. The model goes by a third as well, a proxy of the trait
whose strength is planted: its correlation with the trait. Two more columns mean nothing. Each line
draws people and a pool again and again, and asks both ways, at a tolerance of 1 and at the default:
the share accused. At strength 0 nothing is wrong. *steep*: what the model makes of the proxy.
"""

import argparse
import dataclasses
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

import likewise

N, POOL = 1000, 3000
"""People audited, and people of the pool, from whom the metric is learned as well."""

STRENGTHS = (0.0, 0.1, 0.2, 0.4, 0.8)
STEEPNESS = (1.0, 3.0)
"""How much the model makes of the proxy, where it makes 1 of each column that may matter."""

TOLERANCES = (1.0, 1.25)
ACCUSED = "evidence_of_unfairness"
FEATURES = ("school", "age", "proxy", "street", "month")
HEADER = (
    f"{'steep':>5}{'strength':>9}{'draws':>7}{'counterparts S':>16}{'accused at 1':>14}"
    f"{'at 1.25':>9}"
    f"{'reach':>9}{'accused at 1':>14}{'at 1.25':>9}{'s':>7}"
)


@dataclasses.dataclass(frozen=True)
class Row:
    """What one strength showed: the mean estimate, and the shares accused at both tolerances."""

    steepness: float
    strength: float
    draws: int
    counterparts: float
    counterparts_accused: tuple[float, ...]
    reach: float
    reach_accused: tuple[float, ...]
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.steepness:>5.0f}{self.strength:>9.1f}{self.draws:>7}{self.counterparts:>16.3f}"
            f"{self.counterparts_accused[0]:>14.2f}{self.counterparts_accused[1]:>9.2f}"
            f"{self.reach:>9.3f}{self.reach_accused[0]:>14.2f}{self.reach_accused[1]:>9.2f}"
            f"{self.seconds:>7.0f}"
        )


def people(n: int, strength: float, rng: np.random.Generator) -> likewise.AuditData:
    """Draw people whose proxy goes with their trait, and whose label does not."""
    trait = rng.integers(0, 2, n)
    x = rng.normal(size=(n, len(FEATURES)))
    x[:, 2] = strength * (2 * trait - 1) + np.sqrt(1 - strength**2) * x[:, 2]
    y = (x[:, 0] + x[:, 1] + rng.logistic(size=n) > 0).astype(int)
    return likewise.AuditData.from_arrays(x, y, {"trait": trait}, features=FEATURES)


def model(steepness: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a model whose probabilities go by the proxy, too."""

    def probabilities(x: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-(x[:, 0] + x[:, 1] + steepness * x[:, 2])))
        return np.column_stack([1 - p, p])

    return probabilities


def by_counterparts(
    model: Any, audited: likewise.AuditData, pool: likewise.AuditData
) -> tuple[float, list[bool]]:
    """Return the estimate for everyone, and whether a group is accused at each tolerance."""
    question = likewise.Counterparts(may_matter=("school", "age"))
    found = []
    for delta in TOLERANCES:
        settings = likewise.Settings(delta=delta, checks="core")
        result = likewise.audit(
            model, audited, map=question, pool=pool, settings=settings, run=likewise.Inline()
        )
        found.append(result.outcome == ACCUSED)
    return result.record.counterparts.traits[0].overall.estimate, found


def by_reach(
    model: Any, audited: likewise.AuditData, pool: likewise.AuditData
) -> tuple[float, list[bool]]:
    """Return the estimate, and whether it is accused at each tolerance, the placebo included."""
    settings = likewise.Settings(delta=TOLERANCES[0], checks="core", map="reach")
    settings = settings.changed(checks__placebo__enough=2)

    def record(**learned: int) -> likewise.Record:
        metric = likewise.sensitive_subspace(pool, **learned)
        return likewise.audit(
            model, audited, metric=metric, settings=settings, run=likewise.Inline()
        ).record

    # Refits only widen the interval: they matter if it accuses without.
    found = record(groups=0)
    estimate = found.tests[found.decided_by.test].estimate
    if found.outcome != ACCUSED:
        return estimate, [False for _ in TOLERANCES]
    found = record()
    deciding = found.tests[found.decided_by.test]
    accused = found.outcome == ACCUSED
    return estimate, [accused and deciding.lower_bound > delta for delta in TOLERANCES]


def line(steepness: float, strength: float, draws: int) -> Row:
    """Draw again and again at one strength."""
    asked = model(steepness)
    begun = time.process_time()
    answers = []
    for draw in range(draws):
        rng = np.random.default_rng([draw, round(100 * strength)])
        audited, pool = people(N, strength, rng), people(POOL, strength, rng)
        answers.append((*by_counterparts(asked, audited, pool), *by_reach(asked, audited, pool)))
    real, real_accused, moved, moved_accused = zip(*answers, strict=True)
    return Row(
        steepness,
        strength,
        draws,
        float(np.mean(real)),
        tuple(np.mean(real_accused, axis=0).tolist()),
        float(np.mean(moved)),
        tuple(np.mean(moved_accused, axis=0).tolist()),
        time.process_time() - begun,
    )


def main() -> None:
    """Print a line for every strength."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four draws of each strength")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    options = parser.parse_args()
    warnings.simplefilter("ignore", likewise.errors.LikewiseWarning)
    print(HEADER)
    rows = []
    for steepness in STEEPNESS:
        for strength in STRENGTHS:
            rows.append(line(steepness, strength, 4 if options.quick else options.draws))
            print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
