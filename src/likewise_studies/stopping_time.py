r"""Figure 2: the statistic against the time people are given to move, on Adult.

Everyone is audited once for each time, with simultaneous intervals (Bonferroni): whichever time
is chosen after looking, its bounds hold.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from likewise import GradientFlow, audit
from likewise.errors import LikewiseWarning
from likewise.executors import Threads
from likewise.metrics import sensitive_subspace
from likewise.stats.loss_ratio import LossRatioTest
from likewise.stats.tally import Tally
from likewise_studies.study import Study, train
from likewise_studies.text_tables import Table, number

DELTA = 1.25
TIMES = (
    *(0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0),
    *(3.5, 5.0, 7.5, 10.0, 15.0, 20.0, 35.0, 50.0),
)


def run_path(
    study: Study, method: str, split: int, times: tuple[float, ...] = TIMES
) -> dict[str, Any]:
    """Train ``method`` on one split of ``study``, and follow its statistic through time.

    At each time of the flow (5 is the paper's, in 500 steps): the audit value, the paper's
    statistic, and a 95 % band around the value that holds at all times together. The bound on the
    numerical error is that at the last time, in standard errors.
    """
    people = study.split(split)
    model = train(study.methods[method], people, split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikewiseWarning)
        metric = sensitive_subspace(people.test, C=1.0, groups=0, controls=0)
        results = [
            audit(
                model,
                people.test,
                metric=metric,
                method=GradientFlow(lam=study.flow.lam, time=time),
                checks="core",
                executor=Threads(1),
            )
            for time in times
        ]
    paper = LossRatioTest(interval="paper")
    found = [LossRatioTest().evidence(Tally.from_outcomes(result.outcomes)) for result in results]
    level = 0.05 / len(found)
    band = [(0.0, np.inf) if e.bounds is None else e.bounds.interval(level) for e in found]
    certificate = results[-1].record.numerical_error
    return {
        "method": method,
        "split": split,
        "n": len(results[-1].outcomes),
        "times": times,
        "S_n": [evidence.estimate.value for evidence in found],
        "T_n": [paper(result.outcomes).statistic for result in results],
        "lower": [low for low, _ in band],
        "upper": [high for _, high in band],
        "error_in_se": certificate.error_in_se if certificate else np.nan,
    }


def times_table(paths: Sequence[Mapping[str, Any]]) -> Table:
    """Return the statistic at a few times, and when it first exceeds the tolerance."""
    shown = [t for t in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if t in paths[0]["times"]]
    lines = []
    for path in paths:
        values = dict(zip(path["times"], path["T_n"], strict=True))
        above = [t for t, low in zip(path["times"], path["lower"], strict=True) if low > DELTA]
        lines.append(
            (
                path["method"],
                str(path["split"]),
                *(number(values[t], 2) for t in shown),
                f"{above[0]:g}" if above else "never",
            )
        )
    return Table(
        f"Adult: T_n by time T (the paper's is 5), and when its band passes δ = {DELTA}",
        ("", "split", *(f"T={t:g}" for t in shown), "above δ"),
        tuple(lines),
    )
