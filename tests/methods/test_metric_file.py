import dataclasses
import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from likewise.audit_data import AuditData
from likewise.errors import InvalidFile, InvalidMetric
from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.metric import FairMetric, QuadraticMetric, as_metric, ignoring
from likewise.methods.metric_file import (
    KEY,
    check_belongs,
    load_metric,
    metric_fingerprint,
    save_metric,
)


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5))
    protected = {
        "sex": np.where(x[:, 0] + rng.normal(size=120) > 0, "M", "F"),
        "age": x[:, 1] * 10 + rng.normal(size=120),
    }
    metric = sensitive_subspace(AuditData.from_arrays(x, np.arange(120) % 2, protected))
    return dataclasses.replace(metric, attached={"encoder": '{"a": 1}'})


PEOPLE = np.random.default_rng(0).normal(size=(20, 2))


def blocks(scale):
    return lambda x, x0: scale * np.abs(x - x0).sum(axis=1) ** 2


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metric.safetensors"


def rewrite(path, change):
    """Change the description inside a file, leaving its numbers as they are."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()[KEY])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays, path, {KEY: change(about) or json.dumps(about)})


def test_a_learned_metric_comes_back_as_it_was(learned, path):
    save_metric(learned, path)
    again = load_metric(path)
    for name in ("free", "directions", "cuts", "sketch"):
        assert np.array_equal(getattr(again, name), getattr(learned, name))
    for name in ("features", "labels", "origin", "attached"):
        assert getattr(again, name) == getattr(learned, name)
    parts = [(m.refits, m.coarse_refits, m.controls) for m in (again, learned)]
    assert [len(part) for part in parts[0]] == [20, 10, 39]
    pairs = zip(sum(parts[0], (again,)), sum(parts[1], (learned,)), strict=True)
    for mine, theirs in pairs:
        assert np.array_equal(mine.free, theirs.free)
        assert np.array_equal(mine.reach.axes, theirs.reach.axes)
    assert str(again) == str(learned)


def test_the_fingerprint_is_of_the_metric_alone_and_survives_a_file(learned, path):
    bare = dataclasses.replace(learned, attached={})
    other = dataclasses.replace(learned, free=learned.free[::-1])
    assert metric_fingerprint(bare) == metric_fingerprint(learned) != metric_fingerprint(other)
    # That of a function is what it does.
    one, same, twice = (as_metric(blocks(scale), PEOPLE) for scale in (1.0, 1.0, 2.0))
    assert metric_fingerprint(one) == metric_fingerprint(same) != metric_fingerprint(twice)
    matrix = QuadraticMetric(np.diag([1.0, 0.0]), ("a", "b"))
    for metric in (matrix, ignoring([[1.0, 1.0]]), ignoring([[0, 0]])):
        save_metric(metric, path)
        assert metric_fingerprint(load_metric(path)) == metric_fingerprint(metric)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about.update(format=3), "another version; upgrade likewise, or learn"),
        (lambda about: about.update(surprise=1), "surprise"),
        (lambda about: about.update(features=["a"]), "1 feature names for 5 columns"),
        (lambda about: about.update(labels=[]), "labels"),
        (lambda about: about.update(kind="quadratic"), "sigma"),
        (lambda about: about["origin"].update(trust="me"), "trust"),
        (lambda about: "[" * 100_000, "."),
        (lambda about: '{"format": ' + "9" * 5000 + "}", "."),
    ],
)
def test_a_file_whose_description_does_not_fit_is_refused_in_a_sentence(
    learned, path, change, message
):
    save_metric(learned, path)
    rewrite(path, change)
    with pytest.raises(InvalidFile, match=message) as caught:
        load_metric(path)
    assert len(str(caught.value)) < 500


def test_files_of_another_kind_are_refused_in_a_sentence(learned, tmp_path, path):
    with pytest.raises(InvalidFile, match="cannot be written"):
        save_metric(learned, tmp_path / "no" / "folder")
    with pytest.raises(InvalidFile, match="There is no file"):
        load_metric(path)
    with pytest.raises(InvalidFile, match="cannot be read"):
        load_metric(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InvalidFile, match="damaged or no safetensors"):
        load_metric(path)
    projection = {KEY: '{"format": 4, "kind": "projection"}'}
    region = {"reach.mean": np.zeros(2), "reach.covariance": np.eye(2)}
    hashes, whole = np.array([2, 1], np.uint64), {"free": np.eye(2)}
    for arrays, about, message in [
        (whole, None, "holds no fair metric"),
        ({}, projection, "no numbers 'free'"),
        ({"free": np.eye(2, dtype=np.float32)}, projection, "of another type"),
        ({"free": np.ones(2)}, projection, "'free' have no proper shape"),
        ({"free": np.full((1, 2), np.nan)}, projection, "not finite"),
        (whole | region | {"reach.size": np.array([-1, 0.99])}, projection, "a radius ≥ 0"),
        (whole | region | {"reach.size": np.ones(3)}, projection, "too many values"),
        (whole | region, projection, "no numbers 'reach.size'"),
        (whole | {"cuts": hashes[1:]}, projection, "groups do not go together"),
        (whole | {"sketch": hashes}, projection, "not in order"),
        (whole | {"controls.1.free": np.eye(2)}, projection, "'controls.1.free' belong nowhere"),
    ]:
        save_file(arrays, path, about)
        with pytest.raises(InvalidFile, match=message):
            load_metric(path)


def test_only_quadratic_metrics_can_be_saved(path):
    class Odd(FairMetric):
        def squared_distance(self, x, x0):
            return np.abs(x - x0).sum(axis=1)

    with pytest.raises(InvalidMetric, match=r"'Odd' cannot be saved.*metric.name"):
        save_metric(Odd(), path)
    with pytest.raises(InvalidMetric, match=r"lambda>' cannot be saved: files hold matrices"):
        save_metric(as_metric(blocks(1.0), PEOPLE), path)
    # One that is a quadratic form is a matrix, and that is saved.
    save_metric(as_metric(lambda x, x0: ((x - x0) ** 2).sum(axis=1), PEOPLE), path)
    np.testing.assert_allclose(load_metric(path).sigma, np.eye(2), atol=1e-12)


def test_a_metric_of_other_features_is_refused_in_a_sentence():
    metric = ignoring([[1.0, 0.0]], ["age", "hours"])
    with pytest.raises(InvalidMetric, match="made for 2 features, but there are 3"):
        check_belongs(metric, ["age", "hours", "gain"])
    for features in (["age", "gain"], ["hours", "age"]):
        with pytest.raises(InvalidMetric, match=r"or for another order.*'(age|hours)' there and"):
            check_belongs(metric, features)
