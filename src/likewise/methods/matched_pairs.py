"""Matched pairs: whether comparable people of another group get a different decision.

Each person keeps the columns that may matter and takes all others from comparable people: of their
own group, and of another. Rates, their difference and their ratio are compared, the attribute
redrawn given the columns that may matter shows and removes what matching leaves.
"""

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData, joined
from likewise.data.notes import left_out_notes, pool_notes
from likewise.data.source import Blocks, PeopleSource
from likewise.errors import InvalidSettings, printable
from likewise.loss import CustomLoss, decide, probabilities
from likewise.method import BoundMethod, Method
from likewise.methods.matching import Covariates, Key, uniforms
from likewise.methods.pair_stats import (
    PARTS,
    Comparisons,
    LocatedPeople,
    PairDesign,
    PairSums,
    SparseSums,
    answered,
    cluster_propensities,
    pair_design,
    random_halves,
)
from likewise.methods.redraws import REDRAWS
from likewise.methods.reference_sample import (
    CovariateCoding,
    ReferenceSample,
    check_columns,
    group_codes,
    groups_of,
    plain,
    standardised_difference,
)
from likewise.models import check
from likewise.models.adapt import NO_COLUMNS, TableModel, table_model
from likewise.models.base import Model, targets
from likewise.models.performance import Performance
from likewise.models.scored import ScoredTable
from likewise.probe import PRIMARY, Block, Measured, Probe
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
from likewise.stats.decision import Assessment, DecisionRule, OutcomeTest, assess
from likewise.stats.decision import decide as decide_rows
from likewise.stats.groups import Share, group_table
from likewise.stats.sums import Additive
from likewise.verdict import Verdict

MOST_HALVED = 200_000
"""People up to whom each half is the other's reference sample; of more, some are drawn for it."""

DRAWN = 100_000
"""People drawn as the reference sample where there are more."""

BLOCK = 1040
"""People of a block; each is asked about in dozens of rows."""

MAX_SHOWN = 20
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
        """Check model, people, reference sample and columns together, and find the pairs."""
        settings, survey = setup.settings, setup.survey
        keep = settings.columns.may_matter
        if not keep:
            raise InvalidSettings(
                "Matched pairs need the columns that may matter: name them (may_matter, "
                "--may-matter)."
            )
        people = survey.sample.in_columns()
        assert people.table is not None
        model, handle = setup.adapt(features=False)
        classes = setup.classes(model)
        favourable = setup.favourable_place(model.card.task, classes)
        pool = _reference_sample(setup)
        attributes = tuple(survey.attributes)
        asked = table_model(model, people)
        check_columns(keep, attributes, people.table, pool.table, asked.columns)
        if model.front is None:
            check(model, people.x, features=people.features, classes=classes)
        asked.check(people.table, classes)
        table, performance = plain(people.table), None
        if self.ratio or not setup.unlabelled:
            out = asked(table)
        if self.ratio and model.card.task == "regression" and not (least := out[:, 0].min()) > 0:
            raise InvalidSettings(
                f"A ratio is for predictions that are all positive, and the smallest is {least:g}: "
                "leave method.ratio out, and give the largest difference (method.limit)."
            )
        if not setup.unlabelled:
            y = targets(people.y, classes)
            if isinstance(model.loss, CustomLoss):
                model.loss.check(out, y)
            performance = Performance.from_outputs(out, model.card, y)
            if len(np.unique(y)) > 1:
                performance.warn()
        groups = {}
        share = 1.0 if pool.positions is None else 1 - len(pool) / survey.n
        for name, counts in survey.attributes.items():
            found = groups_of(name, counts)
            sizes = tuple(round(share * count) for count in found.values())
            codes = group_codes(tuple(found), pool.people.protected[name])
            groups[name] = ComparedGroups(tuple(found), sizes, codes)
        compared = tuple(dict.fromkeys([*keep, *asked.columns]))
        notes = pool_notes(people, pool.people, compared) if pool.given else ()
        notes += left_out_notes(pool.people.dropped if pool.given else {}, "of the pool ")
        context = PairContext(
            pool=pool.table,
            keep=keep,
            coding=CovariateCoding.fit(keep, pool.table, table),
            measures=_measures(self, setup, model, classes, favourable),
            groups=groups,
            people=people.take(np.arange(min(len(people), 64))),
            clusters=None if people.cluster is None else survey.clusters,
            left_out=pool.positions,
        )
        settings = settings.changed(method={"name": "matched_pairs", **dataclasses.asdict(self)})
        unpaired = BoundMatchedPairs(
            method=self,
            setup=dataclasses.replace(setup, settings=settings),
            model=model,
            handle=handle,
            people=people,
            classes=classes,
            settings=settings,
            performance=performance,
            context=context,
            pool=pool,
            columns=asked.columns,
            favourable=favourable,
            options={"redraw_count": self.redraws},
            notes=notes,
        )
        return find_pairs([unpaired])[0]


@dataclasses.dataclass(frozen=True, eq=False)
class Measures:
    """What is measured of the model's answers, one column each; the first ones decide.

    ``names`` are decision, score, prediction, error and loss; ``outcomes`` the class that a column
    is about, if it is about one; ``deciding`` is how many columns decide.
    """

    names: tuple[str, ...]
    outcomes: tuple[str, ...]
    deciding: int
    classes: tuple[Any, ...]

    @property
    def columns(self) -> list[str]:
        """Names by which the measures are told apart."""
        both = zip(self.names, self.outcomes, strict=True)
        return [printable(f"{name}={outcome}") if outcome else name for name, outcome in both]

    def of_outputs(
        self, model: Any, out: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"] | None
    ) -> Float[np.ndarray, "n v"]:
        """Return the values of all measures for people with targets ``y``."""
        card, texts = model.card, list(map(str, self.classes))
        decided = p = out
        if card.task != "regression":
            decided = decide(out, card.output, card.threshold)
            p = probabilities(out, card.output)
        columns: list[np.ndarray] = []
        for name, outcome in zip(self.names, self.outcomes, strict=True):
            if name == "decision":
                columns.append(decided == texts.index(outcome))
            elif name == "score":
                columns.append(p[:, texts.index(outcome)])
            elif name == "error":
                columns.append(decided != y)
            else:
                columns.append(out[:, 0] if name == "prediction" else model.loss(out, y))
        return np.column_stack(columns).astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class GroupSample:
    """A seeded random sample of an attribute's groups: a ``share`` of each.

    ``half`` is 0 or 1 if one random half alone is drawn from.
    """

    key: Key
    share: Float[np.ndarray, " g"]
    half: int | None

    def groups(
        self, codes: Int[np.ndarray, " n"], units: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """Return the groups of rows; −1 for those not in the sample. Units stay together."""
        place = uniforms(self.key, units) - 0.5 * (self.half or 0)
        drawn = (place >= 0) & (place < self.share[codes])
        return np.where((codes >= 0) & drawn, codes, -1)


@dataclasses.dataclass(frozen=True, eq=False)
class ComparedGroups:
    """The groups of a protected attribute: names, sizes, and the ``pool``'s rows by their codes.

    ``sizes`` are how many people of each group are audited; of a ``sample`` alone if there is one.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    pool: Int[np.ndarray, " m"]
    sample: GroupSample | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class PairContext:
    """What all probes of one audit share, in every worker.

    People keep the columns ``keep``, which ``coding`` turns into covariates. ``groups`` are by
    attribute; ``people`` a few of the people, who say which columns the model reads; ``clusters``
    the sorted cluster values of all people; ``left_out`` the positions of those who are the
    reference sample. Another choice of columns or people has another name (``variant``).
    """

    pool: pa.Table
    keep: tuple[str, ...]
    coding: CovariateCoding
    measures: Measures
    groups: Mapping[str, ComparedGroups]
    people: AuditData
    clusters: Shaped[np.ndarray, " c"] | None = None
    left_out: Int[np.ndarray, " m"] | None = None
    variant: str = ""
    _tables: dict[int, tuple[TableModel, Any]] = dataclasses.field(default_factory=dict)

    def asked(self, model: Model, block: Block) -> "AskedBlock":
        """Return a block made ready to be asked about; all probes share it.

        Other choices of columns or people share what does not depend on them.
        """
        asked = block.once("asked", lambda: AskedBlock(self, model, block))
        return block.once(("asked", self.variant), lambda: asked.chosen(self))

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
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**own, "_tables": {}}


class AskedBlock:
    """People of a block, prepared for the model, with their covariates and groups."""

    context: PairContext
    covariates: Covariates
    _located: dict[str, LocatedPeople]
    _plans: dict[str, Comparisons]

    def __init__(self, context: PairContext, model: Model, block: Block) -> None:
        people, positions = block.people.in_columns(), block.positions
        if context.left_out is not None:
            keep = ~np.isin(positions, context.left_out, assume_unique=True)
            people, positions = people.take(keep), positions[keep]
        assert people.table is not None
        self.number, self.model = block.number, model
        self.people, self.positions = people, positions
        self.table = plain(people.table)
        self.asked, self.pool = context.prepared_pool(model)
        self.rows = self.asked.prepare(self.table)
        self.codes = {
            name: group_codes(groups.names, people.protected[name])
            for name, groups in context.groups.items()
        }
        labelled = "loss" in context.measures.names
        self.y = targets(people.y, context.measures.classes) if labelled else None
        self.weight = np.ones(len(positions)) if people.weight is None else people.weight
        self.cluster = None
        if context.clusters is not None and people.cluster is not None:
            self.cluster = np.searchsorted(context.clusters, people.cluster)
        self.units = positions if self.cluster is None else self.cluster
        self.fold = self.units % FOLDS

    def chosen(self, context: PairContext) -> "AskedBlock":
        """Return the same people, compared by the columns and in the groups of a context."""
        block = copy.copy(self)
        block.context, block.covariates = context, context.coding.covariates(self.table)
        block._located, block._plans = {}, {}
        return block

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
        y = None if self.y is None else self.y[i]
        return self.context.measures.of_outputs(self.model, out, y)

    @functools.cached_property
    def outputs(self) -> Float[np.ndarray, "n k"]:
        """The model's outputs for people as they are."""
        return self.asked.outputs(self.rows)

    @functools.cached_property
    def values(self) -> Float[np.ndarray, "n v"]:
        """The measures of people as they are."""
        return self.context.measures.of_outputs(self.model, self.outputs, self.y)

    def located(self, design: PairDesign) -> LocatedPeople:
        """Return where people are among the pairs of two groups."""
        if design.name not in self._located:
            group, sample = (
                self.codes[design.attribute],
                self.context.groups[design.attribute].sample,
            )
            if sample is not None:
                group = sample.groups(group, self.units)
            self._located[design.name] = design.locate(
                self.positions, self.covariates, group, self.people.weight, self.cluster
            )
        return self._located[design.name]

    def plan(self, design: PairDesign) -> Comparisons:
        """Return who is compared through which pairs of two groups."""
        if design.name not in self._plans:
            self._plans[design.name] = design.comparison.plan(self.located(design))
        return self._plans[design.name]


@dataclasses.dataclass(frozen=True, eq=False)
class PersonRows:
    """Numbers of single people, one row each; of ``most`` people those whose first is largest."""

    rows: Float[np.ndarray, "m k"]
    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            order = np.lexsort((self.rows[:, 1], -np.abs(self.rows[:, 0])))
            object.__setattr__(self, "rows", self.rows[order[: self.most]])

    def __add__(self, other: "PersonRows") -> "PersonRows":
        return PersonRows(np.vstack([self.rows, other.rows]), self.most)


@dataclasses.dataclass(frozen=True, eq=False)
class PairingStats(Additive):
    """Sums of one pair of groups: the comparison, and what is shown of each direction.

    By part as in ``sums``: weighted rises and falls of people's measures, and the measures of
    people as they are (``shown``); and by part and fold of people w, w other and w own. ``most``
    are, by direction and measure that decides, the people whose rate changes most, up or down:
    change, row and position of the person, rates own and swapped, and the members of the closest
    pair, of the own and of the other group (rows of the pool).
    """

    sums: PairSums
    shown: Float[np.ndarray, "4 3 v"]
    folds: Float[np.ndarray, "4 f v 3"]
    histogram: Float[np.ndarray, "2 b"]
    most: tuple[PersonRows, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class GroupTable(Additive):
    """Raw sums of one attribute by group: w, and w times every measure.

    ``decisions`` are by label and decision: number, weight, squared and cubed weight of people;
    ``flipped`` the number of people, and of those whose decision changes if the attribute alone is
    flipped.
    """

    values: Float[np.ndarray, "g w"]
    decisions: Float[np.ndarray, "g c c 4"]
    flipped: Int[np.ndarray, " 2"]


@dataclasses.dataclass(frozen=True, eq=False)
class PairStats(Additive):
    """What a probe adds up by pair of groups; of the primary one raw tables by attribute as well.

    ``everyone`` is by fold of people: weights, and weighted measures of everyone as they are.
    """

    n: int
    pairings: Mapping[str, Any]
    groups: Mapping[str, GroupTable] = dataclasses.field(default_factory=dict)
    everyone: Float[np.ndarray, "f w"] = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))


@dataclasses.dataclass(frozen=True, eq=False)
class PairsProbe(Probe):
    """A probe of everyone whose sums are by pair of groups.

    ``measured`` returns those of one pair, and the primary probe's a table of rows as well; it is a
    function of a module, so that it can travel.
    """

    context: PairContext
    designs: tuple[PairDesign, ...]
    measured: Callable[[AskedBlock, PairDesign], Any]
    name: str = ""

    def measure(self, model: Model, block: Block) -> Measured | None:
        """Measure the people of a block, unless all of them are the reference sample."""
        asked = self.context.asked(model, block)
        if not len(asked.positions):
            return None
        sums = {design.name: self.measured(asked, design) for design in self.designs}
        if self.name != PRIMARY:
            return Measured(PairStats(len(asked.positions), sums))
        pairings, tables = zip(*sums.values(), strict=True)
        groups = {name: _group_table(asked, name) for name in self.context.groups}
        w = asked.weight[:, None]
        everyone = _summed(asked.fold, FOLDS, np.hstack([w, w * asked.values]))
        stats = dict(zip(sums, pairings, strict=True))
        found = PairStats(len(asked.positions), stats, groups, everyone)
        return Measured(found, pa.concat_tables(tables))


def compared_people(asked: AskedBlock, design: PairDesign) -> tuple[PairingStats, pa.Table]:
    """Compare everyone through their nearest pairs, and with redrawn attributes.

    The table has one row a person and comparison: rates as they are, own and swapped.
    """
    count, people = design.measures, asked.located(design)
    (plan,) = answered([asked.plan(design)], asked.ask, count)
    redrawn = (answered([of.plan(people)], asked.ask, count)[0] for of in design.redraws)
    side, w = plan.part // 2, plan.weight[:, None]
    own, other = map(plan.mean, plan.values)
    rise, actual = plan.values[1] - plan.values[0], asked.values[plan.people]
    changes = plan.mean(np.maximum(rise, 0.0)), plan.mean(np.maximum(-rise, 0.0)), actual
    change = other - own
    rows, positions = asked.people.row[plan.people], asked.positions[plan.people]
    pairs = plan.own[plan.start], plan.other[plan.start]
    folds = np.zeros((PARTS, FOLDS, own.shape[1], 3))
    np.add.at(folds, (plan.part, asked.fold[plan.people]), plan.sums)
    edges, mine = np.linspace(-1, 1, BINS + 1), (side == 0, side == 1)
    histograms = [np.histogram(change[m, 0], edges, weights=plan.weight[m])[0] for m in mine]
    most = [
        np.column_stack([change[:, v], rows, positions, own[:, v], other[:, v], *pairs])[m]
        for m, v in itertools.product(mine, range(design.deciding))
    ]
    stats = PairingStats(
        sums=design.summed(people, plan, redrawn),
        shown=np.stack([_summed(plan.part, PARTS, w * value) for value in changes], axis=1),
        folds=folds,
        histogram=np.stack(histograms),
        most=tuple(PersonRows(some, MAX_SHOWN) for some in most),
    )
    attribute, *groups = map(str, design.key[1:])
    columns: dict[str, Any] = {
        "row": rows,
        "attribute": pa.array([attribute] * len(side), pa.string()),
        "group": pa.array(np.array(groups)[side], pa.string()),
        "other": pa.array(np.array(groups)[1 - side], pa.string()),
        "weight": plan.weight,
    }
    for v, label in enumerate(asked.context.measures.columns):
        columns[label] = actual[:, v]
        columns[f"{label}: own"] = own[:, v]
        columns[f"{label}: swapped"] = other[:, v]
    return stats, pa.table(columns)


def _group_table(asked: AskedBlock, attribute: str) -> GroupTable:
    """Sum up the groups of an attribute; flip it alone if the model reads it."""
    code, card = asked.codes[attribute], asked.model.card
    known = np.flatnonzero(code >= 0)
    code, w = code[known], asked.weight[known]
    groups, classes = asked.context.groups[attribute], len(asked.context.measures.classes)
    size = len(groups.names)
    decisions = np.zeros((size, classes, classes, 4))
    changed = np.zeros(len(known), dtype=bool)
    if card.task != "regression":
        decided = decide(asked.outputs[known], card.output, card.threshold)
        label = decided if asked.y is None else asked.y[known]
        powers = np.stack([np.ones(len(w)), w, w**2, w**3], axis=1)
        np.add.at(decisions, (code, label, decided), powers)
        example = np.array([int(np.argmax(groups.pool == g)) for g in range(size)])
        keep = [name for name in asked.asked.columns if name != attribute]
        for shift in range(1, size) if attribute in asked.asked.columns else ():
            rows = example[(code + shift) % size]
            out = asked.asked.substitute(asked.rows, known, asked.pool, rows, keep)
            changed |= decide(out, card.output, card.threshold) != decided
    values = np.hstack([w[:, None], w[:, None] * asked.values[known]])
    flipped = np.array([len(known), changed.sum()])
    return GroupTable(_summed(code, size, values), decisions, flipped)


def _summed(
    code: Int[np.ndarray, " n"], size: int, values: Float[np.ndarray, "n v"]
) -> Float[np.ndarray, "c v"]:
    """Return the sums of values by code."""
    sums = np.zeros((size, values.shape[1]))
    np.add.at(sums, code, values)
    return sums


def located_clusters(asked: AskedBlock, design: PairDesign) -> SparseSums:
    """Propensities of clusters, for attributes that are constant within them."""
    return cluster_propensities(asked.located(design))


@dataclasses.dataclass(frozen=True, eq=False)
class BoundMatchedPairs(BoundMethod):
    """Matched pairs made ready for a model, people and a reference sample.

    ``people`` are the survey's sample of them, ``columns`` what the model reads; ``favourable`` is
    the place of the favourable decision among the classes. There is one design for every unordered
    pair of groups of an attribute, made with ``options``.
    """

    kind: ClassVar[str] = "matched_pairs"
    name: ClassVar[str] = "matched_pairs"

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
    designs: tuple[PairDesign, ...] = ()
    favourable: int | None = None
    notes: tuple[str, ...] = ()
    block_size: int = BLOCK
    options: Mapping[str, int] = dataclasses.field(default_factory=dict)

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

    def probe(self, name: str, measured: Callable[[AskedBlock, PairDesign], Any]) -> PairsProbe:
        """Return a probe of everyone through these pairs."""
        return PairsProbe(self.context, self.designs, measured, name)

    def sampled(
        self,
        variant: str,
        *,
        people: int,
        pool: int,
        keep: tuple[str, ...] | None = None,
        half: int | None = None,
        **options: int,
    ) -> "BoundMatchedPairs":
        """Return the method on samples, without pairs (`find_pairs`): for checks, never to decide.

        About so many people of each group, audited and of the reference sample, are compared;
        without a reference sample, ``pool`` is for both. ``half`` (0 or 1) leaves one random half
        of them aside. ``keep`` are other columns that may matter, ``options`` those of the designs.
        """
        units = np.arange(len(self.pool)) if self.pool_clusters is None else self.pool_clusters
        most, groups = 1.0 if half is None else 0.5, {}
        for name, of in self.context.groups.items():
            key = (self.settings.seed, name, "group sample")
            members = np.bincount(of.pool[of.pool >= 0], minlength=len(of.names))
            share = np.minimum(pool / np.maximum(members, 1), most)
            drawn = sample = GroupSample((*key, "pool"), share, half)
            if self.halves is None:
                share = np.minimum(people / np.maximum(of.sizes, 1), most)
                sample = GroupSample((*key, "people"), share, half)
            sizes = tuple(map(round, share * of.sizes))
            groups[name] = ComparedGroups(of.names, sizes, drawn.groups(of.pool, units), sample)
        context = dataclasses.replace(self.context, groups=groups, variant=variant)
        if keep is not None:
            assert self.people.table is not None
            coding = CovariateCoding.fit(keep, self.pool.table, plain(self.people.table))
            context = dataclasses.replace(context, keep=keep, coding=coding)
        return dataclasses.replace(self, context=context, designs=(), options=options)

    def located(self, row: RateComparison) -> tuple[PairDesign, int, int]:
        """Return the design, the direction and the measure that a comparison is about."""
        groups = sorted((row.group, row.other))
        name = "\t".join((row.attribute, *groups))
        design = next(design for design in self.designs if design.name == name)
        return design, groups.index(row.group), self.context.measures.columns.index(row.column)

    @property
    def canary(self) -> Callable[[], Float[np.ndarray, "m k"]]:
        """Asks the model about a few people; again when all is done."""
        some = plain(self.context.people.table)
        asked, _ = self.context.prepared_pool(self.model)
        return lambda: asked(some)

    @property
    @override
    def probes(self) -> Sequence[Probe]:
        return [self.probe(PRIMARY, compared_people)]

    def rule(self, measure: int) -> DecisionRule:
        """Return what a comparison of one measure is decided by."""
        name, settings = self.context.measures.names[measure], self.settings
        kind: Any = "rate"
        if name == "prediction":
            kind = "ratio" if self.method.ratio else "difference"
        tolerated, binary = self.method.limit, name == "decision"
        return DecisionRule(settings.delta, settings.alpha, kind, tolerated, binary)

    @override
    def judge(self, stats: Mapping[str, Any]) -> Verdict:
        primary: PairStats = stats[PRIMARY]
        measures, found = self.context.measures, {}
        for design, direction in itertools.product(self.designs, (0, 1)):
            sums = primary.pairings[design.name].sums
            for measure in range(measures.deciding):
                unit = measures.names[measure] != "prediction"
                compared = sums.compared(direction, measure, unit_interval=unit)
                found[design.name, direction, measure] = assess(compared, self.rule(measure))
        outcome, rows = decide_rows(found)
        record = build_pairs_record(self, primary, rows)
        reason = record.leading.reason if outcome == "inconclusive" else ""
        parts = {
            "matched_pairs": record,
            "rows": {"n": primary.n},
            "measures": group_measures(self, primary),
            "notes": self.notes,
        }
        return Verdict(outcome, reason, record=parts, detail=rows)

    @override
    def describe(self) -> list[str]:
        most = max((design.comparison.count for design in self.designs), default=0)
        calls, pairs = 2 * self.n * most * len(self.designs), []
        for design in self.designs:
            attribute, first, second = design.key[1:]
            pairs.append(f"{design.comparison.pairs:,} {attribute} {first} / {second}")
        return [
            f"Model: {self.model.card.kind}, reads {len(self.columns)} columns",
            f"People: {self.n:,} from {self.source.name}",
            f"Reference sample: {len(self.pool):,} from {self.pool.people.source}",
            f"May matter: {', '.join(self.context.keep)}",
            f"Remaining: {', '.join(self.remaining) or 'nothing'}",
            f"Pairs: {', '.join(pairs)}",
            f"Method: matched_pairs; settings {self.settings.hash[:12]}; about {calls:,} rows for "
            f"the model, and {self.method.redraws} redraws of at most 4,000 people",
        ]


def _measures(
    method: MatchedPairs,
    setup: Setup,
    model: Model,
    classes: tuple[Any, ...],
    favourable: int | None,
) -> Measures:
    labelled = () if setup.unlabelled else ("error", "loss")
    regression = model.card.task == "regression"
    if method.measure != "auto" and (method.measure == "prediction") != regression:
        raise InvalidSettings(
            f"The model {'predicts a number' if regression else 'decides among classes'}, so its "
            f"{method.measure} cannot be compared: leave method.measure out."
        )
    if regression:
        names = ("prediction", *labelled[1:])
        return Measures(names, ("",) * len(names), 1, ())
    texts = tuple(map(str, classes))
    if favourable is not None:
        texts = (texts[favourable],)
    elif len(texts) == 2:
        texts = texts[1:]
    first, second = ("score", "decision") if method.measure == "score" else ("decision", "score")
    names = (*(first,) * len(texts), *(second,) * len(texts), *labelled)
    return Measures(names, (*texts, *texts, *("",) * len(labelled)), len(texts), classes)


def _reference_sample(setup: Setup) -> ReferenceSample:
    """Return the reference sample: the one given, everyone in halves, or people drawn."""
    settings, survey, source = setup.settings, setup.survey, setup.source
    if setup.reference is not None:
        return ReferenceSample(setup.reference, True)
    if survey.n <= MOST_HALVED:
        blocks = Blocks(source, BLOCK * 16)
        people = joined([some for _, some in blocks.read(range(len(blocks)))])
        half = f"the other half of {source.name}"
        return ReferenceSample(dataclasses.replace(people.in_columns(), source=half), False)
    drawn = setup.session.survey(source, settings.seed, DRAWN, "drawing the reference sample")
    sample = dataclasses.replace(
        drawn.sample.in_columns(), source=f"{len(drawn.sample):,} of the people audited"
    )
    # Places count rows that were left out, and positions of people do not.
    positions = drawn.places - np.searchsorted(drawn.left_out, drawn.places)
    return ReferenceSample(sample, False, positions)


@dataclasses.dataclass(frozen=True, eq=False)
class Calls:
    """Calls that do not depend on each other, made in whatever process."""

    calls: Sequence[Callable[[], Any]]

    def begin(self) -> Callable[[int], Any]:
        """Return what makes one call."""
        return lambda number: self.calls[number]()


def find_pairs(
    bounds: Sequence[BoundMatchedPairs], wanted: Collection[str] | None = None
) -> list[BoundMatchedPairs]:
    """Return methods with the pairs of every two groups, and those of the redraws.

    They are one audit with its columns, or with several choices of them; ``wanted`` are the names
    of the designs to make, all without any.
    """
    session = bounds[0].setup.session
    calls = [(bound, call) for bound in bounds for call in _design_calls(bound, wanted)]
    job = Calls([call for _, call in calls])
    designs = dict(session.executor.map(job, range(len(calls))))
    paired = []
    for bound in bounds:
        own = tuple(designs[k] for k, (of, _) in enumerate(calls) if of is bound)
        paired.append(dataclasses.replace(bound, designs=own))
    if bounds[0].context.clusters is not None and bounds[0].halves is None:
        # Where attributes are constant in clusters of people, they are redrawn by cluster.
        names = [f"propensities of clusters {one.context.variant}".strip() for one in paired]
        probes = [one.probe(n, located_clusters) for one, n in zip(paired, names, strict=True)]
        sums = session.measure(bounds[0], probes)
        for number, (bound, name) in enumerate(zip(paired, names, strict=True)):
            of = sums[name].pairings
            drawn = [dataclasses.replace(d, people_clusters=of[d.name]) for d in bound.designs]
            paired[number] = dataclasses.replace(bound, designs=tuple(drawn))
    pairs = [p for one in paired for d in one.designs for p in (d.comparison, *d.redraws)]
    job = Calls([functools.partial(getattr, one, "pairing") for one in pairs])
    for done, (number, pairing) in enumerate(session.executor.map(job, range(len(pairs)))):
        pairs[number].__dict__["pairing"] = pairing
        session.tell("pairing comparable people", done + 1, len(pairs))
    return paired


def _design_calls(
    bound: BoundMatchedPairs, wanted: Collection[str] | None
) -> Sequence[Callable[[], PairDesign]]:
    """Return the calls that make every two groups ready for pairing."""
    context, calls = bound.context, []
    for attribute, groups in context.groups.items():
        for a, b in itertools.combinations(range(len(groups.names)), 2):
            about = (attribute, groups.names[a], groups.names[b])
            if wanted is None or "\t".join(about) in wanted:
                call = functools.partial(
                    pair_design,
                    context.pool_covariates,
                    groups.pool,
                    (a, b),
                    (bound.settings.seed, *about),
                    people=(groups.sizes[a], groups.sizes[b]),
                    clusters=bound.pool_clusters,
                    halves=bound.halves,
                    measures=len(context.measures.names),
                    deciding=context.measures.deciding,
                    **bound.options,
                )
                calls.append(call)
    return calls


def build_pairs_record(
    bound: BoundMatchedPairs, stats: PairStats, rows: Mapping[Any, Assessment]
) -> MatchedPairsRecord:
    """Put the comparisons into the record; keys are name of the design, direction and measure."""
    settings, measures = bound.settings, bound.context.measures
    designs = {design.name: design for design in bound.designs}
    comparisons = _with_mirrors(
        bound,
        [
            _comparison(bound, stats, designs[name], direction, measure, row)
            for (name, direction, measure), row in rows.items()
        ],
    )
    shown: list[ShownMeasure] = []
    histograms: list[ChangeHistogram] = []
    people: list[ComparedPerson] = []
    edges, numeric = tuple(np.linspace(-1, 1, BINS + 1).tolist()), measures.names[0] == "prediction"
    for design, direction in itertools.product(bound.designs, (0, 1)):
        part, names = stats.pairings[design.name], design.names(direction)
        for measure in range(measures.deciding, len(measures.names)):
            about = f"{measures.names[measure]} {measures.outcomes[measure]}".strip()
            rates = {}
            estimate = part.sums.compared(direction, measure).estimate
            if estimate is not None:
                rates = {"own": estimate.own, "swapped": estimate.other_corrected}
                rates["difference"] = estimate.difference
            shown.append(ShownMeasure(**names, measure=about, **rates))
        if not numeric:
            counts = tuple(part.histogram[direction].tolist())
            histograms.append(ChangeHistogram(**names, edges=edges, counts=counts))
    if not numeric:
        people += _people(bound, stats, comparisons)
    # The share of decisions that change when an attribute alone is flipped.
    reads = []
    for attribute in (name for name in bound.context.groups if name in bound.columns):
        n, changed = stats.groups[attribute].flipped.tolist()
        q = Share(changed / max(n, 1), n, n).wilson(settings.alpha)
        use = {"changed": q.value, "lower": q.lower, "upper": q.upper, "n": n}
        reads.append(AttributeUse(attribute=attribute, **use))
    threshold, limit = bound.model.card.threshold, bound.method.limit
    return MatchedPairsRecord(
        may_matter=bound.context.keep,
        remaining=bound.remaining,
        favourable=settings.decide.favourable or "",
        measure=measures.names[0],
        threshold=math.nan if threshold is None else threshold,
        limit=math.nan if limit is None else limit,
        delta=settings.delta,
        alpha=settings.alpha,
        neighbours=max(design.comparison.count for design in bound.designs),
        redraws=bound.method.redraws,
        seed=settings.seed,
        pool=bound.pool.people.source,
        pool_size=len(bound.pool),
        pool_given=bound.pool.given,
        pool_sha256=bound.pool.people.fingerprint() if bound.pool.given else "",
        in_pool=sum(n for why, n in bound.pool.people.dropped.items() if why.endswith("audited")),
        comparisons=tuple(comparisons),
        shown=tuple(shown),
        balance=tuple(_balance(bound, stats)),
        changes=tuple(histograms),
        reads=tuple(reads),
        people=tuple(people),
        performance_folds={
            name: tuple(sums.tolist())
            for name, sums in zip(("weight", *measures.names), stats.everyone.T, strict=True)
            if name in ("weight", "error", "loss")
        },
    )


def _comparison(
    bound: BoundMatchedPairs,
    stats: PairStats,
    design: PairDesign,
    direction: int,
    measure: int,
    row: Assessment,
) -> RateComparison:
    measures, part = bound.context.measures, stats.pairings[design.name]
    name, outcome, sums = measures.names[measure], measures.outcomes[measure], part.sums
    parts, kept, people = sums.parts(direction), row.compared.kept, row.compared.people
    clipped, size = int(sums.group_clipped[direction]) if sums.dropped else 0, len(bound.pool)
    base: dict[str, Any] = {
        **design.names(direction),
        "measure": name,
        "column": measures.columns[measure],
        "verdict": row.outcome,
        "reason": row.reason or "",
        "n": kept,
        "people": people,
        "without_overlap": people - kept - clipped,
        "clipped": clipped,
        "pairs": sums.pairs,
        "pool_rows": design.units[direction],
        "people_needed": _needed(people, row.people_needed),
        "pool_needed": _needed(size, row.pool_times * size),
    }
    found = row.shown
    if found is None:
        return RateComparison(**base, outcome=outcome)
    table = stats.groups[design.attribute].values[list(design.groups)]
    with np.errstate(invalid="ignore", divide="ignore"):
        raw = (table[:, 1 + measure] / table[:, 0]).tolist()
        totals = part.shown[parts, :, measure].sum(axis=0)
        up, down, actual = (totals / sums.first[parts, measure, 0].sum()).tolist()
    rates = [raw[direction], raw[1 - direction], actual]
    if name != "decision" or bound.scored:
        # Only decisions change or stay; of a number there is no share of people.
        up = down = math.nan
    estimate, swapped = found.estimate, found.estimate.other_corrected
    if found.complement:
        rates, up, down = [1 - rate for rate in rates], down, up
        others = [text for text in map(str, bound.classes) if text != outcome]
        outcome = others[0] if len(others) == 1 else f"not {outcome}"
    favourable = math.nan, math.nan
    clipped_rate = min(max(swapped, 0.0), 1.0)
    if bound.favourable is not None and bound.model.card.task != "regression":
        favourable = estimate.own, clipped_rate
        if str(bound.classes[bound.favourable]) != outcome:
            favourable = 1 - estimate.own, 1 - clipped_rate
    spread = estimate.spread(np.ones(1))
    limits = estimate.spread(np.array([1 / bound.settings.delta, bound.settings.delta]))
    difference = row.rule.kind == "difference"
    known = () if row.undecided else row.tested
    p_by_limit = (
        (limit, min([1.0, *(len(known) * one.estimate.p_value(limit) for one in known)]))
        for limit in (() if difference else LIMITS)
    )
    return RateComparison(
        **base,
        outcome=outcome,
        own=estimate.own,
        swapped=clipped_rate if name in ("decision", "score") else swapped,
        difference=estimate.difference,
        difference_interval=estimate.difference_interval(bound.settings.alpha),
        ratio=estimate.ratio,
        interval=(math.nan, math.nan) if difference else found.interval,
        p_value=row.p_value,
        p_adjusted=row.adjusted_p,
        std_error=float(spread.std_error[0]),
        degrees=float(spread.degrees[0]),
        allowance=estimate.allowance,
        reference_error=math.sqrt(float(limits.pairs.max()) + limits.redraw),
        bias=estimate.bias,
        kappa=estimate.kappa,
        control=tuple(estimate.control.tolist()),
        effective_pairs=float(spread.effective_pairs[0]),
        events=row.events,
        raw_group=rates[0],
        raw_other=rates[1],
        actual=rates[2],
        favourable_own=favourable[0],
        favourable_swapped=favourable[1],
        changed_up=up,
        changed_down=down,
        p_by_limit=tuple(p_by_limit),
        folds=_influence(part, direction, measure, found),
    )


def _influence(
    part: PairingStats, direction: int, measure: int, found: OutcomeTest
) -> FoldInfluence:
    """Return the influence of folds of people and pairs on the rates, own and swapped."""
    estimate, sign = found.estimate, -1.0 if found.complement else 1.0
    parts, c = part.sums.parts(direction), estimate.factor
    w, other, own = part.folds[parts, :, measure].sum(axis=0).T
    total = w.sum()
    pairs = part.sums.by_pair.parts(parts)
    fold, columns = pairs.index % FOLDS, pairs.values[:, 2 * measure : 2 * measure + 2].T
    values: dict[str, tuple[float, ...]] = {}
    for of, (of_other, of_own) in {
        "people": [(x - w * x.sum() / total) / total for x in (other, own)],
        "pairs": [np.bincount(fold, column, FOLDS) / total for column in columns],
    }.items():
        values[f"own_{of}"] = tuple((sign * of_own).tolist())
        values[f"swapped_{of}"] = tuple((sign * (c * of_other + (1 - c) * of_own)).tolist())
    redrawn = tuple(((estimate.redrawn - estimate.bias) * c).tolist())
    return FoldInfluence(**values, redrawn=redrawn)


def _needed(now: int, needed: float) -> int | None:
    """Return how many would settle a comparison, rounded up; None if those there are do."""
    if not now < needed <= 1e12:
        return None
    step = 10 ** max(int(math.log10(max(needed, 1))) - 1, 0)
    return int(math.ceil(needed / step) * step)


def _with_mirrors(bound: BoundMatchedPairs, rows: Sequence[RateComparison]) -> list[RateComparison]:
    """Mark, of two comparisons that show the same, the one of the favoured group.

    The disadvantaged group is the one whose favourable rate rises with the other's columns. If both
    would do better, or worse, neither is a mirror image of the other.
    """

    def gain(row: RateComparison) -> float:
        if row.favourable_own == row.favourable_own:
            return row.favourable_swapped - row.favourable_own
        flipped = len(bound.classes) == 2 and row.outcome != str(bound.classes[1])
        return -row.difference if flipped else row.difference

    gains = {(*row.direction, row.column): gain(row) for row in rows}

    marked = []
    for row in rows:
        mirror = gains[*row.direction, row.column] < 0 < gains[*row.mirrored, row.column]
        marked.append(row.model_copy(update={"mirror": mirror}))
    return marked


def _balance(bound: BoundMatchedPairs, stats: PairStats) -> Iterator[ColumnBalance]:
    """Yield standardised mean differences of what may matter, before and after matching."""
    for design in bound.designs:
        use = stats.pairings[design.name].sums.by_pair.parts(range(PARTS))
        groups = design.rows[~design.second], design.rows[design.second]
        matched = design.rows[design.comparison.members[:, use.index]]
        for name in bound.context.keep:
            values = bound.context.coding.indicators(bound.context.pool_covariates, name)
            after = math.nan
            before = standardised_difference(values, groups, groups)
            if len(use.index):
                after = standardised_difference(values, tuple(matched), groups, use.values[:, -1])
            yield ColumnBalance(**design.names(0), column=name, before=before, after=after)


def _people(
    bound: BoundMatchedPairs, stats: PairStats, rows: Sequence[RateComparison]
) -> Iterator[ComparedPerson]:
    """Yield the most affected people of the groups that are disadvantaged, else of the largest."""
    ranked = sorted(rows, key=lambda r: (r.verdict != "evidence", r.mirror, -abs(r.difference)))
    for row in ranked[:1] if ranked[0].verdict != "evidence" else ranked[:2]:
        if row.mirror and row.verdict == "evidence":
            continue
        design, direction, measure = bound.located(row)
        most = stats.pairings[design.name].most[direction * design.deciding + measure].rows
        outcome = bound.context.measures.outcomes[measure]
        # Those come first whose rate changes in the direction of the group's.
        rises = (row.outcome == outcome) == (row.difference >= 0)
        gain = most[:, 0] if rises else -most[:, 0]
        order = np.lexsort((most[:, 1], -gain))
        for k in order[: max(FEWEST_SHOWN, int((gain > 0).sum()))]:
            yield _person(bound, row, outcome, most[k])


def _person(
    bound: BoundMatchedPairs, row: RateComparison, outcome: str, found: Float[np.ndarray, " 7"]
) -> ComparedPerson:
    """Return a person beside the closest pair, each with the model's answers."""
    _change, number, position, _own, _swapped, *members = map(int, found)
    if isinstance(bound.source, PeopleSource):
        people = bound.source.people.take(np.array([position]))
    else:
        people, _ = bound.source.rows(number, number + 1)
    keep, table = bound.context.keep, plain(people.in_columns().table)
    asked, pool = bound.context.prepared_pool(bound.model)
    rows, card, zeros = asked.prepare(table), bound.model.card, np.zeros(2, dtype=np.int64)
    swapped = asked.substitute(rows, zeros, pool, np.array(members), keep)
    out = np.vstack([asked.outputs(rows), swapped])
    names = [*map(str, bound.classes)]
    codes = decide(out, card.output, card.threshold)
    chances = probabilities(out, card.output)[:, names.index(outcome)].tolist()
    answers: dict[str, Any] = {}
    for code, chance, whose in zip(codes, chances, ("", "_own", "_swapped"), strict=True):
        answers |= {f"decision{whose}": names[code], f"probability{whose}": chance}
    shown = dict.fromkeys([*keep, *bound.columns, row.attribute])
    (who,), (own, other) = (
        part.select([name for name in shown if name in part.column_names]).to_pylist()
        for part in (table, bound.pool.table.take(pa.array(members)))
    )
    own_row, other_row = bound.pool.people.row[members].tolist()
    return ComparedPerson(
        attribute=row.attribute,
        group=row.group,
        other=row.other,
        outcome=outcome,
        row=number,
        label="" if bound.setup.unlabelled else str(people.y[0]),
        **answers,
        own=float(found[3]),
        swapped=float(found[4]),
        kept={name: who[name] for name in keep},
        person={name: value for name, value in who.items() if name not in keep},
        own_member=own,
        other_member=other,
        own_row=own_row,
        other_row=other_row,
    )


def group_measures(bound: BoundMatchedPairs, stats: PairStats) -> tuple[Measure, ...]:
    """Raw group table: selection rates, impact ratios and error rates, with intervals."""
    if bound.model.card.task == "regression":
        return ()
    alpha, labelled = bound.settings.alpha, not bound.setup.unlabelled
    place = bound.favourable if bound.favourable is not None else len(bound.classes) - 1
    found: list[Measure] = []
    for attribute, table in stats.groups.items():
        groups: dict[str, dict[str, Share]] = {}
        names = bound.context.groups[attribute].names
        for group, counts in zip(names, table.decisions, strict=True):
            everyone = counts.sum(axis=(0, 1))
            shares = {"selection_rate": (counts[:, place].sum(axis=0), everyone)}
            if labelled:
                shares["error_rate"] = everyone - np.einsum("iij->j", counts), everyone
            if labelled and len(counts) == 2:
                have, lack = counts[place], counts[1 - place]
                shares["false_negative_rate"] = have[1 - place], have.sum(axis=0)
                shares["false_positive_rate"] = lack[place], lack.sum(axis=0)
            groups[group] = {
                name: Share.of_people(hits, among, weighted=bool(among[0] != among[1]))
                for name, (hits, among) in shares.items()
            }
        found += [
            Measure(name=name, attribute=attribute, group=group, **dataclasses.asdict(quantity))
            for (name, group), quantity in group_table(groups, alpha).items()
            if not math.isnan(quantity.value)
        ]
    return tuple(found)
