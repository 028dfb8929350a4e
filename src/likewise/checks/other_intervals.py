"""The same people by other methods: shown beside the verdict, never deciding it."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.engine.decide import Judgement, as_record
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES

RESAMPLED = 20_000
"""Above this many people resampling costs more than the audit, and agrees with Hall's interval."""


@final
@dataclasses.dataclass(frozen=True)
class OtherIntervals(Check):
    """Bounds by the methods that the settings did not choose."""

    name: ClassVar[str] = "other_intervals"

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        tally = stats[DECIDES].tally
        rows = plan.rows if plan.n <= RESAMPLED else None
        found = []
        for test in plan.tests.values():
            for other in test.beside:
                if other.needs_rows and rows is None:
                    continue
                evidence = other.evidence(tally, rows() if other.needs_rows and rows else None)
                verdict = evidence.verdict(test.delta, test.alpha)
                found.append(as_record(verdict, plan.map.name, test.claim))
        return Finding({"beside": tuple(found)})
