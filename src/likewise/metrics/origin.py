"""Where a learned metric came from: enough to repeat it, and to see how good it is."""

import dataclasses
from typing import ClassVar

from pydantic import ConfigDict

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
        How the regressions were fitted; C is the inverse strength of their penalty.
    seed
        Of the groups of the refits.
    weighted, clustered
        Whether sampling weights were used, and whole clusters kept together.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    data: str
    source: str
    n: int
    solver: str
    tolerance: float
    C: float
    seed: int
    weighted: bool
    clustered: bool
    traits: tuple[TraitOrigin, ...]
