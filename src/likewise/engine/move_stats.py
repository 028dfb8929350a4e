"""What moving people under one variant gave, added up: the tally, and what reports show."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from likewise.audit_data import AuditData
from likewise.losses import CLIP
from likewise.maps.observe import Observed
from likewise.models.originals import as_moved
from likewise.outcomes import Outcomes
from likewise.record import WorstCase
from likewise.statistics.frame import Frame
from likewise.statistics.moments import Additive
from likewise.statistics.tally import Mean, Tally

KEPT = 100
"""People kept with their place before and after: enough for any list of worst cases."""


@dataclasses.dataclass(frozen=True)
class HarmedMost:
    """The people harmed most, worst first, ties by row number: so grouping does not matter."""

    harm: Float[np.ndarray, " m"]
    outcomes: Outcomes
    before: Float[np.ndarray, "m d"]
    after: Float[np.ndarray, "m d"]

    @classmethod
    def of(
        cls,
        outcomes: Outcomes,
        before: Float[np.ndarray, "n d"],
        after: Float[np.ndarray, "n d"],
        frame: Frame,
        levels: Mapping[str, np.ndarray],
    ) -> "HarmedMost":
        """Keep the people of a block who are harmed most."""
        harm = _harm(outcomes)
        order = np.lexsort((outcomes.row, -harm))[:KEPT]
        groups = {
            name: known.named(levels[name][order]).to_numpy(zero_copy_only=False)
            for name, known in frame.traits.items()
        }
        plain = dataclasses.replace(outcomes, horizons={}).take(order)
        few = dataclasses.replace(plain, groups=groups)
        return cls(harm[order], few, before[order], after[order])

    def __add__(self, other: "HarmedMost") -> "HarmedMost":
        return HarmedMost(
            np.concatenate([self.harm, other.harm]),
            Outcomes.concat([self.outcomes, other.outcomes]),
            np.concatenate([self.before, other.before]),
            np.concatenate([self.after, other.after]),
        )._first()

    def again(self, outcomes: Outcomes, after: Float[np.ndarray, "m d"]) -> "HarmedMost":
        """Return the same people when they were moved in another way."""
        return HarmedMost(_harm(outcomes), outcomes, self.before, after)._first()

    def _first(self) -> "HarmedMost":
        order = np.lexsort((self.outcomes.row, -self.harm))[:KEPT]
        few = self.outcomes.take(order)
        return HarmedMost(self.harm[order], few, self.before[order], self.after[order])


def _harm(outcomes: Outcomes) -> Float[np.ndarray, " n"]:
    rise = outcomes.loss_after - outcomes.loss_before
    harm = rise if outcomes.about.get("task") == "regression" else outcomes.ratio
    return np.nan_to_num(harm, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


@dataclasses.dataclass(frozen=True)
class Shifts(Additive):
    """How far each feature is pushed: the mean move, and the mean of its size."""

    signed: Mean
    absolute: Mean


@dataclasses.dataclass(frozen=True)
class MoveStats:
    """All that is known of one variant's people, of any number of blocks.

    Parameters
    ----------
    tally
        What tests and tables need.
    evaluations
        Gradient or model evaluations spent on each person.
    below_one
        People whose loss fell, before any rule that keeps them where they were.
    clipped
        People whose probability was clipped, before or after the move.
    outside
        People moved to where a feature is beyond all that were observed (for detailed variants).
    trace
        Sums of the loss found after so many model calls a person (for maps that search).
    worst, shifts
        For detailed variants.
    rows
        Outcomes, where a variant keeps its rows; in the order of blocks.
    """

    tally: Tally
    evaluations: int
    below_one: int
    clipped: int
    outside: int
    trace: Mapping[int, float]
    worst: HarmedMost | None = None
    shifts: Shifts | None = None
    rows: tuple[Outcomes, ...] = ()

    @classmethod
    def of(
        cls,
        seen: Observed,
        before: Float[np.ndarray, "n d"],
        frame: Frame,
        levels: Mapping[str, np.ndarray],
        ranges: Float[np.ndarray, "2 d"],
        *,
        detailed: bool,
        keeps_rows: bool,
    ) -> "MoveStats":
        """Summarise a block of people."""
        outcomes, moved = seen.outcomes, seen.moved
        p = np.stack([outcomes.probability_before, outcomes.probability_after])
        shift = moved.x - before if detailed else None
        return cls(
            tally=Tally.of(outcomes, frame, levels if detailed else {}),
            evaluations=moved.evaluations,
            below_one=seen.below_one,
            clipped=int(((p < CLIP) | (p > 1 - CLIP)).any(axis=0).sum()),
            outside=int(beyond(moved.x, before, ranges).any(axis=1).sum()) if detailed else 0,
            trace={calls: float(loss.sum()) for calls, loss in moved.trace.items()},
            worst=HarmedMost.of(outcomes, before, moved.x, frame, levels) if detailed else None,
            shifts=None if shift is None else Shifts(Mean.of(shift), Mean.of(np.abs(shift))),
            rows=(outcomes,) if keeps_rows else (),
        )

    def __add__(self, other: "MoveStats") -> "MoveStats":
        return MoveStats(
            tally=self.tally + other.tally,
            evaluations=max(self.evaluations, other.evaluations),
            below_one=self.below_one + other.below_one,
            clipped=self.clipped + other.clipped,
            outside=self.outside + other.outside,
            trace={
                calls: total + other.trace[calls]
                for calls, total in self.trace.items()
                if calls in other.trace
            },
            worst=None if self.worst is None or other.worst is None else self.worst + other.worst,
            shifts=None
            if self.shifts is None or other.shifts is None
            else self.shifts + other.shifts,
            rows=self.rows + other.rows,
        )

    @property
    def n(self) -> int:
        """How many people were moved."""
        return self.tally.ratio.n

    @property
    def search(self) -> dict[int, float]:
        """The mean loss found by the number of model calls spent on each person."""
        return {calls: total / self.n for calls, total in self.trace.items()}

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of a variant that keeps its rows."""
        return Outcomes.concat(self.rows)


def observed_ranges(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "2 d"]:
    """Return the smallest and the largest value of every feature; indicators have no range.

    Somebody between two categories is not beyond anything.
    """
    ranges = np.stack([np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)])
    two = ((x == ranges[0]) | (x == ranges[1]) | np.isnan(x)).all(axis=0)
    return np.where(two, [[-np.inf], [np.inf]], ranges)


def beyond(
    after: Float[np.ndarray, "n d"],
    before: Float[np.ndarray, "n d"],
    ranges: Float[np.ndarray, "2 d"],
) -> Bool[np.ndarray, "n d"]:
    """Tell which features a move takes beyond the smallest or the largest that was observed."""
    low, high = ranges
    slack = 1e-9 * (1 + np.abs(before))  # of rounding
    return ((after < low - slack) | (after > high + slack)) & (after != before)


def worst_cases(worst: HarmedMost | None, people: AuditData, n: int) -> tuple[WorstCase, ...]:
    """Return the people whose loss grows most, before and after the move, with a real neighbour."""
    if worst is None or not len(worst.harm):
        return ()
    before = _columns(people, worst.before[:n])
    after = _columns(people, worst.after[:n])
    rows = worst.outcomes.row[:n].tolist()
    if people.originals is not None and people.table is not None:
        places = {int(row): i for i, row in enumerate(people.row)}
        for i, row in enumerate(rows):
            if row in places:  # what steps do not keep of a person is in the table
                own = people.table.slice(places[row], 1).to_pylist()[0]
                after[i] = as_moved(own, before[i], after[i])
                before[i] = {name: own[name] for name in before[i]}
    left = beyond(worst.after[:n], worst.before[:n], observed_ranges(people.x))
    originals = [name.partition("=")[0] for name in people.features]
    real = nearest_people(people, worst.after[:n], rows)
    return tuple(
        _worst_case(worst.outcomes, i, before[i], after[i]).model_copy(
            update={
                "nearest_row": int(people.row[real[i]]),
                "nearest": _real_columns(people, real[i], after[i]),
                "outside": tuple(dict.fromkeys(originals[j] for j in np.flatnonzero(left[i]))),
            }
        )
        for i in range(len(rows))
    )


def nearest_people(
    people: AuditData, after: Float[np.ndarray, "n d"], rows: Sequence[int]
) -> list[int]:
    """Return who else is nearest to each place, in spreads of the features, by place among them."""
    spread = people.x.std(axis=0)
    scaled = people.x / np.where(spread > 0, spread, 1)
    found = []
    for place, row in zip(after / np.where(spread > 0, spread, 1), rows, strict=True):
        far = np.square(np.nan_to_num(scaled - place)).sum(axis=1)
        far[people.row == row] = np.inf
        found.append(int(far.argmin()))
    return found


def _real_columns(people: AuditData, place: int, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a case for a real person, as it stands in the table."""
    own = {} if people.table is None else people.table.slice(place, 1).to_pylist()[0]
    if all(name in own for name in shown):
        return {name: own[name] for name in shown}
    return _columns(people, people.x[place : place + 1])[0]


def _columns(people: AuditData, x: np.ndarray) -> list[dict[str, Any]]:
    """Return rows in original columns where they can be decoded, else by feature name."""
    decoder = people.originals if people.encoder is None else people.encoder
    if decoder is not None:
        rows: list[dict[str, Any]] = decoder.decode(x).to_pylist()
        return rows
    return [dict(zip(people.features, map(float, row), strict=True)) for row in x]


def _worst_case(
    outcomes: Outcomes, i: int, before: dict[str, Any], after: dict[str, Any]
) -> WorstCase:
    classes = outcomes.about.get("classes") or []

    def words(decision: Any) -> str:
        return classes[int(decision)] if classes else f"{float(decision):.6g}"

    return WorstCase(
        row=int(outcomes.row[i]),
        label=words(outcomes.y[i]),
        ratio=float(outcomes.ratio[i]),
        loss_before=float(outcomes.loss_before[i]),
        loss_after=float(outcomes.loss_after[i]),
        decision_before=words(outcomes.decision_before[i]),
        decision_after=words(outcomes.decision_after[i]),
        probability_before=float(outcomes.probability_before[i]),
        probability_after=float(outcomes.probability_after[i]),
        fair_distance=float(outcomes.fair_distance[i]),
        groups={name: values[i] for name, values in outcomes.groups.items()},
        before=before,
        after=after,
    )
