"""The record of an audit in pieces: verdicts from sums, checks from a sample."""

import dataclasses

import numpy as np

from likewise.checks import describe, robust
from likewise.checks.beside import BOOTSTRAP_ROWS, other_methods, other_tests
from likewise.checks.certificate import Certificate
from likewise.checks.diagnose import Found, diagnose
from likewise.checks.gather import Gathered, Progress, gather
from likewise.checks.introduce import Introduced
from likewise.checks.joining import Joined, named
from likewise.checks.judge import Judged, as_record, deciding_test, default_tests, task_of
from likewise.checks.ladder import ladder
from likewise.checks.pieces import read_piece
from likewise.checks.survey import Survey
from likewise.checks.writing import SHOWN_CASES, worst_cases, write
from likewise.errors import InvalidSettings
from likewise.inference.ratio_tests import RatioTest
from likewise.inference.verdict import Evidence
from likewise.maps.base import UnfairMap
from likewise.metrics.base import FairMetric
from likewise.outcomes import Outcomes, troubles
from likewise.record import DataRecord, Record, TestRecord
from likewise.scale.journal import Journal
from likewise.settings import Settings

CHECKED = 2000
"""People, drawn at random, on whom the checks of ``checks = "full"`` rest."""


def describe_joined(
    joined: Joined,
    book: Journal,
    known: Survey,
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    settings: Settings,
    *,
    certificate: Certificate | None,
    same_sample: bool,
    files: str,
    threads: int,
    progress: Progress | None = None,
) -> Record:
    """Judge everyone, check what can be checked on a sample, and put all into the record.

    Parameters
    ----------
    who
        The model with the sample of the people.
    same_sample
        Whether the metric was learned from these very people.
    files
        The sha256 of the files that the people came from.
    """
    judged = _judge(joined, book, settings)
    some = who.take(_rows(len(who.x), settings.seed))
    moved = gather(some, metric, map, threads=threads)
    found = diagnose(
        some,
        metric,
        map,
        moved,
        judged,
        # Where the flow is blind, what a search finds on a sample cannot decide about everyone.
        settings.changed(decide__blinded="refuse"),
        certificate=certificate,
        threads=threads,
        progress=progress,
    )
    found = _about_everyone(found, moved, judged, joined, book, settings)
    small = Gathered(
        outcomes=joined.worst_outcomes,
        worst=tuple(dataclasses.replace(case, row=k) for k, case in enumerate(joined.worst)),
        shift=joined.shift,
        absolute_shift=joined.absolute_shift,
        evaluations=joined.evaluations,
        below_one=joined.below_one,
        search=moved.search,
    )
    record = write(
        who,
        metric,
        small,
        found,
        settings,
        certificate=certificate,
        warnings=(),
        command="",
        seconds=0.0,
    )
    worst = worst_cases(small, who.data, SHOWN_CASES)
    return record.model_copy(
        update={
            "rows": {"n": joined.n, **joined.tally.status.counts(), "below_one": joined.below_one},
            "distribution": dict(joined.distribution),
            "worst": tuple(
                shown.model_copy(update={"row": case.row})
                for shown, case in zip(worst, joined.worst, strict=True)
            ),
            "model": record.model.model_copy(
                update={"clipped": joined.clipped if record.model.output == "probabilities" else 0}
            ),
            "data": _data_record(record.data, joined, known, files),
            "metric": record.metric.model_copy(update={"same_sample": same_sample}),
        }
    )


def _judge(joined: Joined, book: Journal, settings: Settings) -> Judged:
    """Run the tests on the sums of everyone."""
    about = dataclasses.replace(joined.worst_outcomes, about=joined.about)
    tests = {test.name: test for test in default_tests(task_of(about), settings)}
    evidence = {name: _evidence(test, joined, book) for name, test in tests.items()}
    decider = deciding_test(about, settings)
    return Judged(tests, evidence, decider, str(joined.about.get("map", "flow")))


def _evidence(test: RatioTest, joined: Joined, book: Journal) -> Evidence:
    if test.needs_rows:
        return test.evidence(joined.tally, _read_all(joined, book))
    return test.evidence(joined.tally)


def _read_all(joined: Joined, book: Journal) -> Outcomes:
    """Return the outcomes on disk, if they are few enough to be resampled."""
    if joined.n > BOOTSTRAP_ROWS:
        raise InvalidSettings(
            f"The bootstrap-t resamples everyone, which is meant for up to {BOOTSTRAP_ROWS} people "
            f"(here {joined.n}). Use interval 'hall', which it agrees with at this size."
        )
    pieces = [
        read_piece(book.path(number), joined.tally.frame.traits) for number in sorted(book.done())
    ]
    return Outcomes.concat([named(piece, joined.tally.frame.traits) for piece in pieces])


def _rows(n: int, seed: int) -> np.ndarray:
    if n <= CHECKED:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, 7]).choice(n, CHECKED, replace=False))


def _about_everyone(
    found: Found,
    moved: Gathered,
    judged: Judged,
    joined: Joined,
    book: Journal,
    settings: Settings,
) -> Found:
    """Put what is known of everyone in the place of what a sample says."""
    from_sample = len(other_methods(moved.outcomes, settings))
    of_sample = troubles(moved.outcomes.counts())
    beside = _beside(joined, book, settings) + found.beside[from_sample:]
    skipped = found.skipped
    if joined.n > len(moved.outcomes) and settings.checks.run == "full":
        skipped += (
            "metric refits, sensitivity and second opinion of everyone (they rest on "
            f"{len(moved.outcomes)} people drawn at random)",
        )
    if joined.n > BOOTSTRAP_ROWS:
        skipped += (f"the bootstrap-t (for up to {BOOTSTRAP_ROWS} people)",)
    rows = None
    if settings.decide.interval == "bootstrap_t" and joined.n <= BOOTSTRAP_ROWS:
        rows = _read_all(joined, book)
    tally = joined.tally
    return dataclasses.replace(
        found,
        beside=beside,
        groups=describe.groups(tally, settings),
        horizons=ladder(tally, settings, rows) + found.horizons[len(tally.frame.horizons) :],
        measures=describe.measures(tally, settings)
        + tuple(m for m in found.measures if m.name == robust.NAME),
        diagnostics={
            **found.diagnostics,
            "mean_fair_distance": float(tally.fair_distance.value[0]),
        },
        reasons=troubles(tally.status.counts())
        + tuple(reason for reason in found.reasons if reason not in of_sample),
        skipped=skipped,
    )


def _beside(joined: Joined, book: Journal, settings: Settings) -> tuple[TestRecord, ...]:
    """Return the tests by the methods that the settings did not choose, as `other_methods` does."""
    if joined.about.get("task") == "regression":
        return ()
    name = str(joined.about.get("map", "flow"))
    return tuple(
        as_record(_evidence(test, joined, book).verdict(settings.delta, settings.alpha), name)
        for test in other_tests(joined.n, settings)
    )


def _data_record(record: DataRecord, joined: Joined, known: Survey, files: str) -> DataRecord:
    clusters = joined.tally.clusters.count
    return record.model_copy(
        update={
            "n": joined.n,
            "classes": dict(sorted((str(v), count) for v, count in known.labels.items()))
            if joined.about.get("task") == "classification"
            else {},
            "protected": {
                name: dict(
                    sorted(zip(levels.names, levels.counts, strict=True), key=lambda pair: -pair[1])
                )
                for name, levels in joined.tally.frame.traits.items()
            },
            "missing": dict(known.gaps),
            "dropped": dict(known.dropped),
            "clusters": clusters,
            "sha256": files,
        }
    )
