"""The monitor: any number of looks, one error rate."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from helpers import outcomes_of
from likewise.errors import InvalidFile, InvalidSample, InvalidSettings
from likewise.outcomes import Outcomes
from likewise.stats.monitor import BETS, BettingTest, Monitor, WealthState, play

BOUNDARY = {
    "lognormal, sigma 0.5": lambda rng, n: 1.25 * rng.lognormal(-0.125, 0.5, n),
    "1 % harmed": lambda rng, n: np.where(rng.random(n) < 0.01, 26.0, 1.0),
    "two points": lambda rng, n: 2.5 * (rng.random(n) < 0.5),
}
"""Populations of ratios whose mean is exactly the tolerance 1.25."""


def fed(*pieces, **settings):
    monitor = Monitor(**settings)
    for piece in pieces:
        monitor.update(piece)
    return monitor


def test_the_wealth_is_the_mean_of_ten_products_from_every_row_on():
    ratios = np.array([1.0, 1.4, 0.3, 7.0, 1.25])
    factors = np.array([[1 + f * (r - 1.25) / 1.25 for f in BETS] for r in ratios])
    wealth = [np.prod(factors[s:], axis=0).mean() for s in range(5)]
    left = (1 + np.arange(6) / 1000) ** -0.2
    mixed = 0.6 * wealth[0] + 0.4 * ((left[:-1] - left[1:]) @ wealth + left[-1])
    look = Monitor().look()
    assert (look.n, look.e_value, look.p_value, look.rejected) == (0, 1.0, 1.0, False)
    look = fed(ratios).look()
    assert look.e_value == pytest.approx(mixed, rel=1e-12)  # products of five: rounding alone
    assert look.n == 5
    assert look.mean == pytest.approx(ratios.mean(), rel=1e-14)


@given(
    ratios=st.lists(st.floats(0, 50), min_size=1, max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_rows_fed_in_pieces_give_the_same_bits_as_rows_fed_at_once(ratios, cuts):
    rows = np.array(ratios)
    pieces = [p for p in np.split(rows, sorted(c for c in cuts if c < len(rows))) if len(p)]
    assert fed(*pieces).look() == fed(rows).look() or math.isnan(fed(rows).look().mean)


def test_a_decision_falls_at_its_first_row_and_stays_whoever_looks(rng):
    unfair, harmless = np.full(300, 2.0), np.full(20_000, 1.0)
    monitor = fed(unfair, harmless)
    look = monitor.look()
    assert look.e_value < 1  # the wealth is long lost again
    assert look.rejected
    assert look.rejected_at == fed(unfair).look().rejected_at
    assert look.p_value <= 0.05
    rows = rng.lognormal(0.5, 0.4, 500)
    at = fed(rows).look().rejected_at
    assert fed(rows[:at]).look().e_value >= 20 > fed(rows[: at - 1]).look().e_value


def test_a_model_that_gets_worse_late_is_found_soon(rng):
    late = []
    for _ in range(20):
        rows = 1 + rng.exponential(size=5600) * np.where(np.arange(5600) < 4500, 0.15, 0.35)
        late.append(play(BettingTest(1.25, 0.05, 0.0), WealthState(), rows).rejected_at)
    # Over hundreds of runs: always, in half of them within 260 rows; a median of 20 exceeds 400
    # less than once in a million.
    assert all(found is not None and found > 4500 for found in late)
    assert np.median(late) < 4900


def test_state_is_saved_and_resumed_to_the_bit(tmp_path, rng):
    rows = rng.lognormal(0.25, 0.5, 1000)
    first = fed(outcomes_of(rows[:400], about={"map": "gradient_flow"}))
    first.update(rows[400:500], source="march")
    first.save(tmp_path / "state.json")
    second = Monitor.load(tmp_path / "state.json", delta=1.25, alpha=0.05)
    second.update(rows[500:])
    assert second.look() == fed(rows).look()
    assert list(tmp_path.iterdir()) == [tmp_path / "state.json"]
    with pytest.raises(InvalidSample, match="'march' were fed before"):
        second.update(rows, source="march")
    assert second.look().n == 1000
    for name, value in {"delta": 1.3, "alpha": 0.1, "lo": 0.5}.items():
        with pytest.raises(InvalidSettings, match=f"started with {name} = .* change to {value}"):
            Monitor.load(tmp_path / "state.json", **{name: value})


def _edited(**changes):
    return lambda state: json.dumps(state | changes)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda state: json.dumps(state)[:50], "not a monitor file"),
        (_edited(likewise_monitor=4), "Upgrade"),
        (_edited(wealth={"loss_ratio": {"n": 3, "log_wealth": [0.0]}}), "damaged"),
        (_edited(wealth={"loss_ratio": {"n": 3, "excess": math.nan}}), "damaged"),
        (_edited(delta=0.5), "damaged"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, damage, says):
    path = tmp_path / "state.json"
    Monitor().save(path)
    path.write_text(damage(json.loads(path.read_text())))
    with pytest.raises(InvalidFile, match=says):
        Monitor.load(path)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.array([1.0, np.nan, np.inf]), "2 of 3 ratios are not finite.*nan, row 1"),
        (np.array([1.0, -0.5]), "1 of 2 ratios .*below lo = 0.*-0.5, row 1"),
        (np.array([]), "no rows"),
        ([1.0, 2.0], r"takes no list. Give it the rows of an audit .*result.rows"),
        (outcomes_of([1.0, 2.0], weight=np.array([1.0, 2.0])), "weights"),
        (outcomes_of([1.0, 2.0], cluster=np.array([1, 1])), "clusters"),
        (outcomes_of([1.0, 2.0], about={"task": "regression"}), "regression"),
        (outcomes_of([1.0, 2.0], about={"map": "reach"}), "another audit: their map is 'reach'"),
    ],
)
def test_bad_rows_are_refused_whole(rows, says):
    monitor = fed(outcomes_of([1.0, 1.5], about={"map": "gradient_flow"}))
    before = monitor.look()
    with pytest.raises(InvalidSample, match=says):
        monitor.update(rows)
    assert monitor.look() == before


def test_a_learned_metric_gives_no_evidence_without_its_negative_control():
    look = fed(outcomes_of(np.full(400, 2.0), about={"learned": True})).look()
    assert look.rejected_at is not None
    assert not look.rejected
    assert "negative control" in look.held_back
    assert fed(outcomes_of(np.full(400, 2.0), about={"learned": False})).look().rejected


def test_rows_of_another_model_are_refused_by_what_their_file_says(tmp_path):
    monitor, path = Monitor(), tmp_path / "rows.parquet"
    for model in ("aa", "bb"):
        table = outcomes_of(np.full(5, 1.5)).to_arrow()
        about = {b"likewise.audit": json.dumps({"model": model, "settings_hash": "1f"}).encode()}
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **about}), path)
        if model == "aa":
            monitor.update(pq.read_table(path))
    with pytest.raises(InvalidSample, match="another audit: their model is 'bb'"):
        monitor.update(Outcomes.read(path))


@pytest.mark.parametrize(
    ("name", "values"), [("delta", (0.9, math.inf)), ("alpha", (0.0, 1.0)), ("lo", (-1.0, 1.25))]
)
def test_settings_out_of_range_are_refused(name, values):
    for value in values:
        with pytest.raises(InvalidSettings, match=name):
            Monitor(**{name: value})


@pytest.mark.slow
@pytest.mark.parametrize("population", BOUNDARY)
def test_a_model_at_the_tolerance_is_rarely_accused_however_often_one_looks(population):
    # Followed at every one of 9000 rows; z looks every 100. Betting comes out at .02-.03. A true
    # rate of .05 would fail this test once in 10 000; z (.15-.28) would pass less often than that.
    rng = np.random.default_rng(20210330)
    runs, rows = 400, 9000
    game = BettingTest(1.25, 0.05, 0.0)
    looks = np.arange(100, rows + 1, 100)
    alarms = np.zeros(2)
    for _ in range(runs):
        ratios = BOUNDARY[population](rng, rows)
        wealth = play(game, WealthState(), ratios)
        mean = np.cumsum(ratios)[looks - 1] / looks
        spread = np.sqrt(np.cumsum(ratios**2)[looks - 1] / looks - mean**2)
        z = mean - norm.ppf(0.95) * spread / np.sqrt(looks)
        alarms += [wealth.rejected_at is not None, (z > 1.25).any()]
    betting, naive = alarms
    assert betting <= binom.ppf(0.9999, runs, 0.05)
    assert naive > binom.ppf(0.9999, runs, 0.05)
    assert betting / runs < 0.05


def test_an_unfair_model_is_found_after_about_two_hundred_and_forty_rows():
    # Lognormal, mean 1.35, sigma 0.4; the mean waiting time is 226 with a Monte-Carlo error of 10.
    rng = np.random.default_rng(20210330)
    game = BettingTest(1.25, 0.05, 0.0)
    waits = []
    for _ in range(200):
        ratios = 1.35 * rng.lognormal(-0.08, 0.4, 4000)
        waits.append(play(game, WealthState(), ratios).rejected_at)
    assert None not in waits
    assert 180 < np.mean(waits) < 290
