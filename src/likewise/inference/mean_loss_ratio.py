"""The test of the ratio of mean losses, for regressions."""

import dataclasses
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.inference.design import Design
from likewise.inference.estimate import Bounds
from likewise.inference.estimators import ratio_of_means
from likewise.inference.inversion import Wider
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_of_sums import Inverted, UnitSums
from likewise.inference.ratio_test import RatioTest, check_cap, check_interval
from likewise.inference.verdict import Evidence


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

    interval: str = "hall"
    cap: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, ("hall", "paper"))
        check_cap(self.cap, self.delta)

    @override
    def evidence(self, outcomes: Outcomes) -> Evidence:
        before, after, design = outcomes.loss_before, outcomes.loss_after, Design.of(outcomes)
        undefined = int((~np.isfinite(before) | ~np.isfinite(after)).sum())
        if undefined:
            note = (
                f"{undefined} of {design.n} people have no finite loss, so the ratio of means is "
                "not defined; nobody is left out."
            )
            return Evidence.undefined(self.name, self.interval, design.n, note, self.cap)
        totals = design.totals(before)
        limit = self.cap * float(totals.sum() / design.total_weights.sum())
        held = np.minimum(after, np.maximum(before, limit))
        method = design.named("paper" if self.interval == "paper" else "Hall")
        estimate, capped = (ratio_of_means(before, losses, design) for losses in (after, held))
        if limit == 0:
            note = "Nobody has any loss before the map, so there is no ratio."
            return Evidence.undefined(self.name, method, design.n, note, self.cap)
        bounds: list[Bounds] = [estimate, capped]
        if self.interval == "hall":
            bounds = [
                Wider(Inverted(UnitSums.of(design.totals(losses), totals), design.degrees), delta)
                for losses, delta in ((after, estimate), (held, capped))
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
            notes=design.notes,
            details={} if design.simple else {"kish": design.kish},
        )
