"""Many tests at once: Holm's correction and sup-t bands."""

import math

import numpy as np
import pytest
from scipy.special import wrightomega
from scipy.stats import binom, multivariate_normal, multivariate_t, norm
from statsmodels.stats.multitest import multipletests

from helpers import mean_of_ratios, outcomes_of
from likewise.errors import InvalidSample, InvalidSettings
from likewise.outcomes import AtHorizon
from likewise.stats.estimate import hall
from likewise.stats.multiplicity import holm_adjusted
from likewise.stats.simultaneous import band, horizon_band, largest_error
from likewise.stats.tally import Design, Tally

TIMES = (0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0)


def with_horizons(ratios, **extra):
    zeros = np.zeros(len(ratios), dtype=np.int64)
    then = {t: AtHorizon(ratios[:, k], zeros) for k, t in enumerate(TIMES)}
    return outcomes_of(ratios[:, -1], horizons=then, **extra)


def flowed(margins):
    """Loss ratios of a logistic model under the free flow, in closed form, at all TIMES."""
    conserved = margins + np.exp(margins)
    columns = []
    for time in TIMES:
        k = conserved - time
        omega = wrightomega(k)
        after = np.where(k > 1, np.log(omega), k - omega)
        columns.append(np.logaddexp(0, -after) / np.logaddexp(0, -margins))
    return np.stack(columns, axis=1)


def at_the_tolerance(rng, n):
    """Draw ratios as `flowed`, scaled so that the mean at every horizon is exactly 1.25."""
    grid = np.linspace(-9, 11, 4001)
    weight = norm.pdf(grid, 1, 1.5)
    mean = weight @ flowed(grid) / weight.sum()
    return 1 + (flowed(rng.normal(1, 1.5, n)) - 1) * 0.25 / (mean - 1)


@pytest.mark.parametrize("m", [1, 3, 12])
def test_holm_agrees_with_statsmodels(rng, m):
    values = (rng.random(m) ** 2).tolist()
    values[m // 2] = values[0]  # a tie
    ours = holm_adjusted({f"test {k}": p for k, p in enumerate(values)})
    _, adjusted, *_ = multipletests(values, 0.1, method="holm")
    assert list(ours.values()) == pytest.approx(adjusted.tolist(), rel=1e-12)
    assert list(ours) == [f"test {k}" for k in range(m)]


def test_a_test_that_could_not_be_made_has_to_be_counted():
    with pytest.raises(InvalidSample, match=r"'race' is nan.*counts as p = 1"):
        holm_adjusted({"sex": 0.01, "race": math.nan})


def critical(products, **options):
    return float(np.quantile(largest_error(products, draws=200_000, **options), 0.95))


@pytest.mark.parametrize("degrees", [math.inf, 9.0])
def test_the_critical_value_is_the_equicoordinate_quantile_of_scipy(rng, degrees):
    terms = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4))
    terms -= terms.mean(axis=0)
    c = critical(terms.T @ terms, rng=rng, degrees=degrees)
    corr = np.corrcoef(terms.T)
    if math.isinf(degrees):
        inside = multivariate_normal(cov=corr).cdf(np.full(4, c))
    else:
        inside = multivariate_t(shape=corr, df=degrees).cdf(np.full(4, c), random_state=1)
    # 200 000 draws put the level within .0005, scipy's integral within .001.
    assert inside == pytest.approx(0.95, abs=0.003)


def test_a_band_over_one_horizon_is_halls_bound(rng):
    ratio = rng.lognormal(0.3, 0.8, 300)
    estimate = mean_of_ratios(ratio)
    only = band([estimate], np.ones((1, 1)), rng=rng, side="both", draws=400_000)
    low, high = hall(estimate).interval(0.05)
    # The critical value is known to .005 standard errors.
    assert only.lower[0] == pytest.approx(low, abs=0.02 * estimate.std_error)
    assert only.upper[0] == pytest.approx(high, abs=0.03 * estimate.std_error)
    alone = band([estimate], np.ones((1, 1)), rng=rng, draws=400_000)
    lowest = hall(estimate).lower_bound(0.05)
    assert alone.lower[0] == pytest.approx(lowest, abs=0.02 * estimate.std_error)


def test_estimates_of_a_band_know_weights_and_clusters(rng):
    ratios = at_the_tolerance(rng, 400)
    weight, cluster = rng.uniform(0.5, 2, 400), np.repeat(np.arange(40), 10)
    drawn = horizon_band(Tally.of(with_horizons(ratios, weight=weight, cluster=cluster)), rng=rng)
    design = Design.make(400, weight, cluster)
    for k, estimate in enumerate(drawn.estimates):
        expected = mean_of_ratios(ratios[:, k], design)
        assert estimate.value == pytest.approx(expected.value, rel=1e-12)
        assert estimate.std_error == pytest.approx(expected.std_error, rel=1e-12)
    # 40 clusters: Student's t, so wider than the same people counted as independent.
    assert 30 < drawn.estimates[0].degrees < 39
    assert drawn.critical > horizon_band(Tally.of(with_horizons(ratios)), rng=rng).critical


def test_a_horizon_that_is_undefined_or_moves_nobody_is_not_known_and_spoils_nothing(rng):
    ratios = at_the_tolerance(rng, 50)
    ratios[:, 0] = 1.0
    ratios[3, 2] = np.inf
    drawn = horizon_band(Tally.of(with_horizons(ratios)), rng=rng, side="both")
    assert math.isnan(drawn.estimates[2].value)
    for k in (0, 2):
        assert (drawn.lower[k], drawn.upper[k]) == (0.0, math.inf)
    assert drawn.estimates[1].n == 50
    assert 0 < drawn.lower[1] < drawn.upper[1] < math.inf


def test_bad_input_is_a_sentence(rng):
    ratios = at_the_tolerance(rng, 50)
    with pytest.raises(InvalidSample, match="other stopping times"):
        horizon_band(Tally.of(with_horizons(ratios).at(1.0)), rng=rng)
    with pytest.raises(InvalidSettings, match="alpha"):
        horizon_band(Tally.of(with_horizons(ratios)), rng=rng, alpha=1.0)


@pytest.mark.slow
def test_the_best_of_seven_horizons_is_rejected_alpha_of_the_time_under_the_band():
    # At the tolerance at every horizon at once. The band comes out at .050; the best of seven
    # bounds at .12. A true rate of .05 fails once in 10 000 times, and one of .12 passes once.
    rng = np.random.default_rng(20210330)
    runs, n = 600, 400
    design = Design.make(n)
    alarms = np.zeros(3)
    for _ in range(runs):
        ratios = at_the_tolerance(rng, n)
        estimates = [mean_of_ratios(column, design) for column in ratios.T]
        terms = ratios - ratios.mean(axis=0)
        for k, interval in enumerate(("hall", "paper")):
            drawn = band(estimates, terms.T @ terms, rng=rng, interval=interval, draws=3000)
            alarms[k] += max(drawn.lower) > 1.25
        alarms[2] += any(hall(e).lower_bound(0.05) > 1.25 for e in estimates)
    by_hall, paper, naive = alarms
    assert by_hall <= binom.ppf(0.9999, runs, 0.05)
    assert paper <= binom.ppf(0.9999, runs, 0.05)
    assert naive > binom.ppf(0.9999, runs, 0.05)
    assert by_hall / runs <= 0.065
