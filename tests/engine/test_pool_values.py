"""A pool that speaks of other groups or values than the audited people do: never in silence."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import likewise
from likewise.engine.pool_values import compare_values
from likewise.errors import InvalidData, StatisticalWarning
from likewise.maps.counterparts import Counterparts


def people(n, seed):
    """Return people whose district goes with sex and decides whether they pay."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    district = np.where(rng.random(n) < np.where(sex == "f", 0.8, 0.2), "Bern", "Genf")
    paid = rng.random(n) < np.where(district == "Bern", 0.2, 0.9)
    return pa.table(
        {
            "age": rng.normal(40, 9, n),
            "district": district,
            "sex": sex,
            "paid": np.where(paid, "yes", "no"),
        }
    )


PEOPLE, POOL = people(400, 1), people(1200, 2)


def changed(table, column, function):
    values = pa.array([function(value) for value in table[column].to_pylist()])
    return table.set_column(table.column_names.index(column), column, values)


@pytest.fixture(scope="module")
def pipeline():
    train = people(1000, 3).to_pandas()
    front = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["district"]), ("passthrough", ["age"])
    )
    model = make_pipeline(front, LogisticRegression())
    return model.fit(train[["age", "district"]], train["paid"])


def audited(pipeline, people=PEOPLE, pool=POOL):
    settings = likewise.Settings(columns={"label": "paid", "protected": ("sex",)}, checks="core")
    question = Counterparts(may_matter=("age",))
    return likewise.audit(pipeline, people, map=question, pool=pool, settings=settings)


def test_a_pool_that_spells_a_category_in_capitals_is_refused(pipeline):
    assert audited(pipeline).outcome == "evidence_of_unfairness"
    words = r"value of 'district'.*'Bern'.*'Genf'.*audited and.*'BERN'.*in the pool"
    with pytest.raises(InvalidData, match=words):
        audited(pipeline, pool=changed(POOL, "district", str.upper))


def test_a_pool_that_spells_some_of_a_category_otherwise_is_told_of(pipeline):
    pool = changed(POOL, "district", lambda name: "BERN" if name == "Bern" else name)
    with pytest.warns(StatisticalWarning) as said:
        result = audited(pipeline, pool=pool)
    share = 100 * np.mean(np.array(pool["district"]) == "BERN")
    told = f"'district' is 'BERN' for {share:.2g} % of the pool and for nobody audited"
    assert any(told in str(one.message) for one in said)
    assert any(told in warning for warning in result.record.warnings)
    assert any("is 'Bern' for" in warning for warning in result.record.warnings)


def test_groups_that_the_pool_does_not_have_are_refused_or_counted(pipeline):
    words = r"'sex' is 'F' and 'M' among the people audited and 'f' and 'm' in the pool"
    with pytest.raises(InvalidData, match=words):
        audited(pipeline, people=changed(PEOPLE, "sex", str.upper))
    few = iter(range(len(PEOPLE)))
    some = changed(PEOPLE, "sex", lambda sex: "x" if next(few) < 5 else sex)
    with pytest.warns(StatisticalWarning, match=r"5 of the 400 people.*\('x' 5\)"):
        result = audited(pipeline, people=some)
    assert result.record.counterparts.traits[0].without_group == 5
    assert "5 people are in no group of the pool" in " ".join(result.summary().split())
    assert "compared with nobody" in result.to_html()


def test_a_group_that_nobody_audited_is_in_has_no_bounds(pipeline):
    women = PEOPLE.filter(pa.array(np.array(PEOPLE["sex"]) == "f"))
    result = audited(pipeline, people=women)
    (row,) = (line for line in result.summary().splitlines() if "m visited as f" in line)
    assert row.split()[4:] == ["–", "–", "–", "–", "–", "0"]


def column(values):
    return pa.table({"c": pa.array(values)})


def test_rare_values_and_names_are_no_cause_for_words():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            # Values with shares from a half to one in a thousand. A false alarm in a thousand
            # columns of one population, so that 50 are silent but for this seed's luck.
            shares = 0.5 ** np.minimum(np.arange(1, 14), 10.0)
            names = rng.choice(list("abcdefghijklm"), 900, p=shares / shares.sum())
            compare_values(["c"], column(names[:300].tolist()), column(names[300:].tolist()))
        names = [f"name {number}" for number in range(900)]
        compare_values(["c"], column(names[:300]), column(names[300:]))
        compare_values(["c"], column([None] * 9 + ["a"]), column(["b", "a", None]))


def test_numbers_in_another_unit_are_told_of():
    with pytest.warns(StatisticalWarning, match="'c' lies between 10 and 19 in the pool"):
        compare_values(["c"], column(range(1000, 1010)), column(range(10, 20)))


def test_a_label_that_everyone_has_is_told_of_once(pipeline):
    same = PEOPLE.filter(pa.array(np.array(PEOPLE["paid"]) == "yes"))
    with pytest.warns(StatisticalWarning) as said:
        result = audited(pipeline, people=same)
    words = [str(one.message) for one in said]
    assert sum("the same label ('paid'), 'yes'" in one for one in words) == 1
    assert any("the same label" in warning for warning in result.record.warnings)
    plain = likewise.Settings(columns={"label": "paid", "protected": ("sex",)}, checks="core")
    with pytest.warns(StatisticalWarning, match="the same label") as said:
        likewise.rehearse(pipeline, same, settings=plain)
    assert not any("than a constant" in str(one.message) for one in said)
