import numpy as np

from likewise.checks.levels import as_levels


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
