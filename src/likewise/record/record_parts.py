"""What a result is made of: every part with its keys, ranges and printable text."""

import math
from typing import Annotated, Literal

import pydantic
from pydantic import ConfigDict, Field

from likewise.record.json_text import LARGEST, Count, Hash, Number, Share, Size, Text

Outcome = Literal["evidence_of_unfairness", "within_tolerance", "inconclusive"]


Tolerance = Annotated[float, Field(gt=0, le=LARGEST)]
Level = Annotated[float, Field(gt=0, lt=1)]


class Part(pydantic.BaseModel):
    """A part of a result: closed, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TestRecord(Part):
    """One test: what was estimated, how sure we are, and what follows."""

    __test__ = False

    test: Text
    map: Text
    method: Text
    estimate: Number
    std_error: Size
    statistic: Number
    p_value: Share
    rejected: bool
    interval: tuple[Number, Number]
    lower_bound: Number
    upper_bound: Number
    capped_upper_bound: Number = math.nan
    cap: Number = math.nan
    delta: Tolerance
    alpha: Level
    n: Count
    outcome: Outcome
    held_back: Text = ""
    claim: Text = ""
    notes: tuple[Text, ...] = ()
    details: dict[Text, Number] = Field(default_factory=dict)

    @property
    def S_n(self) -> float:
        r"""The estimate, the paper's :math:`S_n` (13)."""
        return self.estimate

    @property
    def V_n(self) -> float:
        r"""The paper's :math:`V_n` (14): the standard error times :math:`\sqrt n`."""
        return self.std_error * math.sqrt(self.n)

    @property
    def T_n(self) -> float:
        r"""The statistic that is compared with the tolerance, the paper's :math:`T_n` (19)."""
        return self.statistic


class DecidedBy(Part):
    """The one number that decided, fixed by the settings."""

    map: Text
    test: Text
    interval: Text
    metric: Text
    claim: Text = ""


class ModelRecord(Part):
    """The model that was audited."""

    kind: Text
    task: Text
    output: Text
    classes: tuple[Text, ...] = ()
    n_features: Count
    sha256: Hash = ""
    clipped: Count = 0
    fed: Text = ""
    balanced_accuracy: Number = math.nan
    auc: Number = math.nan


class DataRecord(Part):
    """The people who were audited."""

    source: Text
    n: Count
    features: tuple[Text, ...]
    label: Text = ""
    classes: dict[Text, Count] = Field(default_factory=dict)
    protected: dict[Text, dict[Text, Count]] = Field(default_factory=dict)
    missing: dict[Text, Count] = Field(default_factory=dict)
    dropped: dict[Text, Count] = Field(default_factory=dict)
    weighted: bool = False
    clusters: Count = 0
    notes: tuple[Text, ...] = ()
    sha256: Hash


class PredictionRecord(pydantic.BaseModel):
    """How well a trait is predicted; what is not a measure for its kind is left out."""

    auc: Number | None = None
    accuracy: Number | None = None
    r2: Number | None = None


class TraitRecord(pydantic.BaseModel):
    """What a learned metric knows about one trait."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: Text
    n: Count
    missing: Count
    before: PredictionRecord
    after: PredictionRecord


class OriginRecord(pydantic.BaseModel):
    """Where a learned metric came from: what reports show of it, and whatever else there is."""

    model_config = ConfigDict(frozen=True, extra="allow")

    source: Text = ""
    n: Count = 0
    traits: tuple[TraitRecord, ...] = ()


class MetricRecord(Part):
    """The fair metric: who counts as alike, and where that came from."""

    kind: Text
    learned: bool
    dimension: Count
    directions: tuple[dict[Text, Number], ...] = ()
    origin: OriginRecord = OriginRecord()
    same_sample: bool = False
    sha256: Hash


class CertificateRecord(Part):
    """How far the computed flow can be from the true one."""

    method: Text
    steps: Count
    evaluations: Count
    error_bound: Size
    error_in_se: Size
    subsample: Count
    cap_reached: bool
    precision: Text = ""
    note: Text = ""


class HorizonRecord(Part):
    """The statistics at one time of the flow."""

    time: Annotated[float, Field(gt=0, le=LARGEST)]
    n: Count
    loss_ratio: Number
    lower_bound: Number
    error_rate_ratio: Number
    error_rate_lower_bound: Number
    band_lower: Number = math.nan
    band_upper: Number = math.nan


class GroupRecord(Part):
    """The audit value of one group of people."""

    trait: Text
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


class FeatureShift(Part):
    """How far the map pushes one feature, over all people."""

    feature: Text
    mean_absolute: Size
    mean: Number


class RefitRecord(Part):
    """Both standard errors: under this metric, and with the metric refitted."""

    method: Text
    replicates: tuple[Number, ...]
    std_error_fixed: Size
    std_error_refitted: Size
    lower_bound: Number
    upper_bound: Number
    used: bool


class PlaceboRecord(Part):
    """The estimate on some people, beside those with the traits shuffled, which mean nothing."""

    estimate: Number
    placebos: Annotated[tuple[Number, ...], Field(min_length=1)]
    p_value: Share
    planned: Count
    n: Count
    used: bool


class SensitivityRecord(Part):
    """The statistic under one other choice."""

    what: Text
    change: Text
    n: Count
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    outcome: Text


class ToleranceRecord(Part):
    """The verdict that another tolerance would have given."""

    delta: Tolerance
    p_value: Share
    outcome: Outcome


class DeltaCurveRecord(Part):
    """How the verdict depends on the tolerance: evidence below one end, kept to from the other."""

    unfair_below: Number
    tolerable_from: Number
    points: tuple[ToleranceRecord, ...] = ()


class Measure(Part):
    """A named quantity with its interval."""

    name: Text
    group: Text = ""
    value: Number
    lower: Number = math.nan
    upper: Number = math.nan
    n: Count = 0
