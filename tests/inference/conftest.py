"""Outcomes made by hand, for tests of statistics."""

from typing import Any

import numpy as np
import pytest

from likewise.outcomes import Outcomes


def outcomes_of(
    ratio: Any = None,
    *,
    before: Any = None,
    after: Any = None,
    wrong_before: Any = None,
    wrong_after: Any = None,
    monotone: bool = False,
    **columns: Any,
) -> Outcomes:
    """Return outcomes with these ratios, or losses, or errors; everything else is plain."""
    given = next(v for v in (ratio, before, wrong_before) if v is not None)
    n = len(given)
    loss_before = np.ones(n) if before is None else np.asarray(before, dtype=float)
    loss_after = loss_before if after is None else np.asarray(after, dtype=float)
    if ratio is not None:
        loss_after = np.asarray(ratio, dtype=float)
    nobody = np.zeros(n, dtype=np.int64)
    defaults: dict[str, Any] = {
        "row": np.arange(n),
        "y": nobody,
        "loss_before": loss_before,
        "loss_after": loss_after,
        "decision_before": nobody if wrong_before is None else np.asarray(wrong_before, dtype=int),
        "decision_after": nobody if wrong_after is None else np.asarray(wrong_after, dtype=int),
        "probability_before": np.full(n, 0.5),
        "probability_after": np.full(n, 0.5),
        "fair_distance": np.zeros(n),
        "status": nobody,
        "about": {"monotone": monotone},
    }
    return Outcomes(**{**defaults, **columns})


@pytest.fixture(name="outcomes_of")
def _outcomes_of() -> Any:
    return outcomes_of
