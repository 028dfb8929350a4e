"""Audits machine-learning models for individual fairness.

Are people who are alike, but for race, sex or another protected attribute, treated alike?
The names below stand in the order of an audit: people, model, metric, method, verdict.
"""

TYPE_CHECKING = False  # nothing is imported before Ctrl-C is attended to, not even typing
if TYPE_CHECKING:
    from likewise import executors as executors
    from likewise import metrics as metrics
    from likewise import training as training
    from likewise._audit import audit as audit
    from likewise._audit import dry_run as dry_run
    from likewise._compare import compare as compare
    from likewise._paper_test import paper_test as paper_test
    from likewise._plan import plan as plan
    from likewise._scorer import scorer as scorer
    from likewise.audit_data import AuditData as AuditData
    from likewise.data.encoder import Encoder as Encoder
    from likewise.data.source import read as read
    from likewise.errors import LikewiseError as LikewiseError
    from likewise.errors import LikewiseWarning as LikewiseWarning
    from likewise.methods.flip import Flip as Flip
    from likewise.methods.gradient_flow import GradientFlow as GradientFlow
    from likewise.methods.learn_metric import sensitive_subspace as sensitive_subspace
    from likewise.methods.matched_pairs import MatchedPairs as MatchedPairs
    from likewise.methods.metric import ProjectionMetric as ProjectionMetric
    from likewise.methods.metric import QuadraticMetric as QuadraticMetric
    from likewise.methods.metric import free_columns as free_columns
    from likewise.methods.metric import ignoring as ignoring
    from likewise.methods.metric import metric as metric
    from likewise.methods.metric_file import load_metric as load_metric
    from likewise.methods.metric_file import save_metric as save_metric
    from likewise.methods.reach import Reach as Reach
    from likewise.models import as_model as as_model
    from likewise.models import open_model as open_model
    from likewise.models import save_model as save_model
    from likewise.outcomes import Outcomes as Outcomes
    from likewise.record import Record as Record
    from likewise.result import AuditResult as AuditResult
    from likewise.run.executors import Inline as Inline
    from likewise.run.executors import Threads as Threads
    from likewise.run.journal import Folder as Folder
    from likewise.run.journal import Memory as Memory
    from likewise.run.process_pool import Processes as Processes
    from likewise.run.ray_pool import Ray as Ray
    from likewise.settings import Settings as Settings
    from likewise.stats.error_rate_ratio import ErrorRateRatioTest as ErrorRateRatioTest
    from likewise.stats.loss_ratio import LossRatioTest as LossRatioTest
    from likewise.stats.loss_ratio import MeanLossRatioTest as MeanLossRatioTest
    from likewise.stats.monitor import Monitor as Monitor
    from likewise.training.search import improve as improve

_HOMES = {
    "audit": "_audit",
    "paper_test": "_paper_test",
    "compare": "_compare",
    "improve": "training.search",
    "plan": "_plan",
    "Monitor": "stats.monitor",
    "scorer": "_scorer",
    "read": "data.source",
    "Settings": "settings",
    "AuditResult": "result",
    "metric": "methods.metric",
    "MatchedPairs": "methods.matched_pairs",
    "GradientFlow": "methods.gradient_flow",
    "Reach": "methods.reach",
    "Flip": "methods.flip",
    "Folder": "run.journal",
    "LikewiseError": "errors",
    "LikewiseWarning": "errors",
}
"""The public names, and where each is; imported when it is first used."""

_MORE = {
    "dry_run": "_audit",
    "AuditData": "audit_data",
    "Encoder": "data.encoder",
    "as_model": "models",
    "open_model": "models",
    "save_model": "models",
    "QuadraticMetric": "methods.metric",
    "ProjectionMetric": "methods.metric",
    "ignoring": "methods.metric",
    "free_columns": "methods.metric",
    "sensitive_subspace": "methods.learn_metric",
    "save_metric": "methods.metric_file",
    "load_metric": "methods.metric_file",
    "Outcomes": "outcomes",
    "LossRatioTest": "stats.loss_ratio",
    "ErrorRateRatioTest": "stats.error_rate_ratio",
    "MeanLossRatioTest": "stats.loss_ratio",
    "Inline": "run.executors",
    "Threads": "run.executors",
    "Processes": "run.process_pool",
    "Ray": "run.ray_pool",
    "Memory": "run.journal",
    "Record": "record",
}
"""Parts of the above for those who build on them; not promised to stay."""

_MODULES = ("executors", "metrics", "training")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("likewise")
    if name in _MODULES:
        return importlib.import_module(f"likewise.{name}")
    home = _HOMES.get(name) or _MORE.get(name)
    if home is None:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"likewise.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
