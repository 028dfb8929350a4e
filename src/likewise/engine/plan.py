"""The plan of an audit: everything that is settled before anybody is moved."""

import abc
import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import AuditData
from likewise.data.sources import PeopleSource, Source
from likewise.data.survey import Survey
from likewise.engine.certificate import Certificate
from likewise.engine.decide import Judgement
from likewise.engine.learning import groups_of
from likewise.engine.meeting import ModelHandle
from likewise.engine.move_stats import MoveStats, observed_ranges
from likewise.engine.occurring import Occurring
from likewise.engine.variants import DECIDES, Everyone, GroupOfPeople, Move, Variant
from likewise.fingerprints import of_json
from likewise.inference.ratio_test import RatioTest
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.metric_file import metric_fingerprint
from likewise.models.base import Model, targets
from likewise.models.performance import Performance
from likewise.outcomes import Outcomes
from likewise.scale.executors import Executor, Threads, block_size, processors
from likewise.settings import Settings
from likewise.settings.choices import digest
from likewise.statistics.frame import TraitLevels

LIBRARIES = ("likewise", "numpy")
"""Libraries in whose versions finished blocks may differ."""


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Model, people, metric, map and tests that go together.

    Parameters
    ----------
    model
        The model of this process, and how workers come by theirs.
    source, known
        Where the people are, and what is known of all of them.
    people
        The survey's sample of the people, as the model sees them; everyone if there are few.
    classes
        Label values in the order of the model's outputs; empty for a regression.
    metric, map
        Who counts as alike, and how the worst similar person is found.
    tests
        By name.
    decider
        Name of the test that decides.
    asked
        Names of the checks that were asked for; others do only what decides.
    same_sample
        Whether the metric was learned from these people, or from many of them.
    occurring
        Which values occur among all people.
    performance
        How good the model is, as far as the sample tells.
    rows
        Reads everyone's outcomes, once they have been moved, unless they are too many.
    """

    model: Model
    handle: ModelHandle
    source: Source
    known: Survey
    people: AuditData
    classes: tuple[Any, ...]
    metric: FairMetric
    map: UnfairMap
    tests: Mapping[str, RatioTest]
    decider: str
    asked: frozenset[str]
    same_sample: bool
    settings: Settings
    run: Executor
    occurring: Occurring
    performance: Performance
    certificate: Certificate | None = None
    rows: Callable[[], Outcomes] | None = None

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.known.n

    @property
    def task(self) -> str:
        """What the model does: classification or regression."""
        return self.model.card.task

    @functools.cached_property
    def levels(self) -> dict[str, TraitLevels]:
        """The levels of every protected trait."""
        return {name: TraitLevels.of(counts) for name, counts in self.known.traits.items()}

    @functools.cached_property
    def x(self) -> Float[np.ndarray, "m d"]:
        """Features of the sample."""
        return np.ascontiguousarray(self.people.x, dtype=np.float64)

    @functools.cached_property
    def ranges(self) -> Float[np.ndarray, "2 d"]:
        """The smallest and the largest value of every feature in the sample."""
        return observed_ranges(self.x)

    @functools.cached_property
    def y(self) -> Shaped[np.ndarray, " m"]:
        """Labels of the sample, as the loss wants them."""
        return targets(self.people.y, self.classes)

    @property
    def block_size(self) -> int:
        """People of a block."""
        return block_size(self.x.shape[1])

    @property
    def threads(self) -> int:
        """Threads that this process may use itself."""
        return self.run.workers or processors() if isinstance(self.run, Threads) else 1

    def drawn(self, size: int, stream: int) -> Int[np.ndarray, " m"]:
        """Return places in the sample of some people, drawn at random; everyone if they are few."""
        total = len(self.people)
        if total <= size:
            return np.arange(total)
        rng = np.random.default_rng([self.settings.seed, stream])
        return np.sort(rng.choice(total, size, replace=False))

    def sample(self, size: int, stream: int) -> AuditData:
        """Return people drawn at random, as they were read."""
        return self.known.sample.take(self.drawn(size, stream))

    def source_of(self, variant: Variant) -> Source:
        """Return where the people of a variant are."""
        if variant.sample is None:
            return self.source
        return PeopleSource.of(self.sample(*variant.sample))

    def variant(self, name: str, map: UnfairMap, **details: Any) -> Variant:
        """Return everyone moved by a map, under the metric; cross-fitted if so chosen."""
        if not self.settings.metric.crossfit:
            return Variant(name, (Move(self.metric, map),), **details)
        groups = self.groups
        assert groups is not None  # prepare has seen to it
        moves = tuple(
            Move(other, map.under(other), GroupOfPeople(groups, number, inside=True))
            for number, other in enumerate(self.metric.refits)
        )
        return Variant(name, moves, **details)

    def refitted(self, name: str, map: UnfairMap, number: int) -> Variant:
        """Return everyone moved under one refit of the metric.

        If it was learned from these people without one group, that group is not moved either.
        """
        other, groups = self.metric.refits[number], self.groups
        people = Everyone() if groups is None else GroupOfPeople(groups, number, inside=False)
        return Variant(name, (Move(other, map.under(other), people),))

    @functools.cached_property
    def groups(self) -> Int[np.ndarray, " n"] | None:
        """Everyone's group of the metric's sample; none if the metric was learned elsewhere."""
        return groups_of(self.metric, self.known, self.source, self.block_size)

    def identity(self, variants: Sequence[Variant]) -> dict[str, str | int]:
        """Return what finished blocks depend on, by name: others cannot be continued."""
        card, address = self.model.card, getattr(self.handle.given, "url", "")
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
        return {
            "settings": self.settings.hash,
            "model": card.fingerprint or f"{card.kind} {address}".strip(),
            "metric": metric_fingerprint(self.metric),
            "map": digest(self.map),
            "data": self.known.fingerprint,
            **self.source.identity(),
            "variants": of_json([variant.name for variant in variants if variant.sample is None]),
            "versions": ", ".join(versions),
            "rows of a block": self.block_size,
        }

    @functools.cached_property
    def deciding(self) -> Variant:
        """The variant that decides."""
        return self.variant(DECIDES, self.map, detailed=True)


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check found.

    Parameters
    ----------
    record
        Parts of the record by field: values of tuples and of dictionaries are added to those of
        other checks.
    judgement
        Another judgement in the place of the one that was read, if this check decides.
    reasons
        Why the result must not be used; none if it may.
    skipped
        What was left out, in words.
    warnings
        Sentences that the user should see.
    """

    record: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    judgement: Judgement | None = None
    reasons: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Check(abc.ABC):
    """A question beyond the verdict, answered by moving people in other ways.

    A check names the variants it needs, and reads what was added up over them. Its fields are its
    parameters. One that decides does what is needed for it even if nobody asked for the check.
    """

    name: ClassVar[str]

    def variants(self, plan: Plan) -> Iterable[Variant]:
        """Return the variants it needs."""
        return ()

    def more(self, stats: Mapping[str, MoveStats], plan: Plan) -> Iterable[Variant]:
        """Return further variants, now that these are known; asked until there are none."""
        return ()

    @abc.abstractmethod
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        """Return what the variants say."""
