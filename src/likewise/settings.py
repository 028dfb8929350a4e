"""Every choice of an audit: names and numbers, and the hash that makes them checkable.

Choices made before the data are seen are what an error rate is promised for. They are kept
together here, printed in every output, and hashed without any path, so that two audits with the
same hash made the same choices.
"""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field

from likewise.errors import InvalidFile, InvalidSettings
from likewise.files import read_whole

LARGEST = 1_000_000
"""Bytes of a settings file that are read."""

MapName = Literal["auto", "flow", "reach", "flips", "worst"]
TestName = Literal["loss_ratio", "error_rate_ratio", "mean_loss_ratio"]
IntervalName = Literal["hall", "bootstrap_t", "paper"]


class _Choices(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Decide(_Choices):
    """Which one number decides, said beforehand.

    Parameters
    ----------
    map
        The unfair map whose outcomes decide: ``flow``, ``reach``, ``flips``, or for each person
        the ``worst`` of flow and reach; ``auto`` is the flow for models with gradients, and the
        search within reach for others.
    test
        ``loss_ratio``, ``error_rate_ratio`` or (regressions) ``mean_loss_ratio``; ``auto`` is the
        loss ratio, the error rates for models that give probabilities only, and the ratio of
        mean losses for regressions.
    loss
        For regressions: ``squared`` (the default) or ``absolute`` errors.
    interval
        How the loss ratio's bounds are computed: Hall's transformation, the bootstrap-t, or the
        normal limit of the paper (which then holds for the error rates too).
    error_rates
        How the error rates' bounds are computed, if otherwise: ``auto`` is mid-P where wrong
        cannot turn right, and the score test elsewhere, which is also the default unless
        ``interval`` is that of the paper.
    metric
        Whose uncertainty counts: ``fixed`` takes the metric as given, ``refitted`` adds that of
        learning it, ``auto`` refits when the metric was learned from the audited people.
    blinded
        What to do when a search without gradients finds significantly more than the flow:
        ``refuse`` the result (exit code 3), or decide by the ``stronger`` map.
    """

    map: MapName = "auto"
    test: Literal["auto", "loss_ratio", "error_rate_ratio", "mean_loss_ratio"] = "auto"
    loss: Literal["squared", "absolute"] | None = None
    interval: IntervalName = "hall"
    error_rates: Literal["auto", "midp", "exact", "score", "paper"] | None = None
    metric: Literal["auto", "fixed", "refitted"] = "auto"
    blinded: Literal["refuse", "stronger"] = "refuse"


class Flow(_Choices):
    r"""The gradient flow (6)--(8): :math:`\lambda`, the time :math:`T`, and how it is solved.

    Steps that are given one by one add up to the time, whatever it was; and the schedule of the
    paper's simulation has a :math:`\lambda` and steps of its own. A result's settings hold what
    was run.
    """

    lam: float = Field(default=50.0, gt=0)
    time: float = Field(default=5.0, gt=0)
    solver: Literal["auto", "euler", "rk4", "exponential2", "exponential4"] = "auto"
    steps: int | tuple[float, ...] | None = None
    free_only: bool = False
    bounded: bool = False
    keeps_start: bool | None = None
    precision: Literal["float64", "float32"] = "float64"
    schedule: Literal["constant", "paper_simulation"] = "constant"


class Reach(_Choices):
    r"""The search within reach.

    Parameters
    ----------
    budget
        Model calls a person.
    feasible
        Whether categories and whole numbers keep to values that were observed.
    price
        Also allow a step off the free directions, at this price for a squared fair distance of
        one; by default there is none.
    within
        Hash of a reach that was handed over with a map, in place of the metric's own.
    epsilon
        For the distributionally robust value: the mean :math:`d_x^2` that people may be moved by,
        besides what is free.
    """

    budget: int = Field(default=60, ge=1)
    feasible: bool = False
    price: float | None = Field(default=None, gt=0)
    within: str | None = None
    epsilon: float = Field(default=0.01, gt=0)


class Metric(_Choices):
    """How a fair metric is learned when none is given, and how often it is refitted.

    Parameters
    ----------
    C
        Of the regressions that the metric is learned by: smaller is more regular.
    groups
        Refits by the jackknife, each without one group of the people.
    refits
        Refit on so many bootstrap samples instead (200, say). This takes the very people that the
        metric was learned from, so it is for a metric learned from the audited ones.
    crossfit
        Move people under the metric that was learned without their group.
    """

    C: float = Field(default=1.0, gt=0)
    groups: int = Field(default=10, ge=2, le=100)
    refits: int = Field(default=0, ge=0, le=10_000)
    crossfit: bool = False


class Columns(_Choices):
    """What the columns of the table mean."""

    label: str | None = None
    protected: tuple[str, ...] = ()
    weight: str | None = None
    cluster: str | None = None
    ignore: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    positive: str | None = None
    output: Literal["logits", "probabilities", "values"] | None = None
    drop_missing: bool = False


class Settings(_Choices):
    """All choices of one audit.

    Parameters
    ----------
    delta
        Tolerance: the largest acceptable ratio. 1.25 follows the four-fifths rule.
    alpha
        How often a model at the tolerance may be accused by chance.
    cap
        Ratios above it count as this much when a model is found *within* tolerance; without a
        cap, no finite sample can bound a mean.
    checks
        ``full`` adds what goes beyond the core: the doubled horizon, free directions only, metric
        refits, and a second opinion without gradients. ``core`` prints what it skipped.
    seed
        Of every random choice: subsamples, refits, bootstrap.
    """

    delta: float = Field(default=1.25, ge=1)
    alpha: float = Field(default=0.05, gt=0, lt=1)
    cap: float = Field(default=10.0, gt=1)
    checks: Literal["core", "full"] = "full"
    seed: int = Field(default=0, ge=0)
    columns: Columns = Columns()
    decide: Decide = Decide()
    flow: Flow = Flow()
    reach: Reach = Reach()
    metric: Metric = Metric()

    @pydantic.field_validator("decide", mode="before")
    @classmethod
    def _map_alone(cls, value: Any) -> Any:
        return {"map": value} if isinstance(value, str) else value

    @pydantic.model_validator(mode="after")
    def _cap_exceeds_tolerance(self) -> "Settings":
        if self.cap <= self.delta:
            raise ValueError(f"cap ({self.cap:g}) must exceed delta ({self.delta:g})")
        return self

    @property
    def hash(self) -> str:
        """Return the sha256 of the choices as canonical JSON."""
        return hashlib.sha256(canonical(self.model_dump(mode="json")).encode()).hexdigest()

    def changed(self, **choices: Any) -> "Settings":
        """Return settings with some choices replaced; ``section__name`` reaches into a section."""
        merged = self.model_dump()
        for name, value in choices.items():
            section, _, inner = name.partition("__")
            if inner:
                merged[section][inner] = value
            else:
                merged[name] = value
        return make_settings(merged)


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def make_settings(choices: dict[str, Any], where: str = "") -> Settings:
    """Validate choices; the first bad one is reported in a sentence."""
    try:
        return Settings.model_validate(choices)
    except pydantic.ValidationError as error:
        raise InvalidSettings(_sentence(error, where)) from None


def read_settings(path: str | Path) -> Settings:
    """Read a settings file (TOML)."""
    try:
        choices = tomllib.loads(read_whole(path, most=LARGEST).decode())
    except InvalidFile:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{str(path)!r} is not a TOML settings file: {error}.") from None
    return make_settings(choices, f" in {path}")


def write_settings(settings: Settings) -> str:
    """Return the text of a settings file that `read_settings` turns back into these settings."""
    dump = settings.model_dump(mode="json", exclude_none=True)
    lines = ["# Choices of an audit. Fix them before you look at the data."]
    lines += [f"{name} = {_toml(v)}" for name, v in dump.items() if not isinstance(v, dict)]
    for section, choices in dump.items():
        if isinstance(choices, dict):
            lines += ["", f"[{section}]", *(f"{n} = {_toml(v)}" for n, v in choices.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and arrays are TOML's too, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sentence(error: pydantic.ValidationError, where: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "settings"
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"There is no setting {name!r}{where}."
    got = first["input"]
    shown = "" if isinstance(got, dict) else f" (got {got!r})"
    return f"Setting {name!r}{where} is refused: {reason[0].lower()}{reason[1:]}{shown}."
