"""Fair training, as scikit-learn estimators that can be audited as they are."""

import importlib
from typing import TYPE_CHECKING, Any

from likewise.errors import import_optional

if TYPE_CHECKING:
    from likewise.training.baselines import BaselineClassifier as BaselineClassifier
    from likewise.training.baselines import ProjectClassifier as ProjectClassifier
    from likewise.training.baselines import ReductionsClassifier as ReductionsClassifier
    from likewise.training.boosting import FairBoostingClassifier as FairBoostingClassifier
    from likewise.training.remedies import AveragedClassifier as AveragedClassifier
    from likewise.training.sensei import SenSeIClassifier as SenSeIClassifier
    from likewise.training.sensr import SenSRClassifier as SenSRClassifier

_WITH_TORCH = {
    "BaselineClassifier": "baselines",
    "ProjectClassifier": "baselines",
    "ReductionsClassifier": "baselines",
    "SenSRClassifier": "sensr",
    "SenSeIClassifier": "sensei",
}
_WITHOUT_TORCH = {
    "FairBoostingClassifier": "boosting",
    "AveragedClassifier": "remedies",
}

__all__ = [*_WITH_TORCH, *_WITHOUT_TORCH]


def __getattr__(name: str) -> Any:
    """Import torch only when a method is asked for that needs it."""
    if name in _WITHOUT_TORCH:
        return getattr(importlib.import_module(f"{__name__}.{_WITHOUT_TORCH[name]}"), name)
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'likewise.training' has no attribute {name!r}")
    return getattr(import_optional(f"likewise.training.{_WITH_TORCH[name]}", "torch", name), name)
