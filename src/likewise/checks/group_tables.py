"""Group metrics of perturbed people, and how often decisions change."""

import dataclasses
from typing import ClassVar, final

from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.perturbation import BoundPerturbation
from likewise.probe import PRIMARY
from likewise.record import Measure
from likewise.stats.groups import group_metrics
from likewise.stats.tally import Tally
from likewise.verdict import Verdict


@final
@dataclasses.dataclass(frozen=True)
class Groups(Check):
    """Group metrics, and how often decisions change.

    Selection and impact are of the favourable decision, if it is known.
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "groups"

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        tally: Tally = stats[PRIMARY].tally
        if tally.frame.regression:
            return Finding()
        favourable, alpha = method.settings.decide.favourable, method.settings.alpha
        place = 1 if favourable is None else list(map(str, method.classes)).index(favourable)
        found = group_metrics(tally, alpha=alpha, positive=place)
        measures = (
            Measure(name=name, attribute=attribute, group=group, **dataclasses.asdict(quantity))
            for (name, attribute, group), quantity in found.items()
        )
        return Finding({"measures": tuple(measures)})
