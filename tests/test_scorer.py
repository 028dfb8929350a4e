"""The scorer in scikit-learn's searches."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import likewise
from likewise.errors import InvalidData, InvalidSettings


@pytest.fixture(scope="module")
def people():
    """Return people whose label leans on a zone that goes with sex."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 1000)
    x = pd.DataFrame({"age": rng.normal(size=1000), "zone": rng.normal(size=1000) + 1.2 * sex})
    y = rng.random(1000) < 1 / (1 + np.exp(-(1.5 * x["age"] - 0.8 * (x["zone"] - 0.6))))
    return x.assign(sex=sex), y.to_numpy().astype(int)


class Accepts(ClassifierMixin, BaseEstimator):
    """Accepts by the first column, minus some of the second."""

    def __init__(self, second=0.0):
        self.second = second

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        return self

    def predict_proba(self, X):
        x = np.asarray(X, dtype=float)
        p = 1 / (1 + np.exp(self.second * (x[:, 1] - 0.6) - x[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def searched(estimator, grid, scoring, x, y, **params):
    search = GridSearchCV(estimator, grid, scoring=scoring, cv=2, error_score="raise")
    return search.fit(x, y, **params)


def test_a_search_finds_the_fairer_model_in_frames_and_arrays(people):
    x, y = people
    by_name = likewise.scorer(may_matter=["age"], protected="sex")
    by_number = likewise.scorer(may_matter=[0], protected=2)
    grid = {"second": [0.0, 0.5]}
    found = [
        searched(Accepts(), grid, scoring, form, y)
        for scoring, form in ((by_name, x), (by_name, pl.from_pandas(x)), (by_number, x.to_numpy()))
    ]
    for search in found:
        fair, unfair = search.cv_results_["mean_test_score"]
        assert search.best_params_ == {"second": 0.0}
        assert fair == 0
        assert unfair < -math.log(1.25)
    # Numbers of redraws depend on names of attributes, the rest is the same.
    first, second, third = (search.cv_results_["mean_test_score"][1] for search in found)
    assert first == second
    assert first == pytest.approx(third, abs=0.05)


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
    plain = likewise.scorer(may_matter=["age"], protected="sex")
    model = LogisticRegression().fit(features, y)
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
    kept = weights > 0
    weighted = plain(model, x, y, sample_weight=weights)
    assert weighted == pytest.approx(plain(model, x[kept].reset_index(drop=True)), abs=0.1)


def test_too_little_to_go_on_is_one_sentence(people):
    x, y = people
    model = LogisticRegression().fit(x[["age", "zone"]], y)
    with pytest.raises(InvalidSettings, match="no protected attributes"):
        likewise.scorer(may_matter=["age"])(model, x[["age", "zone"]])
    with pytest.raises(InvalidData, match="A fold of 8 people is too small"):
        likewise.scorer(may_matter=["age"], protected="sex")(model, x[:8])
    with pytest.raises(InvalidData, match="has 1 dimensions"):
        likewise.scorer(may_matter=[0], protected=1)(model, y)
    scoring = likewise.scorer(may_matter=["agee"], protected="sex")
    with pytest.raises(InvalidData, match="agee"):
        cross_val_score(LogisticRegression(), x, y, scoring=scoring, cv=2, error_score="raise")
