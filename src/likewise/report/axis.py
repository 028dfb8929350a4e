"""A number line: where a value stands on it, and which numbers to write beside it."""

import dataclasses
import math
from collections.abc import Iterable

from likewise.record.json_text import LARGEST

ROOM = 3.0
"""Per cent of the width left free at both ends."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """A stretch of numbers drawn over a width of 100 %.

    Parameters
    ----------
    low, high
        The numbers at the ends.
    log
        Whether equal ratios, not equal differences, have equal lengths.
    """

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float], *, log: bool | None = None) -> "Axis":
        """Return an axis on which all the finite values fit; logarithmic if they span a decade."""
        known = [v for v in values if abs(v) <= LARGEST] or [0.0, 1.0]
        low, high = min(known), max(known)
        if log is None:
            log = low > 0 and high / low > 8
        if log:
            low = max(low, 1e-12)
            pad = max((high / low) ** 0.04, 1.02)
            return cls(low / pad, high * pad, True)
        pad = 0.04 * (high - low) or 0.1 * max(abs(high), 0.1)
        return cls(low - pad, high + pad)

    def widened(self, share: float) -> "Axis":
        """Return the axis with room for labels at both ends."""
        if self.log:
            factor = (self.high / self.low) ** share
            return Axis(self.low / factor, self.high * factor, True)
        pad = share * (self.high - self.low)
        return Axis(self.low - pad, self.high + pad)

    def at(self, value: float) -> float:
        """Return where a value stands, in per cent; beyond the ends, at the end."""
        if math.isnan(value):
            return math.nan
        inside = min(max(value, self.low), self.high)
        share = (self._shown(inside) - self._shown(self.low)) / (
            self._shown(self.high) - self._shown(self.low)
        )
        return round(ROOM + (100 - 2 * ROOM) * share, 2)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers to write beside the axis."""
        if self.log and self.high / self.low > 5:
            for steps in ((1, 2, 5), (1, 3), (1,)):
                found = self._decades(steps)
                if len(found) <= most:
                    return found
            every = -(-len(found) // most)
            return found[::every]
        return self._even(most)

    def _shown(self, value: float) -> float:
        return math.log(value) if self.log else value

    def _decades(self, steps: tuple[int, ...]) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        numbers = [s * 10.0**e for e in range(first, last + 1) for s in steps]
        return [v for v in numbers if self.low <= v <= self.high]

    def _even(self, most: int) -> list[float]:
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [round(k * step, 12) for k in range(first, last + 1)]
