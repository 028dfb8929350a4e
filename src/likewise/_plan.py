"""Power analysis: how many people and reference rows an audit needs to find a given effect."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from likewise.errors import InvalidSettings
from likewise.stats.error_rate_ratio import mid_p_value
from likewise.stats.estimate import check_alpha, check_delta, growth_needed

MOST_ROWS = 10**9
"""A plan for more people than this is refused."""

MATCHED = 0.7
"""Share of the smaller group's rows in a reference sample that find a partner, as a rule."""

TIMES = (0.5, 1.0, 2.0, 4.0)
"""Multiples of the people needed at which power is shown."""


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """What one test needs to find a ratio (``effect``).

    ``people`` are, for matched pairs, of each group; ``pool`` are the rows of the reference sample.
    ``curve`` holds numbers of people, and the power with each; ``assumes`` says what it rests on.
    """

    test: str
    effect: float
    people: int
    pool: int
    curve: tuple[tuple[int, float], ...]
    assumes: str


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
            each = " of each group" if row.pool else ""
            pool = f", and a reference sample of {row.pool:,} rows" if row.pool else ""
            lines += [
                "",
                f"{row.test}, ratio {row.effect:.3g}: {row.people:,} people{each}{pool}",
                "  people " + "".join(f"{n:>11,}" for n, _ in row.curve),
                "  power  " + "".join(f"{min(p, 0.999):>11.1%}" for _, p in row.curve),
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
    base_error: float | None = None,
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
    effect, sd, base_error
        For the gradient flow: the ratio to be found, and the standard deviation of a person's loss
        ratio (loss-ratio test) or the share of wrong decisions before (error-rate test).
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
        rows.append(_matched_pairs(rate, ratio, comparisons, pairs_per_person, delta, alpha, power))
    if effect is not None and sd is not None:
        rows.append(_loss_ratio(effect, sd, delta, alpha, power))
    if effect is not None and base_error is not None:
        rows.append(_error_rates(effect, base_error, delta, alpha, power))
    if not rows:
        raise InvalidSettings(
            "Say what is to be found: rate and ratio for matched pairs (--rate 0.2 --ratio 1.5), "
            "or effect with sd or base_error for the gradient flow (--effect 1.4 --sd 0.9)."
        )
    return AuditPlan(tuple(rows), delta, alpha, power)


def _row(
    test: str,
    effect: float,
    people: int,
    power_at: Callable[[int], float],
    assumes: str,
    pool: int = 0,
) -> PlanRow:
    curve = [max(2, round(times * people)) for times in TIMES]
    return PlanRow(test, effect, people, pool, tuple((n, power_at(n)) for n in curve), assumes)


def _matched_pairs(
    rate: float | None,
    ratio: float | None,
    comparisons: int,
    pairs_per_person: float,
    delta: float,
    alpha: float,
    power: float,
) -> PlanRow:
    r"""Plan for :math:`T(d) = q - d p` at the nearer limit d.

    Its variance is at most :math:`(q(1-q) + d^2 p(1-p))(1/n + 1/K)`, with n people and K pairs:
    decisions of one person with different columns are taken as unrelated.
    """
    if rate is None or ratio is None:
        raise InvalidSettings("Matched pairs are planned by two numbers: rate and ratio.")
    if not 0 < rate <= 0.5 or not 0 < ratio * rate < 1:
        raise InvalidSettings(
            f"rate is of the rarer outcome, above 0 and at most .5, and rate × ratio below 1 (got "
            f"{rate:g} and {ratio:g})."
        )
    if 1 / delta <= ratio <= delta:
        raise InvalidSettings(
            f"A ratio of {ratio:g} is within the limits {1 / delta:.3g} to {delta:g}: plan for one "
            "beyond them."
        )
    if comparisons < 1 or not pairs_per_person > 0:
        raise InvalidSettings("Plan for at least one comparison, and some pairs for each person.")
    other, limit = rate * ratio, delta if ratio > 1 else 1 / delta
    gap = abs(other - limit * rate)
    variance = other * (1 - other) + limit**2 * rate * (1 - rate)
    variance *= 1 + 1 / pairs_per_person
    z = float(ndtri(1 - alpha / (2 * comparisons)))
    people = max(20, _whole(growth_needed(gap, z + float(ndtri(power)), variance)))
    return _row(
        "matched pairs",
        ratio,
        people,
        lambda n: float(ndtr(gap / math.sqrt(variance / n) - z)),
        f"Rates {rate:.1%} and {other:.1%}, {comparisons} comparisons, {pairs_per_person:g} pairs "
        f"a person; {MATCHED:.0%} of the reference sample finds a partner.",
        pool=math.ceil(2 * people * pairs_per_person / MATCHED),
    )


def _loss_ratio(effect: float, sd: float, delta: float, alpha: float, power: float) -> PlanRow:
    r"""Plan for the loss-ratio test: :math:`((z_{1-\alpha} + z_{power}) \sigma/(\mu-\delta))^2`."""
    if not 0 < sd < math.inf:
        raise InvalidSettings(f"sd is a positive number (got {sd:g}).")
    z = ndtri(1 - alpha)
    return _row(
        "loss ratio",
        effect,
        _whole(((z + ndtri(power)) * sd / (effect - delta)) ** 2),
        lambda n: float(ndtr(math.sqrt(n) * (effect - delta) / sd - z)),
        f"A person's loss ratio has standard deviation {sd:g}; the metric is taken as given.",
    )


def _error_rates(
    effect: float, base_error: float, delta: float, alpha: float, power: float
) -> PlanRow:
    r"""Plan for the mid-P test of error rates: about the smallest n whose power is enough.

    The power is enumerated over all tables. The search starts at the normal formula: of the M
    people wrong after the perturbation a share :math:`p_1 = 1/\theta` was wrong before, against
    :math:`p_0 = 1/\delta` at the limit, so
    :math:`M = ((z_{1-\alpha}\sqrt{p_0 q_0} + z_{power}\sqrt{p_1 q_1})/(p_0 - p_1))^2`.
    """
    if not 0 < base_error < 1 or effect * base_error > 1:
        raise InvalidSettings(
            f"base_error lies between 0 and 1, and effect × base_error is at most 1 (got "
            f"{base_error:g} and {effect:g})."
        )

    def power_at(n: int) -> float:
        return _mid_p_power(n, effect, delta, base_error, alpha)

    p0, p1 = 1 / delta, 1 / effect
    spread = ndtri(1 - alpha) * math.sqrt(p0 * (1 - p0)) + ndtri(power) * math.sqrt(p1 * (1 - p1))
    short, enough = 1, _whole((spread / (p0 - p1)) ** 2 / (effect * base_error))
    while power_at(enough) < power:
        enough = _whole(2 * enough)
    while enough - short > max(1, enough // 200):
        middle = (short + enough) // 2
        short, enough = (short, middle) if power_at(middle) >= power else (middle, enough)
    assumes = f"{base_error:.1%} are decided wrongly before; the power is that of the mid-P test."
    return _row("error-rate ratio", effect, enough, power_at, assumes)


def _mid_p_power(n: int, effect: float, delta: float, base_error: float, alpha: float) -> float:
    r"""Return the power of the mid-P test, by going through all tables: no simulation.

    The number M of people wrong after the perturbation is Binomial(n, :math:`\theta \cdot` base
    error); given M, the test rejects up to some number of people wrong before, who are
    Binomial(M, :math:`1/\theta`). Tables left out have a probability below 1e-12 together.
    """
    from scipy.stats import binom  # takes long to import, and only plans need it

    after = binom(n, min(effect * base_error, 1.0))
    wrong = np.arange(int(after.ppf(5e-13)), int(after.isf(5e-13)) + 1)
    # The mid-P value grows with the count; at this count the plain one passes alpha, and the
    # mid-P value may or may not.
    both = np.asarray(binom.ppf(alpha, wrong, 1 / delta)).astype(np.int64)
    both -= mid_p_value(both, wrong, delta) > alpha
    return float(after.pmf(wrong) @ binom.cdf(both, wrong, 1 / effect))


def _whole(rows: float) -> int:
    """Return rows as a number of people that somebody could audit."""
    if not rows <= MOST_ROWS:
        raise InvalidSettings(
            f"To find this effect would take more than {MOST_ROWS:,} people. Plan for a ratio "
            "further above delta."
        )
    return max(2, math.ceil(rows))
