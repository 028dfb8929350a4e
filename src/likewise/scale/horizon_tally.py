"""The audit value at every time of one flow, added up block by block, with a band over all."""

import numpy as np

from likewise.inference.estimate import Estimate
from likewise.inference.many import Band, after_and_before, band
from likewise.inference.outcomes import Outcomes
from likewise.scale.sums import Sums
from likewise.settings import Settings

RANDOM_STREAM = 5
"""The same stream of random numbers as for rows."""


class HorizonTally:
    """Sums at every horizon, and the products between horizons that a joint band needs.

    Products are of distances from what the first block says, so that nothing cancels.
    """

    def __init__(self, empty: Sums) -> None:
        self._empty = empty
        self.sums: dict[float, Sums] = {}
        self._centre: dict[float, float] = {}
        self._products = np.zeros((0, 0))

    def add(self, block: Outcomes) -> None:
        """Add the people of a block."""
        weight = np.ones(len(block))
        if self._empty.weighted and block.weight is not None:
            weight = block.weight
        columns = []
        before = np.ones(len(block))
        for time in sorted(block.horizons):
            then = block.at(time)
            if time not in self.sums:
                self.sums[time] = self._empty.like()
            self.sums[time].add(then)
            after, before = after_and_before(then)
            known = np.isfinite(after) & np.isfinite(before)
            if time not in self._centre:
                total = float((weight * before)[known].sum())
                self._centre[time] = float((weight * after)[known].sum()) / total if total else 1.0
            columns.append(np.where(known, after - self._centre[time] * before, 0.0))
        if not columns:
            return
        matrix = np.stack([*columns, before], axis=1) * weight[:, None]
        products = matrix.T @ matrix
        self._products = self._products + products if len(self._products) else products

    def joint_band(self, estimates: dict[float, Estimate], settings: Settings) -> Band:
        """Return the band over all horizons, as `horizon_band` would for rows."""
        times = sorted(estimates)
        shift = np.array([estimates[time].value - self._centre[time] for time in times])
        change = np.vstack([np.eye(len(times)), -shift[None, :]])
        values, vectors = np.linalg.eigh(change.T @ self._products @ change)
        return band(
            times,
            [estimates[time] for time in times],
            np.sqrt(np.maximum(values, 0))[:, None] * vectors.T,
            rng=np.random.default_rng([settings.seed, RANDOM_STREAM]),
            delta=settings.delta,
            alpha=settings.alpha,
            side="both",
            interval="paper" if settings.decide.interval == "paper" else "hall",
        )
