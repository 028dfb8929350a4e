"""A check for one's own test suite: fail when an audit finds evidence of unfairness."""

from typing import Any

from likewise.audit_data import AuditData
from likewise.walk import AuditResult, audit


def assert_no_evidence_of_unfairness(
    model: Any, data: AuditData, **audit_arguments: Any
) -> AuditResult:
    """Audit a model, and fail with the summary if there is evidence of unfairness.

    It fails, too, if the result cannot be trusted. Passing is no proof of the contrary: look at
    the outcome of the result, or at its upper bound, for what was shown.

    Parameters
    ----------
    model, data
        As for `likewise.audit`.
    **audit_arguments
        Passed on to `likewise.audit`: metric, settings, map.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from likewise import ignoring
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 3))
    >>> group = x[:, 0] + rng.normal(size=500) > 0
    >>> y = x[:, 1] + 0.5 * rng.normal(size=500) > 0
    >>> people = AuditData.from_arrays(x[:250], y[:250], {"group": group[:250]})
    >>> model = LogisticRegression().fit(x[250:], y[250:])
    >>> alike = ignoring([[1.0, 0.0, 0.0]])  # but for the first feature
    >>> assert_no_evidence_of_unfairness(model, people, metric=alike, checks="core").outcome
    'within_tolerance'
    """
    __tracebackhide__ = True
    result = audit(model, data, **audit_arguments)
    if result.outcome == "evidence_of_unfairness" or not result.record.trustworthy:
        raise AssertionError("\n" + result.summary())
    return result
