"""The people whose loss grows most: before and after the move, beside somebody real."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.engine.move_stats import HarmedMost, beyond, observed_ranges
from likewise.models.originals import as_moved
from likewise.outcomes import Outcomes
from likewise.record import WorstCase


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
