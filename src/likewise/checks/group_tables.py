"""Group metrics of perturbed people, and how often decisions change."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, final

from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.perturbation import BoundPerturbation
from likewise.probe import PRIMARY
from likewise.record import Measure
from likewise.settings import Settings
from likewise.stats.groups import flip_rate, group_metrics
from likewise.stats.tally import Tally
from likewise.verdict import Verdict


@final
@dataclasses.dataclass(frozen=True)
class Groups(Check):
    """Group metrics, and how often decisions change."""

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "groups"

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        tally = stats[PRIMARY].tally
        return Finding({"measures": measures(tally, method.settings, method.classes)})


def measures(tally: Tally, settings: Settings, classes: Sequence[Any] = ()) -> tuple[Measure, ...]:
    """Return group metrics and the share of changed decisions, with intervals.

    Selection and impact are of the favourable decision, if it is known.
    """
    if tally.frame.regression:
        return ()
    favourable, alpha = settings.decide.favourable, settings.alpha
    place = 1 if favourable is None else [str(name) for name in classes].index(favourable)
    found = group_metrics(tally, alpha=alpha, positive=place)
    found["decisions_changed", "", ""] = flip_rate(tally, alpha)
    return tuple(
        Measure(name=name, attribute=attribute, group=group, **dataclasses.asdict(quantity))
        for (name, attribute, group), quantity in found.items()
    )
