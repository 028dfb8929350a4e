"""Every choice of an audit: names and numbers, and the hash that makes them checkable.

Choices made before the data are seen are what an error rate is promised for. They are kept
together here, printed in every output, and hashed without any path, so that two audits with the
same hash made the same choices. Maps, tests and checks are named with their parameters, which
the class that a name stands for declares and checks (`likewise.choices`).
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field

from likewise.errors import InvalidSettings
from likewise.settings_upgrade import upgraded

IntervalName = Literal["hall", "bootstrap_t", "paper"]
CheckLevel = Literal["full", "core"]


class _Choices(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Choice(_Choices):
    """Something that is registered by name, with its parameters beside the name."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str = Field("auto", description="Its name, or package.module:Name.")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that are given; all others have their defaults."""
        return dict(self.model_extra or {})

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter, or ``default`` where it is not given."""
        return self.params.get(name, default)


class Selection(_Choices):
    """Which of several to run, and the parameters of each under its name."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    run: str | tuple[str, ...] = Field("auto", description="Which of them, by name.")

    @pydantic.model_validator(mode="after")
    def _only_tables(self) -> "Selection":
        for name, params in (self.model_extra or {}).items():
            if not isinstance(params, dict):
                raise ValueError(f"{name} must be a section of parameters, not {params!r}")
        return self

    def params(self, name: str) -> dict[str, Any]:
        """Return the parameters that are given for ``name``."""
        return dict((self.model_extra or {}).get(name, {}))

    @property
    def named(self) -> tuple[str, ...]:
        """The names that have parameters."""
        return tuple(self.model_extra or {})


class Decide(_Choices):
    """What decides, said beforehand."""

    test: str = Field(
        "auto",
        description="The test that decides: loss_ratio, error_rate_ratio, mean_loss_ratio "
        "(regressions), or another that is run; auto goes by what the model returns.",
    )
    loss: Literal["squared", "absolute"] | None = Field(
        None, description="For regressions: squared (the default) or absolute errors."
    )
    interval: IntervalName = Field(
        "hall",
        description="How bounds are computed: hall, bootstrap_t, or paper (the normal limit); "
        "tests that do not know the first two have their own.",
    )
    metric: Literal["auto", "fixed", "refitted"] = Field(
        "auto",
        description="Whose uncertainty counts: fixed takes the metric as given, refitted adds "
        "that of learning it, auto refits a metric learned from the audited people.",
    )
    blinded: Literal["refuse", "stronger"] = Field(
        "refuse",
        description="If a search without gradients finds significantly more than the flow: "
        "refuse the result, or decide by the stronger map.",
    )


class Metric(_Choices):
    """How a fair metric is learned when none is given, and how often it is refitted."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str = Field(
        "auto",
        description="auto takes the metric that is given, or learns one; package.module:Name is "
        "one of your own, whose parameters stand here too.",
    )
    C: float = Field(
        1.0, gt=0, description="Of the regressions it is learned by: smaller is more regular."
    )
    groups: int = Field(
        10, ge=2, le=100, description="Refits by the jackknife, each without one group of people."
    )
    refits: int = Field(
        0, ge=0, le=10_000, description="Refits on so many bootstrap samples of people instead."
    )
    crossfit: bool = Field(
        False, description="Move people under the metric that was learned without their group."
    )

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a metric of one's own."""
        return dict(self.model_extra or {})

    @pydantic.model_validator(mode="after")
    def _no_strangers(self) -> "Metric":
        if self.name == "auto" and self.params:
            raise ValueError(f"there is no such setting: metric.{next(iter(self.params))}")
        return self


class ModelAccess(_Choices):
    """How a model is asked, and what it was fitted on."""

    timeout: float | None = Field(None, gt=0, description="Seconds to wait for an endpoint.")
    max_calls: int | None = Field(None, ge=1, description="Requests that an endpoint may get.")
    space: Literal["auto", "original", "encoded"] = Field(
        "auto", description="Whether it was fitted on original columns or an encoder's features."
    )


class Columns(_Choices):
    """What the columns of the table mean."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    label: str | None = Field(None, description="Column with the true outcome.")
    protected: tuple[str, ...] = Field((), description="Columns with protected traits.")
    weight: str | None = Field(None, description="Column with sampling weights.")
    cluster: str | None = Field(None, description="Column that groups dependent rows.")
    ignore: tuple[str, ...] = Field((), description="Columns that the model does not see.")
    inputs: tuple[str, ...] | None = Field(
        None, description="Columns that the model sees, in order; by default all without a role."
    )
    positive: str | None = Field(None, description="Label value that is class 1 of two.")
    output: Literal["logits", "probabilities", "values"] | None = Field(
        None, description="What the model returns, if it does not say."
    )
    drop_missing: bool = Field(False, description="Leave out rows with missing values.")

    @pydantic.field_validator("protected", "ignore", "inputs", mode="before")
    @classmethod
    def _names_in_one(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            return tuple(part.strip() for part in str(value).split(",") if part.strip())
        return value


class Settings(_Choices):
    """All choices of one audit."""

    delta: float = Field(
        1.25, ge=1, description="Tolerance: the largest acceptable ratio; 1.25 is four fifths."
    )
    alpha: float = Field(
        0.05, gt=0, lt=1, description="How often a model at the tolerance may be accused by chance."
    )
    cap: float = Field(
        10.0,
        gt=1,
        description="Ratios above it count as this much when a model is found within tolerance: "
        "no finite sample can bound a mean without a cap.",
    )
    seed: int = Field(0, ge=0, description="Of every random choice: subsamples, refits, bootstrap.")
    model: ModelAccess = Field(ModelAccess(), description="How a model is asked and fed.")
    columns: Columns = Field(Columns(), description="What the columns of the table mean.")
    decide: Decide = Field(Decide(), description="What decides, said beforehand.")
    map: Choice = Field(
        Choice(),
        description="How people are moved, with its parameters; auto is the gradient flow for "
        "models with gradients, and the search within reach for others.",
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

    @pydantic.model_validator(mode="before")
    @classmethod
    def _upgrade(cls, value: Any) -> Any:
        return upgraded(value) if isinstance(value, dict) else value

    @pydantic.field_validator("map", mode="before")
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

    @property
    def hash(self) -> str:
        """Return the sha256 of the choices as canonical JSON."""
        return hashlib.sha256(canonical(self.model_dump(mode="json")).encode()).hexdigest()

    def changed(self, **choices: Any) -> "Settings":
        """Return settings with some choices replaced; ``section__name`` reaches into a section.

        Another name of a map begins with that map's own defaults.
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
        for path, value in sorted(choices, key=lambda choice: choice[0][-1] not in ("map", "name")):
            if len(path) == 1 and isinstance(value, str | list | tuple):
                path += {"map": ("name",), "tests": ("run",), "checks": ("run",)}.get(path[0], ())
            if path == ("map", "name") and merged["map"]["name"] != value:
                merged["map"] = {}
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
        raise InvalidSettings(f"{text!r} is no setting. Write section.name=value, say map.lam=20.")
    try:
        return names, tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return names, value.strip()


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def make_settings(choices: dict[str, Any], where: str = "") -> Settings:
    """Validate choices; the first bad one is reported in a sentence."""
    try:
        return Settings.model_validate(choices)
    except pydantic.ValidationError as error:
        raise InvalidSettings(_sentence(error, where)) from None


def _sentence(error: pydantic.ValidationError, where: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "settings"
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"There is no setting {name!r}{where}."
    got = first["input"]
    shown = "" if isinstance(got, dict | pydantic.BaseModel) else f" (got {got!r})"
    return f"Setting {name!r}{where} is refused: {reason[0].lower()}{reason[1:]}{shown}."
