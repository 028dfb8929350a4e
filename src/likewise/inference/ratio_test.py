"""What every test has: a tolerance, a level, and one way from evidence to verdict."""

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, final

from likewise.errors import InvalidSettings, nearest
from likewise.inference.level import check_alpha, check_delta
from likewise.inference.outcomes import Outcomes
from likewise.inference.verdict import Evidence, Verdict


@dataclasses.dataclass(frozen=True)
class RatioTest(abc.ABC):
    r"""A test of :math:`H_0`: some ratio of after to before is at most :math:`\delta`.

    Parameters
    ----------
    delta
        Tolerance, chosen by the auditor beforehand; 1.25 follows the four-fifths rule.
    alpha
        How often a model just at the tolerance may be accused by chance.
    """

    name: ClassVar[str]

    delta: float = 1.25
    alpha: float = 0.05

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        check_delta(self.delta)

    @abc.abstractmethod
    def evidence(self, outcomes: Outcomes) -> Evidence:
        """Return what the outcomes say, whatever tolerance and level they are held against."""

    @final
    def __call__(self, outcomes: Outcomes) -> Verdict:
        """Hold the outcomes of an audit against the tolerance."""
        return self.evidence(outcomes).verdict(self.delta, self.alpha)


def check_interval(interval: str, known: Sequence[str]) -> None:
    """Refuse an interval that a test does not have."""
    if interval not in known:
        raise InvalidSettings(
            f"There is no interval {interval!r}; there are {', '.join(known)}."
            f"{nearest(interval, known)}"
        )


def check_cap(cap: float, delta: float) -> None:
    """Refuse a cap at which nobody could ever be found outside the tolerance."""
    if not delta < cap < math.inf:
        raise InvalidSettings(f"cap must be a number above delta ({delta:g}); {cap:g} is not.")
