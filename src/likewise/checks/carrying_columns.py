"""Which columns carry the audit value: the move undone column by column."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from typing_extensions import override

from likewise.data.arrow import column_groups
from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.inference.column_shares import column_shares, parts_of
from likewise.maps.unfair_map import among
from likewise.models.recalled import Recalled
from likewise.record import ColumnShareRecord

SAMPLE = (400, 16)
"""People whose moves are undone."""


@final
@dataclasses.dataclass(frozen=True)
class CarryingColumns(Check):
    r"""Shares out the audit value among the columns that the map moved.

    Some columns are held at the person's own values, the others are where the map put them:
    :math:`\ell(f(\Phi(x)_C, x_{\setminus C}), y)`. With all held that is the person, with none the
    audit itself.
    """

    name: ClassVar[str] = "columns"

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if self.name not in plan.asked or plan.settings.metric.crossfit:
            return Finding(skipped=("which columns carry it",))
        rows = plan.drawn(*SAMPLE)
        model = plan.model if plan.model.card.differentiable else Recalled(plan.model)
        x, y = plan.x[rows], plan.y[rows]
        moved = among(plan.map.bind(model, plan.metric), plan.people, rows)(x, y).x
        before = model.loss(model(x), y)
        usable = np.isfinite(moved).all(axis=1) & np.isfinite(before) & (before > 0)
        x, y, moved, before = x[usable], y[usable], moved[usable], before[usable]
        groups = {
            name: places
            for name, places in features_of(plan).items()
            if np.any(moved[:, places] != x[:, places])
        }
        if not groups:
            return Finding()
        means = judgement.decider == "loss_ratio"

        def ask(
            who: Int[np.ndarray, " k"], mask: Bool[np.ndarray, "k g"]
        ) -> Float[np.ndarray, " k"]:
            held = x[who]
            for g, places in enumerate(groups.values()):
                held[:, places] = np.where(mask[:, [g]], moved[who][:, places], held[:, places])
            loss = model.loss(model(held), y[who])
            return loss / before[who] if means else loss

        parts = parts_of(ask, len(x), len(groups), np.random.default_rng([plan.settings.seed, 16]))
        weights = plan.people.weight
        weight = np.ones(len(x)) if weights is None else weights[rows][usable]
        shares = column_shares(
            list(groups),
            parts,
            level=float(weight.sum() if means else weight @ before),
            weight=weight,
            unit=np.arange(len(x)),
            alpha=plan.settings.alpha,
        )
        return Finding(
            {"carried": tuple(ColumnShareRecord(**dataclasses.asdict(one)) for one in shares)}
        )


def features_of(plan: Plan) -> dict[str, list[int]]:
    """Return the features that each original column became."""
    encoder = plan.people.encoder
    if encoder is not None and len(encoder.features) == plan.x.shape[1]:
        return {name: list(span) for name, span in encoder.spans.items()}
    names = list(plan.people.features)
    table = pa.table(dict(zip(names, plan.x.T, strict=True)))
    return {
        name: [names.index(column) for column in columns]
        for name, columns in column_groups(table, names).items()
    }
