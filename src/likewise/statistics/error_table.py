"""Who was decided wrongly, before and after the map, as a table of four counts."""

import dataclasses
import math

import numpy as np
from jaxtyping import Bool

from likewise.statistics.additive import Additive


@dataclasses.dataclass(frozen=True)
class ErrorTable(Additive):
    """Counts of people by whether they are decided wrongly before and after the map.

    Tables of parts of a sample add up to the table of the whole.

    Parameters
    ----------
    both, newly_wrong, newly_right, neither
        Wrong both times (n11), only after (n10), only before (n01), and never (n00).
    """

    both: int = 0
    newly_wrong: int = 0
    newly_right: int = 0
    neither: int = 0

    @classmethod
    def of(cls, before: Bool[np.ndarray, " n"], after: Bool[np.ndarray, " n"]) -> "ErrorTable":
        """Count the errors of each person, before and after."""
        both = int((before & after).sum())
        wrong_before, wrong_after = int(before.sum()), int(after.sum())
        neither = len(before) - wrong_before - wrong_after + both
        return cls(both, wrong_after - both, wrong_before - both, neither)

    @property
    def n(self) -> int:
        """Number of people."""
        return self.both + self.newly_wrong + self.newly_right + self.neither

    @property
    def before(self) -> int:
        """People wrong before the map."""
        return self.both + self.newly_right

    @property
    def after(self) -> int:
        """People wrong after it."""
        return self.both + self.newly_wrong

    @property
    def ratio(self) -> float:
        """Ratio of the error rates; infinite with no error before, undefined with none at all."""
        if self.before == 0:
            return math.inf if self.after else math.nan
        return self.after / self.before

    @property
    def details(self) -> dict[str, float]:
        """The four counts by name."""
        return {name: float(count) for name, count in dataclasses.asdict(self).items()}
