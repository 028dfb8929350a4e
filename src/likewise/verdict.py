"""The verdict of an audit, whatever method it was reached by."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

VerdictName = Literal["evidence", "within_tolerance", "inconclusive", "invalid"]


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """One of four: evidence, within tolerance, inconclusive, invalid.

    Parameters
    ----------
    name
        ``evidence``: the limit is exceeded, beyond chance. ``within_tolerance``: shown not to be.
        ``inconclusive``: neither. ``invalid``: the result must not be used.
    reason
        Why nothing was decided, in a word.
    causes
        Why the result must not be used, in sentences.
    record
        What the record holds of it, by field.
    detail
        What the method's own checks read: its tests, or its comparisons.
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
