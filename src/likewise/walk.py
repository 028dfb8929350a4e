"""The whole walk: from a model and a table of people to a verdict. Read this first."""

import dataclasses
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.checks.choices import choose_map, complete, note_choices, note_reach, resolve
from likewise.checks.crossfit import move_everyone
from likewise.checks.diagnose import diagnose
from likewise.checks.gather import Gathered, Progress
from likewise.checks.introduce import Introduced, introduce, meet
from likewise.checks.judge import judge
from likewise.checks.ladder import certified
from likewise.checks.refit import check_refits
from likewise.checks.writing import signed, worst_cases, write
from likewise.data.scales import warn_about_scales
from likewise.errors import InvalidData, LikewiseWarning
from likewise.files import write_whole
from likewise.inference.ratio_tests import RatioTest
from likewise.maps.base import UnfairMap
from likewise.metrics.base import FairMetric
from likewise.metrics.learn import sensitive_subspace
from likewise.models import as_model
from likewise.models.drift import Remembered
from likewise.outcomes import Outcomes
from likewise.people import AuditData
from likewise.record import Record, TestRecord, WorstCase
from likewise.report.plots import Plots
from likewise.report.words import summary
from likewise.settings import Settings


@dataclasses.dataclass(frozen=True)
class AuditResult:
    """What an audit found. Print it; save it; ask it who is treated worst.

    Parameters
    ----------
    record
        The result as data: all that the JSON file holds and reports are made from.
    outcomes
        One row a person; every test can be repeated from them without the model.
    metric
        The fair metric that was used, given or learned.
    """

    record: Record
    outcomes: Outcomes
    metric: FairMetric
    gathered: Gathered
    data: AuditData

    @property
    def outcome(self) -> str:
        """``evidence_of_unfairness``, ``within_tolerance`` or ``inconclusive``."""
        return self.record.outcome

    def verdict(self, test: str) -> TestRecord:
        """Return one test by name, with the paper's ``S_n``, ``V_n`` and ``T_n``."""
        return self.record.verdict(test)

    def summary(self) -> str:
        """Return the audit on one page of text, the verdict last."""
        return summary(self.record)

    def worst(self, n: int = 10) -> tuple[WorstCase, ...]:
        """Return the people treated worst, before and after, in original columns where possible.

        At most 100 are kept.
        """
        return worst_cases(self.gathered, self.data, n)

    def to_json(self) -> str:
        """Return the result file as text."""
        return self.record.to_json()

    def to_html(self) -> str:
        """Return the report as one self-contained web page."""
        from likewise.report.html import to_html

        return to_html(self.record)

    @property
    def plot(self) -> Plots:
        """Pictures as matplotlib axes: ``result.plot.groups()``."""
        return Plots(self.record)

    def save(self, path: str | Path) -> None:
        """Write the result file."""
        write_whole(path, self.to_json().encode())

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from likewise.report.notebook import result_snippet

        return result_snippet(self.record)


def audit(
    model: Any,
    data: AuditData,
    *,
    metric: FairMetric | None = None,
    map: UnfairMap | None = None,
    tests: Sequence[RatioTest] = (),
    settings: Settings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> AuditResult:
    """Move everyone in ``data`` to their worst similar self, then ask whether that hurt too much.

    Parameters
    ----------
    model
        A torch module, a scikit-learn estimator or pipeline, or anything `as_model` knows.
        It is never changed.
    data
        The people to audit: a sample from those the model is meant for, not used to train it.
    metric
        Who counts as alike. Without one, it is learned from the audited people themselves:
        directions that predict their protected traits are free.
    map
        How the worst similar person is found; by default the gradient flow of the settings.
    tests
        Tests to run; by default those of the settings.
    settings
        Every other choice. Choices made in ``map`` and ``tests`` are noted there.
    threads
        Blocks of people moved at the same time; by default one for each core.

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
    >>> result = likewise.audit(model, people, settings=likewise.Settings(checks="core"))
    >>> result.outcome
    'within_tolerance'
    """
    began = time.perf_counter()
    settings = note_choices(settings or Settings(), map, tests)
    threads = threads or os.cpu_count() or 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LikewiseWarning)
        who, metric, chosen, settings = get_ready(model, data, metric, map, settings)
        remembered = Remembered.of(who.model, who.data.x)
        chosen, certificate = certified(chosen, who, metric, seed=settings.seed, threads=threads)
        gathered = move_everyone(who, metric, chosen, settings, threads=threads, progress=progress)
        judged = judge(gathered.outcomes, settings, tests)
        found = diagnose(
            who,
            metric,
            chosen,
            gathered,
            judged,
            settings,
            certificate=certificate,
            threads=threads,
            progress=progress,
        )
        # An endpoint, say, may have been replaced meanwhile.
        found = dataclasses.replace(found, reasons=(*found.reasons, *remembered.reasons()))
    said = tuple(str(w.message) for w in caught if issubclass(w.category, LikewiseWarning))
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    record = write(
        who,
        metric,
        gathered,
        found,
        settings,
        certificate=certificate,
        warnings=said,
        command=command,
        seconds=time.perf_counter() - began,
    )
    outcomes = signed(gathered.outcomes, record)
    return AuditResult(record, outcomes, metric, gathered, who.data)


def get_ready(
    model: Any,
    data: AuditData,
    metric: FairMetric | None,
    map: UnfairMap | None,
    settings: Settings,
) -> tuple[Introduced, FairMetric, UnfairMap, Settings]:
    """Check model, people, metric and map against each other; learn the metric if there is none."""
    wrapped = as_model(
        model,
        output=settings.columns.output,
        table=data.table,
        encoder=data.encoder,
        loss=settings.decide.loss,
        protected=tuple(data.protected),
        labels=data.y,
        positive=settings.columns.positive,
        space=settings.model.space,
    )
    people = meet(wrapped, data)
    if metric is None:
        if not people.protected:
            raise InvalidData(
                "Without a fair metric, protected traits are needed to learn one. Name them with "
                "protected (--protected), or give a metric (--metric)."
            )
        metric = sensitive_subspace(people, **settings.learning)
    who = introduce(wrapped, people, metric, settings)
    check_refits(settings, metric, people)
    settings = resolve(settings, wrapped)
    if wrapped.front is None and people.encoder is None:
        warn_about_scales(people.x, people.features, settings.map.get("lam", 50.0))
    if map is None:
        chosen = choose_map(settings, who, metric)
    else:
        chosen, settings = complete(map, who), note_reach(settings, map, metric)
    chosen.bind(wrapped, metric)
    return who, metric, chosen, settings


def rehearse(
    model: Any,
    data: AuditData,
    *,
    metric: FairMetric | None = None,
    map: UnfairMap | None = None,
    settings: Settings | None = None,
) -> str:
    """Check everything an audit would, move nobody, and say what would be done."""
    settings = note_choices(settings or Settings(), map, ())
    who, metric, chosen, settings = get_ready(model, data, metric, map, settings)
    classes = ", ".join(str(value) for value in who.classes) or "none"
    lines = [
        f"Model: {who.model.card.kind}, {who.x.shape[1]} features, classes {classes}",
        f"People: {len(who.x)} from {who.data.source}",
        str(metric),
        f"Settings {settings.hash[:12]}; map {chosen.name}.",
        "Everything fits together. Nobody was moved.",
    ]
    return "\n".join(lines)
