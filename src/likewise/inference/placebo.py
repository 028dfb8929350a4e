r"""How often a trait that means nothing would look as bad: a p-value from placebos.

The traits are shuffled B times, and the audit is repeated each time. If rows of traits are
exchangeable given features, labels and model, the true estimate is one of B + 1 that are equally
likely to be the largest, so :math:`p = (1 + \#\{S_b \ge S\}) / (B + 1)` is a p-value at any sample
size. Stopping as soon as h placebos are at least as large keeps it one: then :math:`p = h / b`
after b of them (Besag and Clifford 1991, "Sequential Monte Carlo p-values").
"""

import dataclasses
import functools
import math
from typing import final

ENOUGH = 8
"""Placebos at least as large as the estimate after which no more are needed."""


@final
@dataclasses.dataclass(frozen=True)
class PlaceboComparison:
    """An estimate among those of placebos.

    Parameters
    ----------
    estimate
        With the traits as they are.
    drawn
        With the traits shuffled, in fixed order, as far as they are known.
    planned
        How many placebos there are to be.
    enough
        How many at least as large as the estimate end the comparison.
    """

    estimate: float
    drawn: tuple[float, ...]
    planned: int
    enough: int = ENOUGH

    @functools.cached_property
    def needed(self) -> tuple[float, ...]:
        """The placebos that count: those up to the one that was enough."""
        hits = [i for i, value in enumerate(self.drawn, start=1) if self._at_least(value)]
        return self.drawn[: hits[self.enough - 1]] if len(hits) >= self.enough else self.drawn

    @property
    def complete(self) -> bool:
        """Whether no further placebo is needed."""
        return len(self.drawn) >= self.planned or len(self.needed) < len(self.drawn) or self._full

    @property
    def p_value(self) -> float:
        """How often a trait that means nothing does at least as much."""
        if self._full and len(self.needed) < self.planned:
            return self.enough / len(self.needed)
        return (1 + self._hits) / (len(self.needed) + 1)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest placebo."""
        return min(self.needed, default=math.nan), max(self.needed, default=math.nan)

    @functools.cached_property
    def _hits(self) -> int:
        return sum(map(self._at_least, self.needed))

    @property
    def _full(self) -> bool:
        return self._hits >= self.enough

    def _at_least(self, value: float) -> bool:
        # What is not finite is no smaller; an estimate that is not finite is never remarkable.
        return not (math.isfinite(value) and value < self.estimate)
