"""The audit at every other time of one flow, with the products that a joint band needs."""

import dataclasses

import numpy as np
from jaxtyping import Float

from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame
from likewise.statistics.moments import CoMoments
from likewise.statistics.ratio import RatioStats, known_losses, known_ratios


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
