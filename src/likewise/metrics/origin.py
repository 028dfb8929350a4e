"""Where a learned metric came from: enough to repeat it, judge it, and meet its people."""

import dataclasses
from typing import ClassVar, Literal, final

import numpy as np
from jaxtyping import Int, UInt32, UInt64
from pydantic import ConfigDict

from likewise.audit_data import AuditData, person_columns
from likewise.fingerprints import Sketch, row_hashes
from likewise.metrics.newton import Kind


@dataclasses.dataclass(frozen=True)
class Prediction:
    """How well a trait is predicted, in the sample the metric was learned from.

    Parameters
    ----------
    accuracy, auc
        For classes; the area under the curve is the mean over classes if there are several.
    r2
        Share of the variance explained, for a number.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    accuracy: float | None = None
    auc: float | None = None
    r2: float | None = None

    def __str__(self) -> str:
        if self.r2 is not None:
            return f"R² {self.r2:.2f}"
        return f"AUC {self.auc:.2f}, accuracy {self.accuracy:.2f}"


@dataclasses.dataclass(frozen=True)
class Validation:
    """How well a trait is predicted for people that its regression has not seen.

    Parameters
    ----------
    measure
        ``auc`` for classes, .5 if nothing predicts them; ``r2`` for a number, 0 then.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    measure: Literal["auc", "r2"]
    value: float | None
    std_error: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where it is with a confidence of 95 %."""
        if self.value is None or self.std_error is None:
            return None
        return self.value - 1.96 * self.std_error, self.value + 1.96 * self.std_error

    @property
    def hardly(self) -> bool:
        """Whether nothing may predict the trait at all."""
        nothing = 0.5 if self.measure == "auc" else 0.0
        return self.interval is None or self.interval[0] <= nothing

    def __str__(self) -> str:
        name = "AUC" if self.measure == "auc" else "R²"
        if self.interval is None or self.value is None:
            return f"{name} unknown"
        low, high = self.interval
        return f"{name} {self.value:.2f} ({low:.2f} to {high:.2f}) in people left out"


@dataclasses.dataclass(frozen=True)
class TraitOrigin:
    """What was learned about one trait.

    Parameters
    ----------
    kind
        ``binary`` (logistic), ``classes`` (multinomial) or ``number`` (ridge regression).
    n, missing
        People it was learned from, and people left out because their trait is missing.
    inputs
        Features that are the trait itself. They are free on their own, and left out of the
        regressions.
    gradient
        Largest gradient left at the solution (see `likewise.metrics.newton`).
    before, after
        How well the trait is predicted from the features, and from what is left of them when
        the free directions are taken out.
    penalty
        Penalty of the regression a person, γ; its C is 1/(γ n).
    left_out
        How well the trait is predicted for people who were left out of the regression.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: str
    kind: Kind
    classes: tuple[str, ...]
    n: int
    missing: int
    inputs: tuple[str, ...]
    gradient: float
    before: Prediction
    after: Prediction
    penalty: float | None = None
    left_out: Validation | None = None


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a learned metric came from.

    Parameters
    ----------
    data
        Fingerprint of the sample (`AuditData.fingerprint`).
    source, n
        The sample in words, and its size.
    solver, tolerance, C
        How the regressions were fitted; C is the inverse strength of their penalty, if one was
        given for the whole sample.
    seed
        Of the groups of the refits, the folds and the placebos.
    penalty
        How the penalty a person was found, in words.
    may_matter
        Columns along which no direction is free.
    judged
        People by whom the penalty was chosen and predictions were judged, where these are a sample
        of those it was learned from.
    weighted, clustered
        Whether sampling weights were used, and whole clusters kept together.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    data: str
    source: str
    n: int
    solver: str
    tolerance: float
    C: float | None
    seed: int
    weighted: bool
    clustered: bool
    traits: tuple[TraitOrigin, ...]
    penalty: str = ""
    may_matter: tuple[str, ...] = ()
    judged: int | None = None


@final
@dataclasses.dataclass(frozen=True, eq=False)
class LearnedFrom:
    """The people of a sample, as far as is needed to meet them again.

    Parameters
    ----------
    sketch
        Tells how many of other people are among them.
    keys
        A number for each person: half of a hash of all that is known of them.
    """

    sketch: Sketch
    keys: UInt32[np.ndarray, " n"]

    @classmethod
    def of(cls, people: AuditData) -> "LearnedFrom":
        """Remember people."""
        hashes = hashes_of(people)
        return cls(Sketch.of(hashes), _half(hashes))

    def groups_of(
        self, hashes: UInt64[np.ndarray, " m"], groups: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " m"]:
        """Return the group that each of some people was in.

        Strangers are dealt to groups by their hash, so that a group left out leaves out its share
        of them too: then one jackknife covers both samples, however much they overlap.
        """
        order = np.argsort(self.keys, kind="stable")
        ranked, wanted = self.keys[order], _half(hashes)
        place = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
        dealt = (hashes >> np.uint64(40)) % np.uint64(int(groups.max()) + 1)
        return np.where(ranked[place] == wanted, groups[order][place], dealt.astype(groups.dtype))


def hashes_of(people: AuditData) -> UInt64[np.ndarray, " n"]:
    """Return a number for each person, the same wherever the row stands."""
    return row_hashes(person_columns(people))


def _half(hashes: UInt64[np.ndarray, " m"]) -> UInt32[np.ndarray, " m"]:
    return (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
