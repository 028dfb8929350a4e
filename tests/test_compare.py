"""Two models on the same people: a difference is claimed where there is one, and rarely else."""

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import likewise
from helpers import applicants
from likewise.errors import InvalidSample, InvalidSettings

X = ["age", "zone"]


def audited(model, people, pool, **choices):
    choices = {"label": "paid", "protected": "sex", "may_matter": ["age"], **choices}
    return likewise.audit(model, people, pool=pool, checks="core", **choices)


def trained_again(kind, seed):
    """Return a model twice: a forest with other seeds, or a logistic model of resampled people."""
    train = applicants(1500, 1000 + seed)
    for k in (2 * seed, 2 * seed + 1):
        if kind == "forest":
            forest = RandomForestClassifier(40, min_samples_leaf=15, random_state=k)
            yield forest.fit(train[X], train["paid"])
        else:
            sample = train.sample(frac=1, replace=True, random_state=k)
            yield LogisticRegression().fit(sample[X], sample["paid"])


@pytest.mark.parametrize("kind", ["forest", "logistic"])
@pytest.mark.slow
def test_a_model_trained_again_rarely_shows_a_difference(kind):
    """Where .94 of draws show none, fewer than 16 of 20 have probability .006."""
    same = 0
    for seed in range(20):
        who, pool = applicants(1000, 2000 + seed), applicants(1200, 3000 + seed)
        both = [audited(model, who, pool) for model in trained_again(kind, seed)]
        (pair,) = likewise.compare(dict(zip(("first", "again"), both, strict=True))).pairs
        same += all(one.claim(0.05) == "no difference shown" for one in pair.deviations)
    assert same >= 16


def test_a_model_that_does_not_use_the_proxy_deviates_less():
    people, pool, train = (applicants(1500, k, 1.0) for k in range(3))
    with_zone = audited(LogisticRegression().fit(train[X], train["paid"]), people, pool)
    without = audited(LogisticRegression().fit(train[["age"]], train["paid"]), people, pool)
    (pair,) = likewise.compare({"with": with_zone, "without": without}).pairs
    assert pair.less_unfair
    one = pair.deviations[0]
    assert one.second == pytest.approx(0, abs=1e-9)
    assert one.interval[0] < one.value < one.interval[1] < 0
    # A margin as wide as the difference leaves nothing to claim, and the interval as it is.
    wide = likewise.compare({"with": with_zone, "without": without}, margin=4).pairs[0]
    assert not wide.less_unfair
    assert wide.deviations[0].interval == one.interval
    assert not pair.shown_within("error rate", 1e-6)
    assert pair.shown_within("error rate", 0.5)
    (back,) = likewise.compare({"without": without, "with": with_zone}).pairs
    assert not back.less_unfair
    assert back.deviations[0].value == pytest.approx(-one.value)


def test_each_of_several_classes_is_compared_with_itself():
    people, pool, train = (applicants(1200, k) for k in range(3))
    for table in (people, pool, train):
        score = 1.5 * table["age"] - 0.5 * (table["zone"] - 0.6)
        table["grade"] = np.digitize(score, [-0.7, 0.7]).astype(str)
    model = LogisticRegression().fit(train[X], train["grade"])
    one, two = (audited(model, people, pool, label="grade") for _ in range(2))
    (pair,) = likewise.compare({"one": one, "two": two}).pairs
    assert len(pair.deviations) == len(one.record.matched_pairs.comparisons) == 6
    assert all(d.value == 0 or math.isnan(d.value) for d in pair.deviations)
    assert all(d.p_value == 1 for d in pair.deviations)


def test_audits_that_are_no_pair_are_refused():
    people, pool, another = (
        applicants(n, seed).assign(old=lambda t: t["age"] + t["zone"] > 1, w=range(1, n + 1))
        for n, seed in ((500, 5), (800, 6), (800, 7))
    )
    model = LogisticRegression().fit(people[X], people["paid"])
    one = audited(model, people, pool)
    with pytest.raises(InvalidSettings, match="at least two"):
        likewise.compare({"one": one})
    with pytest.raises(InvalidSettings, match="is no audit"):
        likewise.compare({"one": one, "two": 3})
    with pytest.raises(InvalidSettings, match="margin is a factor of at least 1"):
        likewise.compare({"one": one, "two": one}, margin=0.9)
    with pytest.raises(InvalidSample, match="their people differ"):
        likewise.compare({"one": one, "two": audited(model, people[:400], pool)})
    for what, changes in {
        r"weights differ \(none; w\)": {"weights": "w"},
        r"clusters differ \(none; w\)": {"clusters": "w", "pool": pool.drop(columns="w")},
        r"reference samples differ\.": {"pool": another},
        r"columns that may matter differ \(age; zone\)": {"may_matter": ["zone"]},
        r"protected attributes differ \(sex; old\)": {"protected": "old"},
        r"favourable decisions differ \(none named; yes\)": {"favourable": "yes"},
        r"limits differ \(1\.25; 1\.5\)": {"delta": 1.5},
    }.items():
        with pytest.raises(InvalidSample, match=f"'one' and 'two' .*: their {what}"):
            likewise.compare(
                {"one": one, "two": audited(model, people, **{"pool": pool, **changes})}
            )
