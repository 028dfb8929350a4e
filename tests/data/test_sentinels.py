import numpy as np
import pyarrow as pa

from likewise.data.survey import sentinel_notes


def test_codes_made_of_nines_are_noticed_and_large_measurements_are_not():
    rng = np.random.default_rng(0)
    income = rng.integers(0, 40_000, 500)
    table = pa.table(
        {
            "coded": np.where(np.arange(500) < 7, 999_999, income),
            "rich": np.where(np.arange(500) < 7, 1_000_000, income),
            "close": np.where(np.arange(500) < 7, 99, rng.integers(0, 98, 500)),
            "once": np.where(np.arange(500) < 1, 999_999, income),
            "below": np.where(np.arange(500) < 9, -9, rng.integers(0, 5, 500)),
            "signed": rng.integers(-9, 9, 500),
            "text": ["a"] * 500,
        }
    )
    notes = sentinel_notes(table)
    assert [note.split("'")[1] for note in notes] == ["coded", "below"]
    assert "999999 in 7 of 500 rows" in notes[0]
