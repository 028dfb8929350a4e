"""Perturbation probes: people moved by a map under a metric, and what becomes of them, summed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from likewise.audit_data import AuditData
from likewise.handle import as_seen
from likewise.methods.metric import FairMetric
from likewise.methods.observe import Seen, observe, see
from likewise.methods.unfair_map import UnfairMap, among
from likewise.models import check_conversion
from likewise.models.base import Model, targets
from likewise.outcomes import Outcomes
from likewise.probe import Block, Measured, Subsample
from likewise.record import PerturbedPerson
from likewise.stats.frame import Frame
from likewise.stats.tally import Tally

MIN_BLOCK = 64  # blocks are filled up to a power of two, at least this many rows
MAX_SHOWN = 10  # people who are shown with their place before and after


@dataclasses.dataclass(frozen=True, eq=False)
class PerturbProbe:
    """People moved in one way: as decided, or with one choice made otherwise.

    Parameters
    ----------
    frame
        The terms in which outcomes are added up, of people who are measured so.
    classes
        The classes of the model.
    groups, left_out
        Everyone's group of a jackknife, by position, and the group that is not measured.
    detailed
        Whether tables by group and the most affected people are wanted too.
    keeps_rows
        Whether outcomes are kept row by row, for comparisons of the same people.
    """

    name: str
    map: UnfairMap
    metric: FairMetric
    frame: Frame
    classes: tuple[Any, ...]
    subsample: Subsample | None = None
    groups: Int[np.ndarray, " n"] | None = None
    left_out: int = -1
    detailed: bool = False
    keeps_rows: bool = False

    @property
    def common(self) -> Mapping[str, Any]:
        """The terms in which outcomes are added up."""
        return {self.name: self.frame}

    @np.errstate(over="ignore")  # ratios may be as large as they come
    def measure(self, model: Model, block: Block) -> Measured | None:
        """Move the people of a block, and add up what became of them."""
        people, x, y, before = block.once("seen", lambda: self._seen(model, block))
        rows = np.arange(len(x))
        if self.groups is not None:
            rows = np.flatnonzero(self.groups[block.positions] != self.left_out)
        if not len(rows):
            return None
        filled_up = filled(rows, model)
        found = observe(
            model,
            among(self.map.bind(model, self.metric), people, filled_up),
            self.metric,
            x[filled_up],
            y[filled_up],
            n=len(rows),
            before=before.take(rows),
            keeps_start=self.map.keeps_start,
        )
        outcomes = dataclasses.replace(
            found.outcomes,
            row=people.row[rows],
            weight=None if people.weight is None else people.weight[rows],
            cluster=None if people.cluster is None else people.cluster[rows],
            about={
                "map": self.map.name,
                "task": self.frame.task,
                "output": model.card.output,
                "classes": [str(value) for value in self.classes],
                "monotone": self.frame.monotone,
            },
        )
        rest = (outcomes,) if self.keeps_rows else ()
        levels = {
            name: known.codes(block.people.protected[name][rows])
            for name, known in self.frame.attributes.items()
        }
        stats = PerturbStats(
            Tally.from_outcomes(outcomes, self.frame, levels), found.below_one, rows=rest
        )
        if not self.detailed:
            return Measured(stats)
        groups = {
            name: self.frame.attributes[name].named(codes).to_numpy(zero_copy_only=False)
            for name, codes in levels.items()
        }
        outcomes = dataclasses.replace(outcomes, groups=groups)
        worst = MostAffected(outcomes, x[rows], found.x).first()
        return Measured(dataclasses.replace(stats, worst=worst), outcomes.to_arrow())

    def _seen(self, model: Model, block: Block) -> tuple[AuditData, Any, Any, Seen]:
        """Return people as the model sees them, and its answers at first."""
        people = as_seen(model, block.people)
        if model.reference is not None:
            check_conversion(model, people.x)
        x = np.ascontiguousarray(people.x, dtype=np.float64)
        y = targets(block.people.y, self.classes)
        rows = filled(np.arange(len(x)), model)
        return people, x, y, see(model, x[rows], y[rows]).take(slice(0, len(x)))


@dataclasses.dataclass(frozen=True)
class MostAffected:
    """The people harmed most, worst first, ties by row number: so grouping does not matter."""

    outcomes: Outcomes
    before: Float[np.ndarray, "m d"]
    after: Float[np.ndarray, "m d"]

    def first(self) -> "MostAffected":
        """Keep a few."""
        found = self.outcomes
        regression = found.about["task"] == "regression"
        harm = found.loss_after - found.loss_before if regression else found.ratio
        harm = np.nan_to_num(harm, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        order = np.lexsort((found.row, -harm))[:MAX_SHOWN]
        return MostAffected(found.take(order), self.before[order], self.after[order])

    def __add__(self, other: "MostAffected") -> "MostAffected":
        return MostAffected(
            Outcomes.concat([self.outcomes, other.outcomes]),
            np.concatenate([self.before, other.before]),
            np.concatenate([self.after, other.after]),
        ).first()


@dataclasses.dataclass(frozen=True)
class PerturbStats:
    """All that is known of one probe's people, of any number of blocks.

    ``below_one`` counts people whose loss fell, before any rule that keeps them where they were.
    """

    tally: Tally
    below_one: int
    worst: MostAffected | None = None
    rows: tuple[Outcomes, ...] = ()

    def __add__(self, other: "PerturbStats") -> "PerturbStats":
        return PerturbStats(
            tally=self.tally + other.tally,
            below_one=self.below_one + other.below_one,
            worst=self.worst and other.worst and self.worst + other.worst,
            rows=self.rows + other.rows,
        )

    @property
    def n(self) -> int:
        """How many people were moved."""
        return self.tally.n

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of a probe that keeps its rows."""
        return Outcomes.concat(self.rows)


def filled(rows: Int[np.ndarray, " n"], model: Model) -> Int[np.ndarray, " m"]:
    """Repeat the last row until a block has a usual size, so that its products round alike.

    Models without gradients answer row by row, and every call may be dear: theirs stay as they are.
    """
    if not model.card.differentiable:
        return rows
    power = 1 << (len(rows) - 1).bit_length()
    # A whole block has 65 times a power of two (`block_size`): that is usual, too.
    size = max(MIN_BLOCK, min(s for s in (65 * power // 128, power) if s >= len(rows)))
    return np.concatenate([rows, np.full(size - len(rows), rows[-1])])


def perturbed_people(worst: MostAffected, people: AuditData) -> tuple[PerturbedPerson, ...]:
    """Return the people whose loss grows most, before and after the move."""
    outcomes, rows = worst.outcomes, worst.outcomes.row.tolist()
    before, after = (_columns(people, x) for x in (worst.before, worst.after))
    places = {int(row): i for i, row in enumerate(people.row)}
    classes = outcomes.about.get("classes") or []
    values = ("ratio", "loss_before", "loss_after", "probability_before", "probability_after")

    def words(decision: Any) -> str:
        return classes[int(decision)] if classes else f"{float(decision):.6g}"

    found = []
    for i, row in enumerate(rows):
        if people.originals is not None and row in places and people.table is not None:
            # What steps do not keep of a person is in the table.
            own = people.table.slice(places[row], 1).to_pylist()[0]
            after[i] = {k: own[k] if _alike(before[i][k], v) else v for k, v in after[i].items()}
            before[i] = {k: own[k] for k in before[i]}
        found.append(
            PerturbedPerson.model_validate(
                {
                    "row": row,
                    "label": words(outcomes.y[i]),
                    "decision_before": words(outcomes.decision_before[i]),
                    "decision_after": words(outcomes.decision_after[i]),
                    "fair_distance": float(outcomes.fair_distance[i]),
                    "groups": {name: group[i] for name, group in outcomes.groups.items()},
                    "before": before[i],
                    "after": after[i],
                    **{name: float(getattr(outcomes, name)[i]) for name in values},
                }
            )
        )
    return tuple(found)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True))
    return bool(one == other)


def _columns(people: AuditData, x: np.ndarray) -> list[dict[str, Any]]:
    """Return rows in original columns where they can be decoded, else by feature name."""
    decoder = people.originals if people.encoder is None else people.encoder
    if decoder is not None:
        rows: list[dict[str, Any]] = decoder.decode(x).to_pylist()
        return rows
    return [dict(zip(people.features, map(float, row), strict=True)) for row in x]
