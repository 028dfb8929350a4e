"""Mean loss ratios by Hall or the paper's normal limit, and ratios of mean losses."""

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidSettings
from likewise.stats.estimate import ROUNDING, Bounds, Estimate, fieller, hall, wider
from likewise.stats.ratio_test import Evidence, RatioTest
from likewise.stats.tally import Sample, Tally, What, hill_count


@dataclasses.dataclass(frozen=True)
class CappedTest(RatioTest):
    r"""A test of losses, with a cap on what one person can add to a finding within tolerance.

    Parameters
    ----------
    interval
        ``hall`` corrects for skewness; ``paper`` is the normal limit exactly as printed,
        :math:`T_n = S_n - z_{1-\alpha} V_n/\sqrt n`, or the delta method of (22).
    cap
        A model is found within tolerance by an upper bound on capped outcomes: no finite sample
        can bound an uncapped mean from above.
    """

    intervals: ClassVar[tuple[str, ...]] = ("hall", "paper")

    interval: str = "hall"
    cap: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.delta < self.cap < math.inf:
            raise InvalidSettings(
                f"cap must be a number above delta ({self.delta:g}); {self.cap:g} is not."
            )

    @override
    def evidence(self, tally: Tally) -> Evidence:
        self.check_sums(tally.frame)
        sample, paper, cap = Sample(tally), self.interval == "paper", float(self.cap)
        method = sample.named("paper" if paper else "Hall")
        if sample.undefined or (tally.frame.regression and tally.frame.limit == 0):
            note = "No person has any loss before the map, so there is no ratio."
            if sample.undefined:
                what = "loss" if tally.frame.regression else "loss ratio"
                note = (
                    f"{sample.undefined} of {sample.n} people have no finite {what}, so the mean "
                    "is not defined; no person is left out."
                )
            nothing = Estimate(math.nan, math.nan, sample.n)
            return Evidence(self.name, method, nothing, None, cap=cap, spread=False, notes=(note,))
        estimate, capped = sample.estimate(), sample.estimate("held")
        notes, details = ((), {}) if tally.frame.regression else _diagnosed(tally, estimate)

        def corrected(found: Estimate, what: What) -> Bounds:
            if not tally.frame.regression:
                return hall(found)
            return wider(fieller(sample.sums(what), sample.degrees), found)

        return Evidence(
            test=self.name,
            method=method,
            estimate=estimate,
            bounds=estimate if paper else corrected(estimate, "loss"),
            capped_estimate=capped,
            capped=capped if paper else corrected(capped, "held"),
            cap=cap,
            spread=capped.std_error > 0,
            notes=notes + sample.notes,
            details=details,
        )


@final
@dataclasses.dataclass(frozen=True)
class LossRatioTest(CappedTest):
    r"""Test of the mean loss ratio, equations (12)--(19); ratios are capped."""

    name: ClassVar[str] = "loss_ratio"
    claim: ClassVar[str] = "the mean loss ratio of similar people"


@final
@dataclasses.dataclass(frozen=True)
class MeanLossRatioTest(CappedTest):
    r"""Test of the ratio of mean losses: (20)--(22), with losses for errors; for regressions.

    A single prediction can be right by chance, so ratios of squared errors have no finite mean;
    the ratio of means has. Hall's interval inverts a test of :math:`a - \delta b`, and is never
    narrower than the delta method. Nobody's loss after the map counts for more than ``cap`` times
    the mean loss before it (or their own loss before, if that is more).
    """

    name: ClassVar[str] = "mean_loss_ratio"
    claim: ClassVar[str] = "the mean loss of similar people over that of the people themselves"
    task: ClassVar[str] = "regression"


def _diagnosed(tally: Tally, estimate: Estimate) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return notes on the tail of the loss ratios, and its index."""
    if estimate.std_error == 0 and abs(estimate.value - 1) > ROUNDING:
        return ("All ratios are the same, so nothing says how much they vary.",), {}
    k = hill_count(tally.n)
    index = hill_index(tally.cells.top[: k + 1])
    if not index < 3:
        return (), {"hill_index": index}
    so = "the bounds may be somewhat off"
    if index < 2:
        so = "their variance may not exist, and with it no interval for their mean"
    note = (
        f"The tail of the loss ratios looks heavy (Hill index {index:.1f}, from the {k} largest), "
        f"so {so}: compare the error-rate ratio."
    )
    return (note,), {"hill_index": index}


def hill_index(largest: Float[np.ndarray, " m"]) -> float:
    r"""Return Hill's (1975) tail index of loss ratios, from the k + 1 largest, largest first.

    One over the mean of :math:`\log\{(R_{(i)} - 1)/(R_{(k+1)} - 1)\}`: moments of this order and
    above do not exist (Hall's interval needs three, the central limit theorem two). Of R - 1, not
    of R: the one would make any tail look light until ratios are far above it.
    """
    threshold = float(largest[-1]) - 1
    excess = float(np.log((largest[:-1] - 1) / threshold).mean()) if threshold > 0 else 0.0
    return 1 / excess if excess > 0 else math.inf
