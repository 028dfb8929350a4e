"""Audits by matched pairs from end to end: what is planted is found, the rest is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression

import likewise
from helpers import run
from likewise.errors import InvalidData, InvalidSample, InvalidSettings
from likewise.methods import matched_pairs
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

FAST = Settings(method={"name": "matched_pairs", "redraws": 19})
CHOICES = {
    "label": "paid",
    "protected": "sex",
    "may_matter": ["income"],
    "favourable": 1,
    "checks": "core",
}


def people(seed, n=900, groups=("f", "m")):
    """People of groups that differ in their town, at the same income in the mean."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, len(groups), n)
    frame = pd.DataFrame({"income": rng.normal(size=n), "town": rng.normal(size=n) + code})
    frame["sex"] = np.array(groups)[code]
    frame["hours"] = rng.normal(size=n)
    frame["paid"] = (frame.income + rng.normal(size=n) > 0).astype(int)
    return frame


class Rule:
    """A model that is a function of columns; 1 is what people want."""

    def __init__(self, columns, rule, classes=2):
        self.feature_names_in_, self.rule = np.array(columns), rule
        self.classes_ = np.arange(classes)

    def predict(self, frame):
        return self.rule(*(np.asarray(frame[name]) for name in self.feature_names_in_)).astype(int)

    def predict_proba(self, frame):
        return np.eye(len(self.classes_))[self.predict(frame)]


TOWN = Rule(["income", "town"], lambda income, town: income + town > 0.5)
FAIR = Rule(["income", "hours"], lambda income, hours: income + 0.5 * hours > 0)


def audit(model, frame=None, settings=FAST, **more):
    return likewise.audit(
        model, people(0) if frame is None else frame, settings=settings, **{**CHOICES, **more}
    )


@pytest.fixture(scope="module")
def found():
    return audit(TOWN, pool=people(1, 1500))


def test_a_planted_effect_is_found_and_the_disadvantaged_group_is_named(found):
    part = found.record.matched_pairs
    row = part.leading
    assert found.verdict == "evidence"
    assert row.group == "f"
    assert "f" in found.sentence.split()
    assert row.favourable_own < row.favourable_swapped
    assert row.verdict == "evidence"
    assert not part.reads
    assert (part.may_matter, part.remaining) == (("income",), ("town",))
    measures = {(m.name, m.group): m for m in found.record.measures}
    rates = [measures["selection_rate", group].value for group in "fm"]
    ratio = measures["impact_ratio", "f"]
    assert ratio.value == pytest.approx(rates[0] / rates[1])
    assert 0 < ratio.lower < ratio.value < ratio.upper < measures["impact_ratio", "m"].value == 1
    # The truth, from people without end: comparable people differ by one in the mean of town.
    rng = np.random.default_rng(9)
    income, noise = rng.normal(size=(2, 200_000))
    own, swapped = np.mean(income + noise > 0.5), np.mean(income + noise + 1 > 0.5)
    assert row.favourable_own == pytest.approx(own, abs=0.06)
    assert row.favourable_swapped == pytest.approx(swapped, abs=0.06)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (FAIR, {}),
        (FAIR, {"pool": people(1, 1500)}),
        (TOWN, {"frame": people(0).assign(sex=np.random.default_rng(3).choice(["f", "m"], 900))}),
        (Rule(["income", "town"], lambda income, town: np.ones(len(income))), {}),
    ],
    ids=["halves", "pool", "random attribute", "constant model"],
)
def test_a_model_that_does_not_go_by_it_is_not_accused(model, change):
    result = audit(model, **change)
    assert result.verdict in ("within_tolerance", "inconclusive")
    assert result.record.matched_pairs.pool_given == ("pool" in change)


def test_direct_use_of_the_attribute_is_flagged_with_the_share_it_changes():
    direct = Rule(["income", "sex"], lambda income, sex: income > np.where(sex == "f", 0.5, -0.5))
    result = audit(direct)
    (reads,) = result.record.matched_pairs.reads
    frame = people(0)
    changed = np.mean(np.abs(frame.income) < 0.5)
    assert reads.attribute == "sex"
    assert reads.changed == pytest.approx(changed, abs=1e-9)
    assert reads.lower < changed < reads.upper
    said = (
        f"The model reads sex: changing it alone changes {100 * reads.changed:.1f} % of decisions"
    )
    assert said in result.sentence
    # So is a group that is excluded altogether.
    nobody = Rule(["income", "sex"], lambda income, sex: (sex == "m") & (income > 0))
    for found in (result, excluded := audit(nobody)):
        assert found.verdict == "evidence"
    leading = excluded.record.matched_pairs.leading
    assert (leading.group, leading.favourable_own) == ("f", pytest.approx(0, abs=0.02))


def test_weights_count_people_and_clusters_widen_the_interval(found):
    frame = people(0)
    twice = pd.concat([frame, frame[frame.sex == "f"]], ignore_index=True)
    pool = people(1, 1500)
    weighted = frame.assign(w=np.where(frame.sex == "f", 2.0, 1.0))
    by_weight = audit(TOWN, weighted, pool=pool, weights="w")
    by_rows = audit(TOWN, twice, pool=pool).record.matched_pairs.comparisons
    for one, two in zip(by_weight.record.matched_pairs.comparisons, by_rows, strict=True):
        assert one.raw_group == pytest.approx(two.raw_group)
        assert one.own == pytest.approx(two.own, abs=0.03)
    tied = pd.concat([frame] * 3, ignore_index=True).assign(home=np.tile(np.arange(900), 3))
    loose = audit(TOWN, tied.drop(columns="home"), pool=pool).record.matched_pairs.leading
    tied = audit(TOWN, tied, pool=pool, clusters="home")
    strict = tied.record.matched_pairs.leading
    assert strict.own == pytest.approx(loose.own, abs=1e-9)
    assert strict.std_error > loose.std_error
    # A monitor's promise holds for independent people alone.
    for dependent, kind in ((by_weight, "weights"), (tied, "clusters")):
        with pytest.raises(InvalidSample, match=f"people have {kind}, and a monitor bets on one"):
            likewise.Monitor.from_audit(dependent)
    uneven = found.rows.drop_columns("weight").append_column("weight", [range(len(found.rows))])
    with pytest.raises(InvalidSample, match="rows have weights"):
        likewise.Monitor.from_audit(found).update(uneven)


def test_three_groups_are_compared_two_by_two():
    frame = people(0, 1500, groups=("a", "b", "c"))
    record = audit(TOWN, frame, pool=people(1, 2400, groups=("a", "b", "c"))).record
    pairs = {frozenset((row.group, row.other)) for row in record.matched_pairs.comparisons}
    assert pairs == {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert record.verdict == "evidence"
    assert {record.matched_pairs.leading.group, record.matched_pairs.leading.other} == {"a", "c"}


def test_people_drawn_as_the_reference_sample_are_left_out_of_the_audit(monkeypatch):
    monkeypatch.setattr(matched_pairs, "MOST_HALVED", 1000)
    monkeypatch.setattr(matched_pairs, "DRAWN", 1500)
    draw, drawn = matched_pairs._reference_sample, []
    kept = "_reference_sample", lambda setup: drawn.append(draw(setup)) or drawn[-1]
    monkeypatch.setattr(matched_pairs, *kept)
    frame = people(0, 4000)
    frame.loc[frame.sample(400, random_state=0).index, "town"] = np.nan
    settings = FAST.changed(columns__drop_missing=True)
    known = likewise.read(frame, label="paid", protected="sex", drop_missing=True)
    for form, choices in ((frame, {}), (known, {"label": None, "protected": ()})):
        rows = set(audit(TOWN, form, settings, **choices).rows["row"].to_pylist())
        assert sorted([*rows, *drawn[-1].people.row]) == known.row.tolist()


def test_of_several_classes_the_people_shown_are_those_of_the_class_that_changes():
    rule = Rule(["income", "town"], lambda a, b: np.where(a < -1, 0, 1 + (b > 0.5)), classes=3)
    frame, pool = people(0).assign(paid=np.arange(900) % 3), people(1, 1500)
    shown = audit(rule, frame, pool=pool, favourable=None).record.matched_pairs.people
    assert {person.outcome for person in shown} <= {"1", "2"}
    assert min(abs(person.swapped - person.own) for person in shown) > 0.5


def test_missing_values_of_what_may_matter_are_a_value_of_their_own():
    rng = np.random.default_rng(5)
    frame, pool = people(0), people(1, 1500)
    for table in (frame, pool):
        table.loc[rng.random(len(table)) < 0.1, "income"] = np.nan
    known = people(2, 2000)
    known.loc[::10, "income"] = np.nan
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    model.fit(known[["income", "town"]], known.income.fillna(0) + known.town > 0.5)
    result = audit(model, frame.assign(paid=frame.paid > 0), pool=pool, favourable=True)
    assert result.verdict == "evidence"
    assert sum(c.n for c in result.record.matched_pairs.comparisons) == 900


REFUSED = {
    "labels in other words": ({"frame": people(0).assign(paid=list("no") * 450)}, "--label-map"),
    "a continuous attribute": ({"protected": "hours"}, "--bins"),
    "the attribute may matter": ({"may_matter": ["sex"]}, "attribute, so it cannot be among the"),
    "the label may matter": ({"may_matter": ["paid"]}, r"'paid', which may matter \(what is nam"),
    "no such column": ({"may_matter": ["incme"]}, "'income'"),
    "no such decision": ({"favourable": "2"}, "'2' is not a decision"),
    "a pool of few columns": ({"pool": people(1).drop(columns="town")}, "sample has no .*'town'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_compared_is_one_sentence(what):
    choices, words = REFUSED[what]
    with pytest.raises((InvalidData, InvalidSettings), match=words):
        audit(TOWN, **choices)


def test_a_regression_is_held_against_a_limit_in_the_targets_units():
    frame, pool = people(0), people(1, 1500)
    x = people(2, 2000)
    model = LinearRegression().fit(x[["income", "town"]], 2 * x.income + x.town)
    choices = {"label": "wage", "favourable": None}
    frame["wage"], pool["wage"] = (2 * t.income + t.town for t in (frame, pool))
    for limit, verdict in ((0.3, "evidence"), (3.0, "within_tolerance")):
        settings = FAST.changed(method__limit=limit)
        result = audit(model, frame, settings, pool=pool, **choices)
        assert result.verdict == verdict
        row = result.record.matched_pairs.leading
        assert abs(row.difference) == pytest.approx(1, abs=0.25)
    assert audit(model, frame, pool=pool, **choices).record.reason == "limit"
    with pytest.raises(InvalidSettings, match="all positive, and the smallest is -"):
        audit(model, frame, FAST.changed(method__ratio=True), pool=pool, **choices)


def test_a_record_is_read_at_another_limit(found, tmp_path):
    found.save(tmp_path / "result.json")
    for delta, code in (("1.0", 1), ("1.25", 1), ("5", 0)):
        done = run("report", tmp_path / "result.json", "--delta", delta, "-o", tmp_path / "at.json")
        assert done.exit_code == code, done.output
        again = json.loads((tmp_path / "at.json").read_text())
        assert again["delta"] == float(delta)
    assert again["verdict"] != "evidence"


@pytest.mark.slow
def test_a_monitor_goes_on_from_an_audit(found, tmp_path):
    pool = people(1, 1500)
    monitor = likewise.Monitor.from_audit(found)
    assert not monitor.rejected
    for seed in range(20, 25):
        monitor.update(audit(TOWN, people(seed), pool=pool).rows, source=str(seed))
    assert monitor.rejected
    monitor.save(tmp_path / "monitor.json")
    again = type(monitor).load(tmp_path / "monitor.json")
    assert again.looks() == monitor.looks()
    with pytest.raises(InvalidSample, match="fed before"):
        again.update(found.rows, source="20")
    with pytest.raises(InvalidSample, match="another audit: their pool is"):
        again.update(audit(TOWN, people(26), pool=people(2, 1500)).rows)
    for one, rows in ((again, found.people), (likewise.Monitor(), found.rows)):
        with pytest.raises(
            InvalidSample, match=r"result.rows\); by .* start with Monitor.from_audit"
        ):
            one.update(rows)
    found.save(tmp_path / "first.json")
    audit(TOWN, people(27), pool=pool, outcomes=tmp_path / "rows.parquet")
    asked = ("monitor", tmp_path / "first.json", tmp_path / "rows.parquet")
    said = run(*asked, "--delta", "1.25").output
    assert re.search(r"rows.parquet +\d+ people with sex = [fm] so far   smallest p ", said), said
    other = run(*asked, "--delta", "2")
    assert (other.exit_code, "--delta was 1.25 in the first" in other.stderr) == (2, True)
    calm = likewise.Monitor.from_audit(audit(FAIR, pool=pool))
    for seed in range(20, 24):
        calm.update(audit(FAIR, people(seed), pool=pool).rows)
    assert not calm.rejected
