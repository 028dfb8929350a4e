"""The scorer in scikit-learn's searches."""

import math

import numpy as np
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import likewise
from helpers import applicants
from likewise.errors import InvalidData, InvalidModel, InvalidSettings


@pytest.fixture(scope="module")
def people():
    """Return people, their sex as a number, and their labels."""
    table = applicants(1000, 0, 0.8)
    x = table[["age", "zone"]].assign(sex=(table["sex"] == "f").astype(int))
    return x, (table["paid"] == "yes").to_numpy().astype(int)


class Accepts(LogisticRegression):
    """Accepts by the first column, minus some of the second."""

    def __init__(self, second=0.0):
        super().__init__()
        self.second = second

    def fit(self, X, y):
        super().fit(X, y)
        self.coef_ = np.array([[1.0, -self.second, 0.0]])
        self.intercept_ = np.array([0.6 * self.second])
        return self


@pytest.mark.slow
def test_a_search_finds_the_fairer_model_in_frames_and_arrays(people):
    x, y = people
    by_name = likewise.scorer(may_matter=["age"], protected="sex")
    by_number = likewise.scorer(may_matter=[0], protected=2)
    found = []
    for scoring, form in ((by_name, x), (by_name, pl.from_pandas(x)), (by_number, x.to_numpy())):
        grid = {"second": [0.0, 0.5]}
        search = GridSearchCV(Accepts(), grid, scoring=scoring, cv=2, error_score="raise")
        fair, unfair = search.fit(form, y).cv_results_["mean_test_score"]
        assert search.best_params_ == {"second": 0.0}
        assert fair == 0
        found.append(unfair)
    assert found[0] == found[1] < -math.log(1.25)
    # Numbers of redraws depend on names of attributes, the rest is the same.
    assert found[0] == pytest.approx(found[2], abs=0.05)


def test_the_score_is_minus_the_largest_log_ratio_of_the_audit(people):
    x, y = people
    model = LogisticRegression().fit(x[["age", "zone"]], y)
    scoring = likewise.scorer(may_matter=["age"], protected=["sex"], favourable=1)
    assert clone(scoring).get_params() == scoring.get_params()
    score = scoring(model, x)
    how = {"protected": "sex", "may_matter": ["age"], "favourable": 1, "checks": "core"}
    part = likewise.audit(model, x, **how).record.matched_pairs
    assert score == -max(abs(math.log(row.ratio)) for row in part.comparisons)


def test_metadata_routing_passes_attributes_and_weights(people):
    x, y = people
    features, sex = x[["age", "zone"]], x["sex"].to_numpy()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = likewise.scorer(may_matter=["age"])
        routed.set_score_request(protected=True, sample_weight=True)
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=False),
        )
        how = {"scoring": {"fair": routed}, "refit": "fair", "cv": 2, "error_score": "raise"}
        search = GridSearchCV(pipeline, {"logisticregression__C": [1.0]}, **how)
        weights = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.0)
        search.fit(features, y, protected=sex, sample_weight=weights)
    assert -1.0 < search.cv_results_["mean_test_fair"][0] < -0.2
    # People of weight zero have no say.
    kept, model = x[weights > 0].reset_index(drop=True), LogisticRegression().fit(features, y)
    plain = likewise.scorer(may_matter=["age"], protected="sex")
    weighted = plain(model, x, y, sample_weight=weights)
    assert weighted == pytest.approx(plain(model, kept), abs=0.1)


def test_too_little_to_go_on_is_one_sentence(people):
    x, y = people
    model = LogisticRegression().fit(x[["age", "zone"]], y)
    with pytest.raises(InvalidSettings, match="no protected attributes"):
        likewise.scorer(may_matter=["age"])(model, x[["age", "zone"]])
    with pytest.raises(InvalidSettings, match="no columns that may matter"):
        likewise.scorer(may_matter=[], protected="sex")(model, x)
    with pytest.raises(InvalidModel, match="the estimator is a regressor"):
        likewise.scorer(may_matter=["zone"], protected="sex")(LinearRegression().fit(x, y), x)
    with pytest.raises(InvalidData, match="A fold of 8 people is too small"):
        likewise.scorer(may_matter=["age"], protected="sex")(model, x[:8])
    with pytest.raises(InvalidData, match="weights are not positive"):
        likewise.scorer(may_matter=["age"], protected="sex")(model, x, sample_weight=-y)
    with pytest.raises(InvalidData, match="has 1 dimensions"):
        likewise.scorer(may_matter=[0], protected=1)(model, y)
    scoring = likewise.scorer(may_matter=["agee"], protected="sex")
    with pytest.raises(InvalidData, match="agee"):
        cross_val_score(LogisticRegression(), x, y, scoring=scoring, cv=2, error_score="raise")
