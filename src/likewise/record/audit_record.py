"""The result of an audit as data: what the JSON file holds, and all that reports are made from."""

import math
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole
from likewise.record.counterpart_findings import (
    CounterpartsRecord,
)
from likewise.record.findings import ColumnShareRecord, SubgroupRecord, WorstCase
from likewise.record.json_text import LARGEST, Count, Hash, Number, Size, Text, parse
from likewise.record.record_parts import (
    CertificateRecord,
    DataRecord,
    DecidedBy,
    DeltaCurveRecord,
    FeatureShift,
    GroupRecord,
    HorizonRecord,
    Measure,
    MetricRecord,
    ModelRecord,
    Outcome,
    Part,
    PlaceboRecord,
    RefitRecord,
    SensitivityRecord,
    TestRecord,
)
from likewise.settings import Settings

SCHEMA_VERSION = 2
LARGEST_FILE = 100_000_000
"""Bytes of a result file that are read; one of a hundred groups has a thousandth of it."""


class Record(Part):
    """Everything an audit found, and everything needed to repeat it."""

    schema_version: int = SCHEMA_VERSION
    likewise_version: Text
    created: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d[\dT:.+Z-]{0,30}$")]
    outcome: Outcome
    sentence: Text
    trustworthy: bool
    reasons: tuple[Text, ...] = ()
    decided_by: DecidedBy
    tests: dict[Text, TestRecord]
    beside: tuple[TestRecord, ...] = ()
    counterparts: CounterpartsRecord | None = None
    rows: dict[Text, Count]
    certificate: CertificateRecord | None = None
    horizons: tuple[HorizonRecord, ...] = ()
    search: dict[Count, Size] = Field(default_factory=dict)
    refits: dict[Text, RefitRecord] = Field(default_factory=dict)
    placebo: dict[Text, PlaceboRecord] = Field(default_factory=dict)
    placebo_beside: dict[Text, PlaceboRecord] = Field(default_factory=dict)
    diagnostics: dict[Text, Number] = Field(default_factory=dict)
    tail: dict[Text, Number] = Field(default_factory=dict)
    distribution: dict[Text, tuple[Number, ...]] = Field(default_factory=dict)
    groups: tuple[GroupRecord, ...] = ()
    measures: tuple[Measure, ...] = ()
    sensitivity: tuple[SensitivityRecord, ...] = ()
    carried: tuple[ColumnShareRecord, ...] = ()
    subgroups: tuple[SubgroupRecord, ...] = ()
    delta_curve: DeltaCurveRecord | None = None
    worst: tuple[WorstCase, ...] = ()
    shifts: tuple[FeatureShift, ...] = ()
    warnings: tuple[Text, ...] = ()
    skipped: tuple[Text, ...] = ()
    model: ModelRecord
    data: DataRecord
    metric: MetricRecord
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
        if self.decided_by.test not in self.tests:
            raise ValueError(f"the test {self.decided_by.test!r} is not among the tests")
        if missing := [name for name in ("n", "moved") if name not in self.rows]:
            raise ValueError(f"rows do not say how many {missing[0]!r} there are")
        counts, edges = (self.distribution.get(name, ()) for name in ("counts", "edges"))
        if counts and not (
            len(edges) == len(counts) + 1
            and all(math.isfinite(edge) for edge in edges)
            and all(0 <= count < math.inf for count in counts)
        ):
            raise ValueError("the counts and edges of the distribution do not make a histogram")
        return self

    def judged_groups(self) -> tuple[GroupRecord, ...]:
        """Return the groups that the audit is about, each accused only where it accuses.

        With counterparts those are their own. Values under a learned metric take it as given and
        know no placebos: unless the verdict is evidence, no group is accused by them.
        """
        if self.counterparts is not None:
            return tuple(g.as_group() for trait in self.counterparts.traits for g in trait.groups)
        if self.outcome == "evidence_of_unfairness" or not self.metric.learned:
            return self.groups
        return tuple(group.model_copy(update={"rejected": False}) for group in self.groups)

    def accused_by(self, test: TestRecord) -> bool:
        """Tell whether a test accuses and is one of those that the verdict goes by."""
        decides = test.map == self.decided_by.map
        return test.rejected and decides and self.outcome == "evidence_of_unfairness"

    def verdict(self, test: str) -> TestRecord:
        """Return one test by name: ``record.verdict("loss_ratio").S_n``."""
        if test not in self.tests:
            known = ", ".join(map(repr, self.tests))
            raise InvalidSettings(f"There is no test {test!r} in this audit, which made {known}.")
        return self.tests[test]

    def to_json(self) -> str:
        """Return the text of the result file."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "the result") -> "Record":
        """Read the text of a result file; a newer schema is refused."""
        try:
            raw = parse(text, largest=LARGEST, huge=("theorem_a1_bound",))
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
            raise InvalidFile(f"{source!r} is damaged at {where[:200]!r}: {reason}.") from None

    @classmethod
    def read(cls, path: str | Path) -> "Record":
        """Read a result file."""
        return cls.from_json(read_whole(path, most=LARGEST_FILE), str(path))
