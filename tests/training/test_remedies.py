"""What each method is for: less attention to a proxy, at little loss."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from likewise.errors import InvalidData, InvalidModel, InvalidSettings
from likewise.training import AveragedClassifier, FairBoostingClassifier


def population(n, seed):
    """Return people whose label leans on age, and on where they live, which goes with sex."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 1.2 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(1.5 * age - 0.5 * zone)))
    return pd.DataFrame({"age": age, "zone": zone, "sex": sex, "paid": np.where(y, "yes", "no")})


def averaged(people, weight=1.0, may_matter=("age",), model=None, **choices):
    model = model or LogisticRegression().fit(people[["age", "zone"]], people["paid"])
    remedy = AveragedClassifier(
        model, protected=["sex"], may_matter=list(may_matter), weight=weight, **choices
    )
    return remedy.fit(people), model


def test_the_average_is_one_number_for_people_equal_in_what_may_matter():
    people = population(400, 1)
    remedy, model = averaged(people, m=20)
    twins = pd.DataFrame({"age": [0.3, 0.3, 0.3], "zone": [-2.0, 0.0, 5.0]})
    assert np.ptp(remedy.predict_proba(twins)[:, 1]) == 0
    remedy.shift_ = 0.0
    found = remedy.predict_proba(twins)[:, 1]
    by_hand, ages = [], np.sort(people["age"])
    for sex in (0, 1):
        group = people[people["sex"] == sex]
        rank = np.searchsorted(ages, group["age"])
        near = np.argsort(np.abs(rank - np.searchsorted(ages, 0.3) + 0.5), kind="stable")[:20]
        rows = pd.DataFrame({"age": 0.3, "zone": group["zone"].to_numpy()[near]})
        by_hand.append(model.predict_proba(rows)[:, 1].mean())
    # Of two people equally far one or the other may be among the twenty.
    assert found[0] == pytest.approx(np.mean(by_hand), abs=0.01)
    half, _ = averaged(people, 0.5, m=20)
    half.shift_ = 0.0
    plain = model.predict_proba(twins)[:, 1]
    np.testing.assert_allclose(half.predict_proba(twins)[:, 1], (found + plain) / 2)


def test_averaging_leaves_as_many_people_with_each_decision():
    people = population(1000, 3)
    people["paid"] = np.where(people["age"] + 0.5 * people["zone"] > 1.5, "yes", "no")
    remedy, model = averaged(people, 0.7)
    x = people[["age", "zone"]]
    before = (model.predict(x) == "yes").sum()
    assert (remedy.predict(x) == "yes").sum() == before
    remedy.shift_ = 0.0
    assert (remedy.predict(x) == "yes").sum() != before


def test_a_prediction_depends_on_the_person_alone_and_survives_a_file():
    people = population(300, 4)
    remedy, _ = averaged(people, 0.5)
    x = people[["age", "zone"]]
    whole = remedy.predict_proba(x)
    parts = [remedy.predict_proba(x.iloc[i : i + 7]) for i in range(0, 300, 7)]
    np.testing.assert_allclose(np.vstack(parts), whole, rtol=1e-12)  # rounding of sums
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(remedy)).predict_proba(x), whole)
    for form in (pl.from_pandas(x), x.to_numpy()):
        np.testing.assert_array_equal(remedy.predict_proba(form), whole)


def test_categories_that_may_matter_are_equal_where_enough_people_have_them():
    people = population(400, 5).assign(town=lambda t: np.where(t["zone"] > 0.5, "north", "south"))
    people.loc[:2, "town"] = "elsewhere"
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(
        people[["town", "zone"]], people["paid"]
    )
    remedy, _ = averaged(people, may_matter=["town"], model=model)
    remedy.shift_ = 0.0
    rows = pd.DataFrame({"town": ["north", "south", "elsewhere", "nowhere"], "zone": 0.0})[:3]
    north, south, rare = remedy.predict_proba(rows)[:, 1]
    one = model.predict_proba(pd.DataFrame({"town": ["north"], "zone": [-3.0]}))[0, 1]
    # Zones of the north are all above .5, so nobody there is predicted as at -3.
    assert north < one
    assert 0 < south < 1
    assert 0 < rare < 1


@pytest.mark.filterwarnings("ignore::likewise.errors.ConversionWarning")
def test_what_cannot_be_averaged_is_refused_in_a_sentence():
    people = population(200, 6)
    x, y = people[["age", "zone"]], people["paid"]
    decides = LinearSVC().fit(x, y)
    cases = [
        ({"weight": 2.0}, InvalidSettings, "weight is 2.0; it lies between 0 and 1"),
        ({"m": 0}, InvalidSettings, "m is 0"),
        ({"may_matter": ["agee"]}, InvalidData, "no column 'agee'. Did you mean 'age'"),
        ({"model": LinearRegression().fit(x, people["age"])}, InvalidModel, "no probabilities"),
        ({"model": decides}, InvalidModel, "gives no probabilities of classes"),
    ]
    for changes, error, words in cases:
        with pytest.raises(error, match=words):
            averaged(people, **changes)
    remedy, _ = averaged(people)
    with pytest.raises(InvalidData, match="no column 'zone'"):
        remedy.predict_proba(people[["age"]])


def test_fair_boosting_pays_less_attention_to_the_proxy():
    people = population(1200, 3)
    x, y = people[["age", "zone"]].to_numpy(), people["paid"].to_numpy()

    def swing(weight):
        model = FairBoostingClassifier(
            may_matter=[0], weight=weight, budget=0.5, max_iter=30, neighbours=12
        ).fit(x, y, protected=people["sex"])
        low, high = (
            model.decision_function(np.column_stack([x[:, 0], np.full(len(x), zone)]))
            for zone in (-1.0, 2.0)
        )
        return np.abs(high - low).mean(), model.score(x, y)

    (loose, score), (half, _), (tight, fair_score) = swing(0.0), swing(0.5), swing(1.0)
    assert tight < 0.6 * loose
    assert tight < half < loose
    assert fair_score > score - 0.1
