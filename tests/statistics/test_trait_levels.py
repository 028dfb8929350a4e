import numpy as np
import pytest

from likewise.audit_data import missing
from likewise.statistics.frame import TraitLevels


def as_levels(column):
    """Return the level of everyone in a column, None where it is missing."""
    known = column[~missing(column)].tolist()
    levels = TraitLevels.of({value: known.count(value) for value in known})
    values = [None if gone else v for v, gone in zip(column.tolist(), missing(column), strict=True)]
    names = [None if v is None else levels.names[levels.code[v]] for v in values]
    return np.array(names, dtype=object)


def test_missing_values_stay_missing_and_whole_numbers_look_whole():
    assert as_levels(np.array([1.0, np.nan, 0.0])).tolist() == ["1", None, "0"]
    assert as_levels(np.array(["a", None], dtype=object)).tolist() == ["a", None]
    assert as_levels(np.array([True, False])).tolist() == ["True", "False"]


def test_a_number_with_many_values_is_grouped_into_ranges_that_do_not_overlap():
    ages = np.arange(17, 91)
    levels = as_levels(ages)
    assert len(set(levels.tolist())) == 4
    for age, level in zip(ages, levels, strict=True):
        low, _, high = level.partition(" to ")
        assert float(low) <= age <= float(high)


@pytest.mark.parametrize(
    "values",
    [
        [1000001, 1000002],
        [1000001.0, 1000002.0],
        [0.12345671, 0.12345672],
        [2**60, 2**60 + 1],
        [1e300, 1e300 * (1 + 2**-52)],
    ],
)
def test_numbers_that_differ_are_levels_that_differ(values):
    column = np.array(values + values[:1])
    names = as_levels(column).tolist()
    assert names[0] == names[2] != names[1]


def test_ranges_of_long_numbers_stay_apart():
    codes = np.arange(1_000_001, 1_000_041)
    names = as_levels(codes).tolist()
    assert sorted(set(names))[0] == "1000001 to 1000010"
    assert len(set(names)) == 4


def test_short_numbers_keep_their_short_names():
    # A column in single precision holds 0.1 as 0.10000000149011612, and nobody calls it so.
    column = np.array([0.1, 0.25, 3.0], dtype=np.float32)
    assert as_levels(column).tolist() == ["0.1", "0.25", "3"]
