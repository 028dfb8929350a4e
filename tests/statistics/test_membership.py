"""Who is in which group."""

import numpy as np
import pytest

from likewise.errors import InvalidSettings
from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame
from likewise.statistics.group_stats import groups_of
from likewise.statistics.tally import Tally


def grouped(**groups):
    n = len(next(iter(groups.values()), []))
    ones, codes = np.ones(n), np.zeros(n, dtype=np.int64)
    columns = {name: np.array(values, dtype=object) for name, values in groups.items()}
    return Outcomes(codes, codes, ones, ones, codes, codes, ones, ones, ones, codes, groups=columns)


def groups_in(outcomes, *arguments):
    tally = Tally.of(outcomes)
    return tally, groups_of(tally.groups.cells, tally.frame, *arguments)


def counts(*arguments, **groups):
    tally, found = groups_in(grouped(**groups), *arguments)
    return {group.label: int(tally.groups.count[group.members].sum()) for group in found}


SEX = ["F", "F", "M", "M", "M", None]
RACE = ["b", "w", "w", "w", None, None]


def test_everybody_is_in_one_group_of_each_trait_and_of_their_intersection():
    assert counts(sex=SEX, race=RACE) == {
        "sex: F": 2,
        "sex: M": 3,
        "sex: missing": 1,
        "race: b": 1,
        "race: w": 3,
        "race: missing": 2,
        "sex × race: F × b": 1,
        "sex × race: F × w": 1,
        "sex × race: M × w": 2,
        "sex × race: missing": 2,
    }


def test_intersections_are_pairs_unless_told_otherwise():
    three = {"a": ["x"] * 4, "b": ["y"] * 4, "c": ["z"] * 4}
    traits = [group.trait for group in groups_in(grouped(**three))[1]]
    assert traits == ["a", "b", "c", "a × b", "a × c", "b × c"]
    assert [g.trait for g in groups_in(grouped(**three), [("a", "b", "c")])[1]][3:] == ["a × b × c"]
    assert len(groups_in(grouped(**three), ())[1]) == 3
    with pytest.raises(InvalidSettings, match=r"'d' to cross \(there are: a, b, c\)"):
        groups_in(grouped(**three), [("a", "d")])


def test_numbers_with_many_levels_are_cut_into_quarters():
    ages = [str(age) for age in range(20, 60)] + [None, None]
    assert counts(age=ages) == {
        "age: 20 to 29": 10,
        "age: 30 to 39": 10,
        "age: 40 to 49": 10,
        "age: 50 to 59": 10,
        "age: missing": 2,
    }


def test_numbers_with_few_levels_stay_and_stand_in_their_order():
    assert list(counts(age=["10", "9", "100", "9"])) == ["age: 9", "age: 10", "age: 100"]


def test_lumpy_numbers_lose_quarters_but_nobody(rng):
    ages = ["0"] * 300 + [str(v) for v in rng.normal(50, 10, 60).round(3)]
    got = counts(income=ages)
    assert sum(got.values()) == 360
    assert got["income: 0 to 0"] == 300


def test_of_many_names_the_rarest_are_pooled():
    names = [f"level {k:02d}" for k in range(50) for _ in range(50 - k)]
    got = counts(town=names)
    assert len(got) == 20
    assert got["town: 31 other levels"] == sum(50 - k for k in range(19, 50))
    assert sum(got.values()) == len(names)


def test_no_traits_make_no_groups():
    assert groups_of(np.array([0]), Frame(n=5)) == ()
