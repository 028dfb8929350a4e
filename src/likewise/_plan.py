"""Power analysis: how many people and reference rows an audit needs to find a given effect."""

import dataclasses
import math

from scipy.special import ndtri

from likewise.errors import InvalidSettings
from likewise.stats.estimate import check_alpha, check_delta, growth_needed

MOST_ROWS = 10**9
"""A plan for more people than this is refused."""

MATCHED = 0.7
"""Share of the smaller group's rows in a reference sample that find a partner, as a rule."""


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """What one test needs to find a ratio (``effect``).

    ``people`` are, for matched pairs, of each group, and at most so many; ``pool`` are the rows of
    the reference sample, and ``assumes`` says what it rests on.
    """

    test: str
    effect: float
    people: int
    assumes: str
    pool: int = 0


@dataclasses.dataclass(frozen=True)
class AuditPlan:
    """How many people an audit needs, by test."""

    rows: tuple[PlanRow, ...]
    delta: float
    alpha: float
    power: float

    def __str__(self) -> str:
        lines = [
            f"To find it with a power of {self.power:.0%} (limit {self.delta:g}, "
            f"level {self.alpha:g}):"
        ]
        for row in self.rows:
            most, each = ("at most ", " of each group") if row.pool else ("", "")
            pool = f", and a reference sample of {row.pool:,} rows" if row.pool else ""
            lines += [
                f"{row.test}, ratio {row.effect:.3g}: {most}{row.people:,} people{each}{pool}",
                f"  {row.assumes}",
            ]
        return "\n".join(lines)


def plan(
    *,
    rate: float | None = None,
    ratio: float | None = None,
    comparisons: int = 2,
    pairs_per_person: float = 1.0,
    effect: float | None = None,
    sd: float | None = None,
    delta: float = 1.25,
    alpha: float = 0.05,
    power: float = 0.8,
) -> AuditPlan:
    r"""Say how many people an audit needs to find an effect of a given size.

    Parameters
    ----------
    rate, ratio, comparisons, pairs_per_person
        For matched pairs: the rate that people get with columns of their own group (of the rarer
        outcome), the ratio to be found, how many comparisons share the error rate (Holm), and pairs
        of the reference sample for each person of a group.
    effect, sd
        For the gradient flow: the ratio of losses to be found, and the standard deviation of a
        person's ratio.
    delta, alpha, power
        The limit, the error rate, and how often the effect is to be found.

    Examples
    --------
    >>> import likewise
    >>> likewise.plan(rate=0.25, ratio=2.4).rows[0].people
    123
    """
    check_delta(delta)
    check_alpha(alpha)
    if not alpha < power < 1:
        raise InvalidSettings(f"power must lie between alpha = {alpha:g} and 1 (got {power:g}).")
    if effect is not None and not delta < effect < math.inf:
        raise InvalidSettings(
            f"The effect to be found must be a number above delta = {delta:g} (got {effect:g})."
        )
    rows = []
    if rate is not None or ratio is not None:
        if rate is None or ratio is None:
            raise InvalidSettings("Matched pairs are planned by two numbers: rate and ratio.")
        if not 0 < rate <= 0.5 or not 0 < ratio * rate < 1:
            raise InvalidSettings(
                f"rate is of the rarer outcome, above 0 and at most .5, and rate × ratio below 1 "
                f"(got {rate:g} and {ratio:g})."
            )
        if 1 / delta <= ratio <= delta:
            raise InvalidSettings(
                f"A ratio of {ratio:g} is within the limits {1 / delta:.3g} to {delta:g}: plan for "
                "one beyond them."
            )
        if comparisons < 1 or not pairs_per_person > 0:
            raise InvalidSettings("Plan for at least one comparison, and some pairs a person.")
        # T(d) = q - d p at the nearer limit d has at most the variance (q(1-q) + d² p(1-p))
        # (1/n + 1/K): decisions of one person with different columns are taken as unrelated.
        other, limit = rate * ratio, delta if ratio > 1 else 1 / delta
        gap = abs(other - limit * rate)
        variance = other * (1 - other) + limit**2 * rate * (1 - rate)
        variance *= 1 + 1 / pairs_per_person
        z = float(ndtri(1 - alpha / (2 * comparisons)))
        people = max(20, _whole(growth_needed(gap, z + float(ndtri(power)), variance)))
        assumes = (
            f"Rates {rate:.1%} and {other:.1%}, {comparisons} comparisons, {pairs_per_person:g} "
            f"pairs a person; {MATCHED:.0%} of the reference sample finds a partner."
        )
        pool = math.ceil(2 * people * pairs_per_person / MATCHED)
        rows.append(PlanRow("matched pairs", ratio, people, assumes, pool))
    if effect is not None and sd is not None:
        if not 0 < sd < math.inf:
            raise InvalidSettings(f"sd is a positive number (got {sd:g}).")
        people = _whole(((ndtri(1 - alpha) + ndtri(power)) * sd / (effect - delta)) ** 2)
        assumes = f"A person's loss ratio has standard deviation {sd:g}; the metric is given."
        rows.append(PlanRow("loss ratio", effect, people, assumes))
    if not rows:
        raise InvalidSettings(
            "Say what is to be found: rate and ratio for matched pairs (--rate 0.2 --ratio 1.5), "
            "or effect and sd for the gradient flow (--effect 1.4 --sd 0.9)."
        )
    return AuditPlan(tuple(rows), delta, alpha, power)


def _whole(rows: float) -> int:
    """Return rows as a number of people that somebody could audit."""
    if not rows <= MOST_ROWS:
        raise InvalidSettings(
            f"To find this effect would take more than {MOST_ROWS:,} people. Plan for a ratio "
            "further above delta."
        )
    return max(2, math.ceil(rows))
