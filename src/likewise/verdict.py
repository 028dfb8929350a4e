"""The verdict of an audit, whatever method it was reached by."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from likewise.record import VerdictName


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """One of four: evidence, within tolerance, inconclusive, invalid.

    ``evidence``: the limit is exceeded, beyond chance. ``within_tolerance``: shown not to be.
    ``inconclusive``: neither, and ``reason`` says why in a word. ``invalid``: the result must not
    be used, and ``causes`` say why in sentences. ``record`` is what the record holds of it, by
    field, and ``detail`` what the method's own checks read: its tests, or its comparisons.
    """

    name: VerdictName
    reason: str = ""
    causes: tuple[str, ...] = ()
    record: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    detail: Any = None

    def refused(self, *causes: str) -> "Verdict":
        """Return the verdict as invalid, for further causes."""
        if not causes:
            return self
        return dataclasses.replace(self, name="invalid", causes=(*self.causes, *causes))
