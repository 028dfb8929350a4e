"""Every choice of an audit: names and numbers, and the hash that makes them checkable.

Choices made before the data are seen are what an error rate is promised for. They are kept
together here, printed in every output, and hashed without any path, so that two audits with the
same hash made the same choices. Methods, tests and checks are named with their parameters, which
the class that a name stands for declares and checks (`likewise.settings.choices`).
"""

import contextlib
import hashlib
import re
import tomllib
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, ConfigDict, Field

from likewise.errors import UNPRINTABLE, InvalidSettings, nearest


def _listed(value: Any) -> Any:
    """Return names that stand in one text, separated by commas."""
    if isinstance(value, str | int | float):
        return tuple(part.strip() for part in str(value).split(",") if part.strip())
    return value


def _called(field: str, value: Any) -> Any:
    """Return what is named alone as the section that it stands for."""
    return {field: value} if isinstance(value, str | list | tuple) else value


def _run(value: Any) -> Any:
    """Return names that stand in one text, unless it is the word for a usual choice."""
    return value if value in ("auto", "full", "core") else _listed(value)


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Choices(pydantic.BaseModel):
    """A section of the settings: closed, and never changed."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        coerce_numbers_to_str=True,  # favourable = 1, columns called 2024
    )


class Choice(Choices):
    """Something that is registered by name, with its parameters beside the name."""

    model_config = ConfigDict(extra="allow")

    name: str = "auto"
    """Its name, or package.module:Name."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that are given; all others have their defaults."""
        return dict(self.model_extra or {})


class Selection(Choices):
    """Which of several to run, and the parameters of each under its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]]

    run: Annotated[str | tuple[str, ...], BeforeValidator(_run)] = "auto"
    """Which of them, by name."""

    def params(self, name: str) -> dict[str, Any]:
        """Return the parameters that are given for ``name``."""
        return dict((self.model_extra or {}).get(name, {}))

    @property
    def named(self) -> tuple[str, ...]:
        """The names that have parameters."""
        return tuple(self.model_extra or ())


class Decide(Choices):
    """What decides, said beforehand."""

    test: str = "auto"
    """The test that decides: loss_ratio, error_rate_ratio, mean_loss_ratio (regressions), or
    another that is run; auto goes by what the model returns."""
    loss: str | None = None
    """For regressions squared (the default) or absolute errors; or a loss of your own,
    package.module:name."""
    favourable: str | None = None
    """The decision that people want; the verdict then says who is disadvantaged."""
    decision: str | None = None
    """Column with the decision, for people who are scored already."""
    score: str | None = None
    """Column with the score, for people who are scored already."""
    threshold: float | None = None
    """Probability (for regressions, value) above which the favourable decision, or else class 1,
    is made; without it 0.5."""
    interval: Literal["hall", "paper"] = "hall"
    """How bounds are computed: hall, or paper (the normal limit, by which no model is found within
    tolerance); tests that do not know these have their own."""
    metric: Literal["auto", "fixed"] = "auto"
    """Whose uncertainty counts: auto adds that of learning a metric, fixed asks about this very
    metric."""


class Metric(Choice):
    """How a fair metric is learned when none is given."""

    name: str = "auto"
    """auto takes the metric that is given, or learns one; package.module:Name is one of your own,
    whose parameters stand here too."""
    C: Annotated[float, Field(gt=0)] | None = None
    """Inverse ridge penalty of the regressions it is learned by; by default 1/(0.003 n) for n
    people. The paper's is 1."""
    groups: int = Field(20, ge=2, le=100)
    """Groups of the jackknife, each left out once; ratios of error rates have ten."""
    controls: int = Field(39, ge=0, le=10_000)
    """Negative controls: metrics learned from permuted attributes. Evidence under a learned metric
    needs a model that is more sensitive to it than to these."""

    @pydantic.model_validator(mode="after")
    def _no_strangers(self) -> "Metric":
        if self.name == "auto" and self.params:
            raise ValueError(f"there is no such setting: metric.{next(iter(self.params))}")
        return self


class ModelAccess(Choices):
    """How a model is asked, and what it was fitted on."""

    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds to wait for an endpoint."""
    columns: Names = ()
    """Columns that the model reads, in its order, if it does not know them."""


class Csv(Choices):
    """How CSV files are written. Nothing is guessed; what does not fit is refused."""

    separator: str | None = None
    """What separates values: one character, or tab; by default a comma."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark of numbers; by default a point."""
    encoding: str | None = None
    """Encoding of the text (latin-1, utf-16); by default UTF-8."""

    @pydantic.field_validator("separator")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        value = {"tab": "\t", r"\t": "\t"}.get(value or "", value)
        if value is not None and (len(value) != 1 or value in '"\n\r'):
            raise ValueError("values are separated by one character, or tab")
        return value


class Columns(Choices):
    """What the columns of the table mean."""

    label: str | None = None
    """Column with the true outcome."""
    protected: Names = ()
    """Columns with protected attributes."""
    weight: str | None = None
    """Column with sampling weights."""
    cluster: str | None = None
    """Column that groups dependent rows."""
    ignore: Names = ()
    """Columns that the model does not see."""
    output: Literal["logits", "probabilities", "values"] | None = None
    """What the model returns, if it does not say."""
    label_map: dict[str, str] = {}
    """The model's class for each value of the label, if written otherwise."""
    bins: dict[str, tuple[float, ...]] = {}
    """Where to cut continuous protected attributes: age = [40]."""
    drop_missing: bool = False
    """Leave out rows with missing values."""
    may_matter: Names = ()
    """Columns that may make a difference: people are alike only if these are."""
    id: str | None = None
    """Column that names a person: rows that repeat a person are merged."""
    csv: Csv = Csv()
    """How CSV files are written."""

    @property
    def reading(self) -> dict[str, Any]:
        """How a table is read: arguments of `likewise.read` and its like."""
        others = ("output", "label_map", "may_matter")
        return {name: value for name, value in self if name not in others}

    @pydantic.field_validator("bins", mode="before")
    @classmethod
    def _limits(cls, value: Any) -> Any:
        """Read ``40`` and ``1000:5000`` as they are typed."""
        if not isinstance(value, dict):
            return value
        several = {name: v for name, v in value.items() if isinstance(v, list | tuple)}
        return {name: re.split("[,:]", str(v)) for name, v in value.items()} | several


class Settings(Choices):
    """All choices of one audit."""

    delta: float = Field(1.25, ge=1)
    """Tolerance: the largest acceptable ratio; 1.25 is four fifths."""
    alpha: float = Field(0.05, gt=0, lt=1)
    """How often a model at the limit may be found unfair by chance."""
    cap: float = Field(10.0, gt=1)
    """Ratios above it count as this much when a model is found within tolerance: no finite sample
    can bound a mean without a cap."""
    paper: bool = False
    """Exactly the procedure of the ICLR 2021 paper."""
    seed: int = Field(0, ge=0)
    """Of every random choice: redraws, halves, permutations, subsamples."""
    model: ModelAccess = ModelAccess()
    """How a model is asked and fed."""
    columns: Columns = Columns()
    """What the columns of the table mean."""
    decide: Decide = Decide()
    """What decides, said beforehand."""
    method: Annotated[Choice, BeforeValidator(partial(_called, "name"))] = Choice()
    """How people are compared, with its parameters: matched_pairs, gradient_flow, reach or flip;
    auto takes matched pairs if columns that may matter are named, else the gradient flow (reach for
    models without gradients)."""
    metric: Metric = Metric()
    """How a fair metric is learned when none is given."""
    tests: Annotated[Selection, BeforeValidator(partial(_called, "run"))] = Selection()
    """Tests to run (auto: those for the task); parameters in [tests.NAME]."""
    checks: Annotated[Selection, BeforeValidator(partial(_called, "run"))] = Selection(run="full")
    """Checks beyond the verdict: full, core (fewer; the verdict is the same), or names; parameters
    in [checks.NAME]."""
    labels: dict[str, str] = {}
    """Display names: column = "name", or "column = value" = "name of a group". They change what is
    printed and nothing else, and have no part in the hash."""

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> "Settings":
        if self.cap <= self.delta:
            raise ValueError(f"cap ({self.cap:g}) must exceed delta ({self.delta:g})")
        if self.checks.run == "auto" or self.tests.run in ("full", "core"):
            raise ValueError("tests.run is auto or names, checks.run is full, core or names")
        # A result holds the settings, and one with such text would not be read again.
        if found := UNPRINTABLE.search(_texts(self.model_dump(mode="json"))):
            raise ValueError(f"settings hold the character {found[0]!a}, which cannot be shown")
        return self

    @property
    def learning(self) -> dict[str, Any]:
        """How a metric is learned, as `likewise.metrics.sensitive_subspace` takes it."""
        chosen = self.metric.model_dump(include={"C", "groups", "controls"})
        return {**chosen, "may_matter": self.columns.may_matter, "seed": self.seed}

    @property
    def hash(self) -> str:
        """Return the sha256 of the choices as canonical JSON; display names are no choice."""
        from likewise.fingerprints import canonical

        choices = self.model_dump(mode="json", exclude={"labels"})
        return hashlib.sha256(canonical(choices, ascii=True).encode()).hexdigest()

    def as_in_paper(self) -> "Settings":
        """Return the paper's procedure: its flow and steps, its normal limit, this very metric."""
        flow = {"name": "gradient_flow", "solver": "euler", "steps": 500}
        return self.changed(
            paper=True,
            method={**flow, **self.method.params},
            metric__C=1.0,
            decide__interval="paper",
            decide__metric="fixed",
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
        choices: list[tuple[tuple[str, ...], Any]] = []
        for text in texts:
            path, sign, value = text.partition("=")
            names = tuple(name.strip() for name in path.split("."))
            if not sign or not all(re.fullmatch(r"[\w-]+", name) for name in names):
                raise InvalidSettings(
                    f"{text!r} is no setting. Write section.name=value, say method.lam=20."
                )
            found: Any = value.strip()
            with contextlib.suppress(tomllib.TOMLDecodeError, RecursionError):
                found = tomllib.loads(f"value = {found}")["value"]
            choices.append((names, found))
        return self._with(choices)

    def _with(self, choices: Sequence[tuple[tuple[str, ...], Any]]) -> "Settings":
        merged = self.model_dump()
        alone = {"method": ("name",), "tests": ("run",), "checks": ("run",)}
        # Names first: another name drops the parameters of the one before.
        for path, value in sorted(choices, key=lambda one: one[0][-1] not in ("method", "name")):
            if len(path) == 1 and isinstance(value, str | list | tuple):
                path += alone.get(path[0], ())
            if path == ("method", "name") and merged["method"]["name"] != value:
                merged["method"] = {}
            section = merged
            for name in path[:-1]:
                section = section.setdefault(name, {})
                if not isinstance(section, dict):
                    raise InvalidSettings(f"{name!r} is a setting, not a section of them.")
            section[path[-1]] = value
        return make_settings(merged)


def _texts(value: Any) -> str:
    """Return all texts within a value, one after another."""
    if isinstance(value, dict):
        value = (*value.keys(), *value.values())
    if isinstance(value, list | tuple):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def make_settings(choices: dict[str, Any], where: str = "") -> Settings:
    """Validate choices; the first bad one is reported in a sentence."""
    try:
        return Settings.model_validate(choices)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
    place, got, reason = first["loc"], first["input"], first["msg"].removeprefix("Value error, ")
    name = ".".join(map(str, place)) or "settings"
    if first["type"] == "extra_forbidden":
        known = [name for section in Choices.__subclasses__() for name in section.model_fields]
        meant = nearest(str(place[-1]), known)
        raise InvalidSettings(f"There is no setting {name!r}{where}.{meant}")
    shown = "" if isinstance(got, dict | pydantic.BaseModel) else f" (got {got!r})"
    raise InvalidSettings(
        f"Setting {name!r}{where} is refused: {reason[0].lower()}{reason[1:]}{shown}."
    )
