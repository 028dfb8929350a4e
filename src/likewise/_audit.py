"""The whole audit on one page: from a model and people to a verdict. Read this first."""

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from likewise.build_record import build_record
from likewise.data.notes import left_out_notes
from likewise.errors import InvalidData, InvalidModel, InvalidSettings, StatisticalWarning
from likewise.files import check_outputs
from likewise.method import MAX_ROWS, BoundMethod, Check, Method, Progress
from likewise.models.behaviour import Canary
from likewise.probe import Probe
from likewise.result import AuditResult, native_kind
from likewise.run.executors import Executor, Threads
from likewise.run.journal import Memory, Store
from likewise.session import Session, write_rows
from likewise.settings import Settings
from likewise.settings.arguments import PLACES
from likewise.settings.choices import CHECKS, METHODS
from likewise.setup import Setup, noted_warnings, prepare

GIVEN = ("model", "people", "settings", "paper", "pool", "metric", "encoder", "trust")
ARGUMENTS = (*GIVEN, *PLACES)
"""Arguments of `audit` that say what is audited and how; the others say where it runs."""


def audit(
    model: Any,
    people: Any,
    *,
    label: str | None = None,
    protected: str | Sequence[str] = (),
    may_matter: Sequence[str] | None = None,
    favourable: Any = None,
    pool: Any = None,
    decision: str | None = None,
    score: str | None = None,
    threshold: float | None = None,
    label_map: Mapping[Any, Any] | None = None,
    bins: Mapping[str, Any] | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    method: Any = None,
    metric: Any = None,
    encoder: Any = None,
    loss: Any = None,
    paper: bool = False,
    delta: float | None = None,
    alpha: float | None = None,
    checks: str | Sequence[str] | None = None,
    settings: Settings | None = None,
    executor: Executor = Threads(),  # noqa: B008
    store: Store = Memory(),  # noqa: B008
    outcomes: str | Path | None = None,
    output: str | None = None,
    trust: bool = False,
    progress: Progress | None = None,
    command: str = "",
    finish: Callable[[AuditResult], object] | None = None,
) -> AuditResult:
    """Audit a model for individual fairness: whether comparable people are treated alike.

    Parameters
    ----------
    model
        A scikit-learn estimator or pipeline, a torch module, a function, the name of a model file
        or of an endpoint; `None` if ``people`` are scored already. It is never changed.
    people
        The people to audit, a sample of those the model is meant for, not used to train it: a data
        frame, or paths of Parquet and CSV files.
    label, protected, weights, clusters
        Names of the columns with the true outcome, the protected attributes, sampling weights, and
        groups of dependent rows.
    may_matter
        The legitimate factors: columns that may make a difference. People who are alike in them are
        compared (matched pairs). Without them the gradient flow looks for adversarial examples.
    favourable
        The decision that people want; the verdict then says who is disadvantaged.
    pool
        The reference sample in which comparable people are found; not the people the model was
        trained on. Without one, each half of the people is the other's.
    decision, score, threshold
        For people who are scored already: the column with the decision, or the score and the
        threshold from which on the decision is made.
    label_map
        The model's class for each value of the label, if they are written otherwise.
    bins
        Where to cut a continuous attribute: ``{"age": [40]}``.
    method
        ``matched_pairs``, ``gradient_flow``, ``reach`` or ``flip``, by name or made; by default
        matched pairs if columns that may matter are named.
    metric
        Who counts as similar, for methods that perturb people; learned from them without one.
    encoder
        What turns the table's columns into the model's features, if the model does not.
    loss
        A loss of your own: a torch function of outputs and labels, or a pair of NumPy functions.
    paper
        Exactly the procedure of the ICLR 2021 paper: its flow, steps, metric and intervals.
    delta, alpha
        The limit on the ratio (1.25 follows the four-fifths rule), and the error rate.
    checks
        ``full``, ``core`` (the verdict alone), or names.
    settings
        Every other choice. An argument that disagrees with a setting is an error.
    executor
        Where blocks of people are measured: `Inline`, `Threads`, `Processes` or `Ray`. It changes
        no number.
    store
        Where finished blocks are kept: `Memory`, or a `Folder` that can be resumed.
    outcomes
        Where to write one row a person (Parquet).
    output
        What the model returns, if it does not say: logits, probabilities or values.
    trust
        Whether files that can run code, and modules named in the settings, may.
    progress, command, finish
        Told how far it is; the command to note in the record; and called with the result before
        the journal is removed, so that nothing is lost if writing it fails.

    Examples
    --------
    >>> import likewise, numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"income": rng.normal(size=800), "zip": rng.normal(size=800)})
    >>> table["group"] = np.where(table["zip"] + rng.normal(size=800) > 0, "a", "b")
    >>> table["paid"] = (table["income"] + rng.normal(size=800) > 0).astype(int)
    >>> model = LogisticRegression().fit(table[["income", "zip"]][:400], table["paid"][:400])
    >>> result = likewise.audit(model, table[400:], label="paid", protected="group",
    ...                         may_matter=["income"], favourable=1, checks="core")
    >>> result.verdict in ("within_tolerance", "inconclusive")
    True
    """
    given, began = locals(), time.perf_counter()
    check_outputs([outcomes], [model, people, pool])
    with (
        noted_warnings() as said,
        Session(executor, store, progress, keeps_rows=outcomes is not None) as session,
    ):
        setup = prepare(session, **{name: given[name] for name in ARGUMENTS})
        session.open_journal(setup.identity())
        bound = bind(setup)
        canary = Canary(bound.canary, functools.partial(session.once, "answers"))
        questions = chosen_checks(bound)
        probes = [*bound.probes, *chain.from_iterable(c.probes(bound) for c in questions)]
        stats = session.measure(bound, probes)
        while more := unmeasured(bound.follow_up(stats), session):
            stats |= session.measure(bound, more)
        verdict = bound.judge(stats)
        while more := unmeasured(
            chain.from_iterable(c.follow_up(stats, bound, verdict) for c in questions), session
        ):
            stats |= session.measure(bound, more)
        verdict = verdict.refused(*canary.changed())
        findings = [check.read(stats, bound, verdict) for check in questions]
        for finding in findings:
            for words in finding.warnings:
                warnings.warn(words, StatisticalWarning, stacklevel=2)
        seconds = time.perf_counter() - began
        record = build_record(bound, verdict, findings, said, command, seconds)
        tables = list(session.rows(record)) if bound.n <= MAX_ROWS else []
        rows = pa.concat_tables(tables) if tables else None
        result = AuditResult(record, rows, getattr(bound, "metric", None), native_kind(people))
        if finish is not None:
            finish(result)
        if outcomes is not None:
            write_rows(session.rows(record), Path(outcomes))
        session.journal.remove()
    return result


def dry_run(model: Any, people: Any, **choices: Any) -> str:
    """Check everything an audit would, measure no one, and say what would be done."""
    with noted_warnings(), Session(Threads(), Memory()) as session:
        bound = bind(prepare(session, model, people, **choices))
        lines = [*bound.describe(), *left_out_notes(bound.survey.dropped)]
    return "\n".join([*lines, "Everything fits together. No person was measured."])


def bind(setup: Setup) -> BoundMethod:
    """Return the method that the settings name, made ready for the model and the people."""
    method, choice = setup.method, setup.settings.method
    pairs = bool(setup.settings.columns.may_matter) and setup.metric is None
    name = "matched_pairs" if choice.name == "auto" and pairs else choice.name
    if method is None and name != "auto":
        method = METHODS.make(name, choice.params, trust=setup.trust)
    if not isinstance(method, Method) and setup.pool is not None:
        raise InvalidSettings(
            "A pool is for matched pairs: name the columns that may matter, too (--may-matter)."
        )
    try:
        if isinstance(method, Method):
            return method.bind(setup)
        from likewise.methods.perturbation import bind_perturbation

        return bind_perturbation(setup)
    except (InvalidData, InvalidModel) as error:
        if not (notes := setup.survey.sample.notes):
            raise
        # What does not fit may be what was read in an unexpected way.
        raise type(error)(" ".join([str(error), *notes])) from error


def chosen_checks(bound: BoundMethod) -> list[Check]:
    """Return the checks that were asked for and are for this method."""
    chosen = bound.settings.checks
    if chosen.run == "core":
        return []
    full, found = chosen.run == "full", []
    for name in CHECKS.places if full else chosen.run:
        check: Check = CHECKS.make(name, chosen.params(name), trust=True)
        wanted = not full or check.default or name in chosen.named
        if wanted and (not check.methods or bound.kind in check.methods):
            found.append(check)
    return found


def unmeasured(probes: Iterable[Probe], session: Session) -> list[Probe]:
    """Return the probes that were not measured yet, each once; some concern nobody."""
    return list({probe.name: probe for probe in probes if probe.name not in session.asked}.values())
