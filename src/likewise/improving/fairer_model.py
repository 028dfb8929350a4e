"""Looks for a fairer model as accurate: chosen on some people, judged on others."""

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.engine.paired_audits import Margins, compare
from likewise.errors import LikewiseError, TrainingWarning, need
from likewise.files import make_folder, write_whole
from likewise.fingerprints import of_json
from likewise.improving.fitted_model import FittedModel
from likewise.improving.remedies import Remedy, averages, baseline, reading, remedies
from likewise.improving.training_table import as_frame, divided, shown_columns
from likewise.improving.trials import Trial, TrialJournal, Tried
from likewise.models import Opened, open_model
from likewise.models.native import TableModel
from likewise.models.scikit import features_of
from likewise.report.side_by_side import Comparison
from likewise.settings import Settings
from likewise.walk import AuditResult

MOST = (1000, 10_000)
"""People that each remedy is audited on while choosing: at the first look, and in full."""


@dataclasses.dataclass(frozen=True, eq=False)
class Improvement:
    """What was tried, what was chosen, and what the judging quarter says about it.

    Parameters
    ----------
    tried
        Every remedy on the choosing quarter, the model itself first.
    chosen
        The remedy that was chosen; none if nothing seemed better.
    model
        The chosen model, fitted; the model itself if nothing is better.
    comparison
        Baseline and chosen model on the judging quarter, person by person.
    better
        Whether the chosen model is shown to be fairer, and not inferior by more than the margin.
    seconds
        How long all of it took.
    trained
        Whether models were trained; one that cannot be trained again is only averaged.
    """

    tried: tuple[Tried, ...]
    chosen: str
    model: Any
    audits: Mapping[str, AuditResult]
    comparison: Comparison | None
    better: bool
    seconds: float
    trained: bool = True

    def __str__(self) -> str:
        from likewise.report.improve_words import words

        return words(self)


def improve(
    people: Any,
    *,
    label: str,
    protected: Sequence[str],
    may_matter: Sequence[str],
    model: Any = "boosted",
    balanced: bool | None = None,
    ignore: Sequence[str] = (),
    delta: float = 1.25,
    margins: Margins | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    trust: bool = False,
    progress: Any = None,
) -> Improvement:
    """Try remedies over their strength, and return the fairest model that is as accurate.

    People are divided at random: a half to train on, a quarter to choose on, a quarter to judge on.
    All remedies get a first look on a part of the people; the better half of them is trained and
    audited in full. The chosen one is compared with the model itself on people that had no part in
    choosing, so that its figures need no correction.

    Parameters
    ----------
    people
        A data frame or files with label, protected traits and features.
    label, protected, may_matter, ignore
        Names of columns; protected and ignored ones are not shown to the model, unless it was
        fitted on them.
    model
        ``boosted``, ``network``, a scikit-learn classifier, which is trained again, or anything
        else that `likewise.audit` takes: then its answers are averaged over counterparts, and the
        people should be others than it was trained on.
    balanced
        Whether all classes count alike in training, as they do in balanced accuracy. By default
        they do for ``boosted`` and ``network``, and another model is trained as it is.
    delta, margins
        The tolerance, and how much accuracy and loss may suffer; set them beforehand.
    folder
        Where to write the model, results, comparison and a journal that a later run resumes.
    trust
        Whether a file of a model that can run code may.
    progress
        Told ``(what, done, total)``.
    """
    began = time.perf_counter()
    table = as_frame(people)
    ours = isinstance(model, str) and model in ("boosted", "network")
    if isinstance(model, str) and not ours:
        model = open_model(model, trust=trust)
    inner = model.content if isinstance(model, Opened) else model
    fitted = inner.answer.columns if isinstance(inner, TableModel) else features_of(inner)
    features = shown_columns(table, label, protected, may_matter, ignore, fitted)
    margins = margins or Margins()
    settings = Settings(delta=delta, checks="core", seed=seed).changed(
        columns__label=label, columns__protected=tuple(protected), columns__ignore=tuple(ignore)
    )
    train, choose, judge = divided(table, seed)
    trained = ours or (hasattr(inner, "get_params") and hasattr(inner, "fit"))
    if trained:
        x, y = train[features], train[label].to_numpy()
        base = reading(baseline(inner), x, y)
        evenly = ours if balanced is None else balanced
        everything = remedies(base, may_matter, balanced=evenly, classes=len(np.unique(y)))
        about = [evenly, repr(base)]
    else:
        fitted = FittedModel.of(model, train, may_matter, settings)
        features = list(dict.fromkeys([*fitted.columns, *may_matter]))
        everything, about = averages(fitted, may_matter), [False, fitted.fingerprint]
    pandas = need("pandas", "boosted", "Looking for a fairer model")
    rows = pandas.util.hash_pandas_object(table, index=False).to_numpy()
    question = [label, list(protected), list(may_matter), features, delta, seed, MOST]
    asked = of_json([*question, len(table), int(rows.sum()), *about])
    journal = TrialJournal(None if folder is None else Path(folder), asked)
    trial = Trial(train, label, tuple(protected), tuple(may_matter), features, settings)
    tried: list[Tried] = []
    left = everything
    total, done = len(everything) + (len(everything) + 1) // 2 + 4, 0
    people_to_choose = (min(MOST[0], len(choose) // 2), MOST[1])
    for stage, size in enumerate((min(4000, len(train) // 2), len(train))):
        for remedy in left:
            found = journal.known(remedy.words, stage)
            try:
                if found is None:
                    found = trial(remedy, choose[: people_to_choose[stage]], size, stage)
                    journal.note(found)
                tried.append(found)
            except LikewiseError as error:
                if remedy.words == "baseline":
                    raise
                warnings.warn(str(error), TrainingWarning, stacklevel=2)
            done += 1
            if progress is not None:
                progress("trying remedies", done, total)
        if stage == 0:
            left = _survivors(everything, tried, delta, margins.accuracy)
    final = [one for one in tried if one.stage == 1]
    chosen = _choice(final, delta, margins.accuracy)
    audits: dict[str, AuditResult] = {}
    models: dict[str, Any] = {}
    for remedy in left:
        if remedy.words in ("baseline", chosen):
            models[remedy.words] = trial.fitted(remedy, len(train))
            audits[remedy.words] = trial.audited(models[remedy.words], judge)
            done += 1
            if progress is not None:
                progress("judging on the other quarter", done, total)
    comparison = compare(audits, margins=margins) if chosen != "baseline" else None
    better = comparison is not None and _better(comparison)
    result = Improvement(
        tuple(sorted(tried, key=lambda one: (-one.stage, one.remedy != "baseline"))),
        "" if chosen == "baseline" else chosen,
        models[chosen if better else "baseline"],
        audits,
        comparison,
        better,
        time.perf_counter() - began,
        trained,
    )
    if folder is not None:
        _write(result, Path(folder))
    return result


def _survivors(
    everything: Sequence[Remedy], tried: Sequence[Tried], delta: float, margin: float
) -> list[Remedy]:
    """Return the baseline and the better half: nearest to being fair and accurate enough.

    A point of accuracy lost beyond the margin counts like .04 of the audit value.
    """
    first = {one.remedy: one for one in tried}
    everything = [remedy for remedy in everything if remedy.words in first]
    start = first["baseline"].balanced_accuracy

    def missing(remedy: Remedy) -> float:
        one = first[remedy.words]
        too_unfair = max(0.0, one.value - _aim(delta))
        return too_unfair + 4 * max(0.0, start - one.balanced_accuracy - margin)

    others = sorted((r for r in everything if r.words != "baseline"), key=missing)
    kept = {r.words for r in others[: (len(others) + 1) // 2]}
    return [r for r in everything if r.words == "baseline" or r.words in kept]


def _aim(delta: float) -> float:
    """Return the audit value aimed at: a tenth of the way to one is left for chance."""
    return delta - 0.1 * (delta - 1)


def _choice(final: Sequence[Tried], delta: float, margin: float) -> str:
    """Return the most accurate remedy well below the tolerance, or else the fairest one."""
    start = next(one for one in final if one.remedy == "baseline")
    allowed = [
        one
        for one in final
        if one.balanced_accuracy >= start.balanced_accuracy - margin and one.value < start.value
    ]
    enough = [one for one in allowed if one.value < _aim(delta)]
    if enough:
        return max(enough, key=lambda one: one.balanced_accuracy).remedy
    fairest = min(allowed, key=lambda one: one.value, default=start)
    return fairest.remedy


def _better(comparison: Comparison) -> bool:
    """Tell whether the second model is shown to be fairer, and not less accurate."""
    measures = comparison.paired[0].measures
    fairer = any(m.shown(comparison.alpha) for m in measures if m.name == "audit value")
    worse = any(m.upper_bound < 0 for m in measures if m.name == "audit value" and m.claimed)
    good = [m for m in measures if m.name == "balanced accuracy"]
    return fairer and not worse and all(m.shown(comparison.alpha) for m in good)


def _write(result: Improvement, folder: Path) -> None:
    """Write the model, results with their outcomes, reports, and the comparison."""
    import joblib
    import pyarrow.parquet as pq

    from likewise.report.compare_page import comparison_page
    from likewise.report.html import to_html

    make_folder(folder)
    joblib.dump(result.model, folder / "model.joblib")
    for name, found in result.audits.items():
        stem = "baseline" if name == "baseline" else "chosen"
        found.save(folder / f"{stem}.json")
        write_whole(folder / f"{stem}.html", to_html(found.record).encode(errors="replace"))
        if found.visits is not None:
            pq.write_table(found.visits, folder / f"{stem}.parquet")
    if result.comparison is not None:
        page = comparison_page(result.comparison).encode("utf-8", errors="replace")
        write_whole(folder / "comparison.html", page)
    write_whole(folder / "improve.txt", (str(result) + "\n").encode("utf-8", errors="replace"))
