"""Training methods, as scikit-learn estimators that can be audited as they are."""

import importlib
from typing import TYPE_CHECKING, Any

from likewise.errors import need

if TYPE_CHECKING:
    from likewise.training.baseline import BaselineClassifier as BaselineClassifier
    from likewise.training.counterpart_models import (
        CounterpartAugmentedClassifier as CounterpartAugmentedClassifier,
    )
    from likewise.training.counterpart_models import CounterpartAverage as CounterpartAverage
    from likewise.training.fair_boosting import FairBoostingClassifier as FairBoostingClassifier
    from likewise.training.project import ProjectClassifier as ProjectClassifier
    from likewise.training.reductions import ReductionsClassifier as ReductionsClassifier
    from likewise.training.sensei import SenSeIClassifier as SenSeIClassifier
    from likewise.training.sensr import SenSRClassifier as SenSRClassifier

_HOMES = {
    "BaselineClassifier": "baseline",
    "ProjectClassifier": "project",
    "ReductionsClassifier": "reductions",
    "SenSRClassifier": "sensr",
    "SenSeIClassifier": "sensei",
}
_WITHOUT_TORCH = {
    "CounterpartAugmentedClassifier": "counterpart_models",
    "CounterpartAverage": "counterpart_models",
    "FairBoostingClassifier": "fair_boosting",
}

__all__ = [*_HOMES, *_WITHOUT_TORCH]


def __getattr__(name: str) -> Any:
    """Import torch only when a method is asked for that needs it."""
    if name in _WITHOUT_TORCH:
        return getattr(importlib.import_module(f"{__name__}.{_WITHOUT_TORCH[name]}"), name)
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise.training' has no attribute {name!r}")
    return getattr(need(f"likewise.training.{_HOMES[name]}", "torch", name), name)
