"""The sections of the settings: what each is about, and every choice in it."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import ConfigDict, Field

IntervalName = Literal["hall", "bootstrap_t", "paper"]
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
    loss: Literal["squared", "absolute"] | None = Field(
        None, description="For regressions: squared (the default) or absolute errors."
    )
    favourable: str | None = Field(
        None,
        description="The decision that people want; with counterparts its refusal is then the "
        "loss, and no label is needed.",
    )
    threshold: float | None = Field(
        None,
        description="Probability (for regressions, value) above which the favourable decision, "
        "or else class 1, is made; without it 0.5.",
    )
    interval: IntervalName = Field(
        "hall",
        description="How bounds are computed: hall, bootstrap_t, or paper (the normal limit); "
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
    """How a fair metric is learned when none is given, and how often it is refitted."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str = Field(
        "auto",
        description="auto takes the metric that is given, or learns one; package.module:Name is "
        "one of your own, whose parameters stand here too.",
    )
    penalty: Literal["auto"] | Annotated[float, Field(gt=0)] = Field(
        "auto",
        description="Of the regressions it is learned by, a person; auto chooses it by "
        "cross-validation (the strongest within one standard error of the best).",
    )
    C: float | None = Field(
        None,
        gt=0,
        description="Inverse penalty of the whole sample instead, C = 1/(penalty n); the paper's "
        "is 1.",
    )
    groups: int = Field(
        10, ge=2, le=100, description="Refits by the jackknife, each without one group of people."
    )
    placebos: int = Field(
        39,
        ge=0,
        le=10_000,
        description="Metrics learned from shuffled traits: a learned metric accuses only if the "
        "model is more sensitive to it than to these.",
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
        if self.C is not None and self.penalty != "auto":
            raise ValueError("give a penalty or C, not both: C = 1/(penalty n)")
        return self


class ModelAccess(Choices):
    """How a model is asked, and what it was fitted on."""

    timeout: float | None = Field(None, gt=0, description="Seconds to wait for an endpoint.")
    max_calls: int | None = Field(None, ge=1, description="Requests that an endpoint may get.")
    space: Literal["auto", "original", "encoded"] = Field(
        "auto", description="Whether it was fitted on original columns or an encoder's features."
    )


class Columns(Choices):
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
    may_matter: tuple[str, ...] = Field(
        (), description="Columns that may make a difference: people are alike only if these are."
    )

    @property
    def reading(self) -> dict[str, Any]:
        """How a table is read besides its label: arguments of `likewise.read` and its like."""
        names = ("protected", "weight", "cluster", "ignore", "inputs", "drop_missing")
        return {name: getattr(self, name) for name in names}

    @pydantic.field_validator("protected", "ignore", "inputs", "may_matter", mode="before")
    @classmethod
    def _names_in_one(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            return tuple(part.strip() for part in str(value).split(",") if part.strip())
        return value
