"""One look at all rows before anybody is moved: bad values, classes, levels, and a sample.

What one worker saw of some rows and another of others add up, in any order.
"""

import dataclasses
import functools
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Shaped

from likewise.audit_data import AuditData, digests, joined, missing, person_columns
from likewise.fingerprints import CHUNK_ROWS, Hashes, hash_people, row_hashes, sketch_of

SAMPLE_SIZE = 10_000
"""People drawn at random for everything that has to see some of them before the rest."""

READ_ROWS = 16 * CHUNK_ROWS  # rows read at a time
TASK_ROWS = 8 * READ_ROWS  # rows that a worker surveys at a time
MAX_LABELS = 10_000  # different labels that are counted; more are measurements, not classes


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of people after reading them once.

    Parameters
    ----------
    sample, places
        Some of them at random, in row order (everybody if there are few), and their numbers
        among all rows of the source.
    labels
        How often each label occurs; of more than 10 000 different ones, the first 10 001.
    attributes
        By protected attribute, how often each value occurs.
    weights
        Smallest and largest weight; infinities without weights.
    dropped, left_out
        Rows left out on request, by reason; and their numbers, ascending.
    chunks
        Fingerprints of consecutive rows, by the number of their chunk.
    sketch
        Recognises these people elsewhere, in any order (`likewise.fingerprints.sketch_of`).
    clusters
        The clusters that people are in, sorted; none without a column for them.
    """

    n: int
    sample: AuditData
    places: Int[np.ndarray, " m"]
    labels: Counter[Any]
    attributes: Mapping[str, Counter[Any]]
    weights: tuple[float, float]
    dropped: Counter[str]
    left_out: Int[np.ndarray, " g"]
    chunks: Mapping[int, bytes]
    sketch: Hashes
    clusters: Shaped[np.ndarray, " c"]

    @classmethod
    def from_people(
        cls,
        people: AuditData,
        places: Int[np.ndarray, " n"],
        rows: range,
        drawn: Int[np.ndarray, " m"],
    ) -> "Survey":
        """Look at the people among some ``rows``, of whom those ``drawn`` join the sample."""
        chosen = np.flatnonzero(np.isin(places, drawn, assume_unique=True))
        weights = (np.inf, -np.inf)
        if people.weight is not None and len(people):
            weights = float(people.weight.min()), float(people.weight.max())
        return cls(
            n=len(people),
            sample=dataclasses.replace(people.take(chosen), dropped={}),
            places=places[chosen],
            labels=_labels(_counts(people.y)),
            attributes={n: _levels(c[~missing(c)]) for n, c in people.protected.items()},
            weights=weights,
            dropped=Counter(people.dropped),
            left_out=np.delete(np.arange(rows.start, rows.stop), places - rows.start),
            chunks=digests(people, places, rows),
            sketch=sketch_of(row_hashes(person_columns(people))),
            clusters=np.unique(np.zeros(0) if people.cluster is None else people.cluster),
        )

    def __add__(self, other: "Survey") -> "Survey":
        places = np.concatenate([self.places, other.places])
        return Survey(
            n=self.n + other.n,
            sample=joined([self.sample, other.sample]).take(np.argsort(places)),
            places=np.sort(places),
            labels=_labels(self.labels + other.labels),
            attributes={
                name: _in_order(self.attributes[name] + other.attributes[name])
                for name in self.attributes
            },
            weights=(
                min(self.weights[0], other.weights[0]),
                max(self.weights[1], other.weights[1]),
            ),
            dropped=_in_order(self.dropped + other.dropped),
            left_out=np.sort(np.concatenate([self.left_out, other.left_out])),
            chunks={**self.chunks, **other.chunks},
            sketch=sketch_of(self.sketch, other.sketch),
            clusters=np.union1d(self.clusters, other.clusters),
        )

    @property
    def weighted(self) -> bool:
        """Whether weights differ; equal ones count as none."""
        return self.weights[0] < self.weights[1]

    @property
    def gaps(self) -> dict[str, int]:
        """How many people miss each protected attribute."""
        return {name: self.n - known.total() for name, known in self.attributes.items()}

    @property
    def repeated(self) -> int:
        """How many rows repeat another in every column; estimated if there are many rows."""
        known = self.sketch
        if len(self.sample) == self.n:
            known = row_hashes(person_columns(self.sample))
        return round(self.n * (1 - len(np.unique(known)) / len(known)))

    @functools.cached_property
    def fingerprint(self) -> str:
        """The fingerprint of all people, however their rows are cut into files."""
        return hash_people(person_columns(self.sample), self.n, self.chunks)


def drawn_rows(n: int, seed: int, size: int = SAMPLE_SIZE) -> Int[np.ndarray, " m"]:
    """Return the rows, of ``n``, whose people are in the sample; all if there are few."""
    rng = np.random.default_rng([seed, 8])
    return np.sort(rng.choice(n, min(size, n), replace=False))


@dataclasses.dataclass(frozen=True)
class SurveyJob:
    """Surveys ranges of rows, in whatever process it finds itself in.

    ``seed`` and ``size`` say who is drawn for the sample, and how many at most.
    """

    source: Any
    seed: int = 0
    size: int = SAMPLE_SIZE

    def begin(self) -> Callable[[range], Survey]:
        """Draw the rows of the sample, once a worker."""
        drawn = drawn_rows(self.source.n_rows, self.seed, self.size)

        def look(rows: range) -> Survey:
            people, places = self.source.rows(rows.start, rows.stop)
            return Survey.from_people(people, places, rows, drawn)

        return lambda task: total(map(look, cut(task, READ_ROWS)))


def cut(rows: range, size: int) -> list[range]:
    """Return consecutive ranges of so many numbers; the last may hold fewer."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def total(surveys: Iterator[Survey]) -> Survey:
    """Add up what was seen of different rows."""
    return functools.reduce(operator.add, surveys)


def _counts(column: Any) -> Counter[Any]:
    """Count values; Arrow is quicker than a loop over Python objects."""
    try:
        counted = pa.array(column).value_counts()
    except pa.ArrowException:  # of mixed types
        counted = pa.array(column.astype(str)).value_counts()
    values, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
    return Counter(dict(zip(values, counts, strict=True)))


def _labels(counts: Counter[Any]) -> Counter[Any]:
    return Counter(dict(itertools.islice(_in_order(counts).items(), MAX_LABELS + 1)))


def _levels(column: Any) -> Counter[Any]:
    """Count levels; whole numbers are read as floats where one of their part is missing."""
    counts = {
        int(value) if isinstance(value, float) and value.is_integer() else value: count
        for value, count in _counts(column).items()
    }
    return _in_order(Counter(counts))


def _in_order(counts: Counter[Any]) -> Counter[Any]:
    """Sort by value, so that nothing depends on who was read first."""

    def key(value: Any) -> tuple[str, Any]:
        return "" if isinstance(value, int | float) else type(value).__name__, value

    return Counter({value: counts[value] for value in sorted(counts, key=key)})
