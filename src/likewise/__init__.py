"""Audits machine-learning models for individual fairness.

Are people who are alike, but for race, sex or another protected attribute, treated alike?
Metrics, executors and fair training have modules of their own: `likewise.metrics`,
`likewise.executors`, `likewise.training`.
"""

TYPE_CHECKING = False  # nothing is imported before Ctrl-C is attended to, not even typing
if TYPE_CHECKING:
    from likewise import executors as executors
    from likewise import metrics as metrics
    from likewise import training as training
    from likewise._audit import audit as audit
    from likewise._compare import compare as compare
    from likewise._paper_test import paper_test as paper_test
    from likewise._plan import plan as plan
    from likewise._scorer import scorer as scorer
    from likewise.data.source import read as read
    from likewise.errors import LikewiseError as LikewiseError
    from likewise.errors import LikewiseWarning as LikewiseWarning
    from likewise.methods.flip import Flip as Flip
    from likewise.methods.gradient_flow import GradientFlow as GradientFlow
    from likewise.methods.matched_pairs import MatchedPairs as MatchedPairs
    from likewise.methods.metric import metric as metric
    from likewise.methods.reach import Reach as Reach
    from likewise.result import AuditResult as AuditResult
    from likewise.run.journal import Folder as Folder
    from likewise.settings import Settings as Settings
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
    "executors": "executors",
    "metrics": "metrics",
    "training": "training",
}
"""The public names, and where each is; imported when it is first used. The last are modules."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("likewise")
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    home = importlib.import_module(f"likewise.{_HOMES[name]}")
    value = globals()[name] = getattr(home, name, home)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
