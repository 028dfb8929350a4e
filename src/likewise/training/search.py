"""The search for a fairer model: chosen on some people, judged on others, by matched pairs."""

import dataclasses
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from likewise._audit import audit
from likewise._compare import Comparison, compare, comparison_key
from likewise.data.rows import open_rows
from likewise.errors import InvalidData, InvalidModel, InvalidSettings, StatisticalWarning
from likewise.files import check_outputs, make_folder, write_whole
from likewise.method import Progress
from likewise.record import MatchedPairsRecord
from likewise.result import AuditResult
from likewise.settings import Csv, Settings
from likewise.settings.arguments import resolve_settings
from likewise.training.remedies import AveragedClassifier, columns_of

WEIGHTS = (0.2, 0.35, 0.5, 0.75, 1.0)
"""How much the average over comparable people counts, in the remedies that are tried."""

SHARES = (0.4, 0.2, 0.4)
"""Of the people: reference sample of the remedies (none if it is given), to choose one on, and to
judge it on."""

MIN_JUDGING = 100
"""People without whom nothing is judged."""

WRITTEN = (
    *("model.joblib", "improve.txt"),
    *("given.json", "given.html", "chosen.json", "chosen.html"),
)
"""Files in the folder of an improvement."""

AIM = 0.75
"""Share of the limit, as a logarithm, that a remedy should stay below on the choosing people."""

ASKED = ["label", "protected", "may_matter", "favourable", "label_map", "bins", "clusters", "delta"]
"""Arguments of `improve` that are those of `likewise.audit`."""

ORDER = ("within_tolerance", "inconclusive", "evidence", "invalid")
"""Verdicts, best first."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a model fared on the choosing people.

    ``weight`` is how much the average over comparable people counts (0: the given model),
    ``deviation`` the largest |log ratio| of the comparisons that were evidence against the given
    model.
    """

    weight: float
    deviation: float
    verdict: str
    error_rate: float


@dataclasses.dataclass(frozen=True, eq=False)
class Improvement:
    """What was tried, what was chosen, and what the judging people say.

    ``found`` is the audit of the given model, on everyone outside the reference sample; ``model``
    the chosen model if it is better, else the given one; ``margin`` the share of accuracy that may
    be lost. ``tried`` are the given model and every remedy on the choosing people; ``before`` and
    ``after`` the audits of the given and of the chosen model on the judging people, and
    ``comparison`` the two, person by person.
    """

    found: AuditResult
    model: Any
    margin: float
    tried: tuple[Trial, ...] = ()
    chosen: Trial | None = None
    before: AuditResult | None = None
    after: AuditResult | None = None
    comparison: Comparison | None = None

    @property
    def fairer(self) -> bool:
        """Whether the chosen model is shown to deviate less, and its verdict is no worse.

        So never is "within tolerance" replaced by "inconclusive".
        """
        if self.comparison is None or self.before is None or self.after is None:
            return False
        worse = ORDER.index(self.after.verdict) > ORDER.index(self.before.verdict)
        return self.comparison.pairs[0].less_unfair and not worse

    @property
    def as_accurate(self) -> bool:
        """Whether the loss of accuracy is shown to be below the margin."""
        both = self.comparison
        return both is not None and both.pairs[0].shown_within("error rate", self.margin)

    @property
    def better(self) -> bool:
        """Whether the chosen model is shown to be fairer, and to lose less than the margin."""
        return self.fairer and self.as_accurate

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if self.found.verdict != "evidence":
            verdict = self.found.verdict.replace("_", " ")
            why = f"No evidence to act on: the given model is {verdict}"
        elif self.chosen is None or self.comparison is None:
            why = "No remedy was fairer and about as accurate"
        else:
            name = f"average over comparable people, weight {self.chosen.weight:g}"
            if self.better:
                return f"A fairer model was found: {name}."
            margin = self.comparison.margin
            lacking = f"bring ratios nearer to 1 by more than a factor of {margin:g}"
            if self.fairer:
                lacking = f"lose less than {100 * self.margin:g} points of accuracy"
            elif self.comparison.pairs[0].less_unfair:
                lacking = "have a verdict that is no worse"
            why = f"The {name}, is not shown to {lacking}, on the judging people"
        return f"{why}. Nothing was changed: the given model stays."

    def __str__(self) -> str:
        n = self.found.record.data.n
        lines = [self.sentence, "", f"Given model, on {n:,} people: {self.found.sentence}"]
        if self.before is not None:
            state = "" if self.as_accurate else "not "
            n = self.before.record.data.n
            lines += [
                f"\nOn {n:,} of them, who had no part in choosing (the judging people):\n",
                f"{self.comparison}\n",
                f"It is {state}shown that accuracy falls by less than {100 * self.margin:g} points "
                "(95 %).",
            ]
        if self.tried:
            lines += ["", "  Weight of the average     ratio   accuracy   (on the choosing people)"]
        for one in self.tried:
            weight = f"{one.weight:g}" if one.weight else "given model"
            ratio, accuracy = math.exp(one.deviation), 100 * (1 - one.error_rate)
            lines.append(f"  {weight:<22}{ratio:>9.3g}{accuracy:>9.1f} %")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write both results with their reports, the summary, and the model if it is a new one."""
        import joblib

        make_folder(folder)
        for name in WRITTEN:  # of an earlier search: these files belong together
            (folder / name).unlink(missing_ok=True)
        if self.better:
            joblib.dump(self.model, folder / "model.joblib")
        for name, one in (("given", self.before or self.found), ("chosen", self.after)):
            if one is not None:
                one.save(folder / f"{name}.json")
                one.save(folder / f"{name}.html")
        write_whole(folder / "improve.txt", f"{self}\n".encode("utf-8", errors="replace"))


def improve(
    model: Any,
    people: Any,
    *,
    label: str | None = None,
    protected: str | Sequence[str] = (),
    may_matter: Sequence[str] | None = None,
    favourable: Any = None,
    pool: Any = None,
    label_map: Mapping[Any, Any] | None = None,
    bins: Mapping[str, Any] | None = None,
    clusters: str | None = None,
    encoder: Any = None,
    delta: float | None = None,
    settings: Settings | None = None,
    margin: float = 0.02,
    folder: str | Path | None = None,
    seed: int = 0,
    trust: bool = False,
    progress: Progress | None = None,
) -> Improvement:
    """Look for a fairer model that is about as accurate as the given one.

    If the audit of the given model finds evidence of unfairness, its predictions are averaged over
    comparable people of a reference sample, at several strengths. One strength is chosen on other
    people and judged on yet others, by matched pairs. The given model is the baseline: it is
    replaced only by a model that is shown to be fairer and to lose less accuracy than the margin.

    Parameters
    ----------
    model
        Anything that `likewise.audit` takes and that gives probabilities of classes.
    people
        A data frame or files with labels, whom the model was not trained on.
    label, protected, may_matter, favourable, label_map, bins, clusters, encoder, delta, settings
        As for `likewise.audit`.
    pool
        The reference sample, other people than these; by default a part of them. Its rows become
        part of the new model.
    margin
        Accuracy that may be lost: .02 is two points. Set it beforehand.
    folder
        Where to write the model, both results and a summary.
    seed
        Of the division of the people.
    trust, progress
        As for `likewise.audit`.

    Examples
    --------
    >>> import likewise, numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"income": rng.normal(size=900), "zip": rng.normal(size=900)})
    >>> table["group"] = rng.choice(["a", "b"], 900)
    >>> table["paid"] = (table["income"] + rng.normal(size=900) > 0).astype(int)
    >>> model = LogisticRegression().fit(table[["income", "zip"]][:300], table["paid"][:300])
    >>> found = likewise.improve(model, table[300:], label="paid", protected="group",
    ...                          may_matter=["income"])
    >>> found.better
    False
    """
    given = locals()
    if not 0 < margin < 1:
        raise InvalidSettings(f"The margin of accuracy is between 0 and 1, not {margin:g}.")
    asked, _ = resolve_settings(settings, trust=trust, **{name: given[name] for name in ASKED})
    columns = asked.columns
    needed = {
        "the label (--label)": columns.label,
        "the protected attributes (--protected)": columns.protected,
        "the columns that may matter (--may-matter)": columns.may_matter,
    }
    if absent := [what for what, named in needed.items() if not named]:
        raise InvalidSettings(f"Name {' and '.join(absent)}.")
    if asked.method.name not in ("auto", "matched_pairs"):
        raise InvalidSettings(f"Models are improved by matched pairs, not by {asked.method.name}.")
    asked = asked.changed(checks="core")
    if folder is not None and Path(folder).is_dir():
        check_outputs([Path(folder) / name for name in WRITTEN], [model, people, pool])

    audits: list[AuditResult] = []

    def audited(one: Any, table: pa.Table) -> AuditResult:
        # Each half of the people is the other's reference sample.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StatisticalWarning)
            own = encoder if one is model else None  # a remedy has the encoder itself
            audits.append(audit(one, table, settings=asked, trust=trust, encoder=own))
        if progress is not None:  # the given model on everyone, all on some, two to be judged
            progress("trying remedies", len(audits), 1 + (1 + len(WEIGHTS)) + 2)
        return audits[-1]

    parts = _divided(_table(people, columns.csv), columns.cluster, seed, pool is not None)
    reference = parts[0] if pool is None else _table(pool, columns.csv)
    found = audited(model, pa.concat_tables(parts[1:]))
    if found.record.model.task == "regression":
        raise InvalidModel("The model gives numbers; only models with decisions are improved.")
    models, tried = {0.0: model}, []
    chosen = before = after = both = None
    if found.verdict == "evidence":
        no_inputs = {"label": None, "weight": None, "cluster": None, "id": None, "ignore": ()}
        remedy = AveragedClassifier(
            model,
            protected=columns.protected,
            may_matter=columns.may_matter,
            trust=trust,
            settings=asked.changed(**{f"columns__{n}": v for n, v in no_inputs.items()}),
            encoder=encoder,
        )
        hidden = [columns.label, columns.weight, columns.cluster, columns.id, *columns.ignore]
        features = reference.drop_columns([n for n in reference.column_names if n in hidden])
        rows = {comparison_key(r) for r in _pairs(found).comparisons if r.verdict == "evidence"}
        for weight in (0.0, *WEIGHTS):
            if weight:
                models[weight] = dataclasses.replace(remedy, weight=weight).fit(features)
            tried.append(_trial(weight, audited(models[weight], parts[1]), rows))
        if (chosen := choice(tried, asked.delta, margin)) is not None:
            before, after = (audited(models[w], parts[2]) for w in (0.0, chosen.weight))
            both = compare({"given": before, "chosen": after})
    result = Improvement(found, model, margin, tuple(tried), chosen, before, after, both)
    if chosen is not None and result.better:
        result = dataclasses.replace(result, model=models[chosen.weight])
    if folder is not None:
        result.write(Path(folder))
    return result


def _trial(weight: float, seen: AuditResult, rows: Collection[Any]) -> Trial:
    """Return how a model fared in the comparisons that were evidence against the given one."""
    pairs = _pairs(seen)
    found = [row.deviation for row in pairs.comparisons if comparison_key(row) in rows]
    deviation = max((math.inf if math.isnan(d) else d for d in found), default=math.inf)
    folds = pairs.performance_folds
    return Trial(weight, deviation, seen.verdict, sum(folds["error"]) / sum(folds["weight"]))


def choice(tried: Sequence[Trial], delta: float, margin: float) -> Trial | None:
    """Return the most accurate remedy well within the limit, or else the fairest; None if none is.

    Only remedies that are fairer than the given model, and lose no more accuracy than the margin,
    are considered.
    """
    given, *others = tried
    allowed = [
        one
        for one in others
        if one.deviation < given.deviation
        and one.error_rate <= given.error_rate + margin
        and ORDER.index(one.verdict) <= ORDER.index(given.verdict)
    ]
    if enough := [one for one in allowed if one.deviation <= AIM * math.log(delta)]:
        return min(enough, key=lambda one: one.error_rate)
    return min(allowed, key=lambda one: one.deviation, default=None)


def _pairs(result: AuditResult) -> MatchedPairsRecord:
    assert result.record.matched_pairs is not None
    return result.record.matched_pairs


def _divided(people: pa.Table, clusters: str | None, seed: int, pooled: bool) -> list[pa.Table]:
    """Divide people at random, in whole clusters: reference sample, to choose, to judge on."""
    unit = np.arange(len(people))
    if clusters is not None:
        values = columns_of(people, [clusters])[clusters].to_numpy()
        unit = np.unique(values.astype(str), return_inverse=True)[1]
    count = unit.max(initial=-1) + 1
    place = (np.random.default_rng([seed, 18]).permutation(count) + 0.5)[unit] / max(count, 1)
    shares = np.array(SHARES) * ([0.0, 1.0, 1.0] if pooled else 1.0)
    part = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], place)
    parts = [people.take(np.flatnonzero(part == k)) for k in range(3)]
    if len(parts[2]) < MIN_JUDGING:
        left = f"{len(parts[2])} are left to judge it, and {MIN_JUDGING} are needed"
        raise InvalidData(f"{len(people)} people are too few to choose a remedy: {left}.")
    return parts


def _table(people: Any, csv: Csv) -> pa.Table:
    return open_rows(people, csv=csv).table()
