"""Where it is worst: subgroups that nobody named, found on one half and judged on the other."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.subgroups import moved_worst


@final
@dataclasses.dataclass(frozen=True)
class Subgroups(Check):
    """A shallow tree on the ratios of one half of the people, and its leaves on the other."""

    name: ClassVar[str] = "subgroups"

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if self.name not in plan.asked or plan.rows is None:
            return Finding(skipped=("subgroups that nobody named",))
        rows, people = plan.rows(), plan.known.sample.in_columns()
        assert people.table is not None
        place = {row: k for k, row in enumerate(rows.row.tolist())}
        chosen = [k for k, row in enumerate(people.row.tolist()) if row in place]
        found = rows.take(np.array([place[people.row[k]] for k in chosen], dtype=np.int64))
        table = people.table.take(pa.array(chosen))
        if judgement.decider == "error_rate_ratio":
            after, before = found.error_after.astype(float), found.error_before.astype(float)
        elif judgement.decider == "loss_ratio":
            after, before = found.ratio, np.ones(len(found))
        else:
            after, before = found.loss_after, found.loss_before
        usable = np.isfinite(after) & np.isfinite(before)
        cluster = None
        if found.cluster is not None:
            cluster = np.unique(found.cluster, return_inverse=True)[1].reshape(-1)[usable]
        weight = np.ones(len(found)) if found.weight is None else found.weight
        return Finding(
            {
                "subgroups": moved_worst(
                    table.filter(pa.array(usable)),
                    after[usable],
                    before[usable],
                    weight[usable],
                    cluster,
                    delta=plan.settings.delta,
                    alpha=plan.settings.alpha,
                    seed=plan.settings.seed,
                )
            }
        )
