"""Other metrics are tried whatever the model is, and what cannot be tried is said."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise.audit_data import AuditData
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
TURNED = [f"turned by {angle}°" for angle in (1, 5, 10)]


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(600, 4)) * [1, 1, 3, 0.5]
    y = (x @ [1.0, 0.5, 0.5, 0.3] + 0.5 * rng.normal(size=600) > 0).astype(int)
    people = AuditData.from_arrays(x[:300], y[:300])
    return people, x[300:], y[300:]


def tried(record, direction):
    return [row for row in record.sensitivity if row.what == direction]


def test_directions_are_turned_for_a_model_without_gradients(world):
    people, x, y = world
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(x, y)
    metric = likewise.metrics.ignoring(np.eye(4)[:2]).with_reach(x)
    record = likewise.audit(tree, people, metric=metric).record
    for direction in ("direction 1", "direction 2"):
        rows = tried(record, direction)
        assert [row.change for row in rows] == [*TURNED, "dropped"]
        # People differ most in the third feature, which the tree goes by.
        assert rows[2].estimate != record.sensitivity[0].estimate
    assert not record.skipped


def test_a_direction_is_dropped_where_the_map_has_a_reach_of_its_own(world):
    people, x, y = world
    metric = likewise.metrics.ignoring(np.eye(4)[:2]).with_reach(x)
    record = likewise.audit(
        LogisticRegression().fit(x, y),
        people,
        metric=metric,
        settings=Settings().changed(method__bounded=True),
    ).record
    assert tried(record, "direction 1")[-1].change == "dropped"


def test_what_cannot_be_turned_is_said_to_be_skipped(world):
    people, x, y = world
    metric = likewise.metrics.QuadraticMetric(np.diag([0.0, 1.0, 1.0, 2.0]))
    record = likewise.audit(LogisticRegression().fit(x, y), people, metric=metric).record
    assert not tried(record, "direction 1")
    assert any("turning the free directions" in words for words in record.skipped)
