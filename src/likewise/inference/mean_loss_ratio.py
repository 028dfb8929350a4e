"""The test of the ratio of mean losses, for regressions."""

import dataclasses
from typing import ClassVar, final

from typing_extensions import override

from likewise.inference.estimate import Bounds, Estimate
from likewise.inference.estimators import ratio_of_totals
from likewise.inference.inversion import Inverted, Wider
from likewise.inference.ratio_test import (
    RatioTest,
    check_cap,
    check_held,
    check_interval,
    check_task,
)
from likewise.inference.sampling import Sampling, ratio_of_people
from likewise.inference.verdict import Evidence
from likewise.outcomes import Outcomes
from likewise.statistics.ratio import UnitSums
from likewise.statistics.tally import Tally


@final
@dataclasses.dataclass(frozen=True)
class MeanLossRatioTest(RatioTest):
    r"""Test of the ratio of mean losses: (20)--(22), with losses for errors.

    A single prediction can be right by chance, so ratios of squared errors have no finite mean;
    the ratio of means has.

    Parameters
    ----------
    interval
        ``hall`` inverts a test of :math:`a - \delta b` that is corrected for skewness, and is never
        narrower than ``paper``, the delta method of (22).
    cap
        For a finding within tolerance, nobody's loss after the map counts for more than this many
        times the mean loss before it (or their own loss before, if that is more).
    """

    name: ClassVar[str] = "mean_loss_ratio"
    claim: ClassVar[str] = "the mean loss of similar people over that of the people themselves"

    task: ClassVar[str] = "regression"

    intervals: ClassVar[tuple[str, ...]] = ("hall", "paper")

    interval: str = "hall"
    cap: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, self.intervals)
        check_cap(self.cap, self.delta)

    @override
    def evidence(self, tally: Tally, rows: Outcomes | None = None) -> Evidence:
        check_task(self, tally.frame)
        check_held(self.cap, tally.frame)
        stats, sampling = tally.ratio, Sampling.of(tally)
        if stats.undefined:
            note = (
                f"{stats.undefined} of {stats.n} people have no finite loss, so the ratio of means "
                "is not defined; nobody is left out."
            )
            return Evidence.undefined(self.name, self.interval, stats.n, note, self.cap)
        method = sampling.named("paper" if self.interval == "paper" else "Hall")
        if tally.frame.limit == 0:
            note = "Nobody has any loss before the map, so there is no ratio."
            return Evidence.undefined(self.name, method, stats.n, note, self.cap)
        pairs = [loss_sums(tally, column) for column in ("after", "held")]
        estimate, capped = (mean_loss_ratio(tally, column) for column in ("after", "held"))
        bounds: list[Bounds] = [estimate, capped]
        if self.interval == "hall":
            bounds = [
                Wider(Inverted(sums, sampling.degrees), delta)
                for sums, delta in zip(pairs, (estimate, capped), strict=True)
            ]
        return Evidence(
            test=self.name,
            method=method,
            estimate=estimate,
            bounds=bounds[0],
            capped_estimate=capped,
            capped=bounds[1],
            cap=float(self.cap),
            spread=capped.std_error > 0,
            notes=sampling.notes,
            details=sampling.details,
        )


def loss_sums(tally: Tally, column: str = "after") -> UnitSums:
    """Return power sums of losses ``after`` (or ``held``) and before, over independent units."""
    if tally.clustered:
        return UnitSums.of(tally.by_cluster(column), tally.by_cluster("before"))
    return tally.ratio.pairs if column == "after" else tally.ratio.held_pairs


def mean_loss_ratio(tally: Tally, column: str = "after") -> Estimate:
    """Return the ratio of mean losses with the standard error of (22), or of the design."""
    sampling, n = Sampling.of(tally), tally.ratio.n
    if sampling.clusters is not None:
        after, before = tally.by_cluster(column), tally.by_cluster("before")
        return ratio_of_totals(after, before, n, sampling.effective_n)
    return ratio_of_people(loss_sums(tally, column), sampling)
