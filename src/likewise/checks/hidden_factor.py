"""Sensitivity to a hidden factor: how strong one would have to be to explain the difference."""

import dataclasses
import itertools
import math
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtri
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import BoundMatchedPairs
from likewise.probe import PRIMARY
from likewise.record import HiddenFactor
from likewise.verdict import Verdict

LARGEST = 100.0
"""Odds up to which a hidden factor is looked for."""


@final
@dataclasses.dataclass(frozen=True)
class HiddenFactors(Check):
    """Rosenbaum's sensitivity analysis of every comparison.

    A factor that nobody recorded may make one member of a pair more likely to belong to one of the
    two groups: the odds are at most Γ to 1. It says how large Γ must be to explain the difference.
    """

    name: ClassVar[str] = "hidden_factor"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        found = []
        for design, direction in itertools.product(method.designs, (0, 1)):
            sums = stats[PRIMARY].pairings[design.name].sums
            gammas = []
            for measure in range(design.deciding):
                row = verdict.detail[design.name, direction, measure]
                if row.undecided is None and row.shown is not None:
                    bias = row.shown.estimate.bias * (-1 if row.shown.complement else 1)
                    shares = sums.pair_differences(direction, measure)
                    gammas.append(largest_odds(shares, bias, method.settings.alpha))
            if gammas:
                found.append(HiddenFactor(**design.names(direction), gamma=max(gammas)))
        return Finding({"matched_pairs": {"hidden_factor": tuple(found)}})


def deviate(shares: Float[np.ndarray, " q"], bias: float, gamma: float) -> float:
    r"""Return how many standard deviations the difference is beyond what hidden odds can make.

    .. math::

        z(\Gamma) = \frac{\sum_q w_q - b - \frac{\Gamma - 1}{\Gamma + 1} \sum_q |w_q|}
        {\sqrt{4 \Gamma / (1 + \Gamma)^2 \sum_q w_q^2}},

    mirrored where :math:`\sum_q w_q` is negative. ``shares`` are :math:`w_q`, those of each pair in
    the difference; ``bias`` is b, what redrawn attributes show; ``gamma`` is :math:`\Gamma`, at
    most how many times the odds of two comparable people differ.
    """
    spread = math.sqrt(4 * gamma * float(shares @ shares)) / (1 + gamma)
    total = float(shares.sum())
    beyond = math.copysign(1.0, total) * (total - bias)
    beyond -= (gamma - 1) / (gamma + 1) * float(np.abs(shares).sum())
    return beyond / spread if spread else 0.0


def largest_odds(shares: Float[np.ndarray, " q"], bias: float, alpha: float) -> float:
    """Return the largest Γ at which the difference is still significant; 1 if it never is.

    At Γ = 1 it is McNemar's test (of decisions), two-sided at level ``alpha``.
    """
    critical, grid = float(ndtri(1 - alpha / 2)), (0.0, math.log(LARGEST))

    def excess(logarithm: float) -> float:
        return deviate(shares, bias, math.exp(logarithm)) - critical

    at_one, at_largest = map(excess, grid)
    if at_one <= 0 or at_largest > 0:
        return 1.0 if at_one <= 0 else LARGEST
    return math.exp(float(brentq(excess, *grid, xtol=1e-9)))
