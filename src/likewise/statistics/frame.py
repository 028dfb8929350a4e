"""What is known about all people before the first block of them is added up."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from likewise.audit_data import missing
from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes
from likewise.statistics.trait_levels import TraitLevels

MOST_CLASSES = 10_000


@dataclasses.dataclass(frozen=True)
class Frame:
    r"""The common terms in which blocks are summarised, so that their sums mean the same.

    Parameters
    ----------
    n
        Number of people, over all blocks.
    task, classes
        ``classification`` with so many classes, or ``regression``.
    monotone
        Whether wrong cannot turn right, by construction of the map.
    weighted, clustered
        Whether weights differ, and whether people come in clusters.
    total_weight
        Of all people.
    cap, limit
        What ratios are held down to for a finding within tolerance; for a regression the limit of
        losses after the map, :math:`\text{cap} \times` mean loss before.
    strict_at
        The tolerance that strict findings within tolerance are made for; not a number for none.
    traits
        Levels and groups of every protected trait.
    horizons
        Other times of the flow at which outcomes are known.
    """

    n: int
    task: str = "classification"
    classes: int = 2
    monotone: bool = False
    weighted: bool = False
    clustered: bool = False
    total_weight: float = math.nan
    cap: float = 10.0
    strict_at: float = math.nan
    limit: float = math.inf
    traits: Mapping[str, TraitLevels] = dataclasses.field(default_factory=dict)
    horizons: tuple[float, ...] = ()

    @classmethod
    def of(cls, outcomes: Outcomes, cap: float = 10.0) -> "Frame":
        """Return what the outcomes of everyone, in memory, say."""
        n = len(outcomes)
        weight = _checked_weights(outcomes)
        _check_clusters(outcomes)
        each = np.ones(n) if weight is None else weight
        total = float(each.sum())
        task = str(outcomes.about.get("task", "classification"))
        return cls(
            n=n,
            task=task,
            classes=2 if task == "regression" else _classes(outcomes),
            monotone=outcomes.monotone,
            weighted=weight is not None,
            clustered=outcomes.cluster is not None,
            total_weight=total,
            cap=cap,
            limit=cap * float(each @ outcomes.loss_before) / total,
            traits={name: _levels(values) for name, values in outcomes.groups.items()},
            horizons=tuple(sorted(outcomes.horizons)),
        )

    @property
    def regression(self) -> bool:
        """Whether the model predicts a number."""
        return self.task == "regression"

    def bare(self) -> "Frame":
        """Return the frame without groups and horizons, for people who are only tested."""
        return dataclasses.replace(self, traits={}, horizons=())


def _checked_weights(outcomes: Outcomes) -> np.ndarray | None:
    n, weight = len(outcomes), outcomes.weight
    if n < 2:
        raise InvalidSample(f"There are {n} people; a test needs at least 2.")
    bad = 0 if weight is None else int((~((weight > 0) & np.isfinite(weight))).sum())
    if bad:
        raise InvalidSample(f"{bad} of {n} weights are not positive numbers.")
    # Equal weights are none.
    return weight if weight is not None and np.ptp(weight) > 0 else None


def _check_clusters(outcomes: Outcomes) -> None:
    gaps = 0 if outcomes.cluster is None else int(missing(outcomes.cluster).sum())
    if gaps:
        raise InvalidSample(
            f"{gaps} of {len(outcomes)} people have no cluster. Give each one, if need be their "
            "own."
        )


def _classes(outcomes: Outcomes) -> int:
    later = [then.decision_after for then in outcomes.horizons.values()]
    columns = (outcomes.y, outcomes.decision_before, outcomes.decision_after, *later)
    for column in columns:
        # Of another kind, or beyond: a table that somebody made up.
        if column.dtype.kind not in "iufb" or not ((column >= 0) & (column < MOST_CLASSES)).all():
            raise InvalidSample(
                "The labels and decisions of a classification are numbers of classes (0, 1, …), at "
                f"most {MOST_CLASSES} of them. These outcomes hold something else."
            )
    return max(2, 1 + max(int(column.max()) for column in columns))


def _levels(values: np.ndarray) -> TraitLevels:
    known = values[~missing(values)]
    return TraitLevels.of(Counter(str(value) for value in known.tolist()))
