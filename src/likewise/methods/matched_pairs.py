"""Matched pairs: whether comparable people of another group get a different decision.

Each person keeps the columns that may matter and takes all others from comparable people: of their
own group, and of another. Rates, their difference and their ratio are compared, the attribute
redrawn given the columns that may matter shows and removes what matching leaves.
"""

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.data.notes import data_notes, pool_notes
from likewise.data.source import PeopleSource, Source, read_pool
from likewise.data.survey import Survey, SurveyJob, joined, total
from likewise.errors import InvalidData, InvalidSettings, StatisticalWarning
from likewise.loss import CustomLoss, decide, probabilities
from likewise.method import BoundMethod, Method
from likewise.methods.matching import CALIPER, MOST_NEIGHBOURS, Covariates, uniforms
from likewise.methods.pair_stats import (
    PARTS,
    ClusterPropensity,
    Comparisons,
    LocatedPeople,
    PairDesign,
    PairProbe,
    PairSums,
    PeopleBlock,
    RedrawSums,
    random_halves,
)
from likewise.methods.redraws import REDRAWS
from likewise.methods.reference_sample import (
    CovariateCoding,
    ReferenceSample,
    check_columns,
    group_codes,
    group_name,
    groups_of,
    plain,
    standardised_differences,
)
from likewise.models import check
from likewise.models.adapt import NO_COLUMNS, TableModel, table_model
from likewise.models.base import Model, targets
from likewise.models.performance import Performance
from likewise.models.scored import ScoredTable
from likewise.probe import PRIMARY, Block, Measured, Probe, Subsample
from likewise.record import (
    AttributeUse,
    ChangeHistogram,
    ColumnBalance,
    ComparedPerson,
    FoldInfluence,
    MatchedPairsRecord,
    Measure,
    RateComparison,
    ShownMeasure,
)
from likewise.settings import Settings
from likewise.setup import Setup
from likewise.stats.decision import Assessment, Decision, DecisionRule, RowDecision, assess
from likewise.stats.decision import decide as decide_rows
from likewise.stats.groups import Quantity, Share
from likewise.stats.groups import ratio as share_ratio
from likewise.stats.sums import Additive
from likewise.verdict import Verdict

MOST_HALVED = 200_000
"""People up to whom each half is the other's reference sample; of more, some are drawn for it."""

DRAWN = 100_000
"""People drawn as the reference sample where there are more."""

BLOCK = 1040
"""People of a block; each is asked about in dozens of rows."""

KEPT = 20
"""Most affected people kept of each comparison."""

FEWEST_SHOWN = 4
"""People of a comparison who are shown, even if none of them gains."""

BINS = 41
"""Of changes, an odd number: people whose rate stays stand in the middle."""

FOLDS = 20
"""Folds of people and pairs whose influence the record holds, to compare two models by."""

LIMITS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0)
"""Limits at which the record holds p-values, so that it can be read at another limit."""


@final
@dataclasses.dataclass(frozen=True)
class MatchedPairs(Method):
    """Compares people with real people of another group who are alike in what may matter.

    Parameters
    ----------
    measure
        What is compared: ``decision`` (the rarer outcome of two classes, or each class against the
        rest), ``score`` (the mean probability) or ``prediction`` (of a regression); auto takes
        decisions of a classifier and predictions of a regression.
    limit
        For predictions: the largest difference tolerated, in units of the target.
    ratio
        For predictions that are all positive: decide on their ratio instead.
    redraws
        How often the attribute is redrawn.
    """

    name: ClassVar[str] = "matched_pairs"

    measure: Literal["auto", "decision", "score", "prediction"] = "auto"
    limit: float | None = None
    ratio: bool = False
    redraws: int = REDRAWS

    def __post_init__(self) -> None:
        if not 10 <= self.redraws <= 999:
            raise InvalidSettings(
                f"The attribute is redrawn 10 to 999 times, not {self.redraws} (method.redraws)."
            )
        if self.limit is not None and not self.limit > 0:
            raise InvalidSettings(
                f"The limit on a difference is positive, not {self.limit:g} (method.limit)."
            )

    @override
    def bind(self, setup: Setup) -> "BoundMatchedPairs":
        return bind_matched_pairs(self, setup)


@dataclasses.dataclass(frozen=True, eq=False)
class Measures:
    """What is measured of the model's answers, one column each; the first ones decide.

    Parameters
    ----------
    names
        Of the columns: ``decision``, ``score``, ``prediction``, ``error``, ``loss``.
    outcomes
        Of the columns that are about one class: its name.
    deciding
        How many columns decide.
    """

    names: tuple[str, ...]
    outcomes: tuple[str, ...]
    deciding: int
    classes: tuple[Any, ...]
    labelled: bool

    def of_outputs(
        self, model: Any, out: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n v"]:
        """Return the values of all measures for people with targets ``y``."""
        card = model.card
        columns: list[np.ndarray] = []
        if card.task == "regression":
            columns = [out[:, 0]]
        else:
            decided = decide(out, card.output, card.threshold)
            p = probabilities(out, card.output)
            for name, outcome in zip(self.names, self.outcomes, strict=True):
                if name in ("decision", "score"):
                    place = [str(value) for value in self.classes].index(outcome)
                    columns.append(decided == place if name == "decision" else p[:, place])
            if self.labelled:
                columns.append(decided != y)
        if self.labelled:
            columns.append(model.loss(out, y))
        return np.column_stack(columns).astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class Pairing:
    """One unordered pair of groups of one attribute, with the probes that compare them."""

    attribute: str
    groups: tuple[str, str]
    design: PairDesign
    comparison: PairProbe
    redraws: tuple[PairProbe, ...]

    @property
    def key(self) -> str:
        """Its name among the sums."""
        return _key(self.attribute, *self.groups)


def _key(attribute: str, first: str, second: str) -> str:
    return f"{attribute}\t{first}\t{second}"


@dataclasses.dataclass(frozen=True, eq=False)
class GroupSample:
    """A seeded random sample of every group, for comparisons beside the one that decides.

    Parameters
    ----------
    seed, role
        What it is drawn by; people and reference sample are drawn apart.
    share
        By attribute, of each of its groups.
    half
        0 or 1: drawn from one random half alone.
    """

    seed: int
    role: str
    share: Mapping[str, Float[np.ndarray, " g"]]
    half: int | None = None

    def codes(
        self, attribute: str, codes: Int[np.ndarray, " n"], units: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """Return the groups of rows; −1 for those that are not drawn. Units stay together."""
        place = uniforms((self.seed, attribute, "group sample", self.role), units)
        place -= 0.5 * (self.half or 0)
        drawn = (place >= 0) & (place < self.share[attribute][codes])
        return np.where((codes >= 0) & drawn, codes, -1)


@dataclasses.dataclass(frozen=True, eq=False)
class PairContext:
    """What all probes of one audit share, in every worker.

    Parameters
    ----------
    pool
        The reference sample's columns.
    keep
        The columns that may matter, which people keep.
    coding
        How these become covariates.
    measures
        What is measured.
    groups, pool_groups
        By attribute, the names of its groups, and their codes in the reference sample.
    people
        A few of the people: they say which columns the model reads, and their types.
    clusters
        All cluster values of the audited people, sorted, if clusters are declared.
    left_out
        Positions of people who are the reference sample and are not audited.
    variant, whole
        The name of another choice of columns, and the context of the one that decides, with which
        it shares everything that is prepared.
    sampled
        Who is compared, if not everyone.
    """

    pool: pa.Table
    keep: tuple[str, ...]
    coding: CovariateCoding
    measures: Measures
    groups: Mapping[str, tuple[str, ...]]
    pool_groups: Mapping[str, Int[np.ndarray, " m"]]
    people: AuditData
    clusters: Shaped[np.ndarray, " c"] | None = None
    left_out: Int[np.ndarray, " m"] | None = None
    variant: str = ""
    whole: "PairContext | None" = None
    sampled: GroupSample | None = None

    def asked(self, model: Model, block: Block) -> "AskedBlock":
        """Return a block made ready to be asked about; all probes share it."""
        return block.once(("asked", self.variant), lambda: AskedBlock(self, model, block))

    @functools.cached_property
    def _tables(self) -> dict[int, tuple[TableModel, Any]]:
        return {}

    def prepared_pool(self, model: Model) -> tuple[TableModel, Any]:
        """Return the model on a table's columns, and the reference sample prepared for it."""
        known = self._tables.get(id(model))
        if known is None:
            asked = table_model(model, self.people)
            known = self._tables[id(model)] = asked, asked.prepare(self.pool)
        return known

    @functools.cached_property
    def pool_covariates(self) -> Covariates:
        """The columns that may matter of the reference sample."""
        return self.coding.covariates(self.pool)

    def __getstate__(self) -> dict[str, Any]:
        own = {field.name for field in dataclasses.fields(self)}
        return {name: value for name, value in self.__dict__.items() if name in own}


class AskedBlock:
    """People of a block, prepared for the model, with their covariates and groups."""

    def __init__(self, context: PairContext, model: Model, block: Block) -> None:
        if context.whole is None:
            self._prepare(context, model, block)
        else:
            vars(self).update(vars(context.whole.asked(model, block)))
        self.context = context
        self.covariates = context.coding.covariates(self.table)

    def _prepare(self, context: PairContext, model: Model, block: Block) -> None:
        people = block.people.in_columns()
        positions = block.positions
        if context.left_out is not None:
            keep = ~np.isin(positions, context.left_out, assume_unique=True)
            people, positions = people.take(keep), positions[keep]
        assert people.table is not None
        self.model, self.people, self.positions = model, people, positions
        self.table = plain(people.table)
        self.asked, self.pool = context.prepared_pool(model)
        self.rows = self.asked.prepare(self.table)
        self.y = targets(people.y, context.measures.classes) if context.measures.labelled else None
        self.cluster = None
        if context.clusters is not None and people.cluster is not None:
            self.cluster = np.searchsorted(context.clusters, people.cluster)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def fold(self) -> Int[np.ndarray, " n"]:
        """The fold of everyone: by position, or by cluster."""
        return (self.positions if self.cluster is None else self.cluster) % FOLDS

    def targets_of(self, i: Int[np.ndarray, " q"]) -> Shaped[np.ndarray, " q"]:
        """Return the targets of people, or zeros without labels."""
        return np.zeros(len(i), dtype=np.int64) if self.y is None else self.y[i]

    def ask(
        self,
        i: Int[np.ndarray, " q"],
        j: Int[np.ndarray, " q"],
        by_column: Mapping[str, Int[np.ndarray, " q"]] = NO_COLUMNS,
    ) -> Float[np.ndarray, "q v"]:
        """Return the measures of people i with the remaining columns of reference rows j.

        For some columns, ``by_column`` says which other rows they are of.
        """
        out = self.asked.substitute(self.rows, i, self.pool, j, self.context.keep, by_column)
        return self.context.measures.of_outputs(self.model, out, self.targets_of(i))

    @functools.cached_property
    def outputs(self) -> Float[np.ndarray, "n k"]:
        """The model's outputs for people as they are."""
        return self.asked.outputs(self.rows)

    @functools.cached_property
    def decided(self) -> Int[np.ndarray, " n"]:
        """The model's decisions about people as they are."""
        card = self.model.card
        return decide(self.outputs, card.output, card.threshold)

    @functools.cached_property
    def values(self) -> Float[np.ndarray, "n v"]:
        """The measures of people as they are."""
        everyone = np.arange(len(self))
        return self.context.measures.of_outputs(self.model, self.outputs, self.targets_of(everyone))

    @property
    def weight(self) -> Float[np.ndarray, " n"]:
        """The weight of everyone, 1 without weights."""
        return np.ones(len(self)) if self.people.weight is None else self.people.weight

    def group(self, attribute: str) -> Int[np.ndarray, " n"]:
        """Return the code of everyone's group; −1 for those who are not compared."""
        codes = group_codes(self.context.groups[attribute], self.people.protected[attribute])
        if self.context.sampled is None:
            return codes
        units = self.positions if self.cluster is None else self.cluster
        return self.context.sampled.codes(attribute, codes, units)

    def located(self, block: Block, pairing: Pairing) -> LocatedPeople:
        """Return where people are among the pairs of two groups."""
        return block.once(
            ("located", self.context.variant, pairing.key),
            lambda: pairing.design.locate(
                PeopleBlock(
                    positions=self.positions,
                    covariates=self.covariates,
                    group=self.group(pairing.attribute),
                    weight=self.people.weight,
                    cluster=self.cluster,
                )
            ),
        )

    def plan(self, block: Block, pairing: Pairing) -> Comparisons:
        """Return who is compared through which pairs of two groups."""
        return block.once(
            ("plan", self.context.variant, pairing.key),
            lambda: pairing.comparison.plan(self.located(block, pairing)),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class MostChanged:
    """The people of one direction whose rate changes most, with their closest pair.

    Parameters
    ----------
    change
        swapped − own, largest first.
    row, own, swapped
        Row in the source, and the person's mean rates.
    own_member, other_member
        Rows of the reference sample.
    """

    change: Float[np.ndarray, " m"]
    row: Int[np.ndarray, " m"]
    position: Int[np.ndarray, " m"]
    own: Float[np.ndarray, " m"]
    swapped: Float[np.ndarray, " m"]
    own_member: Int[np.ndarray, " m"]
    other_member: Int[np.ndarray, " m"]

    def __add__(self, other: "MostChanged") -> "MostChanged":
        both = [
            np.concatenate([getattr(self, f.name), getattr(other, f.name)])
            for f in dataclasses.fields(self)
        ]
        return MostChanged(*both).largest()

    def take(self, chosen: Shaped[np.ndarray, " c"]) -> "MostChanged":
        """Return some of them."""
        return MostChanged(*(getattr(self, f.name)[chosen] for f in dataclasses.fields(self)))

    def largest(self) -> "MostChanged":
        """Return those with the largest changes, up or down."""
        return self.take(np.lexsort((self.row, -np.abs(self.change)))[:KEPT])


@dataclasses.dataclass(frozen=True, eq=False)
class PairingStats(Additive):
    """Sums of one pair of groups: the comparison, and what is shown of each direction.

    Parameters
    ----------
    up, down, actual
        Weighted rises and falls of people's measures, and the measures of people as they are, by
        part as in ``sums``.
    folds
        By part and fold of people: w, w other and w own.
    """

    sums: PairSums
    up: Float[np.ndarray, "4 v"]
    down: Float[np.ndarray, "4 v"]
    actual: Float[np.ndarray, "4 v"]
    folds: Float[np.ndarray, "4 f v 3"]
    histogram: Float[np.ndarray, "2 b"]
    most: tuple[MostChanged, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class GroupTable(Additive):
    """Raw sums of one attribute by group.

    Parameters
    ----------
    values
        w, and w times every measure.
    decisions
        By label and decision: number, weight, squared and cubed weight of people.
    flipped
        Number of people, and of those whose decision changes if the attribute alone is flipped.
    """

    values: Float[np.ndarray, "g w"]
    decisions: Float[np.ndarray, "g c c 4"]
    flipped: Int[np.ndarray, " 2"]


@dataclasses.dataclass(frozen=True, eq=False)
class PairStats(Additive):
    """Everything the primary probe adds up.

    Parameters
    ----------
    pairings, groups
        Comparisons by pair of groups, and raw tables by attribute.
    everyone
        By fold of people: weights, and weighted measures of everyone as they are.
    """

    n: int
    pairings: Mapping[str, PairingStats]
    groups: Mapping[str, GroupTable]
    everyone: Float[np.ndarray, "f w"]


@dataclasses.dataclass(frozen=True, eq=False)
class RedrawStats(Additive):
    """Sums of one redraw, by pair of groups."""

    n: int
    pairings: Mapping[str, RedrawSums]


@dataclasses.dataclass(frozen=True, eq=False)
class ComparisonProbe:
    """The comparison of everyone through their nearest pairs."""

    context: PairContext
    pairings: tuple[Pairing, ...]
    name: str = PRIMARY
    subsample: Subsample | None = None
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reads: tuple[str, ...] = ()

    def measure(self, model: Model, block: Block) -> Measured | None:
        """Ask about everyone of a block, as they are and through their pairs."""
        asked = self.context.asked(model, block)
        if not len(asked):
            return None
        stats, rows = {}, []
        for pairing in self.pairings:
            people = asked.located(block, pairing)
            stats[pairing.key], table = self._compared(block, asked, people, pairing)
            rows.append(table)
        groups = {name: self._group_table(asked, name) for name in self.context.groups}
        table = pa.concat_tables(rows) if self.name == PRIMARY and rows else None
        w = asked.weight[:, None]
        everyone = _summed(asked.fold, FOLDS, np.hstack([w, w * asked.values]))
        return Measured(PairStats(len(asked), stats, groups, everyone), table)

    def _compared(
        self, block: Block, asked: AskedBlock, people: LocatedPeople, pairing: Pairing
    ) -> tuple[PairingStats, pa.Table]:
        probe, plan = pairing.comparison, asked.plan(block, pairing)
        own, other = plan.answers(asked.ask, probe.measures)
        side, w = plan.part // 2, plan.weight[:, None]
        own_mean, other_mean = plan.mean(own), plan.mean(other)
        change = (other_mean - own_mean)[:, 0]
        edges = np.linspace(-1, 1, BINS + 1)
        most = MostChanged(
            change=change,
            row=asked.people.row[plan.people],
            position=asked.positions[plan.people],
            own=own_mean[:, 0],
            swapped=other_mean[:, 0],
            own_member=plan.own[plan.start],
            other_member=plan.other[plan.start],
        )
        folds = np.zeros((PARTS, FOLDS, probe.measures, 3))
        terms = [np.broadcast_to(w, own_mean.shape), w * other_mean, w * own_mean]
        np.add.at(folds, (plan.part, asked.fold[plan.people]), np.stack(terms, axis=2))
        stats = PairingStats(
            sums=probe.sums(plan, own, other, weighted=people.weight is not None),
            up=_summed(plan.part, PARTS, w * plan.mean(np.maximum(other - own, 0.0))),
            down=_summed(plan.part, PARTS, w * plan.mean(np.maximum(own - other, 0.0))),
            actual=_summed(plan.part, PARTS, w * asked.values[plan.people]),
            histogram=np.stack(
                [
                    np.histogram(change[side == d], edges, weights=plan.weight[side == d])[0]
                    for d in (0, 1)
                ]
            ),
            folds=folds,
            most=tuple(most.take(side == d).largest() for d in (0, 1)),
        )
        return stats, self._rows(asked, plan, pairing, side, own_mean, other_mean)

    def _rows(
        self,
        asked: AskedBlock,
        plan: Comparisons,
        pairing: Pairing,
        side: Int[np.ndarray, " p"],
        own: Float[np.ndarray, "p v"],
        other: Float[np.ndarray, "p v"],
    ) -> pa.Table:
        """Return one row a person and comparison: rates as they are, own and swapped."""
        first, second = pairing.groups
        names = np.array([first, second])
        measures = self.context.measures
        columns: dict[str, Any] = {
            "row": asked.people.row[plan.people],
            "attribute": pa.array([pairing.attribute] * len(side), pa.string()),
            "group": pa.array(names[side], pa.string()),
            "other": pa.array(names[1 - side], pa.string()),
            "weight": plan.weight,
        }
        as_is = asked.values[plan.people]
        for v, (name, outcome) in enumerate(zip(measures.names, measures.outcomes, strict=True)):
            label = column_name(name, outcome)
            columns[label] = as_is[:, v]
            columns[f"{label}: own"] = own[:, v]
            columns[f"{label}: swapped"] = other[:, v]
        return pa.table(columns)

    def _group_table(self, asked: AskedBlock, attribute: str) -> GroupTable:
        code = asked.group(attribute)
        known = np.flatnonzero(code >= 0)
        code, w = code[known], asked.weight[known]
        size, classes = len(self.context.groups[attribute]), len(self.context.measures.classes)
        decisions = np.zeros((size, classes, classes, 4))
        flipped = np.zeros(2, dtype=np.int64)
        if asked.model.card.task != "regression":
            decided = asked.decided[known]
            label = decided if asked.y is None else asked.y[known]
            powers = np.stack([np.ones(len(w)), w, w**2, w**3], axis=1)
            np.add.at(decisions, (code, label, decided), powers)
            if attribute in self.reads:
                flipped = self._flipped(asked, attribute, known, code)
        values = np.hstack([w[:, None], w[:, None] * asked.values[known]])
        return GroupTable(_summed(code, size, values), decisions, flipped)

    def _flipped(
        self,
        asked: AskedBlock,
        attribute: str,
        known: Int[np.ndarray, " k"],
        code: Int[np.ndarray, " k"],
    ) -> Int[np.ndarray, " 2"]:
        """Count people, and those whose decision changes when the attribute alone is flipped."""
        context = self.context
        size = len(context.groups[attribute])
        pool_code = context.pool_groups[attribute]
        example = np.array([int(np.argmax(pool_code == g)) for g in range(size)])
        keep = [name for name in asked.asked.columns if name != attribute]
        changed = np.zeros(len(known), dtype=bool)
        for shift in range(1, size):
            out = asked.asked.substitute(
                asked.rows, known, asked.pool, example[(code + shift) % size], keep
            )
            card = asked.model.card
            changed |= decide(out, card.output, card.threshold) != asked.decided[known]
        return np.array([len(known), changed.sum()])


@dataclasses.dataclass(frozen=True, eq=False)
class RedrawProbe:
    """The comparison with the attribute redrawn given the columns that may matter."""

    context: PairContext
    pairings: tuple[Pairing, ...]
    number: int
    subsample: Subsample | None = None
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name among the sums."""
        return f"redraw {self.number}"

    def measure(self, model: Model, block: Block) -> Measured | None:
        """Ask about the people of a block who are drawn for this redraw."""
        asked = self.context.asked(model, block)
        if not len(asked):
            return None
        sums = {}
        for pairing in self.pairings:
            people = asked.located(block, pairing)
            found = pairing.redraws[self.number].measure(asked.ask, people)
            assert isinstance(found, RedrawSums)
            sums[pairing.key] = found
        return Measured(RedrawStats(len(asked), sums))


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of a column that occur, sorted."""

    n: int
    found: Shaped[np.ndarray, " c"]

    def __add__(self, other: "Values") -> "Values":
        return Values(self.n + other.n, np.union1d(self.found, other.found))


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterProbe:
    """Which clusters the people are in."""

    name: str = "clusters"
    subsample: Subsample | None = None
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def measure(self, model: Model, block: Block) -> Measured:
        """Return the clusters of a block."""
        assert block.people.cluster is not None
        return Measured(Values(len(block.people), np.unique(block.people.cluster)))


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterStats(Additive):
    """Propensities by cluster of people, by pair of groups."""

    n: int
    pairings: Mapping[str, ClusterPropensity]


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterPropensityProbe:
    """Mean propensities of clusters, for attributes that are constant within them."""

    context: PairContext
    pairings: tuple[Pairing, ...]
    subsample: Subsample | None = None
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name among the sums."""
        return f"propensities of clusters {self.context.variant}".strip()

    def measure(self, model: Model, block: Block) -> Measured | None:
        """Sum the propensities of a block's people by cluster."""
        asked = self.context.asked(model, block)
        if not len(asked):
            return None
        found = {
            pairing.key: ClusterPropensity.from_people(asked.located(block, pairing))
            for pairing in self.pairings
        }
        return Measured(ClusterStats(len(asked), found))


def _summed(
    code: Int[np.ndarray, " n"], size: int, values: Float[np.ndarray, "n v"]
) -> Float[np.ndarray, "c v"]:
    """Return the sums of values by code."""
    # Without rows, bincount gives integers.
    sums = [np.bincount(code, column, size).astype(np.float64) for column in values.T]
    return np.stack(sums, axis=1)


RowKey = tuple[str, int, int]
"""A decided row: key of the pairing, direction, measure."""


@dataclasses.dataclass(frozen=True, eq=False)
class BoundMatchedPairs(BoundMethod):
    """Matched pairs made ready for a model, people and a reference sample.

    Parameters
    ----------
    model, handle
        The model of this process, and how workers come by theirs.
    people
        The survey's sample of the people, in original columns.
    pool
        The reference sample.
    pairings
        One for every unordered pair of groups of an attribute.
    favourable
        Place of the favourable decision among the classes, if one is named.
    reads
        Protected attributes that the model reads.
    notes
        What stands out in the people and the reference sample, one line each.
    """

    kind: ClassVar[str] = "matched_pairs"

    method: MatchedPairs
    setup: Setup
    model: Model
    handle: Any
    people: AuditData
    classes: tuple[Any, ...]
    settings: Settings
    performance: Performance | None
    context: PairContext
    pool: ReferenceSample
    columns: tuple[str, ...]
    pairings: tuple[Pairing, ...] = ()
    favourable: int | None = None
    reads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    block_size: int = BLOCK
    redraws: int = REDRAWS
    most_neighbours: int = MOST_NEIGHBOURS

    @property
    @override
    def name(self) -> str:
        return "matched_pairs"

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Where the people are."""
        return self.setup.source

    @property
    def survey(self) -> Survey:
        """What is known of all people."""
        return self.setup.survey

    @property
    def n(self) -> int:  # type: ignore[override]
        """How many people there are."""
        return self.survey.n

    @property
    def clusters(self) -> int:
        """How many clusters the people are in; 0 without any."""
        return 0 if self.context.clusters is None else len(self.context.clusters)

    @functools.cached_property
    def pool_clusters(self) -> Int[np.ndarray, " m"] | None:
        """The numbers of the reference sample's clusters, if clusters are declared."""
        cluster = self.pool.people.cluster
        return None if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)

    @functools.cached_property
    def halves(self) -> Bool[np.ndarray, " m"] | None:
        """Without a reference sample, who is in the second half; each is the other's."""
        if self.pool.given or self.pool.positions is not None:
            return None
        return random_halves(self.settings.seed, len(self.pool), self.pool_clusters)

    @property
    def scored(self) -> bool:
        """Whether answers are looked up in a table, and no model can be asked."""
        return isinstance(self.setup.opened, ScoredTable)

    @property
    def remaining(self) -> tuple[str, ...]:
        """The columns that the model reads and that people do not keep."""
        return tuple(name for name in self.columns if name not in self.context.keep)

    def sample(self, size: int, stream: int) -> AuditData:
        """Return people drawn at random, as they were read."""
        return self.setup.sample(size, stream)

    def sampled(
        self,
        variant: str,
        *,
        people: int,
        pool: int,
        keep: tuple[str, ...] | None = None,
        half: int | None = None,
        redraws: int = 0,
        neighbours: int = MOST_NEIGHBOURS,
    ) -> "BoundMatchedPairs":
        """Return the method on samples, without pairs (`find_pairs`): for checks, never to decide.

        Parameters
        ----------
        variant
            A name for it.
        people, pool
            About how many people of each group, audited and of the reference sample, are compared;
            without a reference sample, ``pool`` is for both.
        keep
            Other columns that may matter.
        half
            0 or 1: one random half of all people, and of the reference sample, is left aside.
        redraws, neighbours
            How often the attribute is redrawn, and through how many pairs at most.
        """
        context, seed = self.context, self.settings.seed
        assert self.people.table is not None
        most = 1.0 if half is None else 0.5
        of_pool: dict[str, np.ndarray] = {}
        of_people: dict[str, np.ndarray] = {}
        for name, codes in context.pool_groups.items():
            members = np.bincount(codes[codes >= 0], minlength=len(context.groups[name]))
            of_pool[name] = np.minimum(pool / np.maximum(members, 1), most)
            of_people[name] = np.minimum(people / np.maximum(_counts(self, name), 1), most)
        drawn = GroupSample(seed, "pool", of_pool, half)
        whole = self.halves is not None
        rows = np.arange(len(self.pool)) if self.pool_clusters is None else self.pool_clusters
        changed: dict[str, Any] = {}
        if keep is not None:
            coding = CovariateCoding.fit(keep, self.pool.table, plain(self.people.table))
            changed = {"keep": keep, "coding": coding}
        context = dataclasses.replace(
            context,
            pool_groups={n: drawn.codes(n, c, rows) for n, c in context.pool_groups.items()},
            variant=variant,
            whole=context,
            sampled=drawn if whole else GroupSample(seed, "people", of_people, half),
            **changed,
        )
        return dataclasses.replace(
            self, context=context, pairings=(), redraws=redraws, most_neighbours=neighbours
        )

    def located(self, row: RateComparison) -> tuple[Pairing, int, int]:
        """Return the pairing, the direction and the measure that a comparison is about."""
        pairing = next(
            p
            for p in self.pairings
            if p.attribute == row.attribute and {row.group, row.other} == set(p.groups)
        )
        outcomes = self.context.measures.outcomes[: self.context.measures.deciding]
        about = row.outcome.removeprefix("not ")
        measure = next((k for k, name in enumerate(outcomes) if name == about), 0)
        return pairing, pairing.groups.index(row.group), measure

    @property
    def canary(self) -> Callable[[], Float[np.ndarray, "m k"]]:
        """Asks the model about a few people; again when all is done."""
        table = self.people.table
        assert table is not None
        places = np.unique(np.linspace(0, len(self.people) - 1, 16).astype(np.int64))
        some = plain(table.take(pa.array(places)))
        asked, _ = self.context.prepared_pool(self.model)
        return lambda: asked(some)

    @functools.cached_property
    def primary(self) -> ComparisonProbe:
        """The probe that decides."""
        return ComparisonProbe(self.context, self.pairings, reads=self.reads)

    @property
    @override
    def probes(self) -> Sequence[Probe]:
        redraws = [RedrawProbe(self.context, self.pairings, b) for b in range(self.redraws)]
        return [self.primary, *redraws]

    def rule(self, measure: int) -> DecisionRule:
        """Return what a comparison of one measure is decided by."""
        name, settings = self.context.measures.names[measure], self.settings
        if name == "prediction":
            kind: Any = "ratio" if self.method.ratio else "difference"
            return DecisionRule(
                settings.delta, settings.alpha, kind, self.method.limit, binary=False
            )
        return DecisionRule(settings.delta, settings.alpha, "rate", binary=name == "decision")

    def assessed(
        self, stats: PairStats, redraws: Sequence[RedrawStats], measures: Iterable[int]
    ) -> dict[RowKey, Assessment]:
        """Return every comparison, tested by itself."""
        found = {}
        for pairing, direction, measure in itertools.product(self.pairings, (0, 1), measures):
            sums = stats.pairings[pairing.key].sums
            compared = sums.compared(
                direction,
                measure,
                [redraw.pairings[pairing.key] for redraw in redraws],
                unit_interval=self.context.measures.names[measure] != "prediction",
                undecided=pairing.design.undecided,
            )
            found[pairing.key, direction, measure] = assess(compared, self.rule(measure))
        return found

    @override
    def judge(self, stats: Mapping[str, Any]) -> Verdict:
        primary: PairStats = stats[PRIMARY]
        redraws = [stats[f"redraw {b}"] for b in range(self.redraws)]
        rows = self.assessed(primary, redraws, range(self.context.measures.deciding))
        decision = decide_rows(rows)
        record = build_pairs_record(self, primary, redraws, decision)
        reason = record.leading.reason if decision.outcome == "inconclusive" else ""
        parts = {
            "matched_pairs": record,
            "rows": {"n": primary.n},
            "measures": group_measures(self, primary),
            "notes": self.notes,
        }
        return Verdict(decision.outcome, reason, record=parts, detail=decision)

    @override
    def describe(self) -> list[str]:
        neighbours = [p.comparison.count for p in self.pairings]
        calls = 2 * self.n * max(neighbours, default=0) * len(self.pairings)
        pairs = ", ".join(
            f"{p.comparison.pairs:,} {p.attribute} {p.groups[0]} / {p.groups[1]}"
            for p in self.pairings
        )
        return [
            f"Model: {self.model.card.kind}, reads {len(self.columns)} columns",
            f"People: {self.n:,} from {self.source.name}",
            f"Reference sample: {len(self.pool):,} from {self.pool.name}",
            f"May matter: {', '.join(self.context.keep)}",
            f"Remaining: {', '.join(self.remaining) or 'nothing'}",
            f"Pairs: {pairs}",
            f"Method: matched_pairs; settings {self.settings.hash[:12]}; about {calls:,} rows for "
            f"the model, and {self.redraws} redraws of at most 4,000 people",
        ]


def bind_matched_pairs(method: MatchedPairs, setup: Setup) -> BoundMatchedPairs:
    """Check model, people, reference sample and columns against each other, and find the pairs."""
    settings, survey = setup.settings, setup.survey
    keep = settings.columns.may_matter
    if not keep:
        raise InvalidSettings(
            "Matched pairs need the columns that may matter: name them (may_matter, --may-matter)."
        )
    for role in ("label", "weight", "cluster", "id"):
        if (name := getattr(settings.columns, role)) in keep:
            raise InvalidSettings(
                f"{name!r} is named as {role}, so it cannot be among the columns that may matter."
            )
    people = survey.sample.in_columns()
    assert people.table is not None
    model, handle = setup.adapt(features=False)
    classes = setup.classes(model)
    favourable = setup.favourable_place(model.card.task, classes)
    pool = _reference(setup)
    attributes = tuple(survey.traits)
    check_columns(keep, attributes, people.table, pool.table)
    asked = table_model(model, people)
    lacking = [name for name in asked.columns if name not in pool.table.column_names]
    if lacking:
        raise InvalidData(
            f"The reference sample has no column {lacking[0]!r}, which the model reads."
        )
    if model.front is None:
        check(model, people.x, features=people.features, classes=classes)
    asked.check(people.table, classes)
    if isinstance(model.loss, CustomLoss) and not setup.unlabelled:
        model.loss.check(asked(people.table.slice(0, 10)), targets(people.y[:10], classes))
    coding = CovariateCoding.fit(keep, pool.table, plain(people.table))
    groups = {name: groups_of(name, counts) for name, counts in survey.traits.items()}
    notes = data_notes(survey, keep)
    if pool.given:
        compared = tuple(dict.fromkeys([*keep, *asked.columns]))
        notes += pool_notes(people, pool.people, compared)
    context = PairContext(
        pool=pool.table,
        keep=keep,
        coding=coding,
        measures=_measures(method, setup, model, classes, favourable),
        groups=groups,
        pool_groups={n: group_codes(g, pool.people.protected[n]) for n, g in groups.items()},
        people=people.take(np.arange(min(len(people), 64))),
        left_out=pool.positions,
    )
    settings = settings.changed(method={"name": "matched_pairs", **dataclasses.asdict(method)})
    bound = BoundMatchedPairs(
        method=method,
        setup=dataclasses.replace(setup, settings=settings),
        model=model,
        handle=handle,
        people=people,
        classes=classes,
        settings=settings,
        performance=_performance(setup, model, asked, people, classes),
        context=context,
        pool=pool,
        columns=asked.columns,
        favourable=favourable,
        redraws=method.redraws,
        reads=tuple(name for name in attributes if name in asked.columns),
        notes=notes,
    )
    if people.cluster is not None:
        found = setup.session.measure(bound, [ClusterProbe()])["clusters"]
        context = dataclasses.replace(context, clusters=found.found)
        bound = dataclasses.replace(bound, context=context)
    (bound,) = find_pairs([bound])
    _warn_of_small_groups(bound)
    return bound


def _measures(
    method: MatchedPairs,
    setup: Setup,
    model: Model,
    classes: tuple[Any, ...],
    favourable: int | None,
) -> Measures:
    labelled = not setup.unlabelled
    if model.card.task == "regression":
        if method.measure not in ("auto", "prediction"):
            raise InvalidSettings(
                f"The model predicts a number, so its {method.measure} cannot be compared: leave "
                "method.measure out."
            )
        numbers = ("prediction", "loss") if labelled else ("prediction",)
        return Measures(numbers, ("",) * len(numbers), 1, (), labelled)
    wanted = "decision" if method.measure == "auto" else method.measure
    if wanted == "prediction":
        raise InvalidSettings(
            "The model decides among classes, so there is no prediction to compare: use decision "
            "or score (method.measure)."
        )
    texts = [str(value) for value in classes]
    if favourable is not None:
        chosen = [texts[favourable]]
    else:
        chosen = [texts[1]] if len(texts) == 2 else texts
    other = "score" if wanted == "decision" else "decision"
    names = (*[wanted] * len(chosen), *[other] * len(chosen))
    names += ("error", "loss") if labelled else ()
    outcomes = (*chosen, *chosen, *(("", "") if labelled else ()))
    return Measures(names, outcomes, len(chosen), classes, labelled)


def _performance(
    setup: Setup, model: Model, asked: TableModel, people: AuditData, classes: tuple[Any, ...]
) -> Performance | None:
    """Return how good the model is on the survey's sample, if there are labels."""
    if setup.unlabelled:
        return None
    assert people.table is not None
    out = asked(plain(people.table))
    y = targets(people.y, classes)
    found = Performance.from_outputs(out, model.card, y)
    if len(np.unique(y)) > 1:
        found.warn()
    return found


def _reference(setup: Setup) -> ReferenceSample:
    """Return the reference sample: the one given, everyone in halves, or people drawn."""
    settings, survey, session = setup.settings, setup.survey, setup.session
    if setup.pool is not None:
        columns = settings.columns
        wanted = ("label", "protected", "cluster", "id", "bins", "csv")
        named = {name: getattr(columns, name) for name in wanted}
        return ReferenceSample(read_pool(setup.pool, setup.source, **named), True)
    if survey.n <= MOST_HALVED:
        everyone = dataclasses.replace(
            _everyone(setup), source=f"the other half of {setup.source.name}"
        )
        return ReferenceSample(everyone, False)
    job = SurveyJob(setup.source, settings.seed, DRAWN)
    tasks, parts = list(job.tasks()), []
    for _, part in session.executor.map(job, tasks):
        parts.append(part)
        session.tell("drawing the reference sample", len(parts), len(tasks))
    drawn = total(iter(parts))
    sample = dataclasses.replace(
        drawn.sample.in_columns(), source=f"{len(drawn.sample):,} of the people audited"
    )
    return ReferenceSample(sample, False, positions=np.sort(drawn.places))


def _everyone(setup: Setup) -> AuditData:
    """Return all people in original columns; they are not many."""
    if isinstance(setup.source, PeopleSource):
        return setup.source.people.in_columns()
    blocks = setup.source.blocks(BLOCK * 16)
    return joined([people for _, people in blocks.read(range(len(blocks)))]).in_columns()


def find_pairs(
    bounds: Sequence[BoundMatchedPairs], wanted: Collection[str] | None = None
) -> list[BoundMatchedPairs]:
    """Return methods with the pairs of every two groups, and those of the redraws.

    Parameters
    ----------
    bounds
        One audit with its columns, or with several choices of them.
    wanted
        The keys of the pairings to make; all without any.
    """
    session = bounds[0].setup.session
    tasks = [
        (number, attribute, (a, b))
        for number, bound in enumerate(bounds)
        for attribute, names in bound.context.groups.items()
        for a, b in itertools.combinations(range(len(names)), 2)
        if wanted is None or _key(attribute, names[a], names[b]) in wanted
    ]
    designs = Calls(tuple(_design(bounds[k], name, groups) for k, name, groups in tasks))
    made: dict[int, PairDesign] = dict(session.executor.map(designs, range(len(tasks))))
    found: list[list[Pairing]] = [[] for _ in bounds]
    for k, (number, attribute, (a, b)) in enumerate(tasks):
        names = bounds[number].context.groups[attribute]
        found[number].append(_pairing(bounds[number], attribute, (names[a], names[b]), made[k]))
    paired = [
        dataclasses.replace(bound, pairings=tuple(some))
        for bound, some in zip(bounds, found, strict=True)
    ]
    if bounds[0].context.clusters is not None and bounds[0].halves is None:
        paired = _with_clusters(paired)
    probes = [
        p for bound in paired for one in bound.pairings for p in (one.comparison, *one.redraws)
    ]
    job = Calls(tuple(probe.find_pairs for probe in probes))
    for done, (number, pairing) in enumerate(session.executor.map(job, range(len(probes)))):
        probes[number].__dict__["pairing"] = pairing
        session.tell("pairing comparable people", done + 1, len(probes))
    return paired


def _with_clusters(bounds: Sequence[BoundMatchedPairs]) -> list[BoundMatchedPairs]:
    """Return methods whose attributes are redrawn by cluster of people, where they are constant."""
    probes = [ClusterPropensityProbe(bound.context, bound.pairings) for bound in bounds]
    sums = bounds[0].setup.session.measure(bounds[0], probes)
    found = []
    for bound, probe in zip(bounds, probes, strict=True):
        again = []
        for pairing in bound.pairings:
            clustered = sums[probe.name].pairings[pairing.key]
            if clustered.constant:
                design = dataclasses.replace(pairing.design, people_clusters=clustered)
                pairing = _pairing(bound, pairing.attribute, pairing.groups, design)
            again.append(pairing)
        found.append(dataclasses.replace(bound, pairings=tuple(again)))
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class Calls:
    """Calls that do not depend on each other, made in whatever process."""

    calls: tuple[Callable[[], Any], ...]

    def begin(self) -> Callable[[int], Any]:
        """Return what makes one call."""
        return lambda number: self.calls[number]()


def _design(
    bound: BoundMatchedPairs, attribute: str, groups: tuple[int, int]
) -> Callable[[], PairDesign]:
    """Return the call that makes two groups ready for pairing."""
    context, (a, b) = bound.context, groups
    names, counts = context.groups[attribute], _counts(bound, attribute)
    return functools.partial(
        PairDesign.from_pool,
        context.pool_covariates,
        context.pool_groups[attribute],
        groups,
        (bound.settings.seed, attribute, names[a], names[b]),
        people=(counts[a], counts[b]),
        clusters=bound.pool_clusters,
        halves=bound.halves,
        most_neighbours=bound.most_neighbours,
    )


def _pairing(
    bound: BoundMatchedPairs,
    attribute: str,
    groups: tuple[str, str],
    design: PairDesign,
) -> Pairing:
    measures = len(bound.context.measures.names)
    redraws = tuple(design.redraws(measures, bound.redraws))
    return Pairing(attribute, groups, design, design.comparison(measures), redraws)


def _counts(bound: BoundMatchedPairs, attribute: str) -> list[int]:
    """Return how many people of each group are audited."""
    counts = dict.fromkeys(bound.context.groups[attribute], 0)
    for value, count in bound.survey.traits[attribute].items():
        counts[group_name(value)] += count
    share = np.ones(len(counts))
    if bound.pool.positions is not None:
        share *= 1 - len(bound.pool) / bound.n
    if bound.context.sampled is not None:
        share *= bound.context.sampled.share[attribute]
    return [round(count) for count in share * list(counts.values())]


def _warn_of_small_groups(bound: BoundMatchedPairs) -> None:
    for pairing in bound.pairings:
        if (pairing.design.undecided or ("",))[0] == "group":
            warnings.warn(
                f"{pairing.attribute}: {pairing.groups[0]} and {pairing.groups[1]} cannot be "
                "compared: one of them has fewer than 5 rows in the reference sample.",
                StatisticalWarning,
                stacklevel=2,
            )


def build_pairs_record(
    bound: BoundMatchedPairs,
    stats: PairStats,
    redraws: Sequence[RedrawStats],
    decision: Decision[RowKey],
) -> MatchedPairsRecord:
    """Put the comparisons into the record."""
    settings, measures = bound.settings, bound.context.measures
    by_key = {pairing.key: pairing for pairing in bound.pairings}
    comparisons = []
    for (key, direction, measure), row in decision.rows.items():
        comparisons.append(_comparison(bound, stats, by_key[key], direction, measure, row))
    comparisons = _with_mirrors(bound, comparisons)
    shown = []
    extra = bound.assessed(stats, redraws, range(measures.deciding, len(measures.names)))
    for (key, direction, measure), found in extra.items():
        shown.append(_shown(bound, by_key[key], direction, measure, found))
    card = bound.model.card
    leading = measures.names[0]
    return MatchedPairsRecord(
        may_matter=bound.context.keep,
        remaining=bound.remaining,
        favourable=settings.decide.favourable or "",
        measure=leading,
        threshold=math.nan if card.threshold is None else card.threshold,
        limit=math.nan if bound.method.limit is None else bound.method.limit,
        delta=settings.delta,
        alpha=settings.alpha,
        caliper=CALIPER,
        neighbours=max(p.comparison.count for p in bound.pairings),
        redraws=bound.redraws,
        seed=settings.seed,
        pool=bound.pool.name,
        pool_size=len(bound.pool),
        pool_given=bound.pool.given,
        in_pool=sum(bound.pool.people.dropped.values()),
        repeated_rows=bound.survey.repeated,
        comparisons=tuple(comparisons),
        shown=tuple(shown),
        balance=tuple(_balance(bound, stats)),
        changes=tuple(_histograms(bound, stats)),
        reads=tuple(_uses(bound, stats)),
        people=tuple(_people(bound, stats, comparisons)),
        performance_folds=_performance_folds(bound, stats),
    )


def _performance_folds(bound: BoundMatchedPairs, stats: PairStats) -> dict[str, tuple[float, ...]]:
    """Return weights, errors and losses by fold of people, to compare two models by."""
    names = bound.context.measures.names
    found = {"weight": tuple(stats.everyone[:, 0].tolist())}
    for v, name in enumerate(names):
        if name in ("error", "loss"):
            found[name] = tuple(stats.everyone[:, 1 + v].tolist())
    return found


def _comparison(
    bound: BoundMatchedPairs,
    stats: PairStats,
    pairing: Pairing,
    direction: int,
    measure: int,
    row: RowDecision,
) -> RateComparison:
    part = stats.pairings[pairing.key]
    names, outcomes = bound.context.measures.names, bound.context.measures.outcomes
    group, other = pairing.groups[direction], pairing.groups[1 - direction]
    codes = [bound.context.groups[pairing.attribute].index(name) for name in (group, other)]
    table = stats.groups[pairing.attribute].values[codes]
    with np.errstate(invalid="ignore", divide="ignore"):
        raw = (table[:, 1 + measure] / table[:, 0]).tolist()
    found, sums = row.assessment.shown, part.sums
    parts = sums.parts(direction)
    kept = int(sums.kept[parts].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        up, down, actual = (
            float(values[parts, measure].sum() / sums.first[parts, measure, 0].sum())
            for values in (part.up, part.down, part.actual)
        )
    if names[measure] != "decision" or bound.scored:
        # Only decisions change or stay; of a number there is no share of people.
        up = down = math.nan
    clipped = int(sums.group_clipped[direction]) if sums.dropped else 0
    people = int(sums.group_size[direction])
    base: dict[str, Any] = {
        "attribute": pairing.attribute,
        "group": group,
        "other": other,
        "measure": names[measure],
        "column": column_name(names[measure], outcomes[measure]),
        "verdict": row.outcome,
        "reason": row.reason or "",
        "n": kept,
        "people": people,
        "without_overlap": people - kept - clipped,
        "clipped": clipped,
        "pairs": sums.pairs,
        "people_needed": _needed(row),
    }
    if found is None:
        return RateComparison(
            **base,
            outcome=outcomes[measure],
            own=math.nan,
            swapped=math.nan,
            difference=math.nan,
            ratio=math.nan,
            interval=(math.nan, math.nan),
        )
    estimate, flip = found.estimate, found.complement
    spread = estimate.spread(np.ones(1))
    difference = row.assessment.rule.kind == "difference"
    rate = names[measure] in ("decision", "score")
    swapped = estimate.other_corrected
    favourable = _favourable(bound, estimate, flip, outcomes[measure])
    return RateComparison(
        **base,
        outcome=_outcome(bound, outcomes[measure], flip),
        own=estimate.own,
        swapped=min(max(swapped, 0.0), 1.0) if rate else swapped,
        difference=estimate.difference,
        difference_interval=estimate.difference_interval(bound.settings.alpha),
        ratio=estimate.ratio,
        interval=(math.nan, math.nan) if difference else found.interval,
        p_value=row.assessment.p_value,
        p_adjusted=row.adjusted_p,
        std_error=float(spread.std_error[0]),
        degrees=float(spread.degrees[0]),
        allowance=estimate.allowance,
        reference_error=_reference_error(estimate, bound.settings.delta),
        uncorrected=estimate.other - estimate.own,
        bias=estimate.bias,
        kappa=estimate.kappa,
        control=tuple(estimate.control.tolist()),
        control_p=estimate.randomisation_p if pairing.redraws[0].everyone else math.nan,
        effective_pairs=float(spread.effective_pairs[0]),
        events=math.nan if row.assessment.events is None else row.assessment.events,
        actual=1 - actual if flip else actual,
        raw_group=1 - raw[0] if flip else raw[0],
        raw_other=1 - raw[1] if flip else raw[1],
        favourable_own=favourable[0],
        favourable_swapped=favourable[1],
        changed_up=down if flip else up,
        changed_down=up if flip else down,
        p_by_limit=() if difference else _p_by_limit(row),
        folds=_influence(part, direction, measure, estimate, flip),
    )


def _influence(
    part: PairingStats, direction: int, measure: int, estimate: Any, flip: bool
) -> FoldInfluence:
    """Return the influence of folds of people and pairs on the rates, own and swapped."""
    sign = -1.0 if flip else 1.0
    parts = part.sums.parts(direction)
    w, other, own = part.folds[parts, :, measure].sum(axis=0).T
    total_weight = w.sum()
    people_own = (own - w * own.sum() / total_weight) / total_weight
    people_other = (other - w * other.sum() / total_weight) / total_weight
    sums = part.sums.by_pair.parts(parts)
    fold = sums.index % FOLDS
    pairs_other, pairs_own = (
        np.bincount(fold, sums.values[:, k + 3 * measure], FOLDS) / total_weight for k in (1, 2)
    )
    c = estimate.factor

    def swapped(of_other: np.ndarray, of_own: np.ndarray) -> tuple[float, ...]:
        return tuple((sign * (c * of_other + (1 - c) * of_own)).tolist())

    return FoldInfluence(
        own_people=tuple((sign * people_own).tolist()),
        swapped_people=swapped(people_other, people_own),
        own_pairs=tuple((sign * pairs_own).tolist()),
        swapped_pairs=swapped(pairs_other, pairs_own),
        redrawn=tuple(((estimate.redrawn - estimate.bias) * c).tolist()),
    )


def _reference_error(estimate: Any, delta: float) -> float:
    """Return the standard error due to pairs and redraws, the larger of both limits."""
    spread = estimate.spread(np.array([1 / delta, delta]))
    return math.sqrt(float(spread.pairs.max()) + spread.redraw)


def _p_by_limit(row: RowDecision) -> tuple[tuple[float, float], ...]:
    """Return p-values at several limits; 1 throughout if the comparison is undecided."""
    tested = row.assessment.tested
    if row.assessment.undecided is not None:
        return tuple((limit, 1.0) for limit in LIMITS)
    return tuple(
        (limit, min(1.0, len(tested) * min(one.estimate.p_value(limit) for one in tested)))
        for limit in LIMITS
    )


def column_name(measure: str, outcome: str) -> str:
    """Return the name of a measure among the columns of rows."""
    return f"{measure}={outcome}" if outcome else measure


def _needed(row: RowDecision) -> int | None:
    """Return how many people of the group would settle a comparison, rounded up."""
    needed = row.numbers.get("people_needed", math.inf)
    if not needed <= 1e12:
        return None
    step = 10 ** max(int(math.log10(max(needed, 1))) - 1, 0)
    return int(math.ceil(needed / step) * step)


def _outcome(bound: BoundMatchedPairs, outcome: str, flip: bool) -> str:
    """Return the class whose rate is shown: of two classes, the complement has a name."""
    if not flip:
        return outcome
    others = [str(value) for value in bound.classes if str(value) != outcome]
    return others[0] if len(others) == 1 else f"not {outcome}"


def _favourable(
    bound: BoundMatchedPairs, estimate: Any, flip: bool, outcome: str
) -> tuple[float, float]:
    """Return the rates of the favourable decision, if one is named."""
    if bound.favourable is None or bound.model.card.task == "regression":
        return math.nan, math.nan
    own, swapped = estimate.own, min(max(estimate.other_corrected, 0.0), 1.0)
    named = str(bound.classes[bound.favourable]) == outcome
    return (own, swapped) if named != flip else (1 - own, 1 - swapped)


def _with_mirrors(bound: BoundMatchedPairs, rows: Sequence[RateComparison]) -> list[RateComparison]:
    """Mark, of two comparisons that show the same, the one of the favoured group.

    The disadvantaged group is the one whose favourable rate rises with the other's columns. If both
    would do better, or worse, neither is a mirror image of the other.
    """
    gains = {(r.attribute, r.column, r.group, r.other): _gain(bound, r) for r in rows}

    def mirrors(row: RateComparison) -> bool:
        back = gains[row.attribute, row.column, row.other, row.group]
        return gains[row.attribute, row.column, row.group, row.other] < 0 < back

    return [row.model_copy(update={"mirror": mirrors(row)}) for row in rows]


def _gain(bound: BoundMatchedPairs, row: RateComparison) -> float:
    """Return by how much the favourable rate rises with the other group's columns."""
    if bound.favourable is not None and row.favourable_own == row.favourable_own:
        return row.favourable_swapped - row.favourable_own
    if bound.model.card.task != "regression" and len(bound.classes) == 2:
        positive = str(bound.classes[1])
        return row.difference if row.outcome == positive else -row.difference
    return row.difference


def _shown(
    bound: BoundMatchedPairs, pairing: Pairing, direction: int, measure: int, row: Assessment
) -> ShownMeasure:
    names, outcomes = bound.context.measures.names, bound.context.measures.outcomes
    name = f"{names[measure]} {outcomes[measure]}".strip()
    base = {
        "attribute": pairing.attribute,
        "group": pairing.groups[direction],
        "other": pairing.groups[1 - direction],
        "measure": name,
    }
    found = row.shown
    if found is None:
        nothing = math.nan
        return ShownMeasure(**base, own=nothing, swapped=nothing, difference=nothing)
    estimate = found.estimate.complement() if found.complement else found.estimate
    return ShownMeasure(
        **base,
        own=estimate.own,
        swapped=estimate.other_corrected,
        difference=estimate.difference,
        difference_interval=estimate.difference_interval(bound.settings.alpha),
        ratio=estimate.ratio,
    )


def _balance(bound: BoundMatchedPairs, stats: PairStats) -> Iterable[ColumnBalance]:
    """Yield standardised mean differences of what may matter, before and after matching."""
    keep, coding, table = bound.context.keep, bound.context.coding, bound.pool.table
    for pairing in bound.pairings:
        design = pairing.design
        first, second = design.rows[~design.second], design.rows[design.second]
        before = standardised_differences(keep, table, coding, first, second)
        use = stats.pairings[pairing.key].sums.by_pair.parts(range(4))
        members = pairing.comparison._members
        weight = use.values[:, 0]
        pairs = design.rows[members[0][use.index]], design.rows[members[1][use.index]]
        after = dict.fromkeys(keep, math.nan)
        if len(weight):
            after = standardised_differences(
                keep, table, coding, *pairs, weights=(weight, weight), units=(first, second)
            )
        for name in keep:
            yield ColumnBalance(
                attribute=pairing.attribute,
                group=pairing.groups[0],
                other=pairing.groups[1],
                column=name,
                before=before[name],
                after=after[name],
            )


def _histograms(bound: BoundMatchedPairs, stats: PairStats) -> Iterable[ChangeHistogram]:
    if bound.context.measures.names[0] == "prediction":
        return
    edges = tuple(np.linspace(-1, 1, BINS + 1).tolist())
    for pairing in bound.pairings:
        for direction in (0, 1):
            yield ChangeHistogram(
                attribute=pairing.attribute,
                group=pairing.groups[direction],
                other=pairing.groups[1 - direction],
                edges=edges,
                counts=tuple(stats.pairings[pairing.key].histogram[direction].tolist()),
            )


def _uses(bound: BoundMatchedPairs, stats: PairStats) -> Iterable[AttributeUse]:
    """Yield the share of decisions that change when an attribute alone is flipped."""
    for attribute in bound.reads:
        n, k = (float(v) for v in stats.groups[attribute].flipped)
        found = Share.of_people(np.full(4, k), np.full(4, n), weighted=False)
        q = found.clopper_pearson(bound.settings.alpha)
        yield AttributeUse(
            attribute=attribute, changed=q.value, lower=q.lower, upper=q.upper, n=q.n
        )


def _people(
    bound: BoundMatchedPairs, stats: PairStats, rows: Sequence[RateComparison]
) -> Iterable[ComparedPerson]:
    """Yield the most affected people of the groups that are disadvantaged, else of the largest."""
    if bound.context.measures.names[0] == "prediction":
        return
    ranked = sorted(rows, key=lambda r: (r.verdict != "evidence", r.mirror, -abs(r.difference)))
    for row in ranked[:1] if ranked[0].verdict != "evidence" else ranked[:2]:
        if row.mirror and row.verdict == "evidence":
            continue
        pairing, direction, _ = bound.located(row)
        most = stats.pairings[pairing.key].most[direction]
        better = _positive_gain(bound, row)
        order = np.lexsort((most.row, -better * most.change))
        for k in order[: max(FEWEST_SHOWN, int((better * most.change > 0).sum()))]:
            yield _person(bound, row, most, int(k))


def _positive_gain(bound: BoundMatchedPairs, row: RateComparison) -> float:
    """Return 1 if people of the group gain when the first measure rises, else −1."""
    first = bound.context.measures.outcomes[0]
    sign = 1.0 if row.outcome == first else -1.0
    return sign if row.difference >= 0 else -sign


def _person(
    bound: BoundMatchedPairs, row: RateComparison, most: MostChanged, k: int
) -> ComparedPerson:
    """Return a person beside the closest pair, each with the model's answers."""
    place = int(most.position[k])
    people = _at_position(bound, place, int(most.row[k]))
    table = plain(people.in_columns().table)
    asked, pool = bound.context.prepared_pool(bound.model)
    rows = asked.prepare(table)
    zero = np.zeros(1, dtype=np.int64)
    own, other = int(most.own_member[k]), int(most.other_member[k])
    outputs = [
        asked.outputs(rows),
        asked.substitute(rows, zero, pool, np.array([own]), bound.context.keep),
        asked.substitute(rows, zero, pool, np.array([other]), bound.context.keep),
    ]
    card = bound.model.card
    names = [str(value) for value in bound.classes]
    outcome = bound.context.measures.outcomes[0]
    column = names.index(outcome)
    decisions = [names[int(decide(out, card.output, card.threshold)[0])] for out in outputs]
    chances = [float(probabilities(out, card.output)[0, column]) for out in outputs]
    shown = list(dict.fromkeys([*bound.context.keep, *bound.columns, row.attribute]))
    person = {name: table[name][0].as_py() for name in shown if name in table.column_names}
    members = [
        {name: bound.pool.table[name][member].as_py() for name in bound.pool.table.column_names}
        for member in (own, other)
    ]
    label = bound.settings.columns.label
    return ComparedPerson(
        attribute=row.attribute,
        group=row.group,
        other=row.other,
        outcome=outcome,
        row=int(most.row[k]),
        label="" if bound.setup.unlabelled else str(people.y[0]),
        decision=decisions[0],
        decision_own=decisions[1],
        decision_swapped=decisions[2],
        probability=chances[0],
        probability_own=chances[1],
        probability_swapped=chances[2],
        own=float(most.own[k]),
        swapped=float(most.swapped[k]),
        kept={name: person[name] for name in bound.context.keep if name in person},
        person={n: v for n, v in person.items() if n not in bound.context.keep and n != label},
        own_member={n: v for n, v in members[0].items() if n in shown},
        other_member={n: v for n, v in members[1].items() if n in shown},
        own_row=int(bound.pool.people.row[own]),
        other_row=int(bound.pool.people.row[other]),
    )


def _at_position(bound: BoundMatchedPairs, position: int, row: int) -> AuditData:
    """Return one person again, by row number in the source."""
    source = bound.source
    if isinstance(source, PeopleSource):
        return source.people.take(np.array([position]))
    people, _ = source.rows(row, row + 1)
    return people


def group_measures(bound: BoundMatchedPairs, stats: PairStats) -> tuple[Measure, ...]:
    """Raw group table: selection rates, impact ratios and error rates, with intervals."""
    if bound.model.card.task == "regression":
        return ()
    alpha, labelled = bound.settings.alpha, bound.context.measures.labelled
    place = bound.favourable if bound.favourable is not None else len(bound.classes) - 1
    found: list[Measure] = []

    def add(name: str, attribute: str, group: str, q: Quantity, n: int) -> None:
        if not math.isnan(q.value):
            ends = {"lower": q.lower, "upper": q.upper}
            found.append(
                Measure(name=name, attribute=attribute, group=group, value=q.value, n=n, **ends)
            )

    for attribute, table in stats.groups.items():
        selected = []
        for group, counts in zip(bound.context.groups[attribute], table.decisions, strict=True):
            everyone = counts.sum(axis=(0, 1))
            right = np.einsum("iij->j", counts)
            shares = {"selection_rate": (counts[:, place].sum(axis=0), everyone)}
            if labelled:
                shares["error_rate"] = everyone - right, everyone
            if labelled and len(counts) == 2:
                have, lack = counts[place], counts[1 - place]
                shares["false_negative_rate"] = have[1 - place], have.sum(axis=0)
                shares["false_positive_rate"] = lack[place], lack.sum(axis=0)
            for name, (hits, among) in shares.items():
                weighted = bool(among[0] != among[1])
                share = Share.of_people(hits, among, weighted=weighted)
                add(name, attribute, group, share.wilson(alpha), share.n)
                if name == "selection_rate":
                    selected.append((group, share))
        most = max((one for _, one in selected if one.n), key=lambda one: one.value)
        for group, share in selected:
            same = Quantity(1.0, 1.0, 1.0, share.n)
            q = same if share is most else share_ratio(share, most, alpha)
            add("impact_ratio", attribute, group, q, share.n)
    return tuple(found)
