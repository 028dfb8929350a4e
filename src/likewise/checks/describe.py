"""What the outcomes say beside the verdict: groups, performance, flips, the spread of ratios."""

import numpy as np

from likewise.inference.by_group import by_group
from likewise.inference.group_metrics import flip_rates, group_metrics
from likewise.outcomes import Outcomes
from likewise.record import GroupRecord, Measure
from likewise.settings import Settings
from likewise.statistics.tally import Tally

BINS = 40


def measures(tally: Tally, settings: Settings) -> tuple[Measure, ...]:
    """Return performance, group metrics and flip rates, with intervals."""
    if tally.frame.regression:
        return ()
    metrics = group_metrics(tally, alpha=settings.alpha)
    flips = flip_rates(tally, settings.alpha)
    named = [*metrics.items()]
    named += [
        (f"decisions_{name}", "", getattr(flips, name))
        for name in ("changed", "newly_wrong", "newly_right")
    ]
    return tuple(
        Measure(name=name, group=group, value=q.value, lower=q.lower, upper=q.upper, n=q.n)
        for name, group, q in named
    )


def distribution(outcomes: Outcomes) -> dict[str, tuple[float, ...]]:
    """Return quantiles of the loss ratios, and their histogram on a log scale."""
    ratio = outcomes.ratio
    usable = ratio[np.isfinite(ratio) & (ratio > 0)]
    if not len(usable):
        return {}
    shares = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
    low, high = np.log10(usable.min()), np.log10(usable.max())
    edges = np.linspace(low, max(high, low + 1e-6), BINS + 1)
    counts, _ = np.histogram(np.log10(usable), edges)
    return {
        "shares": shares,
        "quantiles": tuple(map(float, np.quantile(usable, shares))),
        "edges": tuple(map(float, 10**edges)),
        "counts": tuple(map(float, counts)),
    }


def groups(tally: Tally, settings: Settings) -> tuple[GroupRecord, ...]:
    """Return the audit value of every group, with simultaneous intervals."""
    if not tally.frame.traits:
        return ()
    found = by_group(
        tally,
        rng=np.random.default_rng([settings.seed, 1]),
        delta=settings.delta,
        alpha=settings.alpha,
        interval="paper" if settings.decide.interval == "paper" else "hall",
    )
    names = GroupRecord.model_fields.keys() - {"small"}
    return tuple(
        GroupRecord(small=value.small, **{name: getattr(value, name) for name in names})
        for value in found
    )
