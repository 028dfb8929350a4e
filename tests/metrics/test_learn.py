import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.linear_model import LogisticRegression

from likewise.audit_data import AuditData
from likewise.data import adult as read_adult
from likewise.errors import InvalidData, InvalidMetric, InvalidSettings, StatisticalWarning
from likewise.metrics.learn import bootstrap_refits, sensitive_subspace


def largest_angle(a, b):
    """Largest angle between two subspaces given by rows, in degrees."""
    return np.degrees(subspace_angles(np.asarray(a).T, np.asarray(b).T).max())


def people(rng, n=500, d=6, protected=None, **more):
    x = rng.normal(size=(n, d))
    if protected is None:
        protected = {"sex": np.where(x[:, 0] + x[:, 1] + rng.logistic(size=n) > 0, "M", "F")}
    return AuditData.from_arrays(x, np.arange(n) % 2, protected, **more)


def with_trait(data, name, column):
    return AuditData.from_arrays(
        data.x, data.y, {**data.protected, name: column}, features=data.features
    )


def test_two_classes_free_the_direction_of_the_logistic_regression(rng):
    data = people(rng)
    metric = sensitive_subspace(data, C=1.0, groups=0, placebos=0)
    fitted = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(
        data.x, data.protected["sex"]
    )
    assert largest_angle(metric.free, fitted.coef_) < 1e-5
    np.testing.assert_allclose(metric.directions, fitted.coef_, rtol=1e-6)
    assert metric.labels == ("sex: M against F",)


def test_several_classes_free_the_differences_of_their_coefficients(rng):
    data = people(rng)
    scores = data.x[:, :4] + rng.gumbel(size=(len(data), 4))
    race = np.array(["a", "b", "c", "d"], dtype=object)[scores.argmax(axis=1)]
    metric = sensitive_subspace(
        with_trait(data, "race", race), traits=["race"], C=1.0, groups=0, placebos=0
    )
    coefficients = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(data.x, race).coef_
    assert metric.free.shape == (3, 6)
    assert largest_angle(metric.free, (coefficients[1:] - coefficients[0])) < 1e-4


def test_a_number_frees_the_direction_of_its_ridge_regression(rng):
    data = people(rng)
    age = 40 + 10 * data.x[:, 2] + rng.normal(size=len(data))
    metric = sensitive_subspace(with_trait(data, "age", age), traits=["age"], groups=0, placebos=0)
    assert largest_angle(metric.free, np.eye(6)[2:3]) < 2
    (trait,) = metric.origin.traits
    assert trait.kind == "number"
    assert trait.before.r2 > 0.98
    assert trait.after.r2 < 0.05


def test_few_numbers_are_classes_unless_said_otherwise(rng):
    data = people(rng)
    band = np.digitize(data.x[:, 2] + rng.normal(size=len(data)), [-1.0, 0.0, 1.0])
    data = with_trait(data, "band", band)
    assert sensitive_subspace(data, traits=["band"], groups=0, placebos=0).free.shape[0] == 3
    told = sensitive_subspace(data, traits=["band"], kinds={"band": "number"}, groups=0, placebos=0)
    assert told.free.shape[0] == 1


def test_several_traits_are_learned_at_once_and_repeated_ones_add_nothing(rng):
    data = people(rng)
    opposite = np.where(data.protected["sex"] == "M", 0.0, 1.0)
    other = data.x[:, 3] + rng.normal(size=len(data)) > 0
    both = with_trait(data, "other", other)
    assert sensitive_subspace(both, groups=0, placebos=0).free.shape == (2, 6)
    again = with_trait(data, "opposite", opposite)
    alone = sensitive_subspace(data, groups=0, placebos=0)
    repeated = sensitive_subspace(again, groups=0, placebos=0)
    assert repeated.free.shape == (1, 6)
    assert largest_angle(repeated.free, alone.free) < 1e-5


def test_people_with_a_missing_trait_are_left_out_of_its_fit_and_counted(rng):
    data = people(rng)
    gaps = data.protected["sex"].astype(object)
    gaps[:100] = None
    metric = sensitive_subspace(with_trait(data, "sex", gaps), groups=0, placebos=0)
    part = sensitive_subspace(data.take(np.arange(100, 500)), groups=0, placebos=0)
    assert metric.origin.traits[0].missing == 100
    assert metric.origin.traits[0].n == 400
    assert largest_angle(metric.free, part.free) < 1e-5
    # The reach is that of everyone: who has no known sex still exists.
    assert metric.reach.radius != part.reach.radius


def test_only_the_proportions_of_weights_count(rng):
    x = rng.normal(size=(300, 4))
    sex = x[:, 0] + rng.logistic(size=300) > 0
    weight = rng.integers(1, 4, size=300).astype(float)

    def free(scale):
        data = AuditData.from_arrays(x, sex, {"sex": sex}, weight=scale * weight)
        return sensitive_subspace(data, groups=0, placebos=0)

    assert largest_angle(free(1).free, free(1000).free) < 1e-5
    assert (
        largest_angle(
            free(1).free,
            sensitive_subspace(
                AuditData.from_arrays(x, sex, {"sex": sex}), groups=0, placebos=0
            ).free,
        )
        > 0.1
    )
    assert free(1).origin.weighted


def test_a_trait_that_is_an_input_is_free_itself_and_regressed_on_the_rest(rng):
    # As in Appendix G: 4 directions of 7, two regressions on the 5 other features and two axes.
    sex = rng.random(600) < 0.3
    race = rng.random(600) < 0.5
    others = rng.normal(size=(600, 5)) + sex[:, None] * 0.5 + race[:, None] * np.arange(5) / 4
    x = np.column_stack([sex, race, others])
    names = ["sex", "race=1", "a", "b", "c", "d", "e"]
    data = AuditData.from_arrays(x, sex, {"sex": sex, "race": race}, features=names)
    metric = sensitive_subspace(data, C=1.0, groups=0, placebos=0)
    expected = [np.eye(7)[0], np.eye(7)[1]]
    for trait in (sex, race):
        fitted = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(others, trait)
        expected.append(np.append([0.0, 0.0], fitted.coef_[0]))
    assert metric.free.shape == (4, 7)
    assert largest_angle(metric.free, expected) < 1e-4
    assert metric.origin.traits[0].inputs == ("sex",)
    assert metric.origin.traits[1].inputs == ("race=1",)


def test_separable_repeated_and_constant_columns_are_handled(rng):
    x = rng.normal(size=(200, 3))
    sex = x[:, 0] > 0
    x = np.column_stack([x, x[:, 0], np.ones(200), np.zeros(200)])
    metric = sensitive_subspace(AuditData.from_arrays(x, sex, {"sex": sex}))
    assert metric.free.shape == (1, 6)
    assert np.abs(metric.free[0, 4:]).max() == 0
    assert len(metric.refits) == 10


def test_a_trait_that_nothing_predicts_frees_nothing_and_says_so(rng):
    x = np.ones((100, 2))
    sex = np.arange(100) % 2
    with pytest.warns(StatisticalWarning, match="no direction is free"):
        metric = sensitive_subspace(AuditData.from_arrays(x, sex, {"sex": sex}))
    assert metric.free.shape == (0, 2)


def test_how_well_the_trait_is_predicted_is_recorded_before_and_after(rng):
    data = people(rng, n=2000)
    (trait,) = sensitive_subspace(data, groups=0, placebos=0).origin.traits
    assert trait.before.auc > 0.75
    # Independent features: nothing is left but overfitting six columns to 2000 people.
    assert 0.5 <= trait.after.auc < 0.56
    assert trait.before.accuracy > trait.after.accuracy
    assert trait.gradient < 1e-10


def test_the_origin_says_what_the_metric_was_learned_from(rng):
    data = people(rng)
    origin = sensitive_subspace(data, C=0.5, seed=7).origin
    assert origin.data == data.fingerprint()
    assert (origin.n, origin.C, origin.seed, origin.solver) == (500, 0.5, 7, "newton")
    assert origin.tolerance <= 1e-8


def test_printing_a_learned_metric_shows_angles_and_predictions_in_80_columns(rng):
    text = str(sensitive_subspace(people(rng, features=[f"long-name-{j}" for j in range(6)])))
    assert "sex: M against F: long-name-" in text
    assert "AUC 0." in text
    assert "without the free directions" in text
    assert max(map(len, text.splitlines())) <= 80


def test_each_refit_is_the_metric_of_the_people_kept(rng):
    data = people(rng)
    metric = sensitive_subspace(data, seed=3)
    assert np.bincount(metric.groups).tolist() == [50] * 10
    for g, refit in enumerate(metric.refits):
        # The penalty a person is that of the whole sample: only people are left out.
        chosen = metric.origin.traits[0].penalty
        kept = sensitive_subspace(
            data.take(metric.groups != g), penalty=chosen, groups=0, placebos=0
        )
        assert largest_angle(refit.free, kept.free) < 1e-4
        assert refit.reach.radius == pytest.approx(kept.reach.radius, rel=1e-6)


def test_refits_survive_the_loss_of_a_rare_class(rng):
    data = people(rng)
    race = np.array(["a", "b"], dtype=object)[(data.x[:, 0] > 0).astype(int)]
    race[5] = "only one"
    metric = sensitive_subspace(with_trait(data, "race", race), traits=["race"])
    assert sorted({refit.free.shape[0] for refit in metric.refits}) == [1, 2]


def test_bootstrap_refits_learn_from_resampled_people(rng):
    data = people(rng, n=200)
    metric = sensitive_subspace(data)
    resamples = bootstrap_refits(data, metric, B=5, seed=1)
    for resample in resamples:
        assert resample.times.sum() == 200
        rows = np.repeat(np.arange(200), resample.times)
        chosen = metric.origin.traits[0].penalty
        again = sensitive_subspace(data.take(rows), penalty=chosen, groups=0, placebos=0)
        assert largest_angle(resample.metric.free, again.free) < 1e-4
        assert resample.metric.reach.radius == pytest.approx(again.reach.radius, rel=1e-6)


def test_bootstrap_draws_whole_clusters(rng):
    cluster = np.repeat(np.arange(50), 4)
    data = people(rng, n=200, cluster=cluster)
    (resample,) = bootstrap_refits(data, sensitive_subspace(data), B=1)
    assert (resample.times.reshape(50, 4) == resample.times[::4, None]).all()
    assert resample.times.max() > 1


def test_bootstrap_needs_the_very_sample(rng):
    data = people(rng)
    metric = sensitive_subspace(data)
    with pytest.raises(InvalidMetric, match="very sample"):
        bootstrap_refits(data.take(np.arange(400)), metric, B=1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array(["M"] * 500), "'sex' is 'M' for everyone"),
        (np.full(500, np.nan), "'sex' is missing for everyone"),
        (np.array([f"name {i}" for i in range(500)]), "500 different values"),
        (np.where(np.arange(500) > 480, np.inf, np.arange(500.0)), "infinite values"),
    ],
)
def test_a_trait_nothing_can_be_learned_from_is_refused_in_a_sentence(rng, column, message):
    with pytest.raises(InvalidMetric, match=message):
        sensitive_subspace(people(rng, protected={"sex": column}))


def test_bad_requests_are_refused_in_a_sentence(rng):
    data = people(rng)
    with pytest.raises(InvalidData, match=r"no protected trait 'sexx'.*Did you mean 'sex'\?"):
        sensitive_subspace(data, traits=["sexx"])
    with pytest.raises(InvalidMetric, match="no protected trait to learn"):
        sensitive_subspace(people(rng, protected={}))
    with pytest.raises(InvalidSettings, match="C must be a positive number, not 0"):
        sensitive_subspace(data, C=0)
    with pytest.raises(InvalidSettings, match="at least 2, not 1"):
        sensitive_subspace(data, groups=1)
    with pytest.raises(InvalidMetric, match="cannot be a number"):
        sensitive_subspace(data, kinds={"sex": "number"})
    with pytest.raises(InvalidMetric, match="not 'colour'"):
        sensitive_subspace(data, kinds={"sex": "colour"})
    empty = AuditData.from_arrays(np.zeros((5, 0)), np.arange(5) % 2, np.arange(5) % 2)
    with pytest.raises(InvalidMetric, match="no feature columns"):
        sensitive_subspace(empty)


def test_progress_is_told(rng):
    told = []
    sensitive_subspace(
        people(rng), groups=3, progress=lambda done, total: told.append(done / total)
    )
    assert told == [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.usefixtures("adult")  # skips where the data cannot be had
def test_the_subspace_of_adult_is_the_published_one(reference):
    basis = np.load(reference / "adult_split_98539.npz")["basis"]
    split = read_adult(98539)
    metric = sensitive_subspace(split.test, C=1.0)
    assert largest_angle(metric.free, basis) < 0.2
    # FACTS: the train- and test-fitted subspaces of the ten splits differ by 20 to 55 degrees.
    assert (
        20
        < largest_angle(sensitive_subspace(split.train, C=1.0, groups=0, placebos=0).free, basis)
        < 55
    )


def test_compas_has_four_free_directions(compas):
    # Appendix G: the model sees sex and race, so their axes are free, beside two regressions.
    metric = sensitive_subspace(compas.train)
    assert metric.free.shape == (4, 7)
    assert largest_angle(metric.free, [*metric.free, np.eye(7)[0], np.eye(7)[1]]) < 1e-5
    assert len(metric.refits) == 10


@pytest.mark.parametrize("scaled", [False, True])
def test_one_hot_columns_without_names_are_recognised_by_their_values(rng, scaled):
    race, age = rng.integers(0, 3, 300), rng.normal(40, 10, 300)
    rare = (np.arange(300) < 3).astype(float)  # a class of its own below: too few to be sure
    own = np.column_stack([np.eye(3)[race], age])
    x = np.column_stack([rng.normal(size=(300, 2)), own, rare])
    x = (x - x.mean(axis=0)) / x.std(axis=0) if scaled else x
    protected = {"race": race, "age": age, "few": np.where(rare, "a", "b")}
    data = AuditData.from_arrays(x, np.arange(300) % 2, protected)
    origin = sensitive_subspace(data, groups=0, placebos=0).origin
    found = {trait.name: trait.inputs for trait in origin.traits}
    assert found == {"race": data.features[2:5], "age": data.features[5:6], "few": ()}


def test_a_column_that_says_a_trait_but_for_one_person_is_a_column_like_others(rng):
    race = rng.integers(0, 2, 300)
    seen = race.astype(float)
    seen[7] = 1 - seen[7]
    x = np.column_stack([rng.normal(size=(300, 2)), seen])
    data = AuditData.from_arrays(x, np.arange(300) % 2, {"race": race})
    (trait,) = sensitive_subspace(data, groups=0, placebos=0).origin.traits
    assert trait.inputs == ()
