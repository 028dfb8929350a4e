"""Reports of real audits: four Adult models, and as many people as one likes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.report.compare_page import comparison_page
from likewise.report.side_by_side import compare, words
from likewise.training import (
    BaselineClassifier,
    ProjectClassifier,
    ReductionsClassifier,
    SenSRClassifier,
)

pytestmark = pytest.mark.slow

CORE = likewise.Settings(checks="core")


@pytest.fixture(scope="module")
def audits(adult):
    """Four models, trained too briefly to be good but by four methods, audited on 1000 people."""
    pytest.importorskip("fairlearn")
    train, test = adult.train.take(np.arange(4000)), adult.test.take(np.arange(1000))
    metric = likewise.sensitive_subspace(train)
    directions = metric.free
    models = {
        "baseline": BaselineClassifier(learning_rate=1e-3, max_iter=400, random_state=0),
        "project": ProjectClassifier(directions, learning_rate=1e-3, max_iter=400, random_state=0),
        "sensr": SenSRClassifier(
            directions, learning_rate=1e-3, max_iter=100, full_steps=1, random_state=0
        ),
        "reductions": ReductionsClassifier(max_iter=5),
    }
    records = {}
    for name, model in models.items():
        model.fit(train.x, train.y, protected=train.protected)
        records[name] = likewise.audit(model, test, metric=metric, settings=CORE).record
    return records


def test_four_adult_models_are_compared(audits):
    found = compare(audits)
    assert found.caveats == ()
    assert len(found.adjusted) == 8
    text = words(found)
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in audits)
    page = comparison_page(found)
    assert page.count('class="estimate') >= 4
    assert len(page.encode()) < 1_000_000


@pytest.mark.browser
def test_the_adult_report_opens_without_a_complaint(audits, visit):
    from likewise.report.html import to_html

    page = visit(to_html(audits["baseline"]))
    assert page.locator(".person:visible").count() == 10
    page.select_option("#group", "Female")
    cards = page.locator(".person:visible").all()
    assert all("sex: Female" in card.inner_text() for card in cards)
    assert "education-num" in page.text_content("#people")


def test_the_page_of_200_000_people_is_small():
    rng = np.random.default_rng(0)
    n = 200_000
    x = rng.normal(size=(n, 4))
    y = x[:, :2].sum(1) + rng.normal(size=n) > 0
    people = likewise.AuditData.from_arrays(x, y, {"group": np.where(x[:, 0] > 0, "a", "b")})
    model = LogisticRegression().fit(x[:1000], y[:1000])
    result = likewise.audit(model, people, settings=CORE)
    assert result.record.data.n == n
    assert len(result.to_html().encode()) < 1_000_000
