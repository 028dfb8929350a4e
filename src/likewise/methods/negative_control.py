r"""Negative control of a learned metric: people are perturbed under permuted attributes too.

The attributes are permuted B times, and the audit is repeated each time. If rows of attributes are
exchangeable given features, labels and model, the true estimate is one of B + 1 that are equally
likely to be the largest, so :math:`p = (1 + \#\{S_b \ge S\}) / (B + 1)` is a p-value at any sample
size. Stopping as soon as h permutations are at least as large keeps it one: then :math:`p = h / b`
after b of them (Besag and Clifford 1991, "Sequential Monte Carlo p-values").
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, final

from likewise.methods.decide import Judgement, by_group
from likewise.methods.perturb_probe import PerturbProbe, PerturbStats
from likewise.probe import PRIMARY
from likewise.record import ControlRecord
from likewise.stats.ratio_test import RatioTest

EARLY_HITS = 8
"""Permutations at least as large as the estimate after which no more are needed."""

PEOPLE, STREAM = 2000, 12
"""How many people are perturbed, the same under every metric, and the stream they come from."""

WAVE = 8
"""Permutations that are tried at once, before it is asked whether they are enough."""

REAL = "control: attributes as they are"


@final
@dataclasses.dataclass(frozen=True)
class ControlComparison:
    """An estimate among those with the attributes permuted, as far as they are known.

    ``drawn`` are these in fixed order, of ``planned`` that there are to be.
    """

    estimate: float
    drawn: tuple[float, ...]
    planned: int

    @functools.cached_property
    def hits(self) -> list[int]:
        """Which permutations do at least as much, counted from one, until they are enough."""
        # What is not finite is no smaller; an estimate that is not finite is never remarkable.
        smaller = (math.isfinite(value) and value < self.estimate for value in self.drawn)
        return [place for place, less in enumerate(smaller, start=1) if not less][:EARLY_HITS]

    @property
    def needed(self) -> tuple[float, ...]:
        """The permutations that count: those up to the one that was enough."""
        return self.drawn[: self.hits[-1]] if len(self.hits) == EARLY_HITS else self.drawn

    @property
    def complete(self) -> bool:
        """Whether no further permutation is needed."""
        return len(self.drawn) >= self.planned or len(self.hits) == EARLY_HITS

    @property
    def p_value(self) -> float:
        """How often a permuted attribute does at least as much."""
        if len(self.hits) == EARLY_HITS and len(self.needed) < self.planned:
            return EARLY_HITS / len(self.needed)
        return (1 + len(self.hits)) / (len(self.needed) + 1)

    def __str__(self) -> str:
        span = f"{min(self.needed):.3g} to {max(self.needed):.3g}, p = {self.p_value:.2g}"
        return f"random attributes give ratios as large ({span}; as they are {self.estimate:.3g})"


def control_probes(stats: Mapping[str, PerturbStats], method: Any) -> Iterator[PerturbProbe]:
    """Yield the next permutations, unless there were enough or none is needed.

    Searches look at fewer places here, with the true attributes as with permuted ones: any rule
    that treats all of them alike gives a p-value.
    """
    metric = method.metric
    if not (method.learned and metric.controls):
        return
    if method.settings.checks.run == "core":  # needed only if there may be evidence to hold back
        tally = stats[PRIMARY].tally
        groups = by_group(tally, method.settings)
        if not (method.tested(tally).deciding.rejected or any(one.rejected for one in groups)):
            return
    rough, some = method.map.rough(metric), (PEOPLE, STREAM)
    if REAL not in stats:
        yield method.probe(REAL, rough, metric, subsample=some)
    known = compared(stats, method, method.tests[method.decider])
    if known is not None and known.complete:
        return
    drawn = len(_permuted(stats))
    for number, other in enumerate(metric.controls[drawn : drawn + WAVE], start=drawn):
        yield method.probe(f"control: {number}", rough, other, subsample=some)


def with_control(
    judgement: Judgement, stats: Mapping[str, PerturbStats], method: Any
) -> tuple[Judgement, dict[str, ControlRecord]]:
    """Return the judgement held back where permuted attributes do as much, and what they did.

    A learned metric gives evidence only if the model is more sensitive to the attributes than to
    permuted ones. The paper's own procedure shows that and decides without it.
    """
    if not method.learned:
        return judgement, {}
    decides = method.settings.decide.interval != "paper"
    evidence, records = dict(judgement.evidence), {}
    for name, test in judgement.tests.items():
        found = compared(stats, method, test)
        if found is not None:
            reason = "" if found.p_value <= test.alpha else str(found)
            records[name] = ControlRecord(
                estimate=found.estimate,
                permuted=found.needed,
                p_value=found.p_value,
                planned=found.planned,
                n=_permuted(stats)[0].n,
                used=decides,
            )
        elif method.metric.controls:
            reason = "no permuted attribute was tried"
        else:
            reason = (
                "how sensitive the model is to a random attribute is not known: this metric "
                "was learned without permuted attributes (learn it again with likewise metric)"
            )
        if decides:
            evidence[name] = dataclasses.replace(evidence[name], held_back=reason)
    return dataclasses.replace(judgement, evidence=evidence), records


def compared(
    stats: Mapping[str, PerturbStats], method: Any, test: RatioTest
) -> ControlComparison | None:
    """Return what is known so far, in the order of the permutations."""
    permuted = _permuted(stats)
    if not permuted:
        return None
    sums = (found.tally for found in (stats[REAL], *permuted))
    own, *values = (test.evidence(tally).estimate.value for tally in sums)
    return ControlComparison(own, tuple(values), len(method.metric.controls))


def _permuted(stats: Mapping[str, PerturbStats]) -> list[PerturbStats]:
    """Return the sums of the permutations that were tried, in their order."""
    names = (f"control: {number}" for number in itertools.count())
    return [stats[name] for name in itertools.takewhile(stats.__contains__, names)]
