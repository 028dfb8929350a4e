"""What the tests need to know of ratios, errors and losses, of people who count one by one."""

import dataclasses

import numpy as np
from jaxtyping import Float

from likewise.outcomes import Outcomes
from likewise.statistics.additive import Additive
from likewise.statistics.error_table import ErrorTable
from likewise.statistics.frame import Frame
from likewise.statistics.moments import RatioMoments
from likewise.statistics.top_k import TopK, largest_needed
from likewise.statistics.unit_sums import UnitSums

STAKES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.75, 0.95)
"""Shares of their purse that ten gamblers stake on every person."""


@dataclasses.dataclass(frozen=True)
class RatioStats(Additive):
    r"""Sums over people from which every test can be made, if people are independent.

    Parameters
    ----------
    n, undefined
        People, and how many of them have no finite ratio (or loss, for a regression).
    weight, squared_weight
        :math:`\sum w` and :math:`\sum w^2`.
    ratio, held, unweighted
        Moments of loss ratios, of ratios held down to the cap, and of ratios without weights; of
        nobody for a regression.
    largest, at_cap
        The largest ratios, by which their tail is judged; and how many people reach the cap.
    log_wealth
        Logarithms of the products that a strict finding within tolerance is made of, one for each
        of `STAKES`; zeros unless the frame names a tolerance.
    errors, error_weights
        Counts and weights of people wrong both times, newly wrong, newly right and never.
    pairs, held_pairs
        Power sums of weighted errors after and before the map, or of losses; and for a regression
        the same with losses after the map held down to the limit.
    """

    n: int
    undefined: int
    weight: float
    squared_weight: float
    ratio: RatioMoments
    held: RatioMoments
    unweighted: RatioMoments
    largest: TopK
    at_cap: int
    log_wealth: Float[np.ndarray, " b"]
    errors: ErrorTable
    error_weights: Float[np.ndarray, "4"]
    pairs: UnitSums
    held_pairs: UnitSums

    @classmethod
    def of(cls, block: Outcomes, frame: Frame) -> "RatioStats":
        """Summarise a block of people."""
        weight = block.weight if frame.weighted else None
        each = np.ones(len(block)) if weight is None else weight
        total, squared = float(each.sum()), float(np.square(each).sum())
        if frame.regression:
            before, after, undefined = known_losses(block)
            held = np.minimum(after, np.maximum(before, frame.limit))
            ratio, errors, error_weights = np.zeros(0), ErrorTable(), np.zeros(4)
            plain = weighted = held_moments = RatioMoments()
            held_pairs = UnitSums.of(held * each, before * each)
        else:
            ratio, undefined = known_ratios(block)
            before, after = block.error_before, block.error_after
            errors = ErrorTable.of(before, after)
            cells = (before & after, after & ~before, before & ~after, ~before & ~after)
            error_weights = np.array([float(each[cell].sum()) for cell in cells])
            plain = RatioMoments.of(ratio)
            weighted = plain if weight is None else RatioMoments.of(ratio, weight)
            held_moments = RatioMoments.of(np.minimum(ratio, frame.cap), weight)
            held_pairs = UnitSums.none()
        return cls(
            len(block),
            undefined,
            total,
            squared,
            weighted,
            held_moments,
            plain,
            TopK.of(ratio, largest_needed(frame.n)),
            int((ratio >= frame.cap).sum()),
            _log_wealth(ratio, frame),
            errors,
            error_weights,
            UnitSums.of(after * each, before * each),
            held_pairs,
        )


def known_ratios(block: Outcomes) -> tuple[Float[np.ndarray, " n"], int]:
    """Return loss ratios, one in the place of those that are not finite, and how many those are."""
    ratio = block.ratio
    known = np.isfinite(ratio)
    return np.where(known, ratio, 1.0), int((~known).sum())


def known_losses(
    block: Outcomes,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], int]:
    """Return losses before and after, zeros where one is not finite, and how many those are."""
    known = np.isfinite(block.loss_before) & np.isfinite(block.loss_after)
    before, after = (np.where(known, loss, 0.0) for loss in (block.loss_before, block.loss_after))
    return before, after, int((~known).sum())


def _log_wealth(ratio: Float[np.ndarray, " n"], frame: Frame) -> Float[np.ndarray, " b"]:
    r"""Return :math:`\sum_i \log(1 + f (\delta - \min(R_i, c))/(c - \delta))` for all stakes f."""
    if np.isnan(frame.strict_at):
        return np.zeros(len(STAKES))
    gain = (frame.strict_at - np.minimum(ratio, frame.cap)) / (frame.cap - frame.strict_at)
    return np.array([float(np.log1p(stake * gain).sum()) for stake in STAKES])
