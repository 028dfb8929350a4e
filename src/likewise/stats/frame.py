"""What all blocks of people have in common: task, design, and levels of protected attributes."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Shaped

from likewise.audit_data import missing
from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes

MISSING = "missing"  # the group of those whose attribute is not known: counted, never left out
MOST_LEVELS = 20  # of an attribute with more levels the rarest are pooled
EXACT = 1e15  # whole numbers up to this are written out; beyond it floats no longer hold every one


@dataclasses.dataclass(frozen=True)
class AttributeLevels:
    """How the values of one attribute are called; rare ones are pooled where there are too many.

    ``code`` is the level of every value that occurs (-1 is missing), and ``counts`` the people of
    each level.
    """

    names: tuple[str, ...]
    code: Mapping[Any, int]
    counts: tuple[int, ...]

    @classmethod
    def from_counts(cls, counts: Mapping[Any, int]) -> "AttributeLevels":
        """Name the levels of an attribute by how often its values occur."""
        named = {value: str(value) for value in counts}
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in counts):
            named = numerals(counts)
        totals: Counter[str] = Counter()
        for value, count in counts.items():
            totals[named[value]] += count
        if len(totals) > MOST_LEVELS:
            rare = sorted(totals, key=lambda name: (-totals[name], name))[MOST_LEVELS - 1 :]
            pooled = dict.fromkeys(rare, f"{len(rare)} other levels")
            totals[f"{len(rare)} other levels"] = sum(totals.pop(name) for name in rare)
            named = {value: pooled.get(name, name) for value, name in named.items()}
        names = tuple(sorted(totals))
        code = {value: names.index(name) for value, name in named.items()}
        return cls(names, code, tuple(totals[name] for name in names))

    @property
    def groups(self) -> tuple[str, ...]:
        """The levels, and last the group of those whose attribute is missing."""
        return (*self.names, MISSING)

    def codes(self, column: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return the code of everyone's level, from a column of values."""
        try:
            encoded = pa.array(column, from_pandas=True).dictionary_encode()
        except pa.ArrowException:  # values of several types
            return np.array([self.code.get(value, -1) for value in column.tolist()], np.int64)
        table = np.array([self.code.get(v, -1) for v in encoded.dictionary.to_pylist()] + [-1])
        return table[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]

    def named(self, codes: Int[np.ndarray, " n"]) -> Any:
        """Return levels as an Arrow column of text, null where the attribute is missing."""
        indices = pa.array(codes, mask=codes < 0)
        names = pa.array(self.names, pa.string())
        return pa.DictionaryArray.from_arrays(indices, names).cast(pa.string())


MOST_CLASSES = 10_000


@dataclasses.dataclass(frozen=True)
class Frame:
    r"""The common terms in which blocks are summarised, so that their sums mean the same.

    Parameters
    ----------
    monotone
        Whether wrong cannot turn right, by construction of the map.
    weighted, clustered
        Whether weights differ, and whether people come in clusters.
    cap, limit
        What ratios are held down to for a finding within tolerance; for a regression the limit of
        losses after the map, :math:`\text{cap} \times` mean loss before.
    """

    n: int
    task: str = "classification"
    classes: int = 2
    monotone: bool = False
    weighted: bool = False
    clustered: bool = False
    cap: float = 10.0
    limit: float = math.inf
    attributes: Mapping[str, AttributeLevels] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, cap: float = 10.0) -> "Frame":
        """Return what the outcomes of everyone, in memory, say."""
        n = len(outcomes)
        if n < 2:
            raise InvalidSample(f"There are {n} people; a test needs at least 2.")
        each = np.ones(n) if outcomes.weight is None else outcomes.weight
        if bad := int((~((each > 0) & np.isfinite(each))).sum()):
            raise InvalidSample(f"{bad} of {n} weights are not positive numbers.")
        gaps = 0 if outcomes.cluster is None else int(missing(outcomes.cluster).sum())
        if gaps:
            raise InvalidSample(
                f"{gaps} of {n} people have no cluster. Give each one, if need be their own."
            )
        task = str(outcomes.about.get("task", "classification"))
        return cls(
            n=n,
            task=task,
            classes=2 if task == "regression" else _classes(outcomes),
            monotone=outcomes.monotone,
            weighted=bool(np.ptp(each) > 0),
            clustered=outcomes.cluster is not None,
            cap=cap,
            limit=cap * float(each @ outcomes.loss_before) / float(each.sum()),
            attributes={
                name: AttributeLevels.from_counts(Counter(values[~missing(values)].tolist()))
                for name, values in outcomes.groups.items()
            },
        )

    @property
    def regression(self) -> bool:
        """Whether the model predicts a number."""
        return self.task == "regression"

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups, labels and decisions there are: what kinds of people are made of."""
        groups = (len(known.groups) for known in self.attributes.values())
        return 1, *groups, *(() if self.regression else (self.classes,) * 3)

    def bare(self) -> "Frame":
        """Return the frame without groups, for people who are only tested."""
        return dataclasses.replace(self, attributes={})


def _classes(outcomes: Outcomes) -> int:
    columns = (outcomes.y, outcomes.decision_before, outcomes.decision_after)
    for column in columns:  # of another kind, or beyond: a table that somebody made up
        if column.dtype.kind not in "iufb" or not ((column >= 0) & (column < MOST_CLASSES)).all():
            raise InvalidSample(
                "The labels and decisions of a classification are numbers of classes (0, 1, …), at "
                f"most {MOST_CLASSES} of them. These outcomes hold something else."
            )
    return max(2, 1 + max(int(column.max()) for column in columns))


def numerals(values: Iterable[float]) -> dict[float, str]:
    """Return numbers as text: whole ones in full, others with six digits or as many as it takes.

    Examples
    --------
    >>> numerals([1.0, 1000001, 1000002])
    {1.0: '1', 1000001: '1000001', 1000002: '1000002'}
    >>> sorted(numerals([0.1, 0.12345671, 0.12345672]).values())
    ['0.1', '0.12345671', '0.12345672']
    """
    known, names = dict.fromkeys(values), dict[float, str]()
    for digits in range(6, 18):
        for value in known:
            whole = isinstance(value, int) or (value.is_integer() and abs(value) < EXACT)
            names[value] = str(int(value)) if whole else f"{value:.{digits}g}"
        if len(set(names.values())) == len(known):
            break
    return names
