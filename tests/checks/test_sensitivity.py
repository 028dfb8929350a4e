"""Other metrics and penalties are tried beside the choice that was made."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise.audit_data import AuditData
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")


@pytest.mark.parametrize(
    ("model", "method", "penalties"),
    [
        (DecisionTreeClassifier(max_depth=5, random_state=0), {"name": "reach"}, []),
        (LogisticRegression(), {"name": "gradient_flow"}, ["25", "100", "∞"]),
    ],
)
def test_each_direction_is_dropped_and_the_penalty_changed(model, method, penalties):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(600, 4)) * [1, 1, 3, 0.5]
    y = (x @ [1.0, 0.5, 0.5, 0.3] + 0.5 * rng.normal(size=600) > 0).astype(int)
    metric = likewise.metrics.ignoring(np.eye(4)[:2]).with_reach(x[300:])
    people = AuditData.from_arrays(x[:300], y[:300])
    settings = Settings(method=method, checks=["sensitivity"])
    record = likewise.audit(
        model.fit(x[300:], y[300:]), people, metric=metric, settings=settings
    ).record
    chosen, *others = record.sensitivity
    assert [(row.what, row.change) for row in record.sensitivity] == [
        ("as chosen", ""),
        ("direction 1", "dropped"),
        ("direction 2", "dropped"),
        *(("λ", lam) for lam in penalties),
    ]
    (deciding,) = (t for t in record.tests.values() if t.test == record.decided_by.test)
    assert chosen.estimate == pytest.approx(deciding.estimate, rel=1e-12)
    assert all(row.estimate < chosen.estimate for row in others[:2])
    # A dearer move goes less far.
    assert all(a.estimate > b.estimate for a, b in itertools.pairwise(others[2:]))
