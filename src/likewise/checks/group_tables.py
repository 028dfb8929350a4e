"""What the outcomes say beside the verdict: groups, performance, decisions that change."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES
from likewise.inference.by_group import by_group
from likewise.inference.group_metrics import flip_rates, group_metrics, refusal_rates
from likewise.record import GroupRecord, Measure
from likewise.settings import Settings
from likewise.statistics.tally import Tally


@final
@dataclasses.dataclass(frozen=True)
class Groups(Check):
    """The audit value of every group, group metrics, and how often decisions change."""

    name: ClassVar[str] = "groups"

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        tally = stats[DECIDES].tally
        return Finding(
            {
                "groups": group_records(tally, plan.settings),
                "measures": measures(tally, plan.settings, plan.classes),
            }
        )


def group_records(tally: Tally, settings: Settings) -> tuple[GroupRecord, ...]:
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


def measures(tally: Tally, settings: Settings, classes: Sequence[Any] = ()) -> tuple[Measure, ...]:
    """Return performance, group metrics and flip rates, with intervals.

    Selection and impact are of the favourable decision, if it is known; then how often it is
    refused is said, too, before and after the move. Nothing is tested by that: there is no
    yardstick, for people are moved to where they are served worst.
    """
    if tally.frame.regression:
        return ()
    favourable, alpha = settings.decide.favourable, settings.alpha
    place = 1 if favourable is None else [str(name) for name in classes].index(favourable)
    flips = flip_rates(tally, alpha)
    named = [*group_metrics(tally, alpha=alpha, positive=place).items()]
    if favourable is not None:
        before, after = refusal_rates(tally, place, alpha)
        named += [("refused_before", "", before), ("refused_after", "", after)]
    named += [
        (f"decisions_{name}", "", getattr(flips, name))
        for name in ("changed", "newly_wrong", "newly_right")
    ]
    return tuple(
        Measure(name=name, group=group, value=q.value, lower=q.lower, upper=q.upper, n=q.n)
        for name, group, q in named
    )
