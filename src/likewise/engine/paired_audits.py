"""Audits of several models on the same people: whether another is fairer, and as accurate."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from likewise.engine.audited_people import Audited, read_audit
from likewise.engine.visits_table import pair_sums
from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.paired import (
    PairedMeasure,
    PairedModels,
    Swayed,
    balanced_of,
    mean_of,
    measured,
    ratio_of,
)
from likewise.inference.simultaneous import holm
from likewise.record import Record
from likewise.report.side_by_side import Comparison
from likewise.report.side_by_side import compare as side_by_side
from likewise.statistics.honest_worst import inflation


@dataclasses.dataclass(frozen=True)
class Margins:
    """How much worse another model may be and still count as not inferior; say it beforehand.

    Parameters
    ----------
    accuracy
        Of accuracy and balanced accuracy: .02 are two points.
    loss
        Of the mean loss.
    """

    accuracy: float = 0.02
    loss: float = 0.05

    def __post_init__(self) -> None:
        for name, value in (("accuracy", self.accuracy), ("loss", self.loss)):
            if not 0 <= value < 1:
                raise InvalidSettings(f"The margin of {name} must lie in [0, 1) (got {value:g}).")


def compare(
    audits: Mapping[str, Any], *, margins: Margins | None = None, alpha: float | None = None
) -> Comparison:
    """Compare audits of the same people by their people: the first with each of the others.

    Parameters
    ----------
    audits
        By the name of the model: what `likewise.audit` returned, or the paths of a result and of
        its outcomes.
    margins
        How much worse another model may be and still count as not inferior.
    alpha
        How often any claim may be wrong; by default that of the audits.
    """
    margins = margins or Margins()
    read = {name: read_audit(audit) for name, audit in audits.items()}
    comparison = side_by_side({name: record for name, (record, _) in read.items()})
    level = comparison.alpha if alpha is None else alpha
    (first, (record, table)), *others = read.items()
    # Bounds hold for all models together.
    each = level / max(len(others), 1)
    found = []
    one = Audited.of(first, record, table)
    for name, (other, rows) in others:
        _check(first, record, name, other)
        two = Audited.of(name, other, rows)
        for audit in (one, two):
            _check_outcomes(audit)
        found.append(_pair(one, two, margins, each))
    return dataclasses.replace(comparison, paired=tuple(_corrected(found, level)), alpha=level)


def _check(first: str, one: Record, second: str, other: Record) -> None:
    """Refuse audits whose values cannot be subtracted from each other."""
    for what, a, b in (
        ("deciding map", one.decided_by.map, other.decided_by.map),
        ("loss", _loss(one), _loss(other)),
    ):
        if a != b:
            raise InvalidSample(
                f"The audits of {first!r} and {second!r} do not have the same {what} ({a}, {b}), "
                "so their audit values cannot be compared. Audit both in the same way."
            )
    asked, again = one.counterparts, other.counterparts
    if asked is not None and again is not None:
        same = ("may_matter", "pool_sha256", "m", "caliper", "seed")
        if differs := [name for name in same if getattr(asked, name) != getattr(again, name)]:
            raise InvalidSample(
                f"The audits of {first!r} and {second!r} had other visitors (their {differs[0]} "
                "differs). Audit both with the same columns that may matter, pool and seed."
            )


def _check_outcomes(audit: Audited) -> None:
    """Refuse outcomes of another audit than the result's, which would exchange the models."""
    if audit.record.counterparts is None:
        said = audit.record.tests[audit.record.decided_by.test].estimate
        found = _moved(audit, audit.usable).value
    else:
        trait = audit.record.counterparts.traits[0]
        said = trait.overall.estimate
        swayed = _visited(audit, pair_sums(audit.table, audit.name), trait, 0, None)
        found = said if swayed is None else swayed[0].value
    if not math.isclose(said, found, rel_tol=1e-6):
        raise InvalidSample(
            f"The outcomes of {audit.name!r} are not those of its result: they say {found:.6g}, "
            f"and the result {said:.6g}. Name both in the same order."
        )


def _loss(record: Record) -> str:
    return record.decided_by.test if record.counterparts is None else record.counterparts.loss


def _pair(one: Audited, other: Audited, margins: Margins, alpha: float) -> PairedModels:
    """Compare two models on the people they share."""
    a, b = one.columns, other.columns
    shared = [n for n in ("row", "weight", "y") if n in a and n in b]
    if len(a["row"]) != len(b["row"]) or any(not np.array_equal(a[n], b[n]) for n in shared):
        raise InvalidSample(
            f"{one.name!r} and {other.name!r} were not audited on the same people, so that there "
            "is nothing to pair. Audit both on the same table."
        )
    keep = one.usable & other.usable
    weight = a["weight"][keep]
    cluster = a["cluster"][keep] if "cluster" in a else None
    measures = list(_values(one, other, keep, cluster, alpha))
    measures.append(
        measured(
            "loss",
            *(mean_of(x["loss"][keep], weight) for x in (a, b)),
            alpha=alpha,
            margin=margins.loss,
            cluster=cluster,
        )
    )
    if "wrong" in a and "wrong" in b:
        right = [1 - x["wrong"][keep] for x in (a, b)]
        found = {"accuracy": [mean_of(x, weight, share=True) for x in right]}
        y = a["y"][keep] if "y" in a else np.zeros(len(weight))
        if len(np.unique(y)) > 1:
            found["balanced accuracy"] = [balanced_of(x, y, weight) for x in right]
        measures += [
            measured(
                name,
                *both,
                alpha=alpha,
                margin=margins.accuracy,
                more_is_better=True,
                cluster=cluster,
            )
            for name, both in found.items()
        ]
    left_out = int((~keep).sum())
    return PairedModels(one.name, other.name, int(keep.sum()), left_out, tuple(measures))


def _values(
    one: Audited,
    other: Audited,
    keep: Bool[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"] | None,
    alpha: float,
) -> Iterator[PairedMeasure]:
    """Compare the audit values: of moves, or of each trait and group that was visited."""
    if one.record.counterparts is None:
        values = _moved(one, keep), _moved(other, keep)
        yield measured("audit value", *values, alpha=alpha, cluster=cluster)
        return
    part = one.record.counterparts
    fair, _ = inflation(part.m)
    sums = [pair_sums(x.table, x.name) for x in (one, other)]
    for number, trait in enumerate(part.traits):
        for group in (None, *range(len(trait.groups))):
            mine, theirs = (
                _visited(x, s, trait, number, group)
                for x, s in zip((one, other), sums, strict=True)
            )
            if mine is None or theirs is None:
                continue
            yield measured(
                "audit value",
                mine[0],
                theirs[0],
                of=trait.trait if group is None else f"{trait.trait}: {trait.groups[group].group}",
                claimed=group is None,
                alpha=alpha,
                cluster=mine[1],
                inflation=fair,
                pair_cluster=sums[0].get(f"cluster{number}"),
            )


def _moved(model: Audited, keep: Bool[np.ndarray, " n"]) -> Swayed:
    c = {name: x[keep] for name, x in model.columns.items()}
    test = model.record.decided_by.test
    if test == "error_rate_ratio":
        return ratio_of(c["wrong_after"], c["wrong"], c["weight"])
    if test == "mean_loss_ratio":
        return ratio_of(c["after"], c["loss"], c["weight"])
    return mean_of(c["ratio"], c["weight"])


def _visited(
    model: Audited, sums: Mapping[str, Any], trait: Any, number: int, group: int | None
) -> tuple[Swayed, Int[np.ndarray, " n"]] | None:
    """Return the ratio of a trait, or of one of its groups, and who belongs together."""
    mask = np.asarray(model.table["trait"].to_numpy(zero_copy_only=False) == trait.trait)
    rows = model.table.filter(pa.array(mask)).sort_by("row")
    keep = rows["grouped"].to_numpy(zero_copy_only=False)
    if group is not None:
        if "group" not in rows.column_names:
            return None
        keep = rows["group"].to_numpy(zero_copy_only=False) == trait.groups[group].group
    c = {
        name: rows[name].to_numpy(zero_copy_only=False)[keep]
        for name in ("after", "before", "weight", "cluster")
    }
    level = float(c["weight"] @ c["before"])
    if not keep.any() or level <= 0:
        return None
    swayed = ratio_of(c["after"], c["before"], c["weight"])
    which = slice(None) if group is None else slice(group, group + 1)
    pair = sums[f"pair{number}"][which].sum(axis=0, dtype=np.float64)
    swapped = sums[f"swapped{number}"][which].sum(axis=0, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = swapped[:, 0] / swapped[:, 1]
    swayed = dataclasses.replace(
        swayed, pair=(pair[0] - swayed.value * pair[1]) / level, swapped=ratios
    )
    return swayed, c["cluster"]


def _corrected(found: Sequence[PairedModels], alpha: float) -> Iterator[PairedModels]:
    """Correct all claims together (Holm 1979)."""
    claims = {
        f"{i} {j}": m.p_value
        for i, pair in enumerate(found)
        for j, m in enumerate(pair.measures)
        if m.claimed
    }
    adjusted = holm(claims, alpha).adjusted
    for i, pair in enumerate(found):
        measures = tuple(
            dataclasses.replace(m, adjusted=adjusted[f"{i} {j}"]) if m.claimed else m
            for j, m in enumerate(pair.measures)
        )
        yield dataclasses.replace(pair, measures=measures)


def files_together(
    results: Mapping[str, Record], outcomes: Sequence[Path]
) -> dict[str, tuple[Record, Path]]:
    """Return each result with its outcomes, which are named in the same order."""
    if len(results) != len(outcomes):
        raise InvalidSettings(
            f"{len(results)} results and {len(outcomes)} files of outcomes do not go together: "
            "name one for each result, in the same order (--outcomes)."
        )
    return {
        name: (record, path) for (name, record), path in zip(results.items(), outcomes, strict=True)
    }
