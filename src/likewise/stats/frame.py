"""What all blocks of people have in common: task, design, and levels of protected attributes."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import missing
from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes

MISSING = "missing"
"""The group of those whose trait is not known: counted, never left out."""

MANY = 12
"""A numeric trait with more values than this (an age, say) is grouped into quarters."""

MOST_LEVELS = 20
"""A trait with more levels is pooled: numbers into quarters, names into the rest."""

EXACT = 1e15
"""Whole numbers up to this are written out; beyond it floats no longer hold every one."""


@dataclasses.dataclass(frozen=True)
class TraitLevels:
    """How the values of one trait are called, and in which group they count.

    Parameters
    ----------
    names
        Names of the levels; people whose trait is missing have code -1.
    code
        The level of every value that occurs.
    counts
        People by level.
    groups
        The group of every level (rare levels are pooled), and last the group of the missing.
    """

    names: tuple[str, ...]
    code: Mapping[Any, int]
    counts: tuple[int, ...]
    groups: tuple[str, ...]

    @classmethod
    def of(cls, counts: Mapping[Any, int]) -> "TraitLevels":
        """Name the levels of a trait by how often its values occur."""
        named = _names(counts)
        names = tuple(sorted(set(named.values())))
        place = {name: k for k, name in enumerate(names)}
        totals = [0] * len(names)
        for value, count in counts.items():
            totals[place[named[value]]] += count
        code = {value: place[name] for value, name in named.items()}
        return cls(names, code, tuple(totals), (*_pooled(names, totals), MISSING))

    def codes(self, column: Any) -> Int[np.ndarray, " n"]:
        """Return the code of everyone's level, from an Arrow column of values."""
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        table = np.array([self.code.get(v, -1) for v in encoded.dictionary.to_pylist()] + [-1])
        return table[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]

    def codes_of(self, names: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return the code of everyone's level, from a column of its names."""
        place = {name: code for code, name in enumerate(self.names)}
        gone = missing(names)
        texts = np.where(gone, "", names.astype(str))
        found, inverse = np.unique(texts, return_inverse=True)
        codes = np.array([place.get(text, -1) for text in found.tolist()], dtype=np.int64)
        return np.where(gone, -1, codes[inverse.reshape(-1)])

    def named(self, codes: Int[np.ndarray, " n"]) -> Any:
        """Return levels as an Arrow column of text, null where the trait is missing."""
        indices = pa.array(codes, mask=codes < 0)
        names = pa.array(self.names, pa.string())
        return pa.DictionaryArray.from_arrays(indices, names).cast(pa.string())


def _names(counts: Mapping[Any, int]) -> dict[Any, str]:
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in counts)
    if numeric and len(counts) > MANY:
        return _quarters(counts)
    return numerals(counts) if numeric else {value: str(value) for value in counts}


def _quarters(counts: Mapping[Any, int]) -> dict[Any, str]:
    values = np.array(sorted(counts), dtype=np.float64)
    ends = np.cumsum([counts[v] for v in sorted(counts)])
    ranks = np.floor(np.array((0.25, 0.5, 0.75)) * (ends[-1] - 1))
    inner = np.unique(values[np.searchsorted(ends, ranks, side="right")])
    return _by_range(counts, values, np.searchsorted(inner, values))


def _by_range(
    counts: Mapping[Any, int], values: Float[np.ndarray, " m"], place: Int[np.ndarray, " m"]
) -> dict[Any, str]:
    ranges = range_names(values, place)
    return {v: ranges[int(p)] for v, p in zip(sorted(counts), place, strict=True)}


def _pooled(names: tuple[str, ...], counts: list[int]) -> tuple[str, ...]:
    """Pool levels that are too many: numbers into quarters, of names the rarest."""
    if len(names) <= MOST_LEVELS:
        return names
    try:
        numbers = {float(name): name for name in names}
    except ValueError:
        order = np.argsort(-np.array(counts), kind="stable")
        rare = {names[k] for k in order[MOST_LEVELS - 1 :]}
        return tuple(f"{len(rare)} other levels" if name in rare else name for name in names)
    by_number = {number: counts[names.index(name)] for number, name in numbers.items()}
    values = np.array(sorted(by_number))
    ends = np.cumsum([by_number[v] for v in sorted(by_number)])
    inner = _interpolated(values, ends, np.array((0.25, 0.5, 0.75)))
    grouped = _by_range(by_number, values, np.searchsorted(inner, values))
    return tuple(grouped[float(name)] for name in names)


def _interpolated(
    values: Float[np.ndarray, " m"], ends: Int[np.ndarray, " m"], shares: Float[np.ndarray, " q"]
) -> Float[np.ndarray, " q"]:
    rank = shares * (ends[-1] - 1)
    low, high = (
        values[np.searchsorted(ends, r, side="right")] for r in (np.floor(rank), np.ceil(rank))
    )
    return low + (rank - np.floor(rank)) * (high - low)


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
    cap, limit
        What ratios are held down to for a finding within tolerance; for a regression the limit of
        losses after the map, :math:`\text{cap} \times` mean loss before.
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
    cap: float = 10.0
    limit: float = math.inf
    traits: Mapping[str, TraitLevels] = dataclasses.field(default_factory=dict)
    horizons: tuple[float, ...] = ()

    @classmethod
    def of(cls, outcomes: Outcomes, cap: float = 10.0) -> "Frame":
        """Return what the outcomes of everyone, in memory, say."""
        n = len(outcomes)
        weight = checked_weights(len(outcomes), outcomes.weight)
        check_clusters(outcomes.cluster)
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
            cap=cap,
            limit=cap * float(each @ outcomes.loss_before) / total,
            traits={name: _levels(values) for name, values in outcomes.groups.items()},
            horizons=tuple(sorted(outcomes.horizons)),
        )

    @property
    def regression(self) -> bool:
        """Whether the model predicts a number."""
        return self.task == "regression"

    def weights(self, block: Outcomes) -> Float[np.ndarray, " n"]:
        """Return the weights of a block of people; ones if all count alike."""
        return block.weight if self.weighted and block.weight is not None else np.ones(len(block))

    def bare(self) -> "Frame":
        """Return the frame without groups and horizons, for people who are only tested."""
        return dataclasses.replace(self, traits={}, horizons=())


def checked_weights(
    n: int, weight: Float[np.ndarray, " n"] | None
) -> Float[np.ndarray, " n"] | None:
    """Return weights of people that a test can be made with; equal ones are none."""
    if n < 2:
        raise InvalidSample(f"There are {n} people; a test needs at least 2.")
    bad = 0 if weight is None else int((~((weight > 0) & np.isfinite(weight))).sum())
    if bad:
        raise InvalidSample(f"{bad} of {n} weights are not positive numbers.")
    return weight if weight is not None and np.ptp(weight) > 0 else None


def check_clusters(cluster: Shaped[np.ndarray, " n"] | None) -> None:
    """Refuse people of whom some have no cluster."""
    gaps = 0 if cluster is None else int(missing(cluster).sum())
    if cluster is not None and gaps:
        raise InvalidSample(
            f"{gaps} of {len(cluster)} people have no cluster. Give each one, if need be their own."
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


def numerals(values: Iterable[float]) -> dict[float, str]:
    """Return numbers as text: whole ones in full, others with six digits or as many as it takes.

    Examples
    --------
    >>> numerals([1.0, 1000001, 1000002])
    {1.0: '1', 1000001: '1000001', 1000002: '1000002'}
    >>> sorted(numerals([0.1, 0.12345671, 0.12345672]).values())
    ['0.1', '0.12345671', '0.12345672']
    """
    known = dict.fromkeys(values)
    names: dict[float, str] = {}
    for digits in range(6, 18):
        names = {value: _written(value, digits) for value in known}
        if len(set(names.values())) == len(known):
            break
    return names


def range_names(values: Shaped[np.ndarray, " n"], place: Int[np.ndarray, " n"]) -> dict[int, str]:
    """Return the name of each group of numbers: its smallest to its largest."""
    groups = {int(p): values[place == p] for p in np.unique(place)}
    ends = {p: (own.min().item(), own.max().item()) for p, own in groups.items()}
    names = numerals(end for pair in ends.values() for end in pair)
    return {p: f"{names[low]} to {names[high]}" for p, (low, high) in ends.items()}


def _written(value: float, digits: int) -> str:
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < EXACT)
    return str(int(value)) if whole else f"{value:.{digits}g}"
