"""What another package adds: a method, a metric and a check, each one class."""

import dataclasses
import functools
from typing import ClassVar

import numpy as np
import pyarrow as pa

from likewise.handle import as_seen
from likewise.loss import probabilities
from likewise.method import BoundMethod, Check, Finding, Method
from likewise.methods.metric import FairMetric
from likewise.probe import PRIMARY, Measured
from likewise.record import DecidedBy, TestRecord
from likewise.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class MeanScores(Method):
    """Compares the mean probabilities of two groups.

    Parameters
    ----------
    limit
        The largest ratio tolerated.
    """

    name: ClassVar[str] = "mean_scores"

    limit: float = 1.1

    def bind(self, setup):
        model, handle = setup.adapt()
        people = as_seen(model, setup.survey.sample)
        return BoundMeanScores(setup, setup.settings, self.limit, model, handle, people)


@dataclasses.dataclass(frozen=True, eq=False)
class BoundMeanScores(BoundMethod):
    """Mean outputs, made ready for a model and people."""

    kind: ClassVar[str] = "means"
    name: ClassVar[str] = "mean_scores"
    block_size: ClassVar[int] = 256
    performance: ClassVar[None] = None
    clusters: ClassVar[int] = 0

    setup: object
    settings: object
    limit: float
    model: object
    handle: object
    people: object

    @functools.cached_property
    def classes(self):
        return self.setup.classes(self.model)

    @property
    def canary(self):
        return lambda: self.model(self.people.x[:8])

    @property
    def probes(self):
        (attribute,) = self.people.protected
        return [
            MeanProbe(attribute, tuple(sorted(map(str, set(self.people.protected[attribute])))))
        ]

    def judge(self, stats):
        means = np.sort(stats[PRIMARY].sums / stats[PRIMARY].counts)
        ratio = float(means[-1] / means[0])
        name = "evidence" if ratio > self.limit else "inconclusive"
        test = TestRecord(
            test="ratio_of_means",
            method=self.name,
            interval_method="none",
            estimate=ratio,
            std_error=0.0,
            statistic=ratio,
            p_value=float(ratio <= self.limit),
            rejected=ratio > self.limit,
            interval=(ratio, ratio),
            lower_bound=ratio,
            upper_bound=ratio,
            delta=self.limit,
            alpha=self.settings.alpha,
            n=stats[PRIMARY].n,
            outcome=name,
        )
        decided = DecidedBy(test=test.test, interval="none", metric="fixed", claim="the group")
        return Verdict(name, record={"tests": {test.test: test}, "decided_by": decided})

    def describe(self):
        return [f"Mean scores of {self.n} people"]


@dataclasses.dataclass(frozen=True)
class GroupSums:
    """Sums by group."""

    counts: np.ndarray
    sums: np.ndarray

    @property
    def n(self):
        return int(self.counts.sum())

    def __add__(self, other):
        return GroupSums(self.counts + other.counts, self.sums + other.sums)


@dataclasses.dataclass(frozen=True)
class MeanProbe:
    """Adds up the probability of the last class by group."""

    attribute: str
    levels: tuple[str, ...]

    name: ClassVar[str] = PRIMARY
    subsample: ClassVar[None] = None
    common: ClassVar[dict] = {}

    def measure(self, model, block):
        people = as_seen(model, block.people)
        out = probabilities(model(people.x), model.card.output)[:, -1]
        member = people.protected[self.attribute].astype(str)[:, None] == np.array(self.levels)
        rows = pa.table({"row": people.row, "score": out})
        return Measured(GroupSums(member.sum(axis=0), (member * out[:, None]).sum(axis=0)), rows)


@dataclasses.dataclass(frozen=True)
class CityBlocks(FairMetric):
    """City blocks, squared."""

    scale: float = 1.0

    def squared_distance(self, x, x0):
        return self.scale * np.abs(x - x0).sum(axis=1) ** 2

    def gradient(self, x, x0):
        length = np.abs(x - x0).sum(axis=1, keepdims=True)
        return 2 * self.scale * length * np.sign(x - x0)


@dataclasses.dataclass(frozen=True)
class Counted(Check):
    """How many people there are, times a factor."""

    name: ClassVar[str] = "counted"

    times: float = 1.0

    def follow_up(self, stats, method, verdict):
        return [OfNobody()]

    def read(self, stats, method, verdict):
        return Finding({"diagnostics": {"counted": self.times * stats[PRIMARY].n}})


@dataclasses.dataclass(frozen=True)
class OfNobody:
    """Concerns nobody."""

    name: ClassVar[str] = "of nobody"
    subsample: ClassVar[None] = None
    common: ClassVar[dict] = {}

    def measure(self, model, block):
        return None
