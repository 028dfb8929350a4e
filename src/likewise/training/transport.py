"""The worst way of moving people to near ones, at a price."""

import numpy as np
from jaxtyping import Float, Int


class Transport:
    """The worst plan among near people, as the weights of both labels at every person."""

    def __init__(
        self,
        near: Int[np.ndarray, "n k"],
        squared: Float[np.ndarray, "n k"],
        y: Float[np.ndarray, " n"],
        budget: float,
        smooth: float,
    ) -> None:
        self.near, self.squared, self.y = near, squared, y
        self.budget, self.smooth, self.price = budget, smooth, 1.0

    def __call__(
        self, score: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return how much weight of the second and of the first class is moved to everyone."""
        sign = (2 * self.y - 1)[:, None]
        loss = np.logaddexp(0, -sign * score[self.near])
        plan = self._plan(loss, weight) * weight[:, None]
        place, n = self.near.reshape(-1), len(score)
        one = np.bincount(place, (plan * self.y[:, None]).reshape(-1), n)
        zero = np.bincount(place, (plan * (1 - self.y)[:, None]).reshape(-1), n)
        return one, zero

    def _plan(
        self, loss: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Find the price at which the budget is just spent; nothing costs more than 1e4."""
        low, high = 0.0, 1e4
        if self._spent(loss, 0.0, weight)[0] <= self.budget:
            return self._spent(loss, 0.0, weight)[1]
        price = self.price
        for _ in range(12):
            spent, plan = self._spent(loss, price, weight)
            if abs(spent / self.budget - 1) < 0.05:
                break
            low, high = (price, high) if spent > self.budget else (low, price)
            price = 2 * price if high == 1e4 else (low + high) / 2
        self.price = min(max(price, 1e-3), 1e3)
        return plan

    def _spent(
        self, loss: Float[np.ndarray, "n k"], price: float, weight: Float[np.ndarray, " n"]
    ) -> tuple[float, Float[np.ndarray, "n k"]]:
        gain = (loss - price * self.squared) / self.smooth
        plan = np.exp(gain - gain.max(axis=1, keepdims=True))
        plan /= plan.sum(axis=1, keepdims=True)
        moved = (plan * self.squared).sum(axis=1)
        return float(np.average(moved, weights=weight)), plan
