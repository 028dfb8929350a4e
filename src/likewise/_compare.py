"""Two or more models on the same people: which deviates less, and whether it is as accurate."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from likewise.errors import InvalidSample, InvalidSettings
from likewise.record import MatchedPairsRecord, RateComparison, Record
from likewise.stats.decision import holm_adjusted
from likewise.stats.estimate import Estimate, check_alpha

MARGIN = 1.1
"""Factor of the ratio that a claim must exceed, beyond chance, unless another is asked for."""


@dataclasses.dataclass(frozen=True)
class Difference:
    r"""A paired difference, the second model minus the first, with a two-sided interval.

    ``what`` is ``deviation`` (:math:`|\log\text{ratio}|` of an attribute and two groups), ``error
    rate`` or ``loss``. The p-value is of no difference; of a deviation it is of one by at most the
    margin, adjusted for all deviations compared (Holm).
    """

    what: str
    first: float
    second: float
    std_error: float
    degrees: float
    interval: tuple[float, float]
    p_value: float
    attribute: str = ""
    group: str = ""
    other: str = ""

    @property
    def value(self) -> float:
        """The second model's value minus the first's."""
        return self.second - self.first

    def claim(self, alpha: float) -> Literal["lower", "higher", "no difference shown"]:
        """Return what is shown about the second model."""
        if not self.p_value <= alpha:
            return "no difference shown"
        return "lower" if self.value < 0 else "higher"


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """One model beside the first: deviations of every comparison, and performance."""

    first: str
    second: str
    deviations: tuple[Difference, ...]
    performance: tuple[Difference, ...]
    alpha: float

    @property
    def less_unfair(self) -> bool:
        """Whether some deviation is shown to be lower, and none higher."""
        claims = {one.claim(self.alpha) for one in self.deviations}
        return "lower" in claims and "higher" not in claims

    def shown_within(self, what: str, margin: float) -> bool:
        """Tell whether an increase is shown to be below a margin: one-sided, at level α."""
        return any(
            Estimate(one.value, one.std_error, 0, degrees=one.degrees).upper_bound(self.alpha)
            < margin
            for one in self.performance
            if one.what == what
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several audits of the same people side by side; the first is compared with all others."""

    records: Mapping[str, Record]
    pairs: tuple[ModelComparison, ...]
    alpha: float
    margin: float = MARGIN

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.records)}>"

    def __str__(self) -> str:
        from likewise.report.comparison import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def compare(
    audits: Mapping[str, Any], *, alpha: float | None = None, margin: float = MARGIN
) -> Comparison:
    r"""Compare models that were audited by matched pairs on the same people.

    The deviation of a comparison is :math:`|\log\text{ratio}|`. Its difference between two models
    has a standard error from 20 folds of people, 20 folds of pairs and the redrawn attributes, all
    the same for both, so that what the models have in common cancels.

    The question is about *these two fitted models*, and cancelling makes it a sharp one: a model
    trained again on other rows differs from itself, by little but for sure. A model is therefore
    said to deviate more or less only if its ratio is further from 1, or nearer, by more than the
    margin, beyond chance.

    Parameters
    ----------
    audits
        By the name of the model: what `likewise.audit` returned, a record, or the path of a result
        file.
    alpha
        How often any claim may be wrong; by default that of the audits.
    margin
        Factor of the ratio by which models must differ; choose it before you look. The default,
        1.1, is less than half of the usual limit 1.25, on the scale of logarithms.

    Examples
    --------
    >>> import likewise, numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.normal(size=(800, 2)), columns=["income", "zip"])
    >>> table["group"] = np.where(table["zip"] + rng.normal(size=800) > 0, "a", "b")
    >>> y = (table["income"] + table["zip"] + rng.normal(size=800) > 0).astype(int)
    >>> columns = {"old": ["income", "zip"], "new": ["income"]}
    >>> models = {name: LogisticRegression().fit(table[c], y) for name, c in columns.items()}
    >>> question = {"protected": "group", "may_matter": ["income"], "checks": "core"}
    >>> audits = {name: likewise.audit(m, table, **question) for name, m in models.items()}
    >>> list(likewise.compare(audits).records)
    ['old', 'new']
    """
    records = {name: _record(audit) for name, audit in audits.items()}
    if len(records) < 2:
        raise InvalidSettings("Name at least two audits to compare.")
    (first, one), *others = records.items()
    level = one.alpha if alpha is None else alpha
    check_alpha(level)
    if not 1 <= margin < math.inf:
        raise InvalidSettings(f"margin is a factor of at least 1 (got {margin:g}).")
    pairs = [_compared(first, one, name, other, level, margin) for name, other in others]
    # All deviations of all models are corrected together (Holm 1979).
    p_values = [one.p_value for pair in pairs for one in pair.deviations]
    adjusted = iter(holm_adjusted(dict(enumerate(p_values))).values())
    for i, pair in enumerate(pairs):
        deviations = [dataclasses.replace(d, p_value=next(adjusted)) for d in pair.deviations]
        pairs[i] = dataclasses.replace(pair, deviations=tuple(deviations))
    return Comparison(records, tuple(pairs), level, margin)


def _record(audit: Any) -> Record:
    record = Record.read(audit) if isinstance(audit, str | Path) else audit
    record = getattr(record, "record", record)
    if not isinstance(record, Record):
        raise InvalidSettings(
            f"{type(audit).__name__} is no audit: give results of likewise.audit, or their files."
        )
    return record


def _compared(
    first: str, one: Record, second: str, other: Record, alpha: float, margin: float
) -> ModelComparison:
    """Compare two audits, unless they were not made of the same people in the same way."""
    if one.redacted or other.redacted:
        raise InvalidSample(
            f"{first if one.redacted else second!r} is redacted, which leaves out what comparing "
            "needs. Compare full results."
        )
    a, b = one.matched_pairs, other.matched_pairs
    if a is None or b is None:
        raise InvalidSample(
            f"{first if a is None else second!r} was not audited by matched pairs, so that there "
            "is nothing to compare. Name the columns that may matter (--may-matter)."
        )
    basis = _basis(one, a)
    for what, value in _basis(other, b).items():
        if value != basis[what]:
            shown = "" if what in ("people", "reference samples") else f" ({basis[what]}; {value})"
            raise InvalidSample(
                f"{first!r} and {second!r} were audited in different ways: their {what} differ"
                f"{shown}. Audit both in the same way."
            )
    found = {comparison_key(row): row for row in b.comparisons}
    deviations = [
        _deviation(row, same, alpha, math.log(margin))
        for row in a.comparisons
        if (same := found.get(comparison_key(row))) is not None and row.folds and same.folds
    ]
    performance = [
        _performance(name, a, b, alpha)
        for name in ("error", "loss")
        if name in a.performance_folds and name in b.performance_folds
    ]
    return ModelComparison(first, second, tuple(deviations), tuple(performance), alpha)


def _basis(record: Record, part: MatchedPairsRecord) -> dict[str, str]:
    """Return what two audits must have in common to be compared, in the words of a message."""
    rows, data, columns = part.comparisons, record.data, record.settings.columns
    found: dict[str, Any] = {
        # They are part of what people are known by, so they come first.
        "weights": [columns.weight or ("given" if data.weighted else "none")],
        "clusters": [columns.cluster or ("given" if data.clusters else "none")],
        "people": [data.sha256],
        "protected attributes": sorted({row.attribute for row in rows}),
        "groups": sorted({row.group for row in rows}),
        "columns that may matter": part.may_matter,
        "decisions": sorted(record.model.classes),
        "favourable decisions": [part.favourable or "none named"],
        "measures": [part.measure],
        "limits": [part.delta if math.isnan(part.limit) else part.limit],
        "reference samples": [part.pool_size, part.pool_sha256],
        "seeds": [part.seed],
        "numbers of redraws": [part.redraws],
    }
    return {what: ", ".join(map(str, values)) for what, values in found.items()}


def comparison_key(row: RateComparison) -> tuple[str, str, str, str]:
    """Return which groups, and which of several classes, a comparison is about."""
    return row.attribute, row.group, row.other, row.column


def _deviation(
    one: RateComparison, other: RateComparison, alpha: float, margin: float
) -> Difference:
    """Return the paired difference of |log ratio| of one comparison of groups."""
    # The rarer outcome of the second model may be another: compare that of the first.
    first, terms = _log_ratio(one)
    second, others = _log_ratio(other, other.outcome != one.outcome)
    people, pairs, redrawn = (b - a for a, b in zip(terms, others, strict=True))
    variance = len(people) / (len(people) - 1) * float(people @ people + pairs @ pairs)
    if len(redrawn) > 1:
        variance += float(redrawn @ redrawn) / (len(redrawn) - 1) / len(redrawn)
    found = _difference("deviation", (first, second), variance, len(people), alpha, margin)
    return dataclasses.replace(found, attribute=one.attribute, group=one.group, other=one.other)


def _log_ratio(row: RateComparison, flip: bool = False) -> tuple[float, list[np.ndarray]]:
    """Return |log ratio|, and the influences on it: of people, of pairs, and of redraws."""
    folds = row.folds
    assert folds is not None
    own, swapped = (1 - row.own, 1 - row.swapped) if flip else (row.own, row.swapped)
    value = math.log(swapped / own) if own > 0 and swapped > 0 else math.nan
    sign = (-1.0 if flip else 1.0) * (-1.0 if value < 0 else 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        people = np.array(folds.swapped_people) / swapped - np.array(folds.own_people) / own
        pairs = np.array(folds.swapped_pairs) / swapped - np.array(folds.own_pairs) / own
        redrawn = np.array(folds.redrawn) / swapped
    return abs(value), [sign * people, sign * pairs, sign * redrawn]


def _performance(
    name: str, a: MatchedPairsRecord, b: MatchedPairsRecord, alpha: float
) -> Difference:
    """Return the paired difference of the error rate or the mean loss of everyone."""
    weight = np.array(a.performance_folds["weight"])
    one, other = (np.array(part.performance_folds[name]) for part in (a, b))
    total, gap, folds = weight.sum(), other - one, len(weight)
    influence = (gap - weight * gap.sum() / total) / total
    variance = folds / (folds - 1) * float(influence @ influence)
    means = float(one.sum() / total), float(other.sum() / total)
    return _difference("error rate" if name == "error" else name, means, variance, folds, alpha)


def _difference(
    what: str,
    values: tuple[float, float],
    variance: float,
    folds: int,
    alpha: float,
    margin: float = 0.0,
) -> Difference:
    """Return a difference with its interval; the p-value is of one by at most the margin."""
    first, second = values
    gap = Estimate(second - first, math.sqrt(variance), folds, degrees=folds - 1)
    size = dataclasses.replace(gap, value=abs(gap.value))
    p = min(1.0, 2 * size.p_value(margin))
    return Difference(what, first, second, gap.std_error, gap.degrees, gap.interval(alpha), p)
