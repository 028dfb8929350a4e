"""Training methods, as scikit-learn estimators that can be audited as they are. They need torch."""

from typing import TYPE_CHECKING, Any

from likewise.extras import need

if TYPE_CHECKING:
    from likewise.training.baseline import BaselineClassifier as BaselineClassifier
    from likewise.training.project import ProjectClassifier as ProjectClassifier
    from likewise.training.reductions import ReductionsClassifier as ReductionsClassifier
    from likewise.training.sensr import SenSRClassifier as SenSRClassifier

_HOMES = {
    "BaselineClassifier": "baseline",
    "ProjectClassifier": "project",
    "ReductionsClassifier": "reductions",
    "SenSRClassifier": "sensr",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import torch only when a method is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise.training' has no attribute {name!r}")
    return getattr(need(f"likewise.training.{_HOMES[name]}", "torch", name), name)
