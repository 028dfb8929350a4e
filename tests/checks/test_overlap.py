"""Who has no comparable people, and what the comparison would be with them."""

import re

import numpy as np
import pytest

from checks.planted import audited, linear, population


def with_far_people(n, seed, share=0.7):
    """Return people of whom many of one group have skills that the other does not have."""
    table = population(n, seed)
    far = (table["group"] == "a") & (np.random.default_rng(seed).random(n) < share)
    return table.assign(skill=table["skill"] + 8 * far)


def test_people_who_are_of_one_group_by_their_factors_are_described():
    people, pool = with_far_people(1500, 1), with_far_people(4000, 2)
    record = audited(linear(zone=1.0), people, pool, "overlap").record
    row = next(row for row in record.matched_pairs.comparisons if row.group == "a")
    note = next(note for note in record.notes if "left out" in note)
    left_out = row.clipped + row.without_overlap
    assert row.clipped > row.without_overlap
    assert note.startswith(
        f"{left_out:,} of {row.people:,} people with group = a have no comparable people with "
        f"group = b (of people like {row.clipped} of them 99 % are of one group): left out."
    )
    assert left_out > 0.5 * row.people
    assert re.search(r"They differ most in skill \([78]\.\d+ on average against", note)


def test_people_whose_category_nobody_has_cannot_be_compared():
    people, pool = (population(n, n).assign(job="clerk") for n in (1500, 4000))
    people.loc[(people["group"] == "a") & (people.index % 4 == 0), "job"] = "pilot"
    may_matter = ("skill", "job")
    record = audited(linear(zone=1.0), people, pool, "overlap", may_matter=may_matter).record
    (note,) = [note for note in record.notes if "left out" in note]
    assert re.search(
        r"differ most in job \((clerk 0 % against 100|a value .* has 100 % against 0) %\)", note
    )


@pytest.mark.parametrize("missing", [0, 20])
def test_people_without_a_group_are_counted_whatever_is_checked(missing):
    people = population(800, 3)
    people.loc[: missing - 1, "group"] = None
    chosen = "hidden_factor" if missing else "overlap"
    record = audited(linear(zone=1.0), people, population(3000, 4), chosen).record
    said = "20 of 800 people have no value of 'group': they are in no group."
    assert record.notes == (said,) * bool(missing)
