"""Audits machine-learning models for individual fairness.

Are people who are alike, but for race, sex or another protected trait, treated alike?
The names below stand in the order of the walk: people, model, metric, map, tests, verdict.
"""

TYPE_CHECKING = False  # nothing is imported before Ctrl-C is attended to, not even typing
if TYPE_CHECKING:
    from likewise import data as data
    from likewise.audit_data import AuditData as AuditData
    from likewise.data.encode import Encoder as Encoder
    from likewise.data.table import read as read
    from likewise.engine.paired_audits import Margins as Margins
    from likewise.engine.paired_audits import compare as compare
    from likewise.errors import LikewiseError as LikewiseError
    from likewise.errors import LikewiseWarning as LikewiseWarning
    from likewise.improving import improve as improve
    from likewise.inference.monitor import Monitor as Monitor
    from likewise.inference.ratio_tests import ErrorRateRatioTest as ErrorRateRatioTest
    from likewise.inference.ratio_tests import LossRatioTest as LossRatioTest
    from likewise.inference.ratio_tests import MeanLossRatioTest as MeanLossRatioTest
    from likewise.maps.combine import Worst as Worst
    from likewise.maps.counterparts import Counterparts as Counterparts
    from likewise.maps.flips import Flips as Flips
    from likewise.maps.flow import GradientFlow as GradientFlow
    from likewise.maps.search import Reach as Reach
    from likewise.metrics.learn import sensitive_subspace as sensitive_subspace
    from likewise.metrics.metric_file import load_metric as load_metric
    from likewise.metrics.metric_file import save_metric as save_metric
    from likewise.metrics.quadratic import ProjectionMetric as ProjectionMetric
    from likewise.metrics.quadratic import QuadraticMetric as QuadraticMetric
    from likewise.metrics.quadratic import free_columns as free_columns
    from likewise.metrics.quadratic import ignoring as ignoring
    from likewise.models import as_model as as_model
    from likewise.models import open_model as open_model
    from likewise.models import save_model as save_model
    from likewise.outcomes import Outcomes as Outcomes
    from likewise.record import Record as Record
    from likewise.scale.executors import Inline as Inline
    from likewise.scale.executors import Threads as Threads
    from likewise.scale.folder_store import Folder as Folder
    from likewise.scale.process_pool import Processes as Processes
    from likewise.scale.ray_pool import Ray as Ray
    from likewise.scale.store import Memory as Memory
    from likewise.scoring import make_scorer as make_scorer
    from likewise.settings import Settings as Settings
    from likewise.testing import (
        assert_no_evidence_of_unfairness as assert_no_evidence_of_unfairness,
    )
    from likewise.walk import AuditResult as AuditResult
    from likewise.walk import audit as audit
    from likewise.walk import rehearse as rehearse

_HOMES = {
    "AuditData": "audit_data",
    "read": "data.table",
    "Encoder": "data.encode",
    "as_model": "models",
    "open_model": "models",
    "save_model": "models",
    "QuadraticMetric": "metrics.quadratic",
    "ProjectionMetric": "metrics.quadratic",
    "ignoring": "metrics.quadratic",
    "free_columns": "metrics.quadratic",
    "sensitive_subspace": "metrics.learn",
    "save_metric": "metrics.metric_file",
    "load_metric": "metrics.metric_file",
    "GradientFlow": "maps.flow",
    "Reach": "maps.search",
    "Flips": "maps.flips",
    "Counterparts": "maps.counterparts",
    "Worst": "maps.combine",
    "Outcomes": "outcomes",
    "LossRatioTest": "inference.ratio_tests",
    "ErrorRateRatioTest": "inference.ratio_tests",
    "MeanLossRatioTest": "inference.ratio_tests",
    "Monitor": "inference.monitor",
    "Settings": "settings",
    "Inline": "scale.executors",
    "Threads": "scale.executors",
    "Processes": "scale.process_pool",
    "Ray": "scale.ray_pool",
    "Memory": "scale.store",
    "Folder": "scale.folder_store",
    "audit": "walk",
    "compare": "engine.paired_audits",
    "Margins": "engine.paired_audits",
    "improve": "improving",
    "make_scorer": "scoring",
    "rehearse": "walk",
    "AuditResult": "walk",
    "assert_no_evidence_of_unfairness": "testing",
    "Record": "record",
    "LikewiseError": "errors",
    "LikewiseWarning": "errors",
}

__all__ = ["data", *_HOMES]


def __getattr__(name: str) -> object:
    import importlib

    if name == "data":
        return importlib.import_module("likewise.data")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("likewise")
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"likewise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
