"""Shares, flip rates and group metrics, against statsmodels, fairlearn and scikit-learn."""

import itertools
import math

import fairlearn.metrics as fairlearn
import numpy as np
import pytest
from scipy.stats import binom, t
from statsmodels.stats.proportion import proportion_confint

from helpers import outcomes_of
from likewise.errors import InvalidSample
from likewise.stats.groups import Share, group_metrics, ratio
from likewise.stats.tally import Tally


def share_of(hit, among, weight=None, cluster=None):
    """Return the share of those ``among`` all people for whom ``hit`` holds."""
    each = np.ones(len(hit)) if weight is None else weight
    if cluster is not None:
        hits, people = (np.bincount(cluster, weights=each * who) for who in (hit & among, among))
        return Share.of_clusters(hits, people, int(among.sum()))
    powers = np.stack([each**k for k in range(4)], axis=1)
    sums = (powers[who].sum(axis=0) for who in (hit & among, among))
    return Share.of_people(*sums, weighted=weight is not None)


def share(count, n):
    """Return count/n as a share of n people."""
    return share_of(np.arange(n) < count, np.ones(n, bool))


@pytest.mark.parametrize(("count", "n"), [(0, 12), (3, 12), (12, 12), (450, 9045)])
def test_single_intervals_are_those_of_statsmodels(count, n):
    got = share(count, n).wilson(0.1)
    assert (got.value, got.n) == (count / n, n)
    expected = proportion_confint(count, n, alpha=0.1, method="wilson")
    assert (got.lower, got.upper) == pytest.approx(expected, abs=1e-12)


def test_a_ratio_with_zeros_stays_honest():
    none, some = share(0, 20), share(5, 20)
    got = ratio(none, some, 0.05)
    assert (got.value, got.lower) == (0.0, 0.0)
    assert 0 < got.upper < 1.5
    back = ratio(some, none, 0.05)
    assert back.value == math.inf
    assert back.lower == pytest.approx(1 / got.upper)  # the method is symmetric
    assert back.upper == math.inf
    both = ratio(none, none, 0.05)
    assert math.isnan(both.value)
    assert (both.lower, both.upper) == (0.0, math.inf)


@pytest.mark.parametrize(("p", "q", "n", "m"), [(0.1, 0.3, 30, 40), (0.02, 0.05, 60, 60)])
def test_a_ratio_is_covered_as_promised(p, q, n, m):
    # All tables, no simulation: between .94 and .99 here, where the usual log interval has no
    # answer for tables with zeros.
    covered = 0.0
    for x, y in itertools.product(range(n + 1), range(m + 1)):
        chance = binom.pmf(x, n, p) * binom.pmf(y, m, q)
        if chance > 1e-9:
            got = ratio(share(x, n), share(y, m), 0.05)
            covered += chance * (got.lower <= p / q <= got.upper)
    assert 0.94 <= covered <= 0.99


def test_nobody_means_not_known():
    empty = share(0, 0)
    got = empty.wilson(0.05)
    assert math.isnan(got.value)
    assert (got.lower, got.upper, got.n) == (0.0, 1.0, 0)
    assert ratio(share(5, 5), empty, 0.05).upper == math.inf


def test_whole_weights_count_like_copies_and_copies_like_clusters(rng):
    hit, among = rng.random(300) < 0.3, rng.random(300) < 0.8
    weight = rng.integers(1, 5, 300)
    weighted = share_of(hit, among, weight.astype(float))
    rows = np.repeat(np.arange(300), weight)
    copies = share_of(hit[rows], among[rows], cluster=rows)
    assert weighted.value == pytest.approx(copies.value, rel=1e-12)
    # The copies of one person are one independent unit, whichever way they are written down; but
    # for averaged leverages, and weights alone are never worth more than Kish's number.
    assert weighted.effective_n == pytest.approx(copies.effective_n, rel=0.02)
    assert weighted.effective_n < among.sum()
    assert weighted.wilson(0.05).upper == pytest.approx(copies.wilson(0.05).upper, rel=0.02)


def test_few_clusters_take_students_t(rng):
    hit, cluster = rng.random(60) < 0.4, np.repeat(np.arange(6), 10)
    few = share_of(hit, np.ones(60, bool), cluster=cluster)
    assert few.degrees == 5
    z, student = 1.959963984540054, t.ppf(0.975, 5)
    expected = proportion_confint(
        few.value * few.effective_n * (z / student) ** 2,
        few.effective_n * (z / student) ** 2,
        method="wilson",
    )
    got = few.wilson(0.05)
    assert (got.lower, got.upper) == pytest.approx(expected, rel=1e-10)


def moved(y, before, after, **extra):
    decisions = {"decision_before": before, "decision_after": after}
    return outcomes_of(np.ones(len(y)), y=y, **decisions, **extra)


def test_changed_decisions_have_wilsons_interval():
    y = np.zeros(100, dtype=int)
    before, after = np.repeat([0, 1], [80, 20]), np.repeat([0, 1, 0, 1], [70, 10, 5, 15])
    found = group_metrics(Tally.from_outcomes(moved(y, before, after)), alpha=0.1)
    got = found["decisions_changed", "", ""]
    expected = proportion_confint(15, 100, alpha=0.1, method="wilson")
    assert (got.value, got.n) == (0.15, 100)
    assert (got.lower, got.upper) == pytest.approx(expected, rel=1e-12)


def decided(y, decision, groups, **extra):
    columns = {name: np.array(values, dtype=object) for name, values in groups.items()}
    return moved(y, decision, decision, groups=columns, **extra)


def people(rng, n=2000, **extra):
    """People of two attributes; some decisions depend on sex, and some races are missing."""
    sex = rng.choice(["Female", "Male"], n, p=[0.4, 0.6])
    race = rng.choice(["Black", "White", "Other"], n, p=[0.2, 0.7, 0.1]).astype(object)
    race[rng.random(n) < 0.05] = None
    y = (rng.random(n) < 0.4).astype(int)
    chance = 0.2 + 0.5 * y + 0.1 * (sex == "Male")
    return decided(y, (rng.random(n) < chance).astype(int), {"sex": sex, "race": race}, **extra)


def by_name(metrics):
    """Return quantities by name, of groups by attribute, level and name."""
    return {
        (*filter(None, (attribute, group)), name): quantity
        for (name, attribute, group), quantity in metrics.items()
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_fairlearns(rng, weighted):
    weight = rng.uniform(0.2, 3, 2000) if weighted else None
    outcomes = people(rng, weight=weight)
    y, decision, sex = outcomes.y, outcomes.decision_before, outcomes.groups["sex"]
    ours = by_name(group_metrics(Tally.from_outcomes(outcomes)))
    measures = {
        "selection_rate": fairlearn.selection_rate,
        "true_positive_rate": fairlearn.true_positive_rate,
        "false_positive_rate": fairlearn.false_positive_rate,
    }
    frame = fairlearn.MetricFrame(
        metrics=measures,
        y_true=y,
        y_pred=decision,
        sensitive_features=sex,
        sample_params={name: {"sample_weight": weight} for name in measures} if weighted else None,
    )
    for group in ("Female", "Male"):
        for name in measures:
            expected = frame.by_group.loc[group, name]
            assert ours["sex", group, name].value == pytest.approx(expected, rel=1e-12)
    impact = fairlearn.demographic_parity_ratio(
        y, decision, sensitive_features=sex, sample_weight=weight
    )
    assert ours["sex", "Female", "impact_ratio"].value == pytest.approx(impact, rel=1e-12)


def test_bad_input_is_a_sentence(rng):
    with pytest.raises(InvalidSample, match="regression"):
        group_metrics(Tally.from_outcomes(people(rng, about={"task": "regression"})))
