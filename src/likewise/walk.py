"""The whole walk: from a model and people to a verdict. Read this first."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.engine.audit_result import AuditResult as AuditResult
from likewise.engine.build_record import build_record
from likewise.engine.certified import worst_finely
from likewise.engine.decide import Judgement, judge
from likewise.engine.get_ready import chosen, get_ready
from likewise.engine.meeting import Progress, noted_warnings
from likewise.engine.move_stats import MoveStats
from likewise.engine.outcomes_file import (
    MOST_ROWS,
    OutcomesFile,
    keep_outcomes,
    nobody_moved,
    reader,
    write_visits,
)
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.prepare import with_certificate
from likewise.engine.sweep import sweep
from likewise.engine.variants import DECIDES, Variant
from likewise.errors import InvalidSettings, StatisticalWarning
from likewise.inference.ratio_test import RatioTest
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.models.behaviour import Remembered
from likewise.scale.executors import Executor, Threads
from likewise.scale.store import Memory, Store
from likewise.settings import Choice, Settings
from likewise.settings.choices import CHECKS, make


def audit(
    model: Any,
    people: Any,
    *,
    metric: FairMetric | None = None,
    map: Any = None,
    pool: Any = None,
    tests: Sequence[RatioTest] = (),
    checks: str | Sequence[str] | None = None,
    settings: Settings | None = None,
    run: Executor = Threads(),  # noqa: B008
    store: Store = Memory(),  # noqa: B008
    outcomes: str | Path | OutcomesFile | None = None,
    output: str | None = None,
    trust: bool = False,
    progress: Progress | None = None,
    command: str = "",
    finish: Callable[[AuditResult], object] | None = None,
) -> AuditResult:
    """Move everyone to their worst similar self, then ask whether that hurt too much.

    Parameters
    ----------
    model
        A torch module, a scikit-learn estimator or pipeline, or anything `as_model` knows; or the
        name of a model file, which every worker opens for itself. It is never changed.
    people
        The people to audit, a sample from those the model is meant for, not used to train it:
        `AuditData`, a data frame, or paths and patterns of Parquet and CSV files.
    metric
        Who counts as alike. Without one, it is learned from the audited people themselves:
        directions that predict their protected traits are free.
    map
        How the worst similar person is found; by default that of the settings. `Counterparts`
        compares with real people instead.
    pool
        For counterparts: people other than the audited, as ``people`` are given. Without one, a
        random half of the people becomes the pool.
    tests, checks
        Tests to run, and checks beyond the verdict; by default those of the settings.
    settings
        Every other choice. Choices made in ``map`` and ``tests`` are noted there.
    run
        Where blocks of people are moved: `Inline`, `Threads`, `Processes` or `Ray`. It changes no
        number.
    store
        Where finished blocks are kept: `Memory`, or a `Folder` that can be resumed.
    outcomes
        Where to write one row a person (Parquet).
    output
        What the model returns, if it does not say: logits, probabilities or values.
    trust
        Whether files that can run code, and modules named in the settings, may.
    finish
        Given the result before the store is cleared: if writing it fails, no block is lost.

    Examples
    --------
    >>> import numpy as np, likewise
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 3))
    >>> group = x[:, 0] + rng.normal(size=500) > 0
    >>> y = x[:, 1] + 0.5 * rng.normal(size=500) > 0
    >>> people = likewise.AuditData.from_arrays(x[:250], y[:250], {"group": group[:250]})
    >>> model = LogisticRegression().fit(x[250:], y[250:])
    >>> alike = likewise.ignoring([[1.0, 0.0, 0.0]])  # but for the first feature
    >>> result = likewise.audit(model, people, metric=alike, checks="core")
    >>> result.outcome
    'within_tolerance'
    """
    settings = chosen(settings, map, checks, output, tests=tests, trust=trust)
    if settings.map.name == "counterparts":
        return audit_counterparts(
            model,
            people,
            metric=metric,
            pool=pool,
            tests=tests,
            settings=settings,
            run=run,
            outcomes=outcomes,
            trust=trust,
            progress=progress,
            command=command,
            finish=finish,
        )
    if pool is not None:
        raise InvalidSettings(
            "A pool is for counterparts: name the columns that may matter (--may-matter), too."
        )
    began = time.perf_counter()
    with noted_warnings() as said, contextlib.ExitStack() as stack:
        plan = get_ready(
            model,
            people,
            metric=metric,
            map=map,
            tests=tests,
            settings=settings,
            run=run,
            trust=trust,
            progress=progress,
            stack=stack,
        )
        remembered = Remembered.of(plan.model, plan.x)
        plan = with_certificate(plan)
        questions = all_checks(plan)
        variants = [plan.deciding, *(v for check in questions for v in check.variants(plan))]
        book = stack.enter_context(store.opened(plan.identity(variants)))
        stats = sweep(plan, variants, book, progress)
        plan = dataclasses.replace(plan, rows=reader(book, plan.n))
        while more := further(questions, stats, plan):
            stats |= sweep(plan, more, progress=progress)
        plan, stats[DECIDES] = worst_finely(plan, stats[DECIDES])
        judgement = judge_everyone(plan, stats)
        findings = []
        for check in questions:
            finding = check.read(stats, plan, judgement)
            judgement = finding.judgement or judgement
            findings.append(finding)
            for words in finding.warnings:
                warnings.warn(words, StatisticalWarning, stacklevel=2)
        # An endpoint, say, may have been replaced meanwhile.
        findings.append(Finding(reasons=tuple(remembered.reasons())))
        seconds = time.perf_counter() - began
        record = build_record(
            plan, stats, judgement, findings, warnings=said(), command=command, seconds=seconds
        )
        rows = keep_outcomes(book, record, outcomes)
        result = AuditResult(record, plan.metric, stats[DECIDES], plan.people, rows)
        if finish is not None:
            finish(result)
        book.remove()
    return result


def rehearse(
    model: Any,
    people: Any,
    *,
    metric: FairMetric | None = None,
    map: UnfairMap | str | None = None,
    pool: Any = None,
    settings: Settings | None = None,
    trust: bool = False,
) -> str:
    """Check everything an audit would, move nobody, and say what would be done."""
    settings = chosen(settings, map, None, None, trust=trust)
    if settings.map.name == "counterparts":
        from likewise.engine.counterpart_walk import rehearse_counterparts

        return rehearse_counterparts(model, people, pool=pool, settings=settings, trust=trust)
    with contextlib.ExitStack() as stack:
        plan = get_ready(
            model,
            people,
            metric=metric,
            map=map,
            settings=settings,
            trust=trust,
            stack=stack,
        )
    classes = ", ".join(str(value) for value in plan.classes) or "none"
    lines = [
        f"Model: {plan.model.card.kind}, {plan.x.shape[1]} features, classes {classes}",
        f"People: {plan.n} from {plan.source.name}",
        str(plan.metric),
        f"Settings {plan.settings.hash[:12]}; map {plan.map.name}.",
        "Everything fits together. Nobody was moved.",
    ]
    return "\n".join(lines)


def audit_counterparts(
    model: Any,
    people: Any,
    *,
    settings: Settings,
    pool: Any,
    outcomes: str | Path | OutcomesFile | None,
    finish: Callable[[AuditResult], object] | None,
    command: str,
    metric: FairMetric | None,
    tests: Sequence[RatioTest],
    **where: Any,
) -> AuditResult:
    """Compare people with real people of other groups; another map of the same people below."""
    from likewise.engine.counterpart_walk import compare_with_counterparts

    found = compare_with_counterparts(
        model,
        people,
        pool=pool,
        settings=settings,
        command=command,
        move=lambda same, other: audit(
            model, same, settings=other, metric=metric, tests=tests, **where
        ),
        **where,
    )
    below = found.below
    result = AuditResult(
        found.record,
        None if below is None else below.metric,
        None if below is None else below.stats,
        found.people,
        nobody_moved if below is None else below.rows,
        found.visits,
    )
    if outcomes is not None:
        write_visits(found.visits, outcomes)
    if finish is not None:
        finish(result)
    return result


def all_checks(plan: Plan) -> list[Check]:
    """Return all checks that are known, and those that were named; each knows if it was asked."""
    chosen, names = plan.settings.checks, dict.fromkeys([*CHECKS.names(), *sorted(plan.asked)])
    return [
        make(CHECKS, Choice.model_validate({"name": name, **chosen.params(name)}), trust=True)
        for name in names
    ]


def further(
    questions: Sequence[Check], stats: Mapping[str, MoveStats], plan: Plan
) -> list[Variant]:
    """Return variants that checks ask for now that others are known."""
    wanted = (variant for check in questions for variant in check.more(stats, plan))
    return [variant for variant in wanted if variant.name not in stats]


def judge_everyone(plan: Plan, stats: Mapping[str, MoveStats]) -> Judgement:
    """Run the tests on everyone; those that resample read the rows."""
    rows = None
    if any(test.needs_rows for test in plan.tests.values()):
        if plan.rows is None:
            raise InvalidSettings(
                f"The bootstrap-t resamples everyone, which is meant for up to {MOST_ROWS} people "
                f"(here {plan.n}). Use interval 'hall', which it agrees with at this size."
            )
        rows = plan.rows()
    off = 0.0 if plan.certificate is None else plan.certificate.error_bound
    judgement = judge(plan.tests, plan.decider, plan.map.name, stats[DECIDES].tally, rows, off)
    against: tuple[str, ...] = ()
    if not plan.settings.decide.certify:
        against = ("The settings said beforehand that nothing is to be found within tolerance.",)
    # With free directions a search beside the flow would see what it is blind to.
    alone = plan.certificate is not None and not len(plan.metric.free)
    if alone and judgement.evidence[plan.decider].unmoved and np.ptp(plan.model(plan.x), 0).any():
        against += ("No gradient moves anybody, but outputs that jump have none either.",)
    return dataclasses.replace(judgement, against_tolerance=against)
