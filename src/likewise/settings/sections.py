"""The sections of the settings: what each is about, and every choice in it."""

import codecs
import re
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field

IntervalName = Literal["hall", "paper"]
CheckLevel = Literal["full", "core"]


class Choices(pydantic.BaseModel):
    """A section of the settings: closed, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Choice(Choices):
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


class Selection(Choices):
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


class Decide(Choices):
    """What decides, said beforehand."""

    test: str = Field(
        "auto",
        description="The test that decides: loss_ratio, error_rate_ratio, mean_loss_ratio "
        "(regressions), or another that is run; auto goes by what the model returns.",
    )
    loss: str | None = Field(
        None,
        description="For regressions squared (the default) or absolute errors; or a loss of your "
        "own, package.module:name.",
    )
    favourable: str | None = Field(
        None,
        description="The decision that people want; the verdict then says who is disadvantaged.",
    )
    decision: str | None = Field(
        None, description="Column with the decision, for people who are scored already."
    )
    score: str | None = Field(
        None, description="Column with the score, for people who are scored already."
    )
    threshold: float | None = Field(
        None,
        description="Probability (for regressions, value) above which the favourable decision, "
        "or else class 1, is made; without it 0.5.",
    )
    interval: IntervalName = Field(
        "hall",
        description="How bounds are computed: hall, or paper (the normal limit); "
        "tests that do not know the first two have their own.",
    )
    metric: Literal["auto", "fixed", "refitted"] = Field(
        "auto",
        description="Whose uncertainty counts: fixed asks about this very metric, refitted adds "
        "that of learning it, auto does so whenever the metric was learned.",
    )
    certify: bool = Field(
        True,
        description="Whether a model may be found within tolerance at all; the paper's procedure "
        "never does.",
    )
    blinded: Literal["refuse", "stronger"] = Field(
        "refuse",
        description="If a search without gradients finds significantly more than the flow: "
        "refuse the result, or decide by the stronger map.",
    )


class Metric(Choices):
    """How a fair metric is learned when none is given."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str = Field(
        "auto",
        description="auto takes the metric that is given, or learns one; package.module:Name is "
        "one of your own, whose parameters stand here too.",
    )
    penalty: float | None = Field(
        None,
        gt=0,
        description="Ridge penalty of the regressions it is learned by, a person; 0.003 unless "
        "given.",
    )
    C: float | None = Field(
        None,
        gt=0,
        description="Inverse penalty of the whole sample instead, C = 1/(penalty n); the paper's "
        "is 1.",
    )
    groups: int = Field(
        20,
        ge=2,
        le=100,
        description="Groups of the jackknife, each left out once; ratios of error rates have ten.",
    )
    placebos: int = Field(
        39,
        ge=0,
        le=10_000,
        description="Negative controls: metrics learned from permuted attributes. Evidence under a "
        "learned metric needs a model that is more sensitive to it than to these.",
    )

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a metric of one's own."""
        return dict(self.model_extra or {})

    @pydantic.model_validator(mode="after")
    def _no_strangers(self) -> "Metric":
        if self.name == "auto" and self.params:
            raise ValueError(f"there is no such setting: metric.{next(iter(self.params))}")
        if self.C is not None and self.penalty is not None:
            raise ValueError("give a penalty or C, not both: C = 1/(penalty n)")
        return self


class ModelAccess(Choices):
    """How a model is asked, and what it was fitted on."""

    timeout: float | None = Field(None, gt=0, description="Seconds to wait for an endpoint.")
    max_calls: int | None = Field(None, ge=1, description="Requests that an endpoint may get.")
    columns: tuple[str, ...] = Field(
        (), description="Columns that the model reads, in its order, if it does not know them."
    )

    @pydantic.field_validator("columns", mode="before")
    @classmethod
    def _names_in_one(cls, value: Any) -> Any:
        return _listed(value)


class Csv(Choices):
    """How CSV files are written. Nothing is guessed; what does not fit is refused."""

    separator: str | None = Field(
        None, description="What separates values: one character, or tab; by default a comma."
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="Decimal mark of numbers; by default a point."
    )
    encoding: str | None = Field(
        None, description="Encoding of the text (latin-1, utf-16); by default UTF-8."
    )

    @pydantic.field_validator("separator")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        value = {"tab": "\t", r"\t": "\t"}.get(value or "", value)
        if value is not None and (len(value) != 1 or value in '"\n\r'):
            raise ValueError("values are separated by one character, or tab")
        return value

    @pydantic.field_validator("encoding")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        try:
            return value if value is None else codecs.lookup(value).name
        except LookupError:
            raise ValueError("there is no such encoding") from None


class Columns(Choices):
    """What the columns of the table mean."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    label: str | None = Field(None, description="Column with the true outcome.")
    protected: tuple[str, ...] = Field((), description="Columns with protected attributes.")
    weight: str | None = Field(None, description="Column with sampling weights.")
    cluster: str | None = Field(None, description="Column that groups dependent rows.")
    ignore: tuple[str, ...] = Field((), description="Columns that the model does not see.")
    output: Literal["logits", "probabilities", "values"] | None = Field(
        None, description="What the model returns, if it does not say."
    )
    label_map: dict[str, str] = Field(
        {}, description="The model's class for each value of the label, if written otherwise."
    )
    bins: dict[str, tuple[float, ...]] = Field(
        {}, description="Where to cut continuous protected attributes: age = [40]."
    )
    drop_missing: bool = Field(False, description="Leave out rows with missing values.")
    may_matter: tuple[str, ...] = Field(
        (), description="Columns that may make a difference: people are alike only if these are."
    )
    id: str | None = Field(
        None, description="Column that names a person: rows that repeat a person are merged."
    )
    csv: Csv = Field(Csv(), description="How CSV files are written.")

    @property
    def reading(self) -> dict[str, Any]:
        """How a table is read besides its label: arguments of `likewise.read` and its like."""
        names = ("protected", "weight", "cluster", "ignore", "drop_missing")
        return {name: getattr(self, name) for name in (*names, "id", "bins", "csv")}

    @pydantic.field_validator("bins", mode="before")
    @classmethod
    def _limits(cls, value: Any) -> Any:
        """Read ``age=40`` and ``income=1000:5000`` as they are typed."""
        if isinstance(value, list | tuple):
            value = {str(part).partition("=")[0]: str(part).partition("=")[2] for part in value}
        if not isinstance(value, dict):
            return value
        several = {name: v for name, v in value.items() if isinstance(v, list | tuple)}
        return {name: re.split("[,:]", str(v)) for name, v in value.items()} | several

    @pydantic.field_validator("protected", "ignore", "may_matter", mode="before")
    @classmethod
    def _names_in_one(cls, value: Any) -> Any:
        return _listed(value)


def _listed(value: Any) -> Any:
    """Return names that stand in one text, separated by commas."""
    if isinstance(value, str | int | float):
        return tuple(part.strip() for part in str(value).split(",") if part.strip())
    return value
