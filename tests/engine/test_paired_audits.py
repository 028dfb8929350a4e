"""Two models on the same people: what cancels, what is refused, and how often it is right."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import likewise
from helpers import run
from likewise.engine.paired_audits import Margins, compare
from likewise.errors import InvalidFile, InvalidSample, InvalidSettings
from likewise.inference.paired import balanced_of, difference, mean_of, measured, ratio_of
from likewise.report.compare_page import comparison_page
from likewise.report.layout import number


def population(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 0.9 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(age - 1.2 * zone)))
    names = np.where(sex == 1, "f", "m")
    return pa.table({"age": age, "zone": zone, "sex": names, "y": y.astype(int)})


def scored(*weights):
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = np.array([weights]), np.zeros(1), np.arange(2)
    return model


PEOPLE = population(1600, 1)
SETTINGS = likewise.Settings(checks="core").changed(columns__label="y", columns__protected=("sex",))


ASKED = likewise.Counterparts(may_matter=("age",), swaps=99)


def audited(model, people=None, map=ASKED):
    people = PEOPLE.slice(0, 400) if people is None else people
    return likewise.audit(model, people, map=map, pool=PEOPLE.slice(400), settings=SETTINGS)


@pytest.fixture(scope="module")
def two():
    return {"old": audited(scored(1.0, -1.2)), "new": audited(scored(1.0, -0.4))}


def test_outcomes_of_another_audit_are_refused(two):
    old, new = (two[name] for name in two)
    with pytest.raises(InvalidSample, match="outcomes of 'old' are not those of its result"):
        compare({"old": (old.record, new.visits), "new": (new.record, old.visits)})


def test_a_model_that_pays_less_attention_to_the_proxy_is_fairer(two):
    pair = compare(two, margins=Margins(accuracy=0.1)).paired[0]
    value, loss, accuracy, balanced = (m for m in pair.measures if m.claimed)
    old, new = (two[name].record.counterparts.traits[0].overall.estimate for name in two)
    assert value.difference == pytest.approx(old - new)
    assert 0 < value.lower_bound < value.difference < value.upper_bound
    assert value.shown(0.05)
    assert loss.first < loss.second
    assert loss.lower_bound < loss.difference < 0
    assert loss.interval[0] < 0  # a difference, unlike a ratio, may be negative
    assert (accuracy.margin, balanced.margin) == (0.1, 0.1)
    assert "new is fairer than old by at least" in str(compare(two))


def test_the_paired_interval_is_narrower_than_that_of_strangers(two):
    value = compare(two).paired[0].measures[0]
    errors = [r.record.counterparts.traits[0].overall.std_error for r in two.values()]
    paired = (value.interval[1] - value.interval[0]) / (2 * 1.96)
    assert paired < 0.9 * np.hypot(*errors)


def test_moves_are_compared_too():
    people = likewise.AuditData.from_arrays(
        np.column_stack([PEOPLE["age"].to_numpy(), PEOPLE["zone"].to_numpy()]),
        PEOPLE["y"].to_numpy(),
        {"sex": np.array(PEOPLE["sex"].to_pylist())},
    )
    alike = likewise.ignoring([[0.0, 1.0]]).with_reach(people.x)
    by_loss = likewise.Settings(checks="core").changed(decide__test="loss_ratio")
    for map in (likewise.GradientFlow(lam=1.0, time=0.5), likewise.Reach()):
        both = {
            name: likewise.audit(scored(1.0, w), people, metric=alike, map=map, settings=by_loss)
            for name, w in (("old", -1.2), ("new", -0.3))
        }
        value = compare(both).paired[0].measures[0]
        ratio = [r.outcomes.ratio for r in both.values()]
        assert value.difference == pytest.approx((ratio[0] - ratio[1]).mean())
        low, high = stats.ttest_rel(*ratio).confidence_interval()
        # Hall's correction for skewness moves the ends, but not far at n = 1600.
        assert value.interval == pytest.approx((low, high), abs=0.2 * (high - low))


def test_a_model_compared_with_itself_is_not_found_better(two):
    pair = compare({"old": two["old"], "same": two["old"]}).paired[0]
    value, loss, accuracy, _ = (m for m in pair.measures if m.claimed)
    assert not value.shown(0.05)
    assert not loss.shown(0.05)
    # Nobody among 400 differs: the rule of three allows 3 / 400.
    assert accuracy.lower_bound == pytest.approx(-3.3 / 400, rel=0.01)
    assert accuracy.shown(0.05)


def test_other_people_or_other_visitors_are_refused(two):
    other = audited(scored(1.0, -0.4), people=population(400, 5))
    with pytest.raises(InvalidSample, match="not audited on the same people"):
        compare({"old": two["old"], "new": other})
    asked = likewise.Counterparts(may_matter=("age",), swaps=99, seed=4)
    with pytest.raises(InvalidSample, match="other visitors"):
        compare({"old": two["old"], "new": audited(scored(1.0, -0.4), map=asked)})
    bare = dataclasses.replace(two["new"], visits=two["new"].visits.replace_schema_metadata(None))
    with pytest.raises(InvalidFile, match="sums over pairs"):
        compare({"old": two["old"], "new": bare})
    with pytest.raises(InvalidSettings, match="margin"):
        Margins(accuracy=-0.1)


def test_the_command_takes_outcomes_and_draws_error_bars(two, tmp_path):
    import pyarrow.parquet as pq

    for name, result in two.items():
        result.save(tmp_path / f"{name}.json")
        pq.write_table(result.visits, tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.json" for name in two]
    tables = [tmp_path / f"{name}.parquet" for name in two]
    page = tmp_path / "page.html"
    done = run("compare", *files, "--outcomes", *tables, "--margin", "0.1", "-o", page)
    assert done.exit_code == 0, done.stderr
    assert "new is fairer than old by at least" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "new against old" in page.read_text()
    loss = next(m for m in compare(two).paired[0].measures if m.name == "loss")
    low, high = (number(end).replace("-", "−") for end in loss.interval)
    assert f">{low} – {high}<" in page.read_text()
    assert page.read_text() == comparison_page(compare(two, margins=Margins(0.1)))
    one = run("compare", *files, "--outcomes", tables[0])
    assert one.exit_code == 2
    assert "do not go together" in one.stderr


def test_claims_about_several_models_are_corrected_together(two):
    three = compare({**two, "third": two["new"]})
    assert len(three.paired) == 2
    alone = compare(two).paired[0].measures[0]
    value = three.paired[0].measures[0]
    assert value.lower_bound < alone.lower_bound
    claims = [m for pair in three.paired for m in pair.measures if m.claimed]
    assert len(claims) == 8
    assert value.adjusted >= alone.adjusted


def test_influences_sum_to_zero_and_clusters_widen_the_interval():
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.normal(size=60), 5)
    one = shared + 0.1 * rng.normal(size=300)
    weight, y = rng.uniform(0.5, 2, 300), rng.integers(0, 3, 300)
    found = [
        mean_of(one, weight),
        ratio_of(np.exp(one), np.ones(300), weight),
        balanced_of((one > 0).astype(float), y, weight),
    ]
    for swayed in found:
        assert swayed.person.sum() == pytest.approx(0, abs=1e-12)
    nothing = mean_of(np.zeros(300), weight)
    alone, _ = difference(found[0], nothing)
    together, _ = difference(found[0], nothing, np.repeat(np.arange(60), 5))
    # Five people as one: the standard error grows by about √5.
    assert together.std_error / alone.std_error == pytest.approx(5**0.5, rel=0.15)


def test_the_paired_interval_covers_skewed_differences():
    """600 draws; with coverage .95 fewer than .925 covered has probability .004."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(600):
        shared = rng.normal(size=80)
        one, two = (np.exp(0.6 * shared + 0.4 * rng.normal(size=80)) for _ in range(2))
        found = measured(
            "audit value", *(mean_of(x, np.ones(80)) for x in (one, 0.8 * two)), alpha=0.05
        )
        truth = 0.2 * np.exp((0.6**2 + 0.4**2) / 2)
        covered += found.interval[0] <= truth <= found.interval[1]
    assert covered / 600 >= 0.925
