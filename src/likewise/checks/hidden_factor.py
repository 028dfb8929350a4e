"""Sensitivity to a hidden factor: how strong one would have to be to explain the difference."""

import dataclasses
import itertools
import math
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import BoundMatchedPairs
from likewise.probe import PRIMARY
from likewise.record import HiddenFactor
from likewise.verdict import Verdict

MAX_GAMMA = 100.0
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


def largest_odds(shares: Float[np.ndarray, " q"], bias: float, alpha: float) -> float:
    r"""Return the largest Γ at which the difference is significant; 1 if it never is, at most 100.

    With :math:`w_q` the shares of pairs in the difference, b what redrawn attributes show, and
    :math:`t = (\Gamma - 1)/(\Gamma + 1)`, the difference is

    .. math::

        z(\Gamma) = \frac{\sum_q w_q - b - t \sum_q |w_q|}{\sqrt{(1 - t^2) \sum_q w_q^2}}

    standard deviations beyond what hidden odds of Γ can make; mirrored where :math:`\sum_q w_q` is
    negative. That it is the critical value is a quadratic equation in t. At Γ = 1 the test is
    McNemar's (of decisions), two-sided at level ``alpha``.
    """
    total, size = float(shares.sum()), float(np.abs(shares).sum())
    beyond = math.copysign(1.0, total) * (total - bias)
    noise = float(ndtri(1 - alpha / 2)) ** 2 * float(shares @ shares)
    if not noise or beyond <= math.sqrt(noise):
        return 1.0
    inner = noise * (size**2 + noise - beyond**2)
    t = (beyond * size - math.sqrt(max(inner, 0.0))) / (size**2 + noise)
    return MAX_GAMMA if inner < 0 or t >= 1 else min((1 + t) / (1 - t), MAX_GAMMA)
