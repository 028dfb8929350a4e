"""The result of an audit as data: what the JSON file holds, and all that reports are made from."""

import math
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field

from likewise.errors import InvalidFile
from likewise.json_text import Number, parse
from likewise.settings import Settings

SCHEMA_VERSION = 1

Outcome = Literal["evidence_of_unfairness", "within_tolerance", "inconclusive"]


class _Part(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TestRecord(_Part):
    """One test: what was estimated, how sure we are, and what follows."""

    __test__ = False

    test: str
    map: str
    method: str
    estimate: Number
    std_error: Number
    statistic: Number
    p_value: Number
    rejected: bool
    interval: tuple[Number, Number]
    lower_bound: Number
    upper_bound: Number
    capped_upper_bound: Number = math.nan
    cap: Number = math.nan
    delta: float
    alpha: float
    n: int
    outcome: Outcome
    notes: tuple[str, ...] = ()
    details: dict[str, Number] = Field(default_factory=dict)


class DecidedBy(_Part):
    """The one number that decided, fixed by the settings."""

    map: str
    test: str
    interval: str
    metric: str


class ModelRecord(_Part):
    """The model that was audited."""

    kind: str
    task: str
    output: str
    classes: tuple[str, ...] = ()
    n_features: int
    sha256: str = ""
    clipped: int = 0


class DataRecord(_Part):
    """The people who were audited."""

    source: str
    n: int
    features: tuple[str, ...]
    label: str = ""
    classes: dict[str, int] = Field(default_factory=dict)
    protected: dict[str, dict[str, int]] = Field(default_factory=dict)
    missing: dict[str, int] = Field(default_factory=dict)
    dropped: dict[str, int] = Field(default_factory=dict)
    weighted: bool = False
    clusters: int = 0
    notes: tuple[str, ...] = ()
    sha256: str


class MetricRecord(_Part):
    """The fair metric: who counts as alike, and where that came from."""

    kind: str
    learned: bool
    dimension: int
    directions: tuple[dict[str, float], ...] = ()
    origin: dict[str, Any] = Field(default_factory=dict)
    same_sample: bool = False
    sha256: str


class CertificateRecord(_Part):
    """How far the computed flow can be from the true one."""

    method: str
    steps: int
    evaluations: int
    error_bound: Number
    error_in_se: Number
    subsample: int
    cap_reached: bool
    note: str = ""


class HorizonRecord(_Part):
    """The statistics at one time of the flow."""

    time: float
    n: int
    loss_ratio: Number
    lower_bound: Number
    error_rate_ratio: Number
    error_rate_lower_bound: Number
    band_lower: Number = math.nan
    band_upper: Number = math.nan


class GroupRecord(_Part):
    """The audit value of one group of people."""

    trait: str
    group: str
    n: int
    estimate: Number
    std_error: Number
    lower: Number
    upper: Number
    error_rate_before: Number = math.nan
    error_rate_after: Number = math.nan
    p_value: Number = math.nan
    p_adjusted: Number = math.nan
    rejected: bool = False
    small: bool = False


class WorstCase(_Part):
    """A person treated unlike their like, before and after the move."""

    row: int
    label: str
    ratio: Number
    loss_before: Number
    loss_after: Number
    decision_before: str
    decision_after: str
    probability_before: Number
    probability_after: Number
    fair_distance: Number
    groups: dict[str, str | None] = Field(default_factory=dict)
    before: dict[str, Any] = Field(default_factory=dict)
    after: dict[str, Any] = Field(default_factory=dict)


class FeatureShift(_Part):
    """How far the map pushes one feature, over all people."""

    feature: str
    mean_absolute: Number
    mean: Number


class RefitRecord(_Part):
    """Both standard errors: under this metric, and with the metric refitted."""

    method: str
    replicates: tuple[Number, ...]
    std_error_fixed: Number
    std_error_refitted: Number
    lower_bound: Number
    upper_bound: Number
    used: bool


class SensitivityRecord(_Part):
    """The statistic under one other choice."""

    what: str
    change: str
    n: int
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    outcome: str


class ToleranceRecord(_Part):
    """The verdict that another tolerance would have given."""

    delta: float
    p_value: Number
    outcome: Outcome


class DeltaCurveRecord(_Part):
    """How the verdict depends on the tolerance: evidence below one end, kept to from the other."""

    unfair_below: Number
    tolerable_from: Number
    points: tuple[ToleranceRecord, ...] = ()


class Measure(_Part):
    """A named quantity with its interval."""

    name: str
    group: str = ""
    value: Number
    lower: Number = math.nan
    upper: Number = math.nan
    n: int = 0


class Record(_Part):
    """Everything an audit found, and everything needed to repeat it."""

    schema_version: int = SCHEMA_VERSION
    likewise_version: str
    created: str
    outcome: Outcome
    sentence: str
    trustworthy: bool
    reasons: tuple[str, ...] = ()
    decided_by: DecidedBy
    tests: dict[str, TestRecord]
    beside: tuple[TestRecord, ...] = ()
    rows: dict[str, int]
    certificate: CertificateRecord | None = None
    horizons: tuple[HorizonRecord, ...] = ()
    search: dict[int, Number] = Field(default_factory=dict)
    refits: dict[str, RefitRecord] = Field(default_factory=dict)
    diagnostics: dict[str, Number] = Field(default_factory=dict)
    tail: dict[str, Number] = Field(default_factory=dict)
    distribution: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    groups: tuple[GroupRecord, ...] = ()
    measures: tuple[Measure, ...] = ()
    sensitivity: tuple[SensitivityRecord, ...] = ()
    delta_curve: DeltaCurveRecord | None = None
    worst: tuple[WorstCase, ...] = ()
    shifts: tuple[FeatureShift, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    model: ModelRecord
    data: DataRecord
    metric: MetricRecord
    settings: Settings
    settings_hash: str
    command: str = ""
    redacted: bool = False
    versions: dict[str, str] = Field(default_factory=dict)
    seconds: dict[str, float] = Field(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _decided_by_one_of_its_tests(self) -> "Record":
        if self.decided_by.test not in self.tests:
            raise ValueError(f"the test {self.decided_by.test!r} is not among the tests")
        return self

    def to_json(self) -> str:
        """Return the text of the result file."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "the result") -> "Record":
        """Read the text of a result file; a newer schema is refused."""
        try:
            raw = parse(text)
        except ValueError as error:
            raise InvalidFile(f"{source!r} is not a result file: {error}.") from None
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if not isinstance(version, int):
            raise InvalidFile(f"{source!r} is not the result of an audit: no schema_version.")
        if version > SCHEMA_VERSION:
            raise InvalidFile(
                f"{source!r} has schema {version}, newer than {SCHEMA_VERSION}. Upgrade likewise."
            )
        try:
            return cls.model_validate(raw)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "decided_by"
            reason = first["msg"].removeprefix("Value error, ")
            raise InvalidFile(f"{source!r} is damaged at {where!r}: {reason}.") from None

    @classmethod
    def read(cls, path: str | Path) -> "Record":
        """Read a result file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidFile(f"There is no file {str(path)!r}.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFile(f"{str(path)!r} cannot be read: {error}.") from None
        return cls.from_json(text, str(path))
