"""The result of an audit as data: what the JSON file holds, and all that reports are made from.

It is made of numbers that come back from JSON, of text that can be shown, and of no more.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pydantic_core
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer

from likewise.errors import UNPRINTABLE, InvalidFile, InvalidSettings, in_short, printable
from likewise.files import read_whole
from likewise.settings import Settings

SCHEMA_VERSION = 3
MAX_BYTES = 100_000_000
"""Bytes of a result file that are read; one of a hundred groups has a thousandth of it."""
MAX_NUMBER = 1e100
"""Numbers beyond it are written as infinite, and refused in a result that is read."""


def printable_within(value: Any) -> Any:
    """Return a value in which every text can be shown."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_within(key): printable_within(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(printable_within(inner) for inner in value)
    return value


def _to_json(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return ("Infinity" if value > 0 else "-Infinity") if abs(value) > MAX_NUMBER else value


def _from_zero(most: float) -> AfterValidator:
    def check(value: float) -> float:
        # A p-value is a sum of terms, which may end a rounding error beyond its range.
        if value < -1e-9 or value > most + 1e-9:
            raise ValueError(f"it must lie between 0 and {most:g}, not at {value:g}")
        return value

    return AfterValidator(check)


Number = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(_to_json, return_type=float | str | None, when_used="json"),
]
"""A float; in JSON, not-a-number is null and the infinities are text, as in pydantic."""

Share = Annotated[Number, _from_zero(1)]
"""A probability, a p-value or a rate, if it is known."""

Size = Annotated[Number, _from_zero(math.inf)]
"""A number that is not negative, if it is known."""

Count = Annotated[int, Field(ge=0, le=10**15)]
"""How many."""

Text = Annotated[str, AfterValidator(printable)]
"""Text that can be shown anywhere; from JSON, anything else is refused before."""

Anything = Annotated[Any, AfterValidator(printable_within)]
"""A person's value, say, whose texts can be shown anywhere."""

Hash = Annotated[str, Field(pattern="^[0-9a-f]{0,64}$")]
"""A sha256 in hexadecimal digits, or nothing."""


Tolerance = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
Level = Annotated[float, Field(gt=0, lt=1)]


class Part(pydantic.BaseModel):
    """A part of a result: closed, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


VerdictName = Literal["evidence", "within_tolerance", "inconclusive", "invalid"]
"""The four verdicts; ``invalid`` is of a whole result only."""

Interval = tuple[Number, Number]

Reason = Literal[
    "group",  # it has fewer rows or clusters in the pool than folds are made of
    "pattern",  # the attribute goes with L in ways that redrawn attributes do not show
    "pairs",  # too few within the caliper
    "people",  # too few of the group to compare, by their weights
    "too_few",  # for an interval without a limit in it; a larger sample would settle it
    "overlap",  # too few people have close pairs
    "kappa",  # members of a pair differ in what goes with the attribute
    "redraws",  # too few with enough people and pairs
    "degrees",  # of freedom: few people, clusters or comparisons carry the variance
    "limit",  # a difference in units of the target, and no limit given
    "events",  # of an outcome too rare to say that it is inside the band, or to have a ratio
    "matching",  # the interval would include a limit with any number of people: the allowance
    "holm",  # outside the band by itself, but not after correction
]
"""Why a comparison decides nothing."""


class TestRecord(Part):
    """One test: what was estimated, how sure we are, and what follows."""

    __test__ = False

    test: Text
    method: Text
    interval_method: Text
    estimate: Number
    std_error: Size
    statistic: Number
    p_value: Share
    rejected: bool
    interval: Interval
    lower_bound: Number
    upper_bound: Number
    capped_upper_bound: Number = math.nan
    cap: Number = math.nan
    delta: Tolerance
    alpha: Level
    n: Count
    outcome: VerdictName
    held_back: Text = ""
    claim: Text = ""
    notes: tuple[Text, ...] = ()
    details: dict[Text, Number] = {}

    @property
    def S_n(self) -> float:
        r"""The estimate, the paper's :math:`S_n` (13)."""
        return self.estimate

    @property
    def V_n(self) -> float:
        r"""The paper's :math:`V_n` (14), of the metric as it is: its standard error times √n."""
        return self.details.get("std_error_fixed_metric", self.std_error) * math.sqrt(self.n)

    @property
    def T_n(self) -> float:
        r"""The statistic that is compared with the tolerance, the paper's :math:`T_n` (19)."""
        return self.statistic


class DecidedBy(Part):
    """The one number that decided, fixed by the settings."""

    test: Text
    interval: Text
    metric: Text
    claim: Text = ""


class ModelRecord(Part):
    """The model that was audited; ``name`` is its file's or that of its class."""

    name: Text = ""
    kind: Text
    task: Text
    output: Text
    classes: tuple[Text, ...] = ()
    n_features: Count
    sha256: Hash = ""
    balanced_accuracy: Number = math.nan
    auc: Number = math.nan


class DataRecord(Part):
    """The people who were audited."""

    source: Text
    n: Count
    features: tuple[Text, ...]
    label: Text = ""
    classes: dict[Text, Count] = {}
    protected: dict[Text, dict[Text, Count]] = {}
    missing: dict[Text, Count] = {}
    dropped: dict[Text, Count] = {}
    weighted: bool = False
    clusters: Count = 0
    notes: tuple[Text, ...] = ()
    sha256: Hash


class MetricRecord(Part):
    """The fair metric: who counts as alike, and where that came from."""

    kind: Text
    learned: bool
    directions: tuple[dict[Text, Number], ...] = ()
    origin: dict[Text, Anything] = {}
    same_sample: bool = False
    sha256: Hash


class NumericalErrorRecord(Part):
    """Numerical error bound: how far the computed flow can be from the exact one."""

    method: Text
    steps: Count
    evaluations: Count
    error_bound: Size
    error_in_se: Size
    subsample: Count
    precision: Text = ""
    note: Text = ""


class GroupRecord(Part):
    """The loss ratio of one group of people."""

    attribute: Text
    group: Text
    n: Count
    estimate: Number
    std_error: Size
    lower: Number
    upper: Number
    error_rate_before: Share = math.nan
    error_rate_after: Share = math.nan
    p_value: Share = math.nan
    p_adjusted: Share = math.nan
    rejected: bool = False
    small: bool = False


class JackknifeRecord(Part):
    """Jackknife over the metric's sample: both standard errors, metric fixed and learned anew."""

    method: Text
    replicates: tuple[Number, ...]
    std_error_fixed: Size
    std_error_refitted: Size
    lower_bound: Number
    upper_bound: Number

    def widening(self, directions: int) -> dict[str, Any]:
        """Return by how much the bounds of groups are wider for it, and by which law."""
        if not self.std_error_fixed:
            return {}
        wider = self.std_error_refitted / self.std_error_fixed
        return {"wider": wider, "degrees": len(self.replicates) - 1.0, "directions": directions}


class ControlRecord(Part):
    """Negative control: the estimate beside those with the attributes permuted."""

    estimate: Number
    permuted: Annotated[tuple[Number, ...], Field(min_length=1)]
    p_value: Share
    planned: Count
    n: Count
    used: bool


class SensitivityRecord(Part):
    """The statistic under one other choice.

    Of matched pairs ``what`` is ``column left out`` (of those that may matter) or ``column added``
    (to them), and ``change`` the column.
    """

    what: Text
    change: Text
    attribute: Text = ""
    group: Text = ""
    other: Text = ""
    n: Count
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    outcome: Text


class DeltaCurveRecord(Part):
    """How the verdict depends on the tolerance: evidence below one end, within from the other."""

    evidence_below: Number
    within_from: Number


class Measure(Part):
    """A named quantity with its interval, of everyone or of one group."""

    name: Text
    attribute: Text = ""
    group: Text = ""
    value: Number
    lower: Number = math.nan
    upper: Number = math.nan
    n: Count = 0


class PerturbedPerson(Part):
    """A person whose loss rises most, before and after the perturbation."""

    row: Count
    label: Text
    ratio: Number
    loss_before: Size
    loss_after: Size
    decision_before: Text
    decision_after: Text
    probability_before: Share
    probability_after: Share
    fair_distance: Number
    groups: dict[Text, Text | None] = {}
    before: dict[Text, Anything] = {}
    after: dict[Text, Anything] = {}

    def moved(self) -> list[tuple[str, Any, Any]]:
        """Return the columns that differ after the move, first those that went furthest.

        Text comes first; a number is measured in its own size.
        """
        found = []
        for name in dict.fromkeys([*self.before, *self.after]):
            before, after = self.before.get(name), self.after.get(name)
            alike, far = before == after, 2.0
            if isinstance(before, float) and isinstance(after, float):
                alike = math.isclose(before, after, rel_tol=1e-3, abs_tol=1e-9) or before != before
            if isinstance(before, int | float) and isinstance(after, int | float):
                far = abs(after - before) / (abs(before) + abs(after) or 1.0)
            if not alike:
                found.append((0.0 if math.isnan(far) else far, (name, before, after)))
        return [pair for _, pair in sorted(found, key=lambda one: one[0], reverse=True)]


class DriverRecord(Part):
    """Shapley share of one column (or all levels of one category) in what was found.

    ``alone`` is the value if it alone comes from the other person. ``predicts`` is how well it
    predicts the attribute (AUC), ``moves`` how much it moves the decision: a proxy does both.
    """

    attribute: Text = ""
    column: Text
    share: Number
    interval: Interval = (math.nan, math.nan)
    alone: Number = math.nan
    predicts: Number = math.nan
    moves: Number = math.nan


class SubgroupRecord(Part):
    """People that nobody named beforehand: found on one half, judged on the other.

    Bounds and p-values hold for all subgroups of an attribute together.
    """

    attribute: Text = ""
    words: Text
    n: Count
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    p_adjusted: Share
    found: bool


class GroupPair(Part):
    """Two groups of an attribute: people of ``group`` beside comparable people of ``other``."""

    attribute: Text
    group: Text
    other: Text

    @property
    def direction(self) -> tuple[str, str, str]:
        """Attribute, group and other group."""
        return self.attribute, self.group, self.other

    @property
    def mirrored(self) -> tuple[str, str, str]:
        """The direction from the other group to this one."""
        return self.attribute, self.other, self.group


class FoldInfluence(Part):
    """Influence of 20 folds of people, and of pairs, on the two rates of a comparison.

    Two audits of the same people with the same reference sample and seed have the same folds, so
    that the difference of any function of their rates has a standard error that knows what the two
    have in common. ``redrawn`` are the differences with redrawn attributes about their mean.
    """

    own_people: tuple[Number, ...]
    swapped_people: tuple[Number, ...]
    own_pairs: tuple[Number, ...]
    swapped_pairs: tuple[Number, ...]
    redrawn: tuple[Number, ...] = ()


class RateComparison(GroupPair):
    """One comparison of two groups: people of ``group`` with the columns of comparable ``other``.

    Rates are those of ``outcome``, the decision that is tested: with two classes the rarer one.
    For scores and predictions they are means. ``own`` is with the remaining columns of comparable
    people of their own group, ``swapped`` with those of comparable people of the other group,
    corrected by the redrawn attributes (``column`` names both in the rows, as they were found);
    ``difference`` is swapped − own, ``ratio`` swapped / own.
    Intervals are two-sided at level 1 − alpha and are what the verdict is read from; ``p_by_limit``
    holds p-values at other limits, in increasing order, not adjusted. ``reference_error`` is the
    part of the standard error that is due to the reference sample, which more people do not lower.
    ``people_needed`` of the group (compared or not) and ``pool_needed`` of the reference sample
    would settle an inconclusive comparison; ``pool_rows`` of the latter are of the group (clusters,
    if there are any).
    ``changed_up`` and ``changed_down`` are the shares of comparisons in which the decision changes
    to the outcome, or from it, between the columns of the two members of a pair. Chance does so
    too: what goes beyond it is the difference.
    """

    measure: Text
    outcome: Text = ""
    column: Text = ""
    verdict: VerdictName
    reason: Reason | Literal[""] = ""
    mirror: bool = False
    own: Number = math.nan
    swapped: Number = math.nan
    difference: Number = math.nan
    difference_interval: Interval = (math.nan, math.nan)
    ratio: Number = math.nan
    interval: Interval = (math.nan, math.nan)
    p_value: Share = math.nan
    p_adjusted: Share = math.nan
    std_error: Size = math.nan
    degrees: Size = math.nan
    allowance: Size = math.nan
    reference_error: Size = math.nan
    bias: Number = math.nan
    kappa: Number = math.nan
    control: tuple[Number, ...] = ()
    n: Count
    people: Count
    without_overlap: Count = 0
    clipped: Count = 0
    pairs: Count = 0
    effective_pairs: Size = math.nan
    events: Size = math.nan
    actual: Number = math.nan
    raw_group: Number = math.nan
    raw_other: Number = math.nan
    favourable_own: Number = math.nan
    favourable_swapped: Number = math.nan
    changed_up: Share = math.nan
    changed_down: Share = math.nan
    people_needed: Count | None = None
    pool_needed: Count | None = None
    pool_rows: Count = 0
    p_by_limit: tuple[tuple[Number, Share], ...] = ()
    folds: FoldInfluence | None = None

    @property
    def deviation(self) -> float:
        """How far the ratio is from 1: |log ratio|; nan where nothing could be compared."""
        if self.difference == 0 or math.isnan(self.difference):
            return self.difference
        return abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else math.inf

    @property
    def effect_size(self) -> float:
        """How far the comparison is from no difference; 0 where that is not known."""
        far = abs(self.difference) if self.measure == "prediction" else self.deviation
        return 0.0 if math.isnan(far) else far

    @property
    def raw_gap(self) -> float:
        """The difference between the raw rates of the two groups."""
        return self.raw_other - self.raw_group

    @property
    def explained(self) -> float:
        """The part of the raw gap that goes with the columns that may matter."""
        return self.raw_gap - self.difference


class ShownMeasure(GroupPair):
    """A measure that is shown beside the verdict and never decides: error rate, loss, score."""

    measure: Text
    own: Number = math.nan
    swapped: Number = math.nan
    difference: Number = math.nan


class ColumnBalance(GroupPair):
    """The standardised mean difference of one column between two groups, before and after."""

    column: Text
    before: Number
    after: Number


class ChangeHistogram(GroupPair):
    """How each person's rate would change: counts of swapped − own over equal bins from −1 to 1."""

    edges: tuple[Number, ...]
    counts: tuple[Size, ...]


class AttributeUse(Part):
    """A protected column that the model reads: what flipping it alone does to decisions."""

    attribute: Text
    changed: Share
    lower: Share
    upper: Share
    n: Count


class ComparedPerson(GroupPair):
    """A person beside their closest comparable pair, in original columns.

    ``probability`` is the model's for ``outcome`` as the person is; ``own`` and ``swapped`` are the
    means over all comparisons of this person. Members of the pair are the real people whose
    remaining columns were used; ``own_member`` is of the person's group.
    """

    outcome: Text
    row: Count
    label: Text = ""
    decision: Text
    decision_own: Text
    decision_swapped: Text
    probability: Number
    probability_own: Number
    probability_swapped: Number
    own: Number
    swapped: Number
    kept: dict[Text, Anything] = {}
    person: dict[Text, Anything] = {}
    own_member: dict[Text, Anything] = {}
    other_member: dict[Text, Anything] = {}
    own_row: Count = 0
    other_row: Count = 0

    def differing(self) -> list[tuple[str, Any, Any, Any]]:
        """Return the columns in which person and pair differ, those of the pair first."""
        own, other = self.own_member, self.other_member
        rows = [
            (name, value, own.get(name), other.get(name))
            for name, value in self.person.items()
            if not value == own.get(name) == other.get(name)
        ]
        return sorted(rows, key=lambda row: row[2] == row[3])


class HiddenFactor(GroupPair):
    """How strong a hidden factor would have to be: the odds ratio at which the finding breaks."""

    gamma: Number
    """Largest tested odds at which the difference is still significant; 1 if it is not at all."""


class MatchedPairsRecord(Part):
    """Matched pairs: what was compared, with whom, and every comparison.

    ``limit`` is the largest acceptable difference of mean predictions, in the target's units; it
    replaces ``delta`` where ``measure`` is ``prediction``.
    """

    may_matter: tuple[Text, ...]
    remaining: tuple[Text, ...]
    favourable: Text = ""
    measure: Text
    threshold: Number = math.nan
    delta: Tolerance
    limit: Number = math.nan
    alpha: Level
    neighbours: Count
    redraws: Count
    seed: Count
    pool: Text
    pool_size: Count
    pool_given: bool
    pool_sha256: Hash = ""
    in_pool: Count = 0
    comparisons: tuple[RateComparison, ...]
    shown: tuple[ShownMeasure, ...] = ()
    balance: tuple[ColumnBalance, ...] = ()
    changes: tuple[ChangeHistogram, ...] = ()
    reads: tuple[AttributeUse, ...] = ()
    people: tuple[ComparedPerson, ...] = ()
    hidden_factor: tuple[HiddenFactor, ...] = ()
    performance_folds: dict[Text, tuple[Number, ...]] = {}

    @property
    def leading(self) -> RateComparison:
        """The comparison that the sentence is about: of the verdict, the largest deviation.

        Within tolerance no direction is the mirror of a finding: the largest is of either one.
        """
        for verdict in ("evidence", "inconclusive"):
            if rows := [row for row in self.comparisons if row.verdict == verdict]:
                return leading(rows)
        return max(self.comparisons, key=lambda row: row.effect_size)

    @property
    def leading_by_attribute(self) -> tuple[RateComparison, ...]:
        """The leading comparison of every attribute."""
        found: dict[str, list[RateComparison]] = {}
        for row in self.comparisons:
            found.setdefault(row.attribute, []).append(row)
        return tuple(map(leading, found.values()))


def leading(rows: Sequence[RateComparison]) -> RateComparison:
    """Return the comparison to name: evidence, of a disadvantaged group, the largest deviation."""
    return max(rows, key=lambda row: (row.verdict == "evidence", not row.mirror, row.effect_size))


class Record(Part):
    """Everything an audit found, and everything needed to repeat it.

    ``reason`` says in a word why nothing was decided, ``causes`` in sentences why the result must
    not be used (the verdict is ``invalid`` then): what is wrong, a semicolon, what to do.
    ``parameters`` are the method's as it was run: ``lam`` and ``time`` of the gradient flow,
    ``budget`` of a search. ``tests`` are those of methods that perturb
    people (gradient flow, reach, flip), ``matched_pairs`` is the comparison with real people.
    """

    schema_version: int = SCHEMA_VERSION
    likewise_version: Text
    created: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d[\dT:.+Z-]{0,30}$")]
    verdict: VerdictName
    sentence: Text
    reason: Text = ""
    causes: tuple[Text, ...] = ()
    method: Text
    parameters: dict[Text, Number] = {}
    paper: bool = False
    delta: Tolerance
    alpha: Level
    rows: dict[Text, Count]
    matched_pairs: MatchedPairsRecord | None = None
    decided_by: DecidedBy | None = None
    tests: dict[Text, TestRecord] = {}
    secondary: tuple[TestRecord, ...] = ()
    numerical_error: NumericalErrorRecord | None = None
    jackknife: dict[Text, JackknifeRecord] = {}
    control: dict[Text, ControlRecord] = {}
    diagnostics: dict[Text, Number] = {}
    distribution: dict[Text, tuple[Number, ...]] = {}
    groups: tuple[GroupRecord, ...] = ()
    measures: tuple[Measure, ...] = ()
    sensitivity: tuple[SensitivityRecord, ...] = ()
    drivers: tuple[DriverRecord, ...] = ()
    subgroups: tuple[SubgroupRecord, ...] = ()
    delta_curve: DeltaCurveRecord | None = None
    perturbed: tuple[PerturbedPerson, ...] = ()
    notes: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()
    skipped: tuple[Text, ...] = ()
    model: ModelRecord
    data: DataRecord
    metric: MetricRecord | None = None
    settings: Settings
    settings_hash: Hash
    command: Text = ""
    redacted: bool = False
    versions: dict[Text, Text] = {}
    seconds: dict[Text, Size] = {}

    @pydantic.model_validator(mode="after")
    def _holds_what_reports_show(self) -> "Record":
        for name, test in self.tests.items():
            if test.test != name:
                raise ValueError(f"the test under {name!r} is {test.test!r}")
        if self.matched_pairs is None and self.decided_by is None:
            raise ValueError("nothing says what decided")
        if self.matched_pairs is not None and not self.matched_pairs.comparisons:
            raise ValueError("matched pairs without a comparison")
        if self.decided_by is not None and self.decided_by.test not in self.tests:
            raise ValueError(f"the test {self.decided_by.test!r} is not among the tests")
        if "n" not in self.rows:
            raise ValueError("rows do not say how many people there are")
        counts, edges = self.distribution.get("counts", ()), self.distribution.get("edges", ())
        if counts and not (
            len(edges) == len(counts) + 1
            and all(math.isfinite(edge) for edge in edges)
            and all(0 <= count < math.inf for count in counts)
        ):
            raise ValueError("the counts and edges of the distribution do not make a histogram")
        return self

    def __repr__(self) -> str:
        return f"<Record {self.verdict}: {self.sentence}>"

    @property
    def deciding(self) -> TestRecord | None:
        """The test that decides, for methods that perturb people."""
        return None if self.decided_by is None else self.tests[self.decided_by.test]

    def test(self, name: str) -> TestRecord:
        """Return one test by name: ``record.test("loss_ratio").S_n``."""
        if name not in self.tests:
            known = ", ".join(map(repr, self.tests)) or "none"
            raise InvalidSettings(f"There is no test {name!r} in this audit, which made {known}.")
        return self.tests[name]

    def to_json(self) -> str:
        """Return the text of the result file."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "the result") -> "Record":
        """Read the text of a result file; one of another schema is refused."""
        try:
            raw = parse(text, largest=MAX_NUMBER)
        except ValueError as error:
            raise InvalidFile(f"{source!r} is not a result file: {error}.") from None
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if version != SCHEMA_VERSION:
            raise InvalidFile(
                f"{source!r} has schema {version!r}, and this version reads {SCHEMA_VERSION}. "
                "Audit again, or upgrade likewise."
            )
        try:
            return cls.model_validate(raw)
        except pydantic.ValidationError as error:
            raise InvalidFile(f"{source!r} is damaged: {in_short(error)}.") from None

    @classmethod
    def read(cls, path: str | Path) -> "Record":
        """Read a result file."""
        return cls.from_json(read_whole(path, most=MAX_BYTES), str(path))


def parse(text: str | bytes, *, finite: bool = False, largest: float = sys.float_info.max) -> Any:
    """Return what a JSON text holds; a ``ValueError`` says what is wrong with it.

    Unprintable text is refused, and so are numbers beyond ``largest``, and whole numbers that no
    float can hold. ``finite`` refuses ``NaN`` and ``Infinity``, which are not JSON.
    """
    # Not json.loads: what it reads may be nested too deeply to be written again.
    value = pydantic_core.from_json(text, allow_inf_nan=not finite)
    _check(value, largest)
    return value


def _check(value: Any, largest: float) -> None:
    if isinstance(value, dict | list):
        for inner in (*value, *(value.values() if isinstance(value, dict) else ())):
            _check(inner, largest)
    elif isinstance(value, str):
        if found := UNPRINTABLE.search(value):
            raise ValueError(f"it holds the unprintable character {found[0]!a}")
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("it holds a whole number of more than 300 digits")
    elif isinstance(value, int | float) and largest < abs(value) < math.inf:
        raise ValueError(f"it holds the number {float(value):g}, beyond all that is measured here")
