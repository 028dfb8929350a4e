"""Who was decided wrongly, before and after the map, as a table of four counts."""

import dataclasses
import math

import numpy as np
from jaxtyping import Bool

from likewise.inference.estimate import Estimate


@dataclasses.dataclass(frozen=True)
class ErrorTable:
    """Counts of people by whether they are decided wrongly before and after the map.

    Tables of parts of a sample add up to the table of the whole.

    Parameters
    ----------
    both, newly_wrong, newly_right, neither
        Wrong both times (n11), only after (n10), only before (n01), and never (n00).
    """

    both: int
    newly_wrong: int
    newly_right: int
    neither: int

    @classmethod
    def of(cls, before: Bool[np.ndarray, " n"], after: Bool[np.ndarray, " n"]) -> "ErrorTable":
        """Count the errors of each person, before and after."""
        both = int((before & after).sum())
        wrong_before, wrong_after = int(before.sum()), int(after.sum())
        neither = len(before) - wrong_before - wrong_after + both
        return cls(both, wrong_after - both, wrong_before - both, neither)

    def __add__(self, other: "ErrorTable") -> "ErrorTable":
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return ErrorTable(*(a + b for a, b in zip(mine, theirs, strict=True)))

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

    def estimate(self) -> Estimate:
        r"""Return the ratio with the standard error of (22): not a number without base errors.

        Of :math:`a_i - S b_i` a person wrong both times holds :math:`1 - S`, a newly wrong one
        1 and a newly right one :math:`-S`; its squares sum to (22) times :math:`B_n^2 n^2`.
        """
        if self.before == 0:
            return Estimate(self.ratio, math.nan, self.n)
        s = self.ratio
        squares = self.both * (1 - s) ** 2 + self.newly_wrong + self.newly_right * s**2
        return Estimate(s, math.sqrt(squares) / self.before, self.n)
