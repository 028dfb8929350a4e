"""What the tests need of ratios, errors and losses, at the end of a flow and at other times."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Shaped

from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame
from likewise.statistics.moments import Additive, CoMoments, ErrorTable, RatioMoments
from likewise.statistics.order_statistics import TopK, largest_needed

ROUNDING = 1e-14
"""What is left of a difference of sums, relative to them, may be rounding."""


@dataclasses.dataclass(frozen=True)
class UnitSums(Additive):
    r"""Power sums :math:`\sum_g (a_g - b_g)^i b_g^j`, up to the third order, over units.

    Any :math:`D_g = a_g - \delta b_g = (a_g - b_g) - (\delta - 1) b_g` has its first three moments
    in them, whatever :math:`\delta`. Of what is the same after as before nothing is left to
    cancel.

    Parameters
    ----------
    sums
        Entry (i, j) belongs to :math:`(a - b)^i b^j`; (0, 0) is the number of units.
    """

    sums: Float[np.ndarray, "4 4"]

    @classmethod
    def of(cls, after: Shaped[np.ndarray, " g"], before: Shaped[np.ndarray, " g"]) -> "UnitSums":
        """Sum up the (weighted) errors or losses of each unit, after and before the map."""
        powers = np.arange(4)[:, None]
        base = before.astype(np.float64)
        return cls((after - base) ** powers @ (base**powers).T)

    @classmethod
    def none(cls) -> "UnitSums":
        """Return the sums over nobody."""
        return cls(np.zeros((4, 4)))

    @property
    def units(self) -> int:
        """Number of units G."""
        return int(self.sums[0, 0])

    @property
    def before(self) -> float:
        """The total before the map."""
        return float(self.sums[0, 1])

    @property
    def ratio(self) -> float:
        """The ratio of the totals; infinite, or undefined, without anything before the map."""
        if self.before == 0:
            return math.inf if self.sums[1, 0] else math.nan
        return 1 + float(self.sums[1, 0]) / self.before

    def moments(self, delta: float) -> tuple[float, float, float]:
        """Return the sum of the D, and the sums of their squares and cubes about their mean."""
        s, c = self.sums, delta - 1
        first = float(s[1, 0] - c * s[0, 1])
        second = float(s[2, 0] - 2 * c * s[1, 1] + c**2 * s[0, 2])
        third = float(s[3, 0] - 3 * c * s[2, 1] + 3 * c**2 * s[1, 2] - c**3 * s[0, 3])
        mean = first / self.units
        squares = second - mean * first
        cubes = third - 3 * mean * second + 2 * mean**2 * first
        size = float(s[2, 0] + c**2 * s[0, 2])
        return first, squares if squares > ROUNDING * size else 0.0, cubes


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


@dataclasses.dataclass(frozen=True)
class HorizonStats:
    r"""Sums at every horizon, and how the ratios (or losses) at different horizons go together.

    Parameters
    ----------
    at
        The sums of the tests, in the order of the frame's horizons.
    joint
        Of ratios at all horizons, or losses after at all horizons and last before, with squared
        weights.
    """

    at: tuple[RatioStats, ...]
    joint: CoMoments

    @classmethod
    def of(cls, block: Outcomes, frame: Frame) -> "HorizonStats":
        """Summarise a block of people."""
        moments = [block.at(time) for time in frame.horizons]
        weight = (
            block.weight if frame.weighted and block.weight is not None else np.ones(len(block))
        )
        if frame.regression:
            losses = [known_losses(then) for then in moments]
            before = [known_losses(block)[0]] if moments else []
            columns = [*(after for _, after, _ in losses), *before]
        else:
            columns = [known_ratios(then)[0] for then in moments]
        matrix = np.stack(columns, axis=1) if columns else np.zeros((len(block), 0))
        at = tuple(RatioStats.of(then, frame) for then in moments)
        return cls(at, CoMoments.of(matrix, weight**2))

    def __add__(self, other: "HorizonStats") -> "HorizonStats":
        at = tuple(one + two for one, two in zip(self.at, other.at, strict=True))
        return HorizonStats(at, self.joint + other.joint)

    def crossed_terms(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
        """Return the products of the linearised estimates at all horizons, summed over people."""
        k = len(values)
        if len(self.joint.mean) == k:
            joint = dataclasses.replace(self.joint, mean=self.joint.mean - values)
            return joint.of_combinations(np.eye(k))
        return self.joint.of_combinations(np.vstack([np.eye(k), -values[None, :]]))
