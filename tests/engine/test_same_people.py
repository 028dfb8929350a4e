"""The people a metric was learned from are recognised in any order, and with some missing."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.metrics.metric_file import load_metric, save_metric
from likewise.metrics.origin import LearnedFrom, hashes_of
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

CORE = Settings(checks="core", map="reach", metric={"placebos": 0})


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4))
    sex = (x[:, 0] + rng.logistic(size=600) > 0).astype(int)
    y = (x[:, 0] + x[:, 1] + rng.logistic(size=600) > 0).astype(int)
    people = likewise.AuditData.from_arrays(x, y, {"sex": sex})
    model = LogisticRegression().fit(x, y)
    return model, people, likewise.sensitive_subspace(people, placebos=0)


def refits(model, people, metric):
    record = likewise.audit(model, people, metric=metric, settings=CORE).record
    return record.metric.same_sample, record.refits["loss_ratio"].std_error_refitted


def test_another_order_of_rows_changes_nothing(world, tmp_path):
    model, people, metric = world
    save_metric(metric, tmp_path / "metric.safetensors")
    again = load_metric(tmp_path / "metric.safetensors")
    order = np.random.default_rng(0).permutation(600)
    same, error = refits(model, people, metric)
    shuffled, shuffled_error = refits(model, people.take(order), again)
    assert same
    assert shuffled
    assert shuffled_error == pytest.approx(error, rel=1e-6)


def test_a_missing_row_does_not_make_them_strangers(world):
    model, people, metric = world
    same, error = refits(model, people.take(np.arange(1, 600)), metric)
    assert same
    assert error == pytest.approx(refits(model, people, metric)[1], rel=0.1)


def test_other_people_are_strangers(world):
    model, people, metric = world
    others = dataclasses.replace(people, x=people.x + 0.01)
    assert not refits(model, others, metric)[0]


def test_an_old_metric_knows_only_the_very_rows(world):
    model, people, metric = world
    old = dataclasses.replace(metric, learned_from=None)
    assert refits(model, people, old)[0]
    assert not refits(model, people.take(np.arange(599, -1, -1)), old)[0]


def test_strangers_are_dealt_evenly_and_acquaintances_keep_their_group(world):
    _, people, metric = world
    known = LearnedFrom.of(people)
    assert (known.groups_of(hashes_of(people), metric.groups) == metric.groups).all()
    strangers = dataclasses.replace(people, x=people.x + 1)
    dealt = np.bincount(known.groups_of(hashes_of(strangers), metric.groups), minlength=10)
    # 600 in ten groups: 60 each, with a standard deviation of 7.3.
    assert dealt.min() > 30
    assert dealt.max() < 90
