"""Choices made in Python, in a settings file or by a flag are the same, and are written down."""

import dataclasses

import numpy as np
import pytest
import torch

import likewise
from likewise.errors import InvalidSettings
from likewise.maps.feasible import Feasible
from likewise.settings import Settings

CORE = Settings(checks="core")
W = np.array([1.0, 0.8, -0.6])


def people(n=300, seed=0):
    """People with a whole number, which carries their trait, and two other features."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    x = np.column_stack([rng.integers(0, 3, n) + group, rng.normal(size=(n, 2))])
    y = (x @ W + rng.normal(size=n) > 1).astype(int)
    return likewise.AuditData.from_arrays(x, y, {"group": group})


@pytest.fixture(scope="module")
def metric():
    return likewise.sensitive_subspace(people(seed=1), groups=0, placebos=0)


def linear():
    model = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        model.weight[:], model.bias[:] = torch.from_numpy(W), -1.0
    return likewise.as_model(model)


def audit(metric, map=None, settings=CORE, **more):
    return likewise.audit(linear(), people(), metric=metric, map=map, settings=settings, **more)


@pytest.mark.parametrize("wrap", [lambda map: map, lambda map: likewise.Worst((map,))])
def test_a_feasible_search_in_python_is_that_of_the_settings(metric, wrap):
    by_hand = audit(metric, wrap(likewise.Reach(feasible=True)))
    by_file = audit(metric, settings=CORE.changed(map="reach", map__feasible=True))
    noted = by_hand.record.settings.map
    assert noted.get("feasible") or noted.get("maps")[0]["feasible"]
    assert np.array_equal(by_hand.outcomes.loss_after, by_file.outcomes.loss_after)
    whole = [case.after["x0"] for case in by_hand.worst(100)]
    assert set(whole) <= {0.0, 1.0, 2.0, 3.0}


def test_a_search_that_need_not_be_feasible_says_so(metric):
    assert likewise.Reach(feasible=False).feasible is False
    result = audit(metric, likewise.Reach(feasible=False))
    assert not result.record.settings.map.get("feasible")


def test_what_is_feasible_cannot_be_learned_from_nobody(metric):
    model = linear()
    with pytest.raises(InvalidSettings, match="learned from people"):
        likewise.Reach(feasible=True).bind(model, metric)
    data = people()
    likewise.Reach(feasible=Feasible.of(data.x)).bind(model, metric)


@pytest.mark.slow
def test_the_papers_simulation_is_written_down_as_it_was_run(metric):
    by_hand = audit(metric, likewise.GradientFlow.paper_simulation())
    by_file = audit(metric, settings=CORE.changed(map__schedule="paper_simulation"))
    flow = by_file.record.settings.map
    # The steps 0.02/k^(2/3) add up to 0.39, and their price is 100.
    assert flow.get("lam") == 100
    assert flow.get("time") == pytest.approx(sum(0.02 / k ** (2 / 3) for k in range(1, 401)))
    assert "λ = 100, T = 0.39" in by_file.summary()
    assert by_file.record.settings_hash == by_hand.record.settings_hash
    assert np.array_equal(by_file.outcomes.loss_after, by_hand.outcomes.loss_after)
    again = audit(metric, settings=by_file.record.settings)
    assert again.record.settings_hash == by_file.record.settings_hash
    assert np.array_equal(again.outcomes.loss_after, by_file.outcomes.loss_after)


def test_the_time_is_the_sum_of_steps_that_are_given(metric):
    settings = CORE.changed(map__solver="exponential4", map__steps=(0.1, 0.2, 0.4))
    result = audit(metric, settings=settings)
    assert result.record.settings.map.get("time") == pytest.approx(0.7)
    assert "T = 0.7" in result.summary()


def test_a_priced_step_is_a_setting_and_a_choice_in_python(metric):
    by_hand = audit(metric, likewise.Reach(price=5.0))
    by_file = audit(metric, settings=CORE.changed(map="reach", map__price=5.0))
    without = audit(metric, likewise.Reach())
    assert by_hand.record.settings.map.get("price") == 5
    assert by_hand.record.settings_hash == by_file.record.settings_hash
    assert by_hand.record.settings_hash != without.record.settings_hash
    assert np.array_equal(by_hand.outcomes.loss_after, by_file.outcomes.loss_after)
    assert by_hand.outcomes.loss_after.mean() > without.outcomes.loss_after.mean()


def test_a_reach_that_was_handed_over_is_noted_by_its_hash(metric):
    wider = dataclasses.replace(metric.reach, radius=2 * metric.reach.radius)
    maps = [likewise.Reach(within=within) for within in (None, metric.reach, wider)]
    found = [audit(metric, map).record for map in maps]
    assert found[0].tests["loss_ratio"].estimate == found[1].tests["loss_ratio"].estimate
    assert len({record.settings_hash for record in found}) == 3
    flow = audit(metric, likewise.GradientFlow(reach=wider)).record.settings.map
    assert flow.get("reach") == found[2].settings.map.get("within")
    with pytest.raises(InvalidSettings, match="handed over"):
        audit(metric, settings=found[2].settings)


def test_the_interval_of_the_error_rates_is_noted(metric):
    def noted(*tests):
        return audit(metric, likewise.Reach(), tests=tests).record

    def interval(record):
        return record.settings.tests.params("error_rate_ratio")["interval"]

    loss, exact = likewise.LossRatioTest(), likewise.ErrorRateRatioTest(interval="exact")
    assert interval(noted(loss, exact)) == "exact"
    assert interval(noted(loss, likewise.ErrorRateRatioTest())) == "auto"
    paper = [test(interval="paper") for test in (type(loss), type(exact))]
    by_file = audit(metric, likewise.Reach(), CORE.changed(decide__interval="paper")).record
    assert noted(*paper).settings_hash == by_file.settings_hash
    other = CORE.changed(tests__error_rate_ratio__interval="exact")
    by_file = audit(metric, likewise.Reach(), other).record
    assert by_file.tests == noted(loss, exact).tests
    assert by_file.settings_hash == noted(loss, exact).settings_hash
    assert by_file.tests["error_rate_ratio"].method.startswith("exact")


def test_the_seed_is_that_of_the_bootstrap_too(metric):
    settings = CORE.changed(decide__interval="bootstrap_t", decide__metric="fixed")
    one, two = (audit(metric, settings=settings.changed(seed=seed)).record for seed in (0, 1))
    assert one.tests["loss_ratio"].estimate == two.tests["loss_ratio"].estimate
    assert one.tests["loss_ratio"].lower_bound != two.tests["loss_ratio"].lower_bound
    beside = [
        next(t for t in audit(metric, settings=CORE.changed(seed=s)).record.beside
             if t.method == "bootstrap-t")
        for s in (0, 1)
    ]  # fmt: skip
    # What decides allows for the numerical error too, far less than the seeds differ.
    for shown, decided in zip(beside, (one, two), strict=True):
        test = decided.tests["loss_ratio"]
        assert 0 <= shown.lower_bound - test.lower_bound < 0.02 * test.std_error


@pytest.mark.parametrize("test", ["mean_loss_ratio", "error_rate_ratio"])
def test_what_does_not_suit_the_task_is_refused_before_anybody_moves(metric, test):
    line = likewise.as_model(torch.nn.Linear(3, 1).double(), output="values")
    model = linear() if test == "mean_loss_ratio" else line
    with pytest.raises(InvalidSettings, match=test):
        likewise.audit(model, people(), metric=metric, settings=CORE.changed(decide__test=test))
    bootstrap = CORE.changed(decide__interval="bootstrap_t")
    with pytest.raises(InvalidSettings, match="bootstrap-t"):
        likewise.audit(line, people(), metric=metric, settings=bootstrap)
