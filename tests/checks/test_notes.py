"""Notes that need the model: trained on the pool, labels predicted, attributes read."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from checks.planted import READ, audited, linear, population
from likewise.errors import StatisticalWarning

TRAINED = "it may have been trained on the reference sample"


def test_a_model_that_was_trained_on_the_reference_sample_is_suspected():
    people, pool = population(600, 1), population(1500, 2)
    model = KNeighborsClassifier(3).fit(pool[list(READ)], pool["paid"])
    with pytest.warns(StatisticalWarning, match=TRAINED):
        record = audited(model, people, pool, "training_pool").record
    assert any(TRAINED in warning for warning in record.warnings)


@pytest.mark.parametrize(
    ("relabel", "skipped"),
    [
        (lambda pool: pool, False),
        (lambda pool: pool.drop(columns="paid"), True),
        (lambda pool: pool.assign(paid=np.where(pool["paid"], "yes", "no")), True),
    ],
)
def test_a_model_trained_on_others_is_not_and_without_its_labels_it_is_said(relabel, skipped):
    people, pool, others = (population(n, n) for n in (600, 1500, 900))
    model = LogisticRegression().fit(others[list(READ)], others["paid"])
    record = audited(model, people, relabel(pool), "training_pool").record
    assert not record.warnings
    said = "Not checked, for want of labels that it knows: whether the model was trained on"
    assert any(note.startswith(said) for note in record.notes) == skipped


@pytest.mark.parametrize("legitimate", [True, False])
def test_columns_that_predict_the_label_and_were_not_named_are_asked_about(legitimate):
    """Else the label depends on skill alone."""
    people, pool = population(2000, 3), population(3000, 4)
    rng = np.random.default_rng(5)
    for table in (people, pool) if legitimate else ():
        score = table["skill"] + table["zone"] - 1
        table["paid"] = (rng.random(len(table)) < 1 / (1 + np.exp(-score))).astype(int)
    notes = audited(linear(zone=1.0), people, pool, "label_prediction").record.notes
    asked = (
        "zone, car and size predict paid beyond skill and the groups. A calibrated model would "
        "also differ here; which of these columns may matter?"
    )
    assert (asked in notes) == legitimate
    assert legitimate or not any("calibrated" in note for note in notes)
