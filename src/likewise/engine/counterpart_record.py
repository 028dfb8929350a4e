"""From what counterparts said to the record."""

import dataclasses
import datetime
import importlib.metadata
import math
import statistics
from typing import Any

import numpy as np

from likewise.data.row_hash import table_fingerprint
from likewise.engine.build_record import data_record, model_record, versions
from likewise.engine.counterpart_audit import CounterpartFindings, CounterpartPlan
from likewise.engine.counterpart_cases import worst_served
from likewise.fingerprints import of_json
from likewise.inference.counterpart_evidence import CounterpartEvidence
from likewise.inference.counterpart_verdict import GroupVerdict, TraitEvidence
from likewise.record import (
    ColumnLeftOut,
    ColumnShareRecord,
    CounterpartGroup,
    CounterpartsRecord,
    CounterpartTrait,
    DecidedBy,
    MetricRecord,
    Record,
    TestRecord,
)
from likewise.report.counterpart_words import leading, sentence, test_name
from likewise.settings import Settings
from likewise.settings.choices import MAPS, note

METHOD = "clustered by people and by pairs, with the swap test"

NO_SPREAD = ("lower_bound", "upper_bound", "detectable")
NOTHING_COMPARED = (
    *("estimate", "std_error", "people_error", "pairs_error", "swap_p_value"),
    *("near_estimate", "certifying_bound"),
)
"""What is not known of a group in which nobody has a counterpart."""


def counterparts_record(plan: CounterpartPlan, found: CounterpartFindings) -> CounterpartsRecord:
    """Describe the question, the pool, the groups and the worst served."""
    question, pool = plan.question, plan.pool
    some = next(iter(plan.pairs.values()))
    return CounterpartsRecord(
        may_matter=some.may_matter,
        free=tuple(name for name in plan.ask.columns if name not in some.may_matter),
        loss=plan.loss.name,
        favourable=plan.loss.favourable,
        threshold=plan.loss.threshold,
        m=question.m,
        caliper=question.caliper,
        swaps=question.swaps,
        seed=question.seed,
        pool=pool.name,
        pool_size=len(pool.table),
        pool_given=pool.given,
        pool_sha256=table_fingerprint(pool.table),
        in_pool=next(iter(found.visited.values())).in_pool,
        columns_left_out=bool(found.without),
        traits=tuple(_trait(plan, found, trait) for trait in plan.pairs),
        worst=worst_served(plan, found),
    )


def _trait(plan: CounterpartPlan, found: CounterpartFindings, trait: str) -> CounterpartTrait:
    pairs, evidence = plan.pairs[trait], found.evidence[trait]
    return CounterpartTrait(
        trait=trait,
        outcome=found.verdict.by_trait[trait],
        pairs=len(pairs),
        pair_distance=float(np.median(pairs.distance)),
        without_group=evidence.without_group,
        overall=_group(plan, trait, evidence.overall),
        groups=tuple(
            _group(plan, trait, one.evidence, one)
            for one in found.verdict.groups
            if one.trait == trait
        ),
        left_out=tuple(
            _other_side(plan, column, one) for column, one in found.without.get(trait, {}).items()
        ),
        moved_in=tuple(
            _other_side(plan, column, one) for column, one in found.moved_in.get(trait, {}).items()
        ),
        carried=tuple(
            ColumnShareRecord(**dataclasses.asdict(one)) for one in found.carried.get(trait, ())
        ),
    )


def _group(
    plan: CounterpartPlan,
    trait: str,
    evidence: CounterpartEvidence,
    verdict: GroupVerdict | None = None,
) -> CounterpartGroup:
    alpha, delta = plan.test.alpha, plan.test.delta
    found: dict[str, Any] = {
        "trait": trait,
        "group": evidence.group or "",
        "n": evidence.n,
        "pool": evidence.pool_size,
        "interval": evidence.bounds.interval(alpha),
        "lower_bound": evidence.bounds.lower_bound(alpha),
        "upper_bound": evidence.bounds.upper_bound(alpha),
        "std_error": evidence.std_error,
        "p_value": evidence.p_value(delta),
        "detectable": detectable(delta, alpha, evidence.std_error),
    }
    same = (
        *("estimate", "people_error", "pairs_error", "swap_p_value", "swapped_mean", "swapped_sd"),
        *("mean_before", "mean_after", "effective_pairs", "near_estimate", "far_share"),
        "no_counterpart",
    )
    found |= {name: getattr(evidence, name) for name in same}
    if verdict is not None:
        found |= {
            "adjusted_p_value": verdict.adjusted_p_value,
            "certifying_bound": max(verdict.worst_upper_bound, verdict.capped_upper_bound),
            "outcome": verdict.outcome,
            "reasons": verdict.reasons,
            "doubtful": verdict.doubtful,
        }
    if not evidence.std_error > 0:  # nothing varies, so that no bound is to be had in this way
        found |= dict.fromkeys(NO_SPREAD, math.nan) | {"interval": (math.nan, math.nan)}
    if evidence.no_counterpart == evidence.n:
        found |= dict.fromkeys(NOTHING_COMPARED, math.nan)
    return CounterpartGroup.model_validate(found)


def detectable(delta: float, alpha: float, std_error: float) -> float:
    """Return the ratio that would be found in four of five audits like this one."""
    normal = statistics.NormalDist()
    return delta + (normal.inv_cdf(1 - alpha) + normal.inv_cdf(0.8)) * std_error


def _other_side(plan: CounterpartPlan, column: str, evidence: TraitEvidence) -> ColumnLeftOut:
    known = [one for one in evidence.groups if not math.isnan(one.estimate)]
    top = max(known, key=lambda one: one.estimate, default=None)
    p_value = min((one.p_value(plan.test.delta) for one in known), default=1.0)
    return ColumnLeftOut(
        trait=evidence.trait,
        column=column,
        estimate=evidence.overall.estimate,
        largest=math.nan if top is None else top.estimate,
        group="" if top is None or top.group is None else top.group,
        p_value=p_value,
        outcome=plan.test.decide([evidence]).outcome,
    )


def group_tests(plan: CounterpartPlan, found: CounterpartFindings) -> dict[str, TestRecord]:
    """Return one test for each group of each trait."""
    tests = {}
    for one in found.verdict.groups:
        name = test_name(one.trait, str(one.evidence.group))
        varies, nobody = one.evidence.std_error > 0, one.evidence.no_counterpart == one.evidence.n
        tests[name] = TestRecord(
            test=name,
            map="counterparts",
            method=METHOD,
            estimate=math.nan if nobody else one.evidence.estimate,
            std_error=math.nan if nobody else one.evidence.std_error,
            statistic=one.lower_bound if varies else math.nan,
            p_value=one.p_value,
            rejected=one.outcome == "evidence_of_unfairness",
            interval=one.interval if varies else (math.nan, math.nan),
            lower_bound=one.lower_bound if varies else math.nan,
            upper_bound=math.nan if nobody else one.upper_bound,
            capped_upper_bound=math.nan
            if nobody
            else max(one.worst_upper_bound, one.capped_upper_bound),
            cap=plan.test.cap,
            delta=plan.test.delta,
            alpha=plan.test.alpha,
            n=one.evidence.n,
            outcome=one.outcome,
            held_back=one.reasons[0] if one.doubtful and one.lower_bound > plan.test.delta else "",
            notes=one.reasons,
            details={
                "adjusted_p_value": one.adjusted_p_value,
                "swap_p_value": one.evidence.swap_p_value,
                "effective_pairs": one.evidence.effective_pairs,
            },
        )
    return tests


def build_counterpart_record(
    plan: CounterpartPlan,
    found: CounterpartFindings,
    beside: Record | None,
    *,
    reasons: tuple[str, ...] = (),
    skipped: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    command: str = "",
    seconds: float = 0.0,
) -> Record:
    """Put everything into the record; an audit of the same people by another map stands below.

    Parameters
    ----------
    beside
        The record of that audit, if there is one. Nothing of it decides.
    """
    part = counterparts_record(plan, found)
    tests = group_tests(plan, found)
    settings, label = noted(plan), plan.settings.columns.label
    trait, group = leading(part, found.verdict.outcome)
    decides = test_name(trait.trait, group.group)
    own: dict[str, Any] = {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "outcome": found.verdict.outcome,
        "sentence": sentence(part, found.verdict.outcome, plan.test.delta, plan.test.alpha),
        "trustworthy": not reasons,
        "reasons": reasons,
        "decided_by": DecidedBy(
            map="counterparts", test=decides, interval="two_way", metric="named"
        ),
        "counterparts": part,
        "subgroups": found.subgroups,
        "settings": settings,
        "settings_hash": settings.hash,
        "command": command,
    }
    if beside is not None:
        return beside.model_copy(
            update=own
            | {
                "tests": {**tests, **beside.tests},
                "skipped": (*beside.skipped, *skipped),
                "warnings": tuple(dict.fromkeys((*warnings, *beside.warnings, *beside.reasons))),
                "seconds": {"total": seconds},
            }
        )
    return Record(
        likewise_version=importlib.metadata.version("likewise"),
        tests=tests,
        rows={"n": plan.known.n, "moved": plan.known.n},
        warnings=warnings,
        skipped=skipped,
        model=model_record(plan.model.card, plan.classes, len(plan.ask.columns)),
        data=data_record(
            plan.known,
            plan.people,
            source=plan.source.name,
            features=plan.ask.columns,
            label=label,
            labels=plan.known.labels if plan.classes and label is not None else {},
        ),
        metric=MetricRecord(
            kind="columns that may matter",
            learned=False,
            dimension=len(part.may_matter) + len(part.free),
            sha256=of_json([list(part.may_matter), list(part.free)]),
        ),
        versions=versions(),
        seconds={"total": seconds},
        **own,
    )


def noted(plan: CounterpartPlan) -> Settings:
    """Return the settings with the question as it was asked."""
    return plan.settings.changed(map=note(MAPS, plan.question).model_dump())
