"""The record builder: everything a report shows and a repeat needs, whatever the method."""

import contextlib
import datetime
import importlib.metadata
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from warnings import WarningMessage

import pydantic

from likewise.data.notes import data_notes, left_out_notes
from likewise.errors import LikewiseWarning
from likewise.method import BoundMethod, Finding
from likewise.record import DataRecord, ModelRecord, Record
from likewise.report.text import sentence
from likewise.stats.frame import AttributeLevels
from likewise.verdict import Verdict

LIBRARIES = ("likewise", "numpy", "scipy", "scikit-learn", "torch")


def build_record(
    bound: BoundMethod,
    verdict: Verdict,
    findings: Sequence[Finding],
    warnings: Sequence[WarningMessage],
    command: str,
    seconds: float,
) -> Record:
    """Put everything into the record; the sentence is made of it."""
    settings = bound.settings
    found = [{"skipped": finding.skipped, **finding.record} for finding in findings]
    parts = {"rows": {"n": bound.setup.survey.n}, **joined([verdict.record, *found])}
    record = Record(
        likewise_version=importlib.metadata.version("likewise"),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        verdict=verdict.name,
        sentence="",
        reason=verdict.reason,
        causes=verdict.causes,
        method=bound.name,
        paper=settings.paper,
        delta=settings.delta,
        alpha=settings.alpha,
        # What checks found about the result comes before what stands out in the data.
        notes=(
            *left_out_notes(bound.survey.dropped),
            *(
                f"{count:,} of {bound.n:,} people have no value of {name!r}: they are in no group."
                for name, count in bound.survey.gaps.items()
                if count
            ),
            *(w for finding in findings for w in finding.notes),
            *parts.pop("notes", ()),
        ),
        warnings=tuple(
            str(one.message) for one in warnings if issubclass(one.category, LikewiseWarning)
        ),
        model=model_record(bound),
        data=data_record(bound),
        settings=settings,
        settings_hash=settings.hash,
        command=command,
        versions=versions(),
        seconds={"total": seconds},
        **parts,
    )
    return record.model_copy(update={"sentence": sentence(record)})


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join parts of a record: tuples one after another, dictionaries into one.

    Fields of a part that the method began are completed: given as a dictionary.
    """
    whole: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name not in whole:
                whole[name] = value
            elif isinstance(whole[name], pydantic.BaseModel):
                whole[name] = whole[name].model_copy(update=value)
            elif isinstance(value, dict):
                whole[name] = {**whole[name], **value}
            else:
                whole[name] = whole[name] + value
    return whole


def model_record(bound: Any) -> ModelRecord:
    """Describe the model."""
    card, performance = bound.model.card, bound.performance
    given = bound.setup.given
    return ModelRecord(
        name=Path(given).name if isinstance(given, str | Path) else "",
        kind=card.kind,
        task=card.task,
        output=card.output,
        classes=tuple(map(str, bound.classes)),
        n_features=len(bound.people.features),
        sha256=card.fingerprint,
        balanced_accuracy=math.nan if performance is None else performance.balanced_accuracy,
        auc=math.nan if performance is None or not bound.classes else performance.auc,
    )


def data_record(bound: Any) -> DataRecord:
    """Describe the people."""
    survey, people = bound.survey, bound.people
    levels = {
        name: AttributeLevels.from_counts(counts) for name, counts in survey.attributes.items()
    }
    labels = survey.labels if bound.classes else {}
    return DataRecord(
        source=bound.source.name,
        n=survey.n,
        features=tuple(people.features),
        label=bound.settings.columns.label or "",
        classes=dict(sorted((str(value), count) for value, count in labels.items())),
        protected={
            name: dict(sorted(zip(of.names, of.counts, strict=True), key=lambda size: -size[1]))
            for name, of in levels.items()
        },
        missing=dict(survey.gaps),
        dropped=dict(survey.dropped),
        weighted=people.weight is not None,
        notes=(*people.notes, *data_notes(survey, bound.settings.columns.may_matter)),
        clusters=bound.clusters,
        sha256=survey.fingerprint,
    )


def versions() -> dict[str, str]:
    """Return the versions of what computed the result."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
