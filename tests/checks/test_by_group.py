"""Audit values by group: simultaneous intervals, small cells, and nobody left out."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm, t
from statsmodels.stats.multitest import multipletests

from helpers import mean_of_ratios, outcomes_of, ratio_of_means
from likewise.methods.decide import by_group
from likewise.settings import Settings
from likewise.stats.estimate import hall, restored
from likewise.stats.tally import Tally


def audited(ratio, groups, errors=(None, None), **extra):
    """Outcomes with these ratios, and errors before and after if given."""
    columns = {name: np.array(values, dtype=object) for name, values in groups.items()}
    wrong = {"wrong_before": errors[0], "wrong_after": errors[1]}
    return outcomes_of(ratio, **wrong, groups=columns, **extra)


def people(rng, n=900, **extra):
    sex = rng.choice(["F", "M"], n, p=[0.4, 0.6])
    race = rng.choice(["A", "B", "W"], n, p=[0.03, 0.17, 0.8]).astype(object)
    race[rng.random(n) < 0.05] = None
    ratio = 1 + rng.exponential(0.25, n) * np.where(sex == "F", 1.6, 1.0)
    wrong = rng.random(n) < 0.2
    after = wrong | (rng.random(n) < 0.1)
    about = {"monotone": True, "task": "classification"} | extra.pop("about", {})
    return audited(ratio, {"sex": sex, "race": race}, (wrong, after), about=about, **extra)


def by_name(lines):
    return {f"{line.attribute}: {line.group}": line for line in lines}


@pytest.mark.parametrize("weighted", [False, True])
def test_a_groups_value_is_that_of_the_audit_of_its_people(rng, weighted):
    more = {}
    if weighted:
        more = {"weight": rng.uniform(0.5, 3, 900), "cluster": rng.integers(0, 300, 900)}
    outcomes = people(rng, **more)
    line = by_name(by_group(Tally.from_outcomes(outcomes), Settings()))["sex: F"]
    rows = outcomes.groups["sex"] == "F"
    own = {name: values[rows] for name, values in more.items()}
    expected = mean_of_ratios(outcomes.ratio[rows], **own)
    assert line.n == rows.sum()
    assert line.estimate == pytest.approx(expected.value, rel=1e-12)
    assert line.std_error == pytest.approx(expected.std_error, rel=1e-12)
    assert line.p_value == pytest.approx(hall(expected).p_value(1.25), rel=1e-9)
    rate = np.average((outcomes.decision_before != outcomes.y)[rows], weights=own.get("weight"))
    assert line.error_rate_before == pytest.approx(rate)


def test_everybody_is_in_one_line_of_each_trait_the_missing_included(rng):
    assert by_group(Tally.from_outcomes(audited(np.ones(5), {})), Settings()) == ()
    outcomes = people(rng)
    lines = by_group(Tally.from_outcomes(outcomes), Settings())
    for attribute in ("sex", "race"):
        assert sum(line.n for line in lines if line.attribute == attribute) == 900
    gone = sum(value is None for value in outcomes.groups["race"])
    assert by_name(lines)["race: missing"].n == gone > 0


def test_holm_runs_over_all_groups(rng):
    lines = by_group(Tally.from_outcomes(people(rng)), Settings(delta=1.3))
    rejected, adjusted, *_ = multipletests([line.p_value for line in lines], 0.05, method="holm")
    assert [line.p_adjusted for line in lines] == pytest.approx(adjusted.tolist())
    assert [line.rejected for line in lines] == rejected.tolist()
    assert 0 < sum(rejected) < len(lines)


def test_large_groups_take_the_normal_at_their_share_of_alpha(rng):
    lines = by_group(Tally.from_outcomes(people(rng)), Settings(decide={"interval": "paper"}))
    large = [line for line in lines if line.n >= 30]
    widths = [(line.upper - line.estimate) / line.std_error for line in large]
    assert widths == pytest.approx([norm.ppf(1 - 0.025 / len(lines))] * len(large))


def test_small_groups_take_students_t_at_their_share_of_alpha(rng):
    lines = by_group(Tally.from_outcomes(people(rng)), Settings())
    small = [line for line in lines if 2 < line.n < 30]
    assert small
    outcomes = people(np.random.default_rng(20210330))
    for line in small:
        rows = outcomes.groups["race"] == "A"
        if line.attribute == "sex × race":
            rows &= outcomes.groups["sex"] == line.group[0]
        e = mean_of_ratios(outcomes.ratio[rows])
        quantile = t.ppf(1 - 0.025 / len(lines), line.n - 1)
        expected = e.value - e.std_error * restored(quantile, e.skewness)
        assert line.lower == pytest.approx(expected, rel=1e-9)
        assert line.small


def test_few_errors_are_flagged(rng):
    groups = {"t": ["a"] * 50 + ["b"] * 50}
    wrong = np.zeros(100, bool)
    wrong[[0, 1, 2, 3, 60, 61, 62, 63, 64]] = True
    outcomes = audited(1 + rng.exponential(0.2, 100), groups, (wrong, wrong))
    lines = by_name(by_group(Tally.from_outcomes(outcomes), Settings()))
    assert lines["t: a"].small
    assert not lines["t: b"].small


@pytest.mark.parametrize("lonely", ["person", "cluster"])
def test_one_person_or_cluster_alone_is_shown_and_has_no_standard_error(rng, lonely):
    size = 1 if lonely == "person" else 40
    cluster = np.concatenate([np.arange(60), np.full(size, 99)])
    more = {} if lonely == "person" else {"cluster": cluster}
    outcomes = audited(
        1 + rng.exponential(0.2, 60 + size), {"t": ["a"] * 60 + ["b"] * size}, **more
    )
    lines = by_name(by_group(Tally.from_outcomes(outcomes), Settings()))
    line = lines["t: b"]
    assert (line.n, line.estimate) == (size, pytest.approx(outcomes.ratio[60:].mean()))
    assert math.isnan(line.std_error)
    assert (line.lower, line.upper, line.p_value, line.rejected) == (0, math.inf, 1, False)
    assert math.isfinite(lines["t: a"].upper)


def test_an_undefined_ratio_spoils_its_own_groups_only(rng):
    outcomes = people(rng)
    losses = outcomes.loss_after.copy()
    at = int(np.flatnonzero(outcomes.groups["sex"] == "F")[0])
    losses[at] = np.nan
    lines = by_name(
        by_group(Tally.from_outcomes(dataclasses.replace(outcomes, loss_after=losses)), Settings())
    )
    assert math.isnan(lines["sex: F"].estimate)
    assert lines["sex: F"].small
    assert (lines["sex: F"].lower, lines["sex: F"].upper) == (0, math.inf)
    assert not lines["sex: M"].small
    assert math.isfinite(lines["sex: M"].upper)


def test_a_regression_has_ratios_of_mean_losses_and_no_errors(rng):
    outcomes = people(rng, about={"task": "regression"})
    outcomes = dataclasses.replace(outcomes, loss_before=rng.exponential(size=900) + 0.1)
    line = by_name(by_group(Tally.from_outcomes(outcomes), Settings()))["sex: M"]
    own = outcomes.take(outcomes.groups["sex"] == "M")
    expected = ratio_of_means(own.loss_before, own.loss_after).value
    assert line.estimate == pytest.approx(expected, rel=1e-12)
    assert math.isnan(line.error_rate_before)
    assert not line.small
