"""Delete-group jackknife: bounds that include the uncertainty of learning the metric.

Groups are dealt by a hash of what is in the rows. No seed decides who is in which group, so none
can be chosen until the result suits.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, UInt64
from scipy.special import fdtri
from typing_extensions import override

from likewise.audit_data import AuditData, person_columns
from likewise.fingerprints import row_hashes, scattered
from likewise.methods.decide import Judgement
from likewise.methods.perturb_probe import PerturbProbe, PerturbStats
from likewise.record import JackknifeRecord
from likewise.stats.estimate import (
    ROUNDING,
    UNKNOWN,
    Bounds,
    Estimate,
    quantile,
    scheffe_tail,
    wider,
)
from likewise.stats.ratio_test import Evidence

GROUPS = 20
"""Groups of people who are left out in turn."""

COARSE = 10
"""Groups for ratios of error rates, which are step functions and jump with small groups."""

SAMPLE = (10_000, 0)
"""Size and stream of the people on whom refits of a metric from elsewhere are compared."""

_PREFIX = "refits: "


def refitted_probes(method: Any) -> Iterator[PerturbProbe]:
    """Yield everyone perturbed under every refit of the metric, where the verdict counts them.

    It does whenever the metric was learned, from whomever, unless the settings (as in the paper's
    procedure) ask about this very metric. A metric learned from the audited people is
    refitted without one group of them, who are then not audited either; one learned from others
    carries its refits, and everyone is audited.
    """
    metric, groups, refits = method.metric, method.groups, method.metric.refits
    decide = method.settings.decide
    if not method.learned or decide.metric == "fixed" or decide.interval == "paper":
        return
    if method.decider == "error_rate_ratio" and metric.coarse_refits:
        groups = None if groups is None else coarse(groups, len(refits))
        refits = metric.coarse_refits
    many = method.n > len(method.people) and not method.same_sample
    for number, refit in enumerate(refits):
        yield method.probe(
            f"{_PREFIX}{number}",
            method.map,
            refit,
            subsample=SAMPLE if many else None,
            groups=groups,
            left_out=number,
        )


def with_refitted(
    judgement: Judgement, stats: Mapping[str, PerturbStats], method: Any
) -> tuple[Judgement, dict[str, JackknifeRecord]]:
    """Return a judgement with the metric's own uncertainty where that counts, and the refits."""
    found = [stats[name] for name in stats if name.startswith(_PREFIX)]
    if not found:
        return judgement, {}
    fewer = not method.same_sample and found[0].n < method.n
    seen = f", seen on {found[0].n} people" if fewer else ""
    evidence, records = {}, {}
    for name, test in judgement.tests.items():
        parts = [test.evidence(part.tally) for part in found]
        before = judgement.evidence[name]
        after = evidence[name] = with_jackknife(
            before, parts, separate=not method.same_sample, directions=len(method.metric.free)
        )
        verdict = after.result(test.delta, test.alpha)
        records[name] = JackknifeRecord(
            method=after.method + seen,
            replicates=tuple(part.estimate.value for part in parts),
            std_error_fixed=before.estimate.std_error,
            std_error_refitted=after.estimate.std_error,
            lower_bound=verdict.lower_bound,
            upper_bound=verdict.upper_bound,
        )
    return dataclasses.replace(judgement, evidence=evidence), records


@final
@dataclasses.dataclass(frozen=True)
class JackknifeBounds(Bounds):
    r"""Bounds from a delete-group jackknife over the sample that the metric was learned from.

    Each of G ``replicates`` leaves out one group, learns metric and plausible region again from the
    others and averages anew over them:
    :math:`\text{se}^2 = \frac{G-1}{G} \sum (S_{(g)} - \bar S)^2`
    is the *total* standard error, sampling of people included; compared with Student's t of G - 1
    degrees of freedom. If the metric was learned from other people than the audited ones, the
    standard error under the metric as it is, ``separate``, is added.

    The error of a learned metric is skewed, and errors in any of k free ``directions`` make the
    model look steeper. So the lower bound allows for the worst of them, as Scheffé's:
    :math:`L = S - \sqrt{k F_{k,G-1}(1-\alpha)}\,\text{se}` (Student's t for one). The upper bound
    is taken on the scale of :math:`\log(S - 1)` if all replicates exceed 1.
    """

    value: float
    replicates: Float[np.ndarray, " g"]
    separate: float = 0.0
    directions: int = 1

    @property
    def degrees(self) -> float:
        """Degrees of freedom."""
        return len(self.replicates) - 1.0

    @property
    def std_error(self) -> float:
        """Total standard error."""
        return math.hypot(_spread(self.replicates), self.separate)

    @override
    def p_value(self, delta: float) -> float:
        t = (self.value - delta) / self.std_error
        return scheffe_tail(t, self.degrees, self.directions)

    @override
    def lower_bound(self, alpha: float) -> float:
        t = quantile(1 - alpha, self.degrees)
        if self.directions > 1:
            far = float(fdtri(self.directions, self.degrees, 1 - alpha))
            t = math.sqrt(self.directions * far)
        return self.value - t * self.std_error

    @override
    def upper_bound(self, alpha: float) -> float:
        t, excess = quantile(1 - alpha, self.degrees), self.value - 1
        if min(self.value, float(self.replicates.min())) <= 1:
            return self.value + t * self.std_error
        on_log_scale = math.hypot(_spread(np.log(self.replicates - 1)), self.separate / excess)
        return 1 + excess * math.exp(t * on_log_scale)


def _spread(values: Float[np.ndarray, " g"]) -> float:
    groups = len(values)
    return math.sqrt((groups - 1) / groups * float(np.square(values - values.mean()).sum()))


def with_jackknife(
    evidence: Evidence,
    replicates: Sequence[Evidence],
    *,
    separate: bool = False,
    directions: int = 1,
) -> Evidence:
    """Return the evidence for the population's metric, of which the one used is an estimate.

    Replicates are the evidence of the same test without each group. If the metric was learned from
    other people than the audited ones (``separate``), they differ by the metric alone. No bound is
    narrower than with the metric taken as given.
    """
    fixed, capped = evidence.estimate, evidence.capped_estimate
    evidence = dataclasses.replace(
        evidence,
        method=f"{evidence.method}; jackknife of {len(replicates)} metric refits",
        details={**evidence.details, "std_error_fixed_metric": fixed.std_error},
    )
    undefined = sum(not math.isfinite(r.estimate.value) for r in replicates)
    if undefined or evidence.bounds is None:
        note = f"{undefined} of {len(replicates)} refits of the metric leave the ratio undefined."
        unknown = dataclasses.replace(fixed, std_error=math.nan)
        notes = (*evidence.notes, note)
        return dataclasses.replace(
            evidence, notes=notes, estimate=unknown, bounds=None, capped=None
        )

    def bounds_of(estimate: Estimate, parts: Sequence[Estimate | None]) -> JackknifeBounds:
        values = np.array([part.value for part in parts if part is not None])
        own = estimate.std_error if separate else 0.0
        return JackknifeBounds(estimate.value, values, own, directions)

    def widened(bounds: JackknifeBounds, given: Bounds | None) -> Bounds | None:
        # Refits that differ by rounding only: nothing is known, or nobody moved.
        if bounds.std_error <= ROUNDING * abs(bounds.value):
            return given if fixed.std_error == 0 else UNKNOWN
        return bounds if given is None else wider(bounds, given)

    total, upper = bounds_of(fixed, [r.estimate for r in replicates]), evidence.capped
    if capped is not None:
        upper = widened(bounds_of(capped, [r.capped_estimate for r in replicates]), upper)
    error = max(total.std_error, fixed.std_error)
    return dataclasses.replace(
        evidence,
        estimate=dataclasses.replace(fixed, std_error=error, degrees=total.degrees),
        bounds=widened(total, evidence.bounds),
        capped=upper,
    )


def unit_hashes(blocks: Iterable[AuditData]) -> UInt64[np.ndarray, " n"]:
    """Return a hash of each person's cluster, or of all that is known of them without clusters.

    Rows that are equal to the last value are different people, so each has its own hash: if all
    of them went into one group, coarse tables would have groups of very different size, and if
    they were dealt out evenly the groups would be more alike than random ones are.
    """
    found, clustered = [np.zeros(0, np.uint64)], False
    for people in blocks:
        clustered = people.cluster is not None
        columns = {"cluster": people.cluster} if clustered else person_columns(people)
        found.append(row_hashes(columns))
    hashes = np.concatenate(found)
    if clustered:
        return hashes
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    before = (np.arange(len(ranked)) - np.searchsorted(ranked, ranked)).astype(np.uint64)
    hashes[order] = scattered(ranked + before * np.uint64(0x9E3779B97F4A7C15))
    return hashes


def cut_points(units: UInt64[np.ndarray, " n"], groups: int) -> UInt64[np.ndarray, " c"]:
    """Return hashes that cut people into groups of about equal size, whole clusters in each.

    There are never more groups than clusters.
    """
    distinct, sizes = np.unique(units, return_counts=True)
    middles = np.cumsum(sizes) - sizes / 2
    group = np.floor(middles * min(groups, len(distinct)) / len(units))
    return distinct[1:][np.diff(group) > 0]


def groups_between(
    units: UInt64[np.ndarray, " n"], cuts: UInt64[np.ndarray, " c"]
) -> Int[np.ndarray, " n"]:
    """Return the group of each person; people of another sample are dealt out in proportion."""
    return np.searchsorted(cuts, units, side="right")


def coarse(groups: Int[np.ndarray, " n"], count: int) -> Int[np.ndarray, " n"]:
    """Merge ``count`` groups into ten."""
    return groups * COARSE // count
