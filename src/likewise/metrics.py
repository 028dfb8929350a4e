"""Fair metrics: which people count as alike; given, or learned from data."""

from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.metric import (
    FairMetric,
    ProjectionMetric,
    QuadraticForm,
    QuadraticMetric,
    as_metric,
    free_columns,
    ignoring,
    metric,
)
from likewise.methods.metric_file import load_metric, save_metric
from likewise.methods.plausible_region import Ellipsoid

__all__ = [
    "Ellipsoid",
    "FairMetric",
    "ProjectionMetric",
    "QuadraticForm",
    "QuadraticMetric",
    "as_metric",
    "free_columns",
    "ignoring",
    "load_metric",
    "metric",
    "save_metric",
    "sensitive_subspace",
]
