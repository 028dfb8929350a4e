"""Every choice of an audit: names and numbers, and the hash that makes them checkable.

Choices made before the data are seen are what an error rate is promised for. They are kept
together here, printed in every output, and hashed without any path, so that two audits with the
same hash made the same choices. Methods, tests and checks are named with their parameters, which
the class that a name stands for declares and checks (`likewise.settings.choices`).
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

import pydantic
from pydantic import Field

from likewise.errors import UNPRINTABLE, InvalidSettings, nearest
from likewise.settings.sections import (
    CheckLevel,
    Choice,
    Choices,
    Columns,
    Decide,
    IntervalName,
    Metric,
    ModelAccess,
    Selection,
)

__all__ = [
    "CheckLevel",
    "Choice",
    "Columns",
    "Decide",
    "IntervalName",
    "Metric",
    "Selection",
    "Settings",
    "canonical",
    "make_settings",
    "parse_choice",
]


class Settings(Choices):
    """All choices of one audit."""

    delta: float = Field(
        1.25, ge=1, description="Tolerance: the largest acceptable ratio; 1.25 is four fifths."
    )
    alpha: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="How often a model at the limit may be found unfair by chance.",
    )
    cap: float = Field(
        10.0,
        gt=1,
        description="Ratios above it count as this much when a model is found within tolerance: "
        "no finite sample can bound a mean without a cap.",
    )
    paper: bool = Field(False, description="Exactly the procedure of the ICLR 2021 paper.")
    seed: int = Field(0, ge=0, description="Of every random choice: subsamples, refits, bootstrap.")
    model: ModelAccess = Field(ModelAccess(), description="How a model is asked and fed.")
    columns: Columns = Field(Columns(), description="What the columns of the table mean.")
    decide: Decide = Field(Decide(), description="What decides, said beforehand.")
    method: Choice = Field(
        Choice(),
        description="How people are compared, with its parameters: matched_pairs, gradient_flow, "
        "reach or flip; auto takes matched pairs if columns that may matter are named, else the "
        "gradient flow (reach for models without gradients).",
    )
    metric: Metric = Field(Metric(), description="How a fair metric is learned when none is given.")
    tests: Selection = Field(
        Selection(),
        description="Tests to run (auto: those for the task); parameters in [tests.NAME].",
    )
    checks: Selection = Field(
        Selection(run="full"),
        description="Checks beyond the verdict: full, core (fewer; the verdict is the same), or "
        "names; parameters in [checks.NAME].",
    )

    labels: dict[str, str] = Field(
        default_factory=dict,
        description='Display names: column = "name", or "column = value" = "name of a group". They '
        "change what is printed and nothing else, and have no part in the hash.",
    )

    @pydantic.field_validator("method", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @pydantic.field_validator("tests", "checks", mode="before")
    @classmethod
    def _run_alone(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str | list | tuple) else value

    @pydantic.model_validator(mode="after")
    def _cap_exceeds_tolerance(self) -> "Settings":
        if self.cap <= self.delta:
            raise ValueError(f"cap ({self.cap:g}) must exceed delta ({self.delta:g})")
        if isinstance(self.checks.run, str) and self.checks.run not in ("full", "core"):
            raise ValueError(f"checks.run is full, core or a list of names, not {self.checks.run}")
        if isinstance(self.tests.run, str) and self.tests.run != "auto":
            raise ValueError(f"tests.run is auto or a list of names, not {self.tests.run}")
        return self

    @pydantic.model_validator(mode="after")
    def _printable(self) -> "Settings":
        # A result holds the settings, and one with such text would not be read again.
        if found := UNPRINTABLE.search(_texts(self.model_dump())):
            raise ValueError(f"settings hold the character {found[0]!a}, which cannot be shown")
        return self

    @property
    def learning(self) -> dict[str, Any]:
        """How a metric is learned, as `likewise.sensitive_subspace` takes it."""
        chosen = self.metric.model_dump(include={"penalty", "C", "groups", "placebos"})
        return {**chosen, "may_matter": self.columns.may_matter, "seed": self.seed}

    @property
    def hash(self) -> str:
        """Return the sha256 of the choices as canonical JSON; display names are no choice."""
        choices = self.model_dump(mode="json", exclude={"labels"})
        return hashlib.sha256(canonical(choices).encode()).hexdigest()

    def as_in_paper(self) -> "Settings":
        """Return the paper's procedure: its flow and steps, its normal limit, this very metric."""
        return self.changed(
            paper=True,
            method={"name": "gradient_flow", "solver": "euler", "steps": 500},
            metric__C=1.0,
            decide__interval="paper",
            decide__metric="fixed",
            decide__certify=False,
        )

    def changed(self, **choices: Any) -> "Settings":
        """Return settings with some choices replaced; ``section__name`` reaches into a section.

        Another name of a method begins with that method's own defaults.
        """
        return self._with([(tuple(name.split("__")), value) for name, value in choices.items()])

    def with_set(self, texts: Sequence[str]) -> "Settings":
        """Return settings with choices written as ``section.name=value``, as ``--set`` takes them.

        Values are read as in a settings file; a bare word is text.
        """
        return self._with([parse_choice(text) for text in texts])

    def _with(self, choices: Sequence[tuple[tuple[str, ...], Any]]) -> "Settings":
        merged = self.model_dump()
        # Names first: another name drops the parameters of the one before.
        for path, value in sorted(
            choices, key=lambda choice: choice[0][-1] not in ("method", "name")
        ):
            if len(path) == 1 and isinstance(value, str | list | tuple):
                path += {"method": ("name",), "tests": ("run",), "checks": ("run",)}.get(
                    path[0], ()
                )
            if path == ("method", "name") and merged["method"]["name"] != value:
                merged["method"] = {}
            section = merged
            for name in path[:-1]:
                section = section.setdefault(name, {})
                if not isinstance(section, dict):
                    raise InvalidSettings(f"{name!r} is a setting, not a section of them.")
            section[path[-1]] = value
        return make_settings(merged)


def parse_choice(text: str) -> tuple[tuple[str, ...], Any]:
    """Read ``section.name=value``; the value as in a settings file, or else as text."""
    path, sign, value = text.partition("=")
    names = tuple(name.strip() for name in path.split("."))
    if not sign or not all(re.fullmatch(r"[\w-]+", name) for name in names):
        raise InvalidSettings(
            f"{text!r} is no setting. Write section.name=value, say method.lam=20."
        )
    try:
        return names, tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return names, value.strip()


def _texts(value: Any) -> str:
    """Return all texts within a value, one after another."""
    if isinstance(value, dict):
        return "".join(_texts(key) + _texts(inner) for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def make_settings(choices: dict[str, Any], where: str = "") -> Settings:
    """Validate choices; the first bad one is reported in a sentence."""
    try:
        return Settings.model_validate(choices)
    except pydantic.ValidationError as error:
        raise InvalidSettings(_sentence(error, where)) from None


def _meant(place: tuple[int | str, ...]) -> str:
    """Name the setting that a misspelt one may stand for."""
    kind: Any = Settings
    for part in place[:-1]:
        field = getattr(kind, "model_fields", {}).get(part)
        kind = None if field is None else field.annotation
    return nearest(str(place[-1]), getattr(kind, "model_fields", ()))


def _sentence(error: pydantic.ValidationError, where: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "settings"
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"There is no setting {name!r}{where}.{_meant(first['loc'])}"
    got = first["input"]
    shown = "" if isinstance(got, dict | pydantic.BaseModel) else f" (got {got!r})"
    return f"Setting {name!r}{where} is refused: {reason[0].lower()}{reason[1:]}{shown}."
