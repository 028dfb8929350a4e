import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import subspace_angles

from likewise.audit_data import AuditData
from likewise.errors import InvalidMetric
from likewise.methods.learn_metric import (
    Sample,
    kept_features,
    permutation,
    sensitive_subspace,
)


def people(rng, n=300, d=5, **more):
    x = rng.normal(size=(n, d))
    protected = {
        "sex": np.where(x[:, 0] + rng.logistic(size=n) > 0, "M", "F"),
        "race": rng.choice(["a", "b", "c"], size=n),
        "age": 40 + 10 * x[:, 1] + rng.normal(size=n),
    }
    return AuditData.from_arrays(x, np.arange(n) % 2, protected, **more)


def sample_of(data, names=None):
    return Sample.of(data, names, {}, (), lambda total: 1.0)


def with_traits(data, order):
    traits = {name: column[order] for name, column in data.protected.items()}
    return AuditData.from_arrays(data.x, data.y, traits, weight=data.weight, cluster=data.cluster)


def test_a_placebo_is_the_metric_learned_from_permuted_attributes(rng):
    data = people(rng, weight=rng.exponential(size=300) + 0.1)
    metric = sensitive_subspace(data, groups=0, placebos=3, seed=4)
    sample = sample_of(data)
    for b, placebo in enumerate(metric.placebos):
        order = permutation(sample, np.random.default_rng([4, 2, b]))
        assert sorted(order) == list(range(300))
        again = sensitive_subspace(with_traits(data, order), groups=0, placebos=0, seed=4)
        assert placebo.free.shape == (4, 5)
        assert np.degrees(subspace_angles(placebo.free.T, again.free.T)).max() < 1e-5
        assert placebo.reach.radius == pytest.approx(again.reach.radius, rel=1e-5)


def test_missing_traits_move_with_the_rest_of_their_row(rng):
    data = people(rng)
    race = data.protected["race"].astype(object)
    race[:60] = None
    data = AuditData.from_arrays(data.x, data.y, {**data.protected, "race": race})
    metric = sensitive_subspace(data, groups=0, placebos=2, seed=1)
    order = permutation(sample_of(data), np.random.default_rng([1, 2, 0]))
    again = sensitive_subspace(with_traits(data, order), groups=0, placebos=0, seed=1)
    assert np.degrees(subspace_angles(metric.placebos[0].free.T, again.free.T)).max() < 1e-3


def test_traits_of_whole_clusters_are_exchanged_between_clusters(rng):
    cluster = np.repeat(np.arange(100), 3)
    x = rng.normal(size=(300, 2))
    sex = (np.arange(100) % 2)[cluster]
    data = AuditData.from_arrays(x, sex, {"sex": sex}, cluster=cluster)
    order = permutation(sample_of(data), rng)
    moved = sex[order].reshape(100, 3)
    assert (moved == moved[:, :1]).all()
    assert moved[:, 0].sum() == 50
    assert (moved[:, 0] != np.arange(100) % 2).any()


def test_traits_that_differ_within_clusters_are_exchanged_there(rng):
    cluster = rng.integers(0, 60, size=300)
    sex = rng.integers(0, 2, size=300)
    data = AuditData.from_arrays(rng.normal(size=(300, 2)), sex, {"sex": sex}, cluster=cluster)
    order = permutation(sample_of(data), rng)
    assert sorted(order) == list(range(300))
    assert (cluster[order] == cluster).all()
    assert (order != np.arange(300)).any()


def test_placebos_depend_on_the_seed_and_on_nothing_else(rng):
    data = people(rng)
    one, again = (sensitive_subspace(data, groups=0, placebos=2, seed=5) for _ in range(2))
    other = sensitive_subspace(data, groups=0, placebos=2, seed=6)
    assert np.array_equal(one.placebos[1].free, again.placebos[1].free)
    assert not np.allclose(one.placebos[1].free, other.placebos[1].free)


def test_with_the_papers_penalty_placebos_have_it_too(rng):
    data = people(rng)
    metric = sensitive_subspace(data, protected=["sex"], C=1.0, groups=0, placebos=1, seed=3)
    sample = sample_of(data, ["sex"])
    order = permutation(sample, np.random.default_rng([3, 2, 0]))
    again = sensitive_subspace(
        with_traits(data, order), protected=["sex"], C=1.0, groups=0, placebos=0
    )
    assert np.degrees(subspace_angles(metric.placebos[0].free.T, again.free.T)).max() < 1e-5


def test_a_trait_that_is_an_input_stays_free_in_placebos(rng):
    sex = (rng.random(200) < 0.5).astype(float)
    x = np.column_stack([sex, rng.normal(size=(200, 3))])
    data = AuditData.from_arrays(x, sex, {"sex": sex}, features=["sex", "a", "b", "c"])
    for placebo in sensitive_subspace(data, placebos=3).placebos:
        assert placebo.free.shape == (2, 4)
        assert np.linalg.norm(placebo.free @ np.eye(4)[0]) == pytest.approx(1)


def test_nobody_moves_along_what_may_matter(rng):
    n = 2000
    age = rng.normal(size=n)
    sex = age + rng.logistic(size=n) > 0
    # b goes with age only, c with sex itself.
    x = np.column_stack([age, age + 0.3 * rng.normal(size=n), sex + rng.normal(size=n)])
    data = AuditData.from_arrays(x, sex, {"sex": sex}, features=["age", "b", "c"])
    free = sensitive_subspace(data, groups=2, placebos=2)
    held = sensitive_subspace(data, groups=2, placebos=2, may_matter=["age"])
    assert np.abs(free.free[0, :2]).max() > 0.4
    for metric in (held, *held.refits, *held.placebos):
        assert np.abs(metric.free[:, 0]).max() == 0
    # Given age, b says nothing of sex: a residual sd of .3 and 2000 people leave about ± .2.
    assert abs(held.free[0, 2]) > 0.95
    assert held.origin.may_matter == ("age",)


def test_a_category_that_may_matter_stands_for_the_features_a_pipeline_made_of_it():
    features = ["num__age", "cat__zone_Bern", "cat__zone_Genf", "num__zone_size", "cat__job_Bern"]
    table = pa.table({"age": [1.0, 2.0], "zone": ["Bern", "Genf"], "zone_size": [3, 4]})
    assert kept_features(features, ["age", "zone"], table) == [0, 1, 2]
    with pytest.raises(InvalidMetric, match="no feature 'zone'"):
        kept_features(features, ["zone"])
