"""The encoder learns from training data alone, refuses what it does not know, and goes back."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.data.encoder import Encoder
from likewise.errors import InvalidData, InvalidFile

TRAIN = pd.DataFrame(
    {
        "age": [20, 30, 40, 50],
        "rate": [0.5, 1.5, 0.25, 0.75],
        "job": ["judge", "cook", "smith", "cook"],
        "smoker": [True, False, True, True],
        "code": pd.Categorical([3, 1, 3, 2]),
        "sex": ["f", "m", "m", "f"],
        "y": [0, 1, 0, 1],
    }
)


def fitted(**choices):
    return Encoder.fit(TRAIN, label="y", protected="sex", **choices)


def test_numbers_are_standardised_and_levels_sorted():
    encoder = fitted()
    assert encoder.columns == ("age", "rate", "job", "smoker", "code")
    assert encoder.features == (
        *("age", "rate", "job=cook", "job=judge", "job=smith", "smoker=False", "smoker=True"),
        *("code=1", "code=2", "code=3"),
    )
    x = encoder.encode(TRAIN)
    np.testing.assert_allclose(x[:, :2].mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(x[:, :2].std(axis=0, ddof=0), 1, rtol=1e-14)
    assert x[0, 2:].tolist() == [0, 1, 0, 0, 1, 0, 0, 1]
    for name in ("job", "smoker", "code"):
        assert (x[:, encoder.spans[name]].sum(axis=1) == 1).all()
    as_floats = TRAIN.assign(code=TRAIN["code"].astype(float))
    np.testing.assert_array_equal(encoder.encode(as_floats), x)
    some = Encoder.fit(TRAIN.assign(age=[20, None, 40, None])[["age"]], drop_missing=True)
    assert some.codings[0].mean == 30
    constant = Encoder.fit(pa.table({"a": [0.1] * 7}))
    assert constant.encode(pa.table({"a": [0.1, 1.1]}))[:, 0].tolist() == [0, 1.0]


def test_an_indicator_is_one_feature():
    encoder = fitted(inputs=["sex", "age"], indicator={"sex": "f"})
    assert encoder.features == ("sex=f", "age")
    x = encoder.encode(TRAIN)
    assert x[:, 0].tolist() == [1, 0, 0, 1]
    assert encoder.decode(x)["sex"].to_pylist() == ["f", "m", "m", "f"]
    with pytest.raises(InvalidData, match="needs two levels"):
        fitted(indicator={"job": "cook"})
    with pytest.raises(InvalidData, match="has 'x'"):
        encoder.encode(TRAIN.assign(sex="x"))


def test_decoding_rounds_whole_numbers_and_takes_the_nearest_level():
    encoder = fitted()
    x = encoder.encode(TRAIN)
    moved = x + 0.01
    moved[0, 2:5] = [0.3, 0.2, 0.25]
    back = encoder.decode(moved)
    assert back["age"].to_pylist() == [20, 30, 40, 50]
    assert back["age"].type == pa.int64()
    assert back["job"].to_pylist() == ["cook", "cook", "smith", "cook"]
    assert back["code"].to_pylist() == [3, 1, 3, 2]
    assert back["smoker"].to_pylist() == TRAIN["smoker"].tolist()
    assert back["rate"][0].as_py() == pytest.approx(0.5 + 0.01 * TRAIN["rate"].std(ddof=0))
    with pytest.raises(InvalidData, match="3 features to decode; the encoder has 10"):
        encoder.decode(x[:, :3])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job": "pilot"}, r"Column 'job' has 'pilot' \(4 rows .*\); it knows 'cook', 'judge'"),
        ({"job": [None, "cook", "cook", "cook"]}, r"missing in 'job' \(1\)"),
        ({"age": [np.nan] * 4}, r"missing in 'age' \(4\)"),
        ({"age": [np.inf] * 4}, "Column 'age' has infinite values"),
        ({"age": "old"}, "Column 'age' holds text, but the encoder was fitted on numbers"),
        ({"job": 1}, "Column 'job' holds numbers, but the encoder was fitted on text"),
    ],
)
def test_what_the_encoder_does_not_know_is_refused(change, words):
    with pytest.raises(InvalidData, match=words):
        fitted().encode(TRAIN.assign(**change))


@pytest.mark.parametrize(
    ("change", "choices", "words"),
    [
        ({"rate": np.inf}, {}, "infinite"),
        ({"rate": [1e308, -1e308] * 2}, {}, "'rate' has numbers too large or small"),
        ({"day": pd.Timedelta(days=1)}, {}, "holds values of type duration"),
        ({}, {"indicator": {"sex": "f"}}, "no column 'sex', named as an input to be encoded"),
        ({}, {"inputs": []}, "no input column"),
        ({"age=1": 1.0, "age": ["1", "2", "3", "4"]}, {}, "'age=1' occurs twice"),
        ({"age": None}, {"drop_missing": True}, "no complete rows"),
        ({"job": pd.array([None] * 4, "string")}, {}, "'job' has no value at all: ignore it"),
    ],
)
def test_training_data_that_teach_nothing_are_refused(change, choices, words):
    with pytest.raises(InvalidData, match=words):
        Encoder.fit(TRAIN.assign(**change), label="y", protected="sex", **choices)


values = st.one_of(
    st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20),
    st.lists(st.floats(-1e150, 1e150, allow_subnormal=False), min_size=1, max_size=20),
    st.lists(st.text(max_size=5), min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=20),
)


@settings(deadline=None, max_examples=200)
@given(column=values)
def test_saving_is_exact_and_decoding_undoes_encoding(column):
    encoder = Encoder.fit(pa.table({"c": column}))
    again = Encoder.from_json(encoder.to_json())
    assert again == encoder
    x = encoder.encode(pa.table({"c": column}))
    np.testing.assert_array_equal(again.encode(pa.table({"c": column})), x)
    back = again.decode(x)["c"].to_pylist()
    if isinstance(column[0], float):
        scale = max(map(abs, column))
        np.testing.assert_allclose(back, column, rtol=1e-12, atol=1e-15 * scale)
    elif isinstance(column[0], int) and not isinstance(column[0], bool):
        # A mean of numbers near 2^53 is exact to a few units only.
        assert max(abs(a - b) for a, b in zip(back, column, strict=True)) <= 4
        if max(map(abs, column)) < 2**40:
            assert back == column
    else:
        assert back == column


def test_decimals_come_back_to_the_last_digit_whoever_else_is_decoded():
    wages = [7.25, 0.1, 31.07, 1234.5, 0.0]
    encoder = Encoder.fit(pa.table({"wage": wages}))
    x = encoder.encode(pa.table({"wage": wages}))
    lost = np.vstack([x, [[np.nan], [np.inf], [1e300]]])
    for rows in (x, lost):
        assert encoder.decode(rows)["wage"].to_pylist()[: len(wages)] == wages


def test_files_that_are_no_encoders_are_refused(tmp_path):
    good = json.loads(fitted().to_json())
    number = good["codings"][0]
    path = tmp_path / "encoder.json"
    for content, words in [
        (b"\xff\xfe", "holds no encoder"),
        (b"[1, 2", "holds no encoder"),
        ({"version": 2}, "version: Input should be 1"),
        ({"surprise": 1}, "surprise"),
        ({"codings": [number | {"scale": 0}]}, "scale"),
        ({"codings": [number | {"kind": "magic"}]}, "codings.0"),
        ({"codings": [number, number]}, "'age' occurs twice"),
    ]:
        known = isinstance(content, dict)
        path.write_bytes(json.dumps(good | content).encode() if known else content)
        with pytest.raises(InvalidFile, match=words) as caught:
            Encoder.load(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidFile, match="cannot be written"):
        fitted().save(tmp_path / "nowhere" / "encoder.json")


def test_dates_count_in_days_and_come_back():
    frame = pd.DataFrame(
        {
            "day": [dt.date(2020, 1, 1), dt.date(2020, 1, 11), None],
            "time": pd.to_datetime(["2020-01-01 12:00", "2020-01-02 06:00", "1969-01-02 06:00"]),
        }
    )
    encoder = Encoder.fit(frame)
    assert encoder.features == ("day", "day is missing", "time")
    x = encoder.encode(frame)
    assert x[:2, 0] == pytest.approx([-1, 1])  # five days from the mean, which is the deviation
    again = Encoder.from_json(encoder.to_json()).decode(x).to_pylist()
    assert again[1] == {"day": dt.date(2020, 1, 11), "time": dt.datetime(2020, 1, 2, 6)}
    assert again[2] == {"day": None, "time": dt.datetime(1969, 1, 2, 6)}
    with pytest.raises(InvalidData, match="'time' holds numbers, but the encoder was fitted on d"):
        encoder.encode(frame.assign(time=1.0))


def test_dates_in_text_are_dates_and_identifiers_are_refused():
    days = pd.date_range("2020-01-01", periods=80).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"since": days, "name": [f"n{j}" for j in range(80)]})
    words = r"'name' has 80 different values in 80 rows.*columns.ignore=NAME"
    with pytest.raises(InvalidData, match=words):
        Encoder.fit(frame)
    with pytest.raises(InvalidData, match="2000 different values in 2000 rows"):
        Encoder.fit(pa.table({"name": [f"person {k}" for k in range(2000)]}))
    encoder = Encoder.fit(frame, ignore=["name"])
    assert encoder.features == ("since",)
    x = encoder.encode(frame)
    assert np.allclose(np.diff(x[:, 0]), np.diff(x[:2, 0]))
    assert encoder.decode(x)["since"].to_pylist() == days.tolist()
    assert encoder.text_columns == {"since"}
    with pytest.raises(InvalidData, match=r"'since' holds dates, and other text .*'unknown'"):
        encoder.encode(frame.assign(since=["2020-01-01", "unknown"] * 40))
    assert len(Encoder.fit(frame, inputs=["name"]).features) == 80
