"""Models that change while they are audited: some people are asked about again at the end."""

import dataclasses

import numpy as np
from jaxtyping import Float

from likewise.models.base import Model
from likewise.models.behaviour import answers_about_some

ROUNDING = 1e-4
"""How far two answers may lie apart: what an endpoint sends may be in single precision."""


@dataclasses.dataclass(frozen=True, eq=False)
class Remembered:
    """What a model said about a few people before the audit.

    Parameters
    ----------
    x
        All the people; the few are evenly spread over them.
    before
        What the model said.
    """

    model: Model
    x: Float[np.ndarray, "n d"]
    before: Float[np.ndarray, "m k"]

    @classmethod
    def of(cls, model: Model, x: Float[np.ndarray, "n d"]) -> "Remembered":
        """Ask a model about a few of the people."""
        return cls(model, x, answers_about_some(model, x))

    def reasons(self) -> tuple[str, ...]:
        """Ask again; return why the audit must not be used, if the answers are others now."""
        now = answers_about_some(self.model, self.x)
        gap = (np.abs(now - self.before) / (1 + np.abs(self.before))).max(axis=1)
        changed = int((gap > ROUNDING).sum())
        if not changed:
            return ()
        return (
            f"the model changed during the audit: asked again at the end about {len(gap)} people, "
            f"it answered otherwise about {changed} of them (by up to {gap.max():.2g})",
        )
