"""An audit by counterparts: who is compared with whom, what the model makes of it, the verdict."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from likewise.audit_data import AuditData
from likewise.data.balance import unbalanced
from likewise.data.pairs import Pairs, cluster_numbers
from likewise.data.sources import Source
from likewise.data.survey import Survey
from likewise.engine.chosen_loss import ChosenLoss, choose_loss
from likewise.engine.meeting import ModelHandle, Progress, as_seen, by_columns
from likewise.engine.pool import Pool, check_columns, plain
from likewise.engine.pool_values import check_groups, compare_values
from likewise.engine.prepare import label_classes, meet, unlabelled
from likewise.engine.visiting import BLOCK, VisitBlocks, Visited, visit_everyone
from likewise.errors import InvalidData, InvalidSettings
from likewise.inference.column_shares import ColumnShare
from likewise.inference.counterpart_test import CounterpartTest
from likewise.inference.counterpart_verdict import CounterpartVerdict, TraitEvidence
from likewise.maps.counterparts import Counterparts
from likewise.maps.decision_losses import WrongDecision
from likewise.models import check
from likewise.models.base import Model
from likewise.record import SubgroupRecord
from likewise.scale.executors import Executor
from likewise.settings import Settings


@dataclasses.dataclass(frozen=True, eq=False)
class CounterpartPlan:
    """Model, people, pool and question that go together.

    Parameters
    ----------
    people
        The survey's sample of the people, in original columns.
    pairs
        By trait.
    """

    model: Model
    handle: ModelHandle
    source: Source
    known: Survey
    people: AuditData
    classes: tuple[Any, ...]
    question: Counterparts
    pool: Pool
    pairs: Mapping[str, Pairs]
    loss: ChosenLoss
    test: CounterpartTest
    settings: Settings
    run: Executor

    @functools.cached_property
    def ask(self) -> Any:
        """The model as a function of original columns."""
        return by_columns(self.model, self.people)

    @property
    def wrong(self) -> WrongDecision | None:
        """Who is decided wrongly, where there are classes and labels."""
        card = self.model.card
        if card.task == "regression" or unlabelled(self.settings):
            return None
        return WrongDecision(card.output, 0.5 if card.threshold is None else card.threshold)

    def visits(
        self, questions: Mapping[str, tuple[Counterparts, Pairs]], progress: Progress | None
    ) -> dict[str, Visited]:
        """Let pairs visit everyone, for several questions at once."""
        job = VisitBlocks(
            model=self.handle,
            blocks=self.source.blocks(BLOCK),
            questions=questions,
            pool=self.pool.table,
            loss=self.loss.of_person,
            labelled=self.loss.labelled,
            classes=self.classes,
            wrong=self.wrong,
        )
        return visit_everyone(job, self.run, progress)

    def evidence(self, trait: str, pairs: Pairs, visited: Visited) -> TraitEvidence:
        """Return what the visits say about a trait."""
        return self.test.evidence(
            visited.donors,
            trait,
            pairs.groups,
            pairs.group_sizes,
            pair_cluster=pairs.cluster if self.pool.cluster is not None else None,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class CounterpartFindings:
    """Everything that was found with counterparts.

    Parameters
    ----------
    evidence, visited
        By trait.
    without
        By trait and column that may matter, the evidence with that column free; empty if it was
        not tried.
    carried, moved_in
        By trait, which free columns carry it, and the evidence with each of them among the columns
        that may matter.
    subgroups
        Where it is worst.
    """

    verdict: CounterpartVerdict
    evidence: Mapping[str, TraitEvidence]
    visited: Mapping[str, Visited]
    without: Mapping[str, Mapping[str, TraitEvidence]]
    carried: Mapping[str, tuple[ColumnShare, ...]] = dataclasses.field(default_factory=dict)
    moved_in: Mapping[str, Mapping[str, TraitEvidence]] = dataclasses.field(default_factory=dict)
    subgroups: tuple[SubgroupRecord, ...] = ()


def prepare_counterparts(
    model: Any,
    opened: Any,
    source: Source,
    known: Survey,
    *,
    pool: Pool,
    question: Counterparts,
    settings: Settings,
    run: Executor,
    trust: bool,
) -> CounterpartPlan:
    """Check model, people, pool and question against each other, and find the pairs."""
    if known.n < 2:
        raise InvalidData(f"There are {known.n} people; a test needs at least 2.")
    people = known.sample.in_columns()
    assert people.table is not None
    wrapped, handle = meet(model, opened, known, settings, trust=trust)
    traits = tuple(known.traits)
    check_columns(question, traits, people.table, pool.table)
    ask = by_columns(wrapped, people)
    question = with_columns(question, traits, ask.columns)
    for trait in traits:
        check_groups(trait, known.traits[trait], pool.table)
    if pool.given:
        compared = dict.fromkeys((*ask.columns, *(question.may_matter or ())))
        names = [name for name in compared if name not in traits]
        compare_values(names, plain(people.table), pool.table)
    classes = known_classes(wrapped, known, settings)
    if wrapped.front is None:
        seen = as_seen(wrapped, people)
        check(wrapped, seen.x, features=seen.features, classes=classes)
    return CounterpartPlan(
        model=wrapped,
        handle=handle,
        source=source,
        known=known,
        people=people,
        classes=classes,
        question=question,
        pool=pool,
        pairs={trait: pairs_of(question, pool, trait) for trait in traits},
        loss=choose_loss(wrapped, classes, settings),
        test=CounterpartTest(settings.delta, settings.alpha, settings.cap),
        settings=settings,
        run=run,
    )


def with_columns(
    question: Counterparts, traits: tuple[str, ...], columns: tuple[str, ...]
) -> Counterparts:
    """Return the question with the columns that may matter named, if only the free ones are.

    They are all that the model reads, but for the free ones and the traits.
    """
    if question.may_matter is not None:
        return question
    free = {*(question.free or ()), *traits}
    legitimate = tuple(name for name in columns if name not in free)
    return dataclasses.replace(question, may_matter=legitimate, free=None)


def pairs_of(question: Counterparts, pool: Pool, trait: str) -> Pairs:
    """Return the pairs of a trait: those of a file, or found now."""
    saved = pool.saved.get(trait)
    if saved is None:
        return question.pairs(pool.table, trait, pool.cluster)
    asked = (set(question.may_matter or ()), question.caliper, question.seed)
    if asked != (set(saved.may_matter), saved.caliper, saved.seed):
        raise InvalidSettings(
            f"The saved pairs of {trait!r} are alike in {', '.join(saved.may_matter) or 'nothing'} "
            f"(caliper {saved.caliper:g}, seed {saved.seed}), which is another question. Ask that "
            "one, or find the pairs again (likewise pairs)."
        )
    member = cluster_numbers(pool.table, pool.cluster)
    return dataclasses.replace(saved, cluster=member[saved.rows])


def known_classes(model: Model, known: Survey, settings: Settings) -> tuple[Any, ...]:
    """Return the classes in the order of the model's outputs, with labels or without."""
    if not unlabelled(settings):
        return label_classes(model, known, settings)
    if model.card.task == "regression" or model.card.classes:
        return model.card.classes
    return (0, 1)


def ask_counterparts(
    plan: CounterpartPlan, progress: Progress | None, *, everything: bool
) -> CounterpartFindings:
    """Ask the model about every visit, and conclude.

    Parameters
    ----------
    everything
        Whether each column that may matter is left out in turn even if nothing depends on it:
        only a model that would be found within tolerance has to bear it.
    """
    asked = {trait: (plan.question, pairs) for trait, pairs in plan.pairs.items()}
    visited = plan.visits(asked, progress)
    evidence = {
        trait: dataclasses.replace(
            plan.evidence(trait, pairs, visited[trait]),
            unbalanced=unbalanced(pairs, plan.pool.table),
        )
        for trait, pairs in plan.pairs.items()
    }
    hopeful = plan.test.decide(list(evidence.values()), {t: {} for t in evidence})
    if not everything and hopeful.outcome != "within_tolerance":
        verdict = plan.test.decide(list(evidence.values()), None)
        return CounterpartFindings(verdict, evidence, visited, {})
    without = leave_out(plan, progress)
    smallest = {
        trait: {column: plan.test.smallest_p_value(one) for column, one in columns.items()}
        for trait, columns in without.items()
    }
    verdict = plan.test.decide(list(evidence.values()), smallest)
    return CounterpartFindings(verdict, evidence, visited, without)


def leave_out(
    plan: CounterpartPlan, progress: Progress | None
) -> dict[str, dict[str, TraitEvidence]]:
    """Ask again with every column that may matter made free, one at a time."""
    questions: dict[str, tuple[Counterparts, Pairs]] = {}
    for trait, pairs in plan.pairs.items():
        for column in pairs.may_matter:
            other = plan.question.without(column, pairs)
            found = other.pairs(plan.pool.table, trait, plan.pool.cluster)
            questions[f"{trait}\0{column}"] = (other, found)
    visited = plan.visits(questions, progress) if questions else {}
    found_by: dict[str, dict[str, TraitEvidence]] = {trait: {} for trait in plan.pairs}
    for name, (_, pairs) in questions.items():
        trait, _, column = name.partition("\0")
        found_by[trait][column] = plan.evidence(trait, pairs, visited[name])
    return found_by
