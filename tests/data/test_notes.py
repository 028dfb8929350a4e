"""Notes on the data: each says one thing that is so, and nothing else is said."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import likewise
from helpers import survey_of
from likewise.data.notes import data_notes, pool_notes, warn_about_scales
from likewise.data.source import as_source
from likewise.errors import InvalidData, LikewiseWarning

N = 600


def plain(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(40, 9, n),
            "rent": rng.normal(9, 2, n),
            "district": rng.choice(["Bern", "Genf", "Chur"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], n),
            "y": rng.integers(0, 2, n),
        }
    )


def notes(frame, may_matter=(), **roles):
    roles = {"label": "y", "protected": "sex", "raw": True, **roles}
    return data_notes(survey_of(as_source(frame, **roles)), may_matter)


def test_of_an_ordinary_table_there_is_nothing_to_say():
    for seed in range(20):
        assert notes(plain(seed)) == ()


def test_repeated_rows_are_counted_unless_ids_tell_them_apart():
    twice = pd.concat([plain(), plain()[:100]])
    (note,) = notes(twice)
    assert note.startswith("100 of 700 rows repeat another row in every column. If these are")
    assert notes(twice.assign(person=range(700)), id="person") == ()
    assert notes(twice.assign(home="a"), cluster="home") == ()
    assert notes(pd.concat([plain(), plain()[:3]])) == ()


def test_notes_on_a_large_table_say_that_they_are_about_a_sample():
    frame, turn = plain(n=15_000), np.arange(15_000) % 9
    (note,) = notes(pd.concat([frame] * 4))
    assert note.startswith("About 45,000 of 60,000 rows")  # each row has exactly four copies
    assert notes(frame) == ()
    frame["rent"] = frame["rent"].mask(turn == 0, 999)
    frame["income"] = frame["income"].mask(turn == 1)
    for note, name in zip(notes(frame, ["income"]), ("rent", "income"), strict=True):
        assert re.match(rf"'{name}' is \w+ in 1,[01]\d\d of 10,000 people looked at", note)


@pytest.mark.parametrize(
    "leak",
    [
        lambda y: y * 10.0 + 0.1,
        lambda y: -y,
        lambda y: np.where(y == 1, np.arange(len(y)) % 2 * 2, 1),
        lambda y: np.where(y == 1, "refused", np.where(np.arange(len(y)) % 3, "paid", "late")),
    ],
    ids=["number", "negative", "codes", "text"],
)
def test_a_column_that_tells_the_label_is_noted(leak):
    frame = plain()
    (note,) = notes(frame.assign(leak=leak(frame["y"].to_numpy())))
    assert note.startswith("'leak' predicts the label perfectly (AUC 1.000)")


def test_names_and_good_predictors_tell_no_label():
    frame = plain().assign(name=[f"n{k}" for k in range(N)])
    rng = np.random.default_rng(1)
    assert notes(frame.assign(good=frame["y"] + rng.normal(0, 0.4, N))) == ()
    assert notes(frame[:15].assign(leak=frame["y"][:15])) == ()  # too few to say so
    empty = pa.table({**frame.to_dict("list"), "empty": pa.nulls(N)})
    assert not any("predicts the label" in note for note in notes(empty))


def test_codes_made_of_nines_are_noted_and_large_measurements_are_not():
    rng = np.random.default_rng(0)
    income, few = rng.integers(0, 40_000, N), np.arange(N)
    frame = plain().assign(
        coded=np.where(few < 7, 99_999, income),
        rich=np.where(few < 7, 1_000_000, income),
        close=np.where(few < 7, 99, rng.integers(0, 98, N)),
        once=np.where(few < 1, 99_999, income),
        below=np.where(few < 9, -9, rng.integers(0, 5, N)),
        signed=rng.integers(-9, 9, N),
    )
    found = notes(frame)
    assert [note.split("'")[1] for note in found] == ["coded", "below"]
    assert found[0].startswith("'coded' is 99999 in 7 of 600 rows: a missing-value code?")


def compared(people, pool, columns=("income", "district")):
    roles = {"label": "y", "protected": "sex", "raw": True}
    return pool_notes(likewise.read(people, **roles), likewise.read(pool, **roles), columns)


def test_a_pool_that_spells_a_category_otherwise_is_refused_or_noted():
    pool = plain(1)
    capitals = pool.assign(district=pool["district"].str.upper())
    with pytest.raises(InvalidData, match=r"'district' .*'Bern'.* audited and .*'BERN'.* the pool"):
        compared(plain(), capitals)
    some = pool.assign(district=pool["district"].replace("Bern", "BERN"))
    count = (some["district"] == "BERN").sum()
    found = compared(plain(), some)
    assert found[0].startswith(
        f"'district' is 'BERN' for {count} of 600 of the pool and for no one"
    )
    assert found[1].startswith("'district' is 'Bern' for")


def test_groups_that_the_pool_does_not_have_are_refused_or_counted():
    with pytest.raises(InvalidData, match=r"'sex' is '[FM]' and '[FM]' among .* and '[fm]' and"):
        compared(plain().assign(sex=plain()["sex"].str.upper()), plain(1))
    some = plain()
    some.loc[:4, "sex"] = "x"
    (note,) = compared(some, plain(1))
    assert note.startswith("'sex' is 'x' for 5 of 600 of the people audited and for no one of")
    with pytest.raises(
        InvalidData, match=r"'f', 'm' and 'x' among .* and 'f' and 'M ' in the pool"
    ):
        compared(some, plain(1).replace({"sex": {"m": "M "}}))


def test_a_pool_of_the_same_population_is_no_cause_for_words():
    rng = np.random.default_rng(0)
    for seed in range(30):
        assert compared(plain(seed), plain(seed + 100)) == ()
        # Values with shares from a half to one in a thousand.
        shares = 0.5 ** np.minimum(np.arange(1, 14), 10.0)
        values = rng.choice(list("abcdefghijklm"), 2 * N, p=shares / shares.sum())
        people, pool = (plain(k).assign(district=values[k * N : (k + 1) * N]) for k in (0, 1))
        assert compared(people, pool) == ()
    names = [f"name {number}" for number in range(2 * N)]
    assert compared(plain().assign(district=names[:N]), plain(1).assign(district=names[N:])) == ()


def columns(*scales):
    return np.random.default_rng(0).normal(size=(1000, len(scales))) * np.array(scales)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scales", [(1, 1), (0.2, 5), (13, 13), (20, 20), (0.05, 0.05)])
def test_features_on_one_scale_are_no_cause_for_a_warning(scales):
    warn_about_scales(columns(*scales), ("a", "b"), 50)
    x = columns(1.0, 1.0, 1.0)
    x[:, 1] = np.arange(len(x)) == 0
    x[:, 2] = 1e9
    warn_about_scales(x, ("a", "rare", "constant"), 50)


@pytest.mark.parametrize(("scales", "name"), [((1, 7500), "b"), ((0.01, 1), "a")])
def test_features_on_other_scales_are_named(scales, name):
    with pytest.warns(LikewiseWarning, match=f"'{name}'"):
        warn_about_scales(columns(*scales), ("a", "b"), 50)
    with pytest.warns(LikewiseWarning, match="'b' has a standard deviation of 100, .* costs 5e"):
        warn_about_scales(np.array([[0.0, 0.0], [2.0, 200.0]]), ("a", "b"), 50)


def test_gaps_in_columns_that_may_matter_are_a_value_of_their_own():
    frame = plain()
    frame.loc[:29, "income"] = np.nan
    frame.loc[:9, "district"] = None
    assert notes(frame) == ()
    first, second = notes(frame, ["income", "district"])
    assert first.startswith("'income' is missing in 30 of 600 rows. Missing is a value of its own")
    assert second.startswith("'district' is missing in 10 of 600 rows.")
