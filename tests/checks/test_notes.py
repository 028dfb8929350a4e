"""Notes that need the model: trained on the pool, labels predicted, attributes read."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import likewise
from checks.planted import READ, audited, linear, population
from likewise.checks.model_notes import suspicious
from likewise.errors import StatisticalWarning
from likewise.report.text import sentence

TRAINED = "it may have been trained on the reference sample"


def test_a_model_that_was_trained_on_the_reference_sample_is_suspected():
    people, pool = population(600, 1), population(1500, 2)
    model = KNeighborsClassifier(3).fit(pool[list(READ)], pool["paid"])
    with pytest.warns(StatisticalWarning, match=TRAINED):
        record = audited(model, people, pool, "training_pool").record
    assert any(TRAINED in warning for warning in record.warnings)


def test_a_model_trained_on_others_is_not():
    people, pool, others = (population(n, n) for n in (600, 1500, 900))
    model = LogisticRegression().fit(others[list(READ)], others["paid"])
    record = audited(model, people, pool, "training_pool").record
    assert not record.warnings
    assert not any("Not checked" in note for note in record.notes)


def test_without_labels_it_is_not_checked():
    people, pool = population(400, 1), population(900, 2)
    record = audited(linear(zone=1.0), people, pool.drop(columns="paid"), "training_pool").record
    assert any(note.startswith("Not checked, for want of labels") for note in record.notes)


def test_a_tenth_and_chance_are_the_limits():
    rng = np.random.default_rng(0)
    ours, theirs = rng.exponential(size=(2, 4000))
    theirs *= ours.mean() / theirs.mean()
    assert not suspicious(ours, theirs)
    assert not suspicious(ours, 0.95 * theirs)
    assert suspicious(ours, 0.85 * theirs)
    assert not suspicious(ours[:20], 0.85 * theirs[:20])


def predicted(people, pool, model):
    record = audited(model, people, pool, "label_prediction").record
    return [note for note in record.notes if "A calibrated model would also differ here" in note]


def test_a_legitimate_cause_that_was_not_named_is_asked_about():
    people, pool = population(2000, 3), population(3000, 4)
    rng = np.random.default_rng(5)
    for table in (people, pool):
        score = table["skill"] + table["zone"] - 1
        table["paid"] = (rng.random(len(table)) < 1 / (1 + np.exp(-score))).astype(int)
    (note,) = predicted(people, pool, linear(zone=1.0))
    assert note.startswith("zone, car and size predict paid beyond skill and the groups.")
    assert note.endswith("which of these columns may matter?")


def test_proxies_that_predict_nothing_are_not():
    """The label depends on skill alone."""
    assert predicted(population(2000, 3), population(3000, 4), linear(zone=1.0)) == []


def test_a_protected_attribute_that_the_model_reads_is_said_with_the_verdict():
    people, pool = population(500, 6), population(1200, 7)
    for table in (people, pool):
        table["sex"] = (table["group"] == "b").astype(int)
    record = likewise.audit(
        linear(more=[("sex", 1.0)]),
        people,
        label="paid",
        protected="sex",
        may_matter=["skill"],
        pool=pool,
        checks="core",
    ).record
    (use,) = record.matched_pairs.reads
    said = f"The model reads sex: changing it alone changes {100 * use.changed:.1f} % of decisions"
    assert said in sentence(record)
