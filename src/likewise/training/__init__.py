"""Fair training, as scikit-learn estimators that can be audited as they are."""

from typing import TYPE_CHECKING, Any

from likewise.errors import import_optional

if TYPE_CHECKING:
    from likewise.training.baselines import ProjectClassifier as ProjectClassifier
    from likewise.training.baselines import ReductionsClassifier as ReductionsClassifier
    from likewise.training.networks import BaselineClassifier as BaselineClassifier
    from likewise.training.remedies import AveragedClassifier as AveragedClassifier
    from likewise.training.sensr import SenSRClassifier as SenSRClassifier

_MODULES = {
    "AveragedClassifier": "remedies",
    "BaselineClassifier": "networks",
    "ProjectClassifier": "baselines",
    "ReductionsClassifier": "baselines",
    "SenSRClassifier": "sensr",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import torch only when a method is asked for that needs it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.training' has no attribute {name!r}")
    return getattr(import_optional(f"likewise.training.{_MODULES[name]}", "torch", name), name)
