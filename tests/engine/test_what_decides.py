"""What decides under a learned metric: the same for every model, and people who could exist."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings
from likewise.methods.decide import deciding_map
from likewise.models import as_model
from likewise.settings import Choice, Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")


class World(NamedTuple):
    people: AuditData
    metric: likewise.metrics.FairMetric
    model: LogisticRegression


def people(n, seed):
    """Return people whose children are counted; the model goes by what tells the sexes apart."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    children = rng.poisson(1.5, n).astype(float)
    x = np.column_stack([rng.normal(size=n) + 2 * sex, rng.normal(size=n), children])
    y = (1.5 * x[:, 0] + x[:, 1] + 0.3 * children + rng.logistic(size=n) > 2).astype(int)
    return AuditData.from_arrays(
        x, y, {"sex": np.where(sex == 1, "f", "m")}, features=("zone", "school", "children")
    )


@pytest.fixture(scope="module")
def world():
    train = people(300, 1)
    model = LogisticRegression().fit(train.x, train.y)
    metric = likewise.metrics.sensitive_subspace(train, controls=19, groups=4)
    return World(people(250, 2), metric, model)


def audit(world, settings):
    return likewise.audit(world.model, world.people, metric=world.metric, settings=settings)


def test_the_flow_decides_and_the_search_for_want_of_gradients(world):
    tree = DecisionTreeClassifier(max_depth=2).fit(world.people.x, world.people.y)
    tree = as_model(tree).card
    smooth = as_model(world.model).card

    def name(choice, card):
        return deciding_map(Choice.model_validate(choice), card)[0]

    assert name({}, smooth) == "gradient_flow"
    assert name({}, tree) == "reach"
    assert name({"name": "reach"}, smooth) == "reach"
    with pytest.raises(InvalidSettings, match="Neither gradient_flow nor reach"):
        name({"name": "auto", "colour": 1}, smooth)


def test_columns_that_may_matter_are_held_under_a_metric_too(world):
    table = pa.table(
        {name: world.people.x[:, j] for j, name in enumerate(world.people.features)}
        | {"sex": world.people.protected["sex"], "paid": world.people.y}
    )
    columns = {"label": "paid", "protected": ("sex",), "may_matter": ("school",)}
    few = {"controls": 0, "groups": 2}
    settings = Settings(columns=columns, method="reach", metric=few, checks="core")
    fitted = LogisticRegression().fit(
        pd.DataFrame(world.people.x, columns=world.people.features), world.people.y
    )
    found = likewise.audit(fitted, table, settings=settings)
    place = world.people.features.index("school")
    assert np.abs(found.metric.free[:, place]).max() < 1e-12
    before, after = (
        [case.model_dump()[when]["school"] for case in found.record.perturbed]
        for when in ("before", "after")
    )
    assert before == pytest.approx(after)


def test_impact_ratios_are_of_the_favourable_decision(world):
    chosen = Settings(checks=["groups"], decide={"favourable": "0"})
    found = audit(world, chosen)
    known = {(m.name, m.group): m.value for m in found.record.measures}
    decision = world.model.predict(world.people.x)
    women = world.people.protected["sex"] == "f"
    shares = [np.mean(decision[part] == 0) for part in (women, ~women)]
    assert known["selection_rate", "f"] == pytest.approx(shares[0])
    assert known["impact_ratio", "f"] == pytest.approx(shares[0] / shares[1])
    with pytest.raises(InvalidSettings, match="'2' is not a decision of this model"):
        audit(world, chosen.changed(decide__favourable="2"))
