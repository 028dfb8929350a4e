"""A table that is scored already needs no model: its answers are looked up."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.errors import InvalidData, InvalidModel, InvalidSettings
from likewise.handle import adapt
from likewise.loss import decide
from likewise.models import as_model
from likewise.models.adapt import table_model
from likewise.models.scored import ScoredTable
from likewise.report.text import next_steps, sentence

CHOICES = {"protected": "group", "may_matter": ["income"], "checks": "core"}


def people(seed, n=400):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    frame = pd.DataFrame({"income": rng.normal(size=n), "town": rng.normal(size=n) + 1.5 * group})
    frame["group"] = np.where(group, "a", "b")
    frame["paid"] = (frame.income + 0.7 * frame.town + rng.normal(size=n) > 0.5).astype(int)
    return frame


@pytest.fixture(scope="module")
def scored():
    train, frame, pool = (people(seed) for seed in range(3))
    model = LogisticRegression().fit(train[["income", "town"]], train["paid"])
    for table in (frame, pool):
        table["pd"] = model.predict_proba(table[["income", "town"]])[:, 1]
        table["approved"] = np.where(table.pd > 0.5, "yes", "no")
        table["points"] = 300 + 550 * table.pd
    return model, frame, pool


def test_a_column_of_decisions_is_looked_up_row_by_row(scored):
    _, frame, pool = scored
    data = likewise.read(frame, label="paid", protected=["group"], raw=True)
    model, about = adapt(ScoredTable("approved"), data, attributes=("group",))
    ask = table_model(model, data)
    assert (ask.columns, ask.model.card.classes) == (("approved",), ("no", "yes"))
    other = likewise.read(pool, label="paid", protected=["group"], raw=True)
    rows, pooled = ask.prepare(data.table), ask.prepare(other.table)
    i, j = np.arange(50), np.arange(100, 150)
    # A composed row has the answer of the reference row: the person's own columns change nothing.
    out = ask.substitute(rows, i, pooled, j, ("income",))
    assert decide(out, "probabilities").tolist() == (pool.approved[100:150] == "yes").tolist()
    assert decide(ask.outputs(rows), "probabilities").sum() == (frame.approved == "yes").sum()
    again = as_model(ScoredTable("approved"), **about)
    assert again.card == model.card


@pytest.mark.parametrize("names", [{"decision": "approved"}, {"score": "pd", "threshold": 0.5}])
def test_an_audit_of_a_scored_table_gives_the_models_own_rates(scored, names):
    model, frame, pool = scored
    favourable = "yes" if "decision" in names else "1"
    found = likewise.audit(None, frame, pool=pool, favourable=favourable, **names, **CHOICES)
    own = likewise.audit(
        model, frame[["income", "town", "group"]], pool=pool, favourable=1, **CHOICES
    )
    one, other = (r.record.matched_pairs.comparisons for r in (found, own))
    assert [c.actual for c in one] == [c.actual for c in other]
    assert [(c.raw_group, c.raw_other) for c in one] == [(c.raw_group, c.raw_other) for c in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.difference == pytest.approx(theirs.difference, abs=4 * theirs.std_error)
    # What needs the model is not said of a table: changed decisions, and a search for a fairer one.
    assert all(np.isnan(mine.changed_up) for mine in one)
    said = "approved" if "decision" in names else "pd up to 0.5"
    assert f"get '{said}" in sentence(found.record)
    assert "with the decisions of comparable people with group = " in sentence(found.record)
    assert found.verdict == own.verdict == "evidence"
    assert not any("likewise improve" in step for step in next_steps(found.record))
    assert "likewise improve" in next_steps(own.record)[0]


def test_a_score_that_is_no_probability_is_cut_or_predicted(scored):
    _, frame, _ = scored
    data = likewise.read(frame, label="paid", protected=["group"], raw=True)
    cut, _ = adapt(ScoredTable(score="points", threshold=500), data)
    out = table_model(cut, data)(data.table)
    assert decide(out, "probabilities").tolist() == (frame.points > 500).tolist()
    plain, _ = adapt(ScoredTable(score="points"), data)
    assert plain.card.task == "regression"
    assert np.array_equal(table_model(plain, data)(data.table)[:, 0], frame.points)


def test_methods_that_perturb_people_refuse_a_scored_table(scored):
    _, frame, _ = scored
    with pytest.raises(InvalidSettings, match="name the columns that may matter"):
        likewise.audit(None, frame, protected="group", decision="approved")
    for method in ("gradient_flow", "reach"):
        with pytest.raises(InvalidModel, match=r"no one can be perturbed.*--may-matter"):
            likewise.audit(
                None, frame, label="paid", protected="group", decision="approved", method=method
            )


PROBLEMS = {
    "nothing named": ({}, InvalidSettings, "name the column with the decision"),
    "both named": ({"decision": "approved", "score": "pd"}, InvalidSettings, "not both"),
    "no such column": ({"decision": "aproved"}, InvalidData, "'approved'"),
    "an identifier": ({"decision": "town"}, InvalidData, "different decisions"),
    "text as a score": ({"score": "approved"}, InvalidData, "not a number"),
    "a gap": ({"decision": "gappy"}, InvalidData, "missing in 1 of"),
}


@pytest.mark.parametrize("what", PROBLEMS)
def test_a_table_that_is_not_scored_is_one_sentence(what, scored):
    names, error, words = PROBLEMS[what]
    frame = scored[1].assign(gappy=scored[1].approved.where(np.arange(400) > 0))
    with pytest.raises(error, match=words):
        likewise.audit(None, frame, pool=scored[2], **names, **CHOICES)
