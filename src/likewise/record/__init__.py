"""The result of an audit as data: what the JSON file holds, and all that reports are made from."""

import math
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole
from likewise.record.json_text import LARGEST, Count, Hash, Number, Size, Text, parse
from likewise.record.matched_pairs import (
    AttributeUse,
    ChangeHistogram,
    ColumnBalance,
    ComparedPerson,
    FoldInfluence,
    HiddenFactor,
    MatchedPairsRecord,
    RateComparison,
    ShownMeasure,
)
from likewise.record.record_parts import (
    AttributeRecord,
    ControlRecord,
    DataRecord,
    DecidedBy,
    DeltaCurveRecord,
    DriverRecord,
    FeatureShift,
    GroupRecord,
    JackknifeRecord,
    Measure,
    MetricRecord,
    ModelRecord,
    NumericalErrorRecord,
    OriginRecord,
    Part,
    PerturbedPerson,
    PredictionRecord,
    SensitivityRecord,
    StoppingTimeRecord,
    SubgroupRecord,
    TestRecord,
    VerdictName,
)
from likewise.settings import Settings

__all__ = [
    "LARGEST_FILE",
    "AttributeRecord",
    "AttributeUse",
    "ChangeHistogram",
    "ColumnBalance",
    "ComparedPerson",
    "ControlRecord",
    "DataRecord",
    "DecidedBy",
    "DeltaCurveRecord",
    "DriverRecord",
    "FeatureShift",
    "FoldInfluence",
    "GroupRecord",
    "HiddenFactor",
    "JackknifeRecord",
    "MatchedPairsRecord",
    "Measure",
    "MetricRecord",
    "ModelRecord",
    "NumericalErrorRecord",
    "OriginRecord",
    "PerturbedPerson",
    "PredictionRecord",
    "RateComparison",
    "Record",
    "SensitivityRecord",
    "ShownMeasure",
    "StoppingTimeRecord",
    "SubgroupRecord",
    "TestRecord",
    "VerdictName",
]

SCHEMA_VERSION = 3
LARGEST_FILE = 100_000_000
"""Bytes of a result file that are read; one of a hundred groups has a thousandth of it."""


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
    parameters: dict[Text, Number] = Field(default_factory=dict)
    paper: bool = False
    delta: Annotated[float, Field(gt=0, le=LARGEST)]
    alpha: Annotated[float, Field(gt=0, lt=1)]
    rows: dict[Text, Count]
    matched_pairs: MatchedPairsRecord | None = None
    decided_by: DecidedBy | None = None
    tests: dict[Text, TestRecord] = Field(default_factory=dict)
    secondary: tuple[TestRecord, ...] = ()
    numerical_error: NumericalErrorRecord | None = None
    stopping_times: tuple[StoppingTimeRecord, ...] = ()
    jackknife: dict[Text, JackknifeRecord] = Field(default_factory=dict)
    control: dict[Text, ControlRecord] = Field(default_factory=dict)
    diagnostics: dict[Text, Number] = Field(default_factory=dict)
    distribution: dict[Text, tuple[Number, ...]] = Field(default_factory=dict)
    groups: tuple[GroupRecord, ...] = ()
    measures: tuple[Measure, ...] = ()
    sensitivity: tuple[SensitivityRecord, ...] = ()
    drivers: tuple[DriverRecord, ...] = ()
    subgroups: tuple[SubgroupRecord, ...] = ()
    delta_curve: DeltaCurveRecord | None = None
    perturbed: tuple[PerturbedPerson, ...] = ()
    shifts: tuple[FeatureShift, ...] = ()
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
    versions: dict[Text, Text] = Field(default_factory=dict)
    seconds: dict[Text, Size] = Field(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _holds_what_reports_show(self) -> "Record":
        if strange := [name for name, test in self.tests.items() if test.test != name]:
            raise ValueError(f"the test under {strange[0]!r} is {self.tests[strange[0]].test!r}")
        if self.matched_pairs is None and self.decided_by is None:
            raise ValueError("nothing says what decided")
        if self.matched_pairs is not None and not self.matched_pairs.comparisons:
            raise ValueError("matched pairs without a comparison")
        if self.decided_by is not None and self.decided_by.test not in self.tests:
            raise ValueError(f"the test {self.decided_by.test!r} is not among the tests")
        if "n" not in self.rows:
            raise ValueError("rows do not say how many people there are")
        counts, edges = (self.distribution.get(name, ()) for name in ("counts", "edges"))
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
            raw = parse(text, largest=LARGEST, huge=("theorem_a1_bound",))
        except ValueError as error:
            raise InvalidFile(f"{source!r} is not a result file: {error}.") from None
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if not isinstance(version, int):
            raise InvalidFile(f"{source!r} is not the result of an audit: no schema_version.")
        if version != SCHEMA_VERSION:
            newer = "Upgrade likewise" if version > SCHEMA_VERSION else "Audit again"
            raise InvalidFile(
                f"{source!r} has schema {version}, and this version reads {SCHEMA_VERSION}. "
                f"{newer}."
            )
        try:
            return cls.model_validate(raw)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "decided_by"
            reason = first["msg"].removeprefix("Value error, ")
            raise InvalidFile(f"{source!r} is damaged at {where[:200]!r}: {reason}.") from None

    @classmethod
    def read(cls, path: str | Path) -> "Record":
        """Read a result file."""
        return cls.from_json(read_whole(path, most=LARGEST_FILE), str(path))
