"""How often the counterpart test errs, and what it finds: nulls, attacks and planted unfairness.

    python benchmarks/counterparts.py [--quick] [--json FILE] [--only WORD ...]

Each line draws people and a pool again and again from a population whose truth is known. *size*:
how often a group is accused at a tolerance of 1 (all rules and Holm's correction included), where
nothing is wrong; *coverage*: how often the 95 % interval of a group holds the mean of its
estimates over all draws. Ends with exit code 1 if size exceeds .075 or coverage falls short of
.925, beyond what the number of draws explains.
"""

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

from counterparts_populations import LINES, Line
from likewise.inference.counterpart_test import LEAST_PAIRS, CounterpartTest
from likewise.maps.counterparts import Counterparts
from likewise.statistics.donors import Donors

SIZE, COVERAGE = 0.075, 0.925
HEADER = (
    f"{'line':<44}{'n':>6}{'pool':>7}{'draws':>6}{'mean S':>8}{'sd':>8}{'se':>8}{'J':>6}"
    f"{'decided':>8}{'size':>8}{'swap':>8}{'coverage':>9}{'cert.':>7}"
)


@dataclasses.dataclass(frozen=True)
class Row:
    """What one line showed; means are over groups."""

    line: str
    n: int
    pool: int
    draws: int
    mean: float
    sd: float
    se: float
    pairs: float
    decided: float
    accused: float
    swap: float
    coverage: float
    certified: float
    null: bool
    seconds: float

    @property
    def missed(self) -> bool:
        """Whether a promise is broken by more than chance explains (one time in a thousand)."""
        if self.decided * self.draws < 20:
            return False
        error = 3.09 * math.sqrt(SIZE * (1 - SIZE) / self.draws)
        too_often = self.null and self.accused > SIZE + error
        return too_often or self.coverage < COVERAGE - error


def run(line: Line, draws: int, seed: int) -> Row:
    """Draw again and again, and count."""
    begun = time.process_time()
    test = CounterpartTest(delta=line.delta)
    tables: list[dict[str, Any]] = []
    accused = certified = 0
    swaps = []
    for draw in range(draws):
        sample = line.draw(np.random.default_rng([seed, draw]))
        question = Counterparts(may_matter=line.may_matter, swaps=line.swaps, seed=draw, m=line.m)
        pairs = question.pairs(sample.pool, "trait", sample.pool_clusters)
        losses = question.visit(
            sample.ask,
            sample.loss,
            sample.people,
            pairs,
            sample.pool,
            label=sample.label,
            weight=sample.weight,
            cluster=sample.cluster,
            columns=sample.columns,
        )
        donors = Donors.of(losses, question.design(pairs))
        linked = pairs.cluster if sample.pool_clusters else None
        evidence = test.evidence(donors, "trait", pairs.groups, pairs.group_sizes, linked)
        verdict = test.decide([evidence], {})
        accused += verdict.outcome == "evidence_of_unfairness"
        certified += verdict.outcome == "within_tolerance"
        swaps.append(evidence.overall.swap_p_value <= test.alpha)
        tables.append({v.evidence.group: v for v in verdict.groups})
    groups = sorted({name for table in tables for name in table})
    parts = [_group([table[g] for table in tables if g in table]) for g in groups]
    decided = np.array([part["decided"] for part in parts])
    means = {
        name: float(np.average([part[name] for part in parts], weights=np.maximum(decided, 1e-9)))
        for name in ("mean", "sd", "se", "pairs", "coverage")
    }
    return Row(
        line=line.name,
        n=line.n,
        pool=line.pool,
        draws=draws,
        decided=float(decided.mean()),
        accused=accused / draws,
        swap=float(np.mean(swaps)),
        certified=certified / draws,
        null=line.null,
        seconds=time.process_time() - begun,
        **means,
    )


def _group(verdicts: list[Any]) -> dict[str, float]:
    """Summarise one group over all draws: coverage among the draws that may be decided."""
    found = np.array([v.evidence.estimate for v in verdicts])
    known = np.array(
        [
            v.evidence.effective_pairs >= LEAST_PAIRS and np.isfinite(v.evidence.estimate)
            for v in verdicts
        ]
    )
    if not known.any():
        known_mean = float(np.nanmean(found)) if np.isfinite(found).any() else math.nan
        return {
            "mean": known_mean,
            "sd": 0.0,
            "se": 0.0,
            "pairs": 0.0,
            "decided": 0.0,
            "coverage": 1.0,
        }
    truth = float(found[np.isfinite(found)].mean())
    inside = [
        v.interval[0] <= truth <= v.interval[1] for v, k in zip(verdicts, known, strict=True) if k
    ]
    return {
        "mean": truth,
        "sd": float(found[known].std()),
        "se": float(
            np.mean([v.evidence.std_error for v, k in zip(verdicts, known, strict=True) if k])
        ),
        "pairs": float(np.median([v.evidence.effective_pairs for v in verdicts])),
        "decided": float(known.mean()),
        "coverage": float(np.mean(inside)),
    }


def text(row: Row) -> str:
    """Return a row of the printed table."""
    mark = " !" if row.missed else ""
    return (
        f"{row.line:<44}{row.n:>6}{row.pool:>7}{row.draws:>6}{row.mean:>8.3f}{row.sd:>8.4f}"
        f"{row.se:>8.4f}{row.pairs:>6.0f}{row.decided:>8.2f}{row.accused:>8.3f}{row.swap:>8.3f}"
        f"{row.coverage:>9.3f}{row.certified:>7.2f}{mark}"
    )


def main() -> int:
    """Run the lines, print the table, and say whether every promise is kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a twentieth of the draws, two minutes"
    )
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draws = max(20, options.draws // 20) if options.quick else options.draws
    rows = []
    print(HEADER)
    for line in LINES:
        if any(word in line.name for word in options.only):
            rows.append(run(line, draws, options.seed))
            print(text(rows[-1]), f"  {rows[-1].seconds:.0f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    broken = [row.line for row in rows if row.missed]
    print(f"\n{len(rows)} lines; promises broken: {len(broken)} {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
