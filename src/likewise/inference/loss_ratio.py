"""The test of the mean loss ratio: the paper's audit value."""

import dataclasses
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.inference.bootstrap_t import bootstrap_t
from likewise.inference.design import Design
from likewise.inference.estimate import Bounds, Estimate
from likewise.inference.estimators import design_effect, mean_of_ratios
from likewise.inference.hall import hall
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_test import RatioTest, check_cap, check_interval
from likewise.inference.tail import tail_of
from likewise.inference.verdict import Evidence

METHODS = {"hall": "Hall", "bootstrap_t": "bootstrap-t", "paper": "paper"}


@final
@dataclasses.dataclass(frozen=True)
class LossRatioTest(RatioTest):
    r"""Test of the mean loss ratio, equations (12)--(19).

    Parameters
    ----------
    interval
        ``hall`` corrects for skewed ratios; ``bootstrap_t`` resamples; ``paper`` is the normal
        limit exactly as printed, :math:`T_n = S_n - z_{1-\alpha} V_n/\sqrt n`.
    cap
        A model is found within tolerance by an upper bound on the mean of ratios capped at this:
        no finite sample can bound an uncapped mean from above.
    seed, repetitions
        Of the bootstrap.
    """

    name: ClassVar[str] = "loss_ratio"

    interval: str = "hall"
    cap: float = 10.0
    seed: int = 0
    repetitions: int = 1999

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, tuple(METHODS))
        check_cap(self.cap, self.delta)

    @override
    def evidence(self, outcomes: Outcomes) -> Evidence:
        ratio, design = outcomes.ratio, Design.of(outcomes)
        undefined = int((~np.isfinite(ratio)).sum())
        if undefined:
            return self.without_ratios(undefined, design.n, design.named(METHODS[self.interval]))
        held = np.minimum(ratio, self.cap)
        estimate, capped = mean_of_ratios(ratio, design), mean_of_ratios(held, design)
        tail = tail_of(ratio)
        details = {"hill_index": tail.hill_index, "top_share": tail.top_share}
        if not design.simple:
            details |= {"kish": design.kish, "design_effect": design_effect(ratio, estimate)}
        evidence = dataclasses.replace(
            self.weigh(estimate, capped),
            method=design.named(METHODS[self.interval]),
            notes=_spread_note(estimate) + tail.notes + design.notes,
            details=details,
        )
        if self.interval != "bootstrap_t":
            return evidence
        rng = np.random.default_rng(self.seed)
        resampled, resampled_capped = (
            bootstrap_t(values, mean, design, rng, self.repetitions)
            for values, mean in ((ratio, estimate), (held, capped))
        )
        return dataclasses.replace(evidence, bounds=resampled, capped=resampled_capped)

    def weigh(self, estimate: Estimate, capped: Estimate) -> Evidence:
        """Return the evidence of a mean ratio and a mean capped ratio: Hall's, or the paper's.

        Both can come from rows or from merged sums; only the bootstrap needs rows.
        """
        return Evidence(
            test=self.name,
            method=METHODS[self.interval],
            estimate=estimate,
            bounds=self._bounds(estimate),
            capped_estimate=capped,
            capped=self._bounds(capped),
            cap=float(self.cap),
            spread=capped.std_error > 0,
            notes=_spread_note(estimate),
        )

    def without_ratios(self, undefined: int, n: int, method: str) -> Evidence:
        """Return the evidence of people of whom some have no finite ratio."""
        note = (
            f"{undefined} of {n} people have no finite loss ratio, so the mean is not "
            "defined; nobody is left out."
        )
        return Evidence.undefined(self.name, method, n, note, self.cap)

    def _bounds(self, estimate: Estimate) -> Bounds:
        return estimate if self.interval == "paper" else hall(estimate)


def _spread_note(estimate: Estimate) -> tuple[str, ...]:
    if estimate.std_error > 0:
        return ()
    return ("All ratios are the same, so nothing says how much they vary.",)
