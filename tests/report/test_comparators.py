"""The comparator file: people beside comparable people, safe to open in a spreadsheet."""

import csv
import io

from checks.planted import audited, linear, population


def test_people_stand_beside_the_pair_whose_columns_they_were_given(tmp_path):
    people, pool = population(600, 1), population(1500, 2)
    result, path = audited(linear(zone=1.0), people, pool), tmp_path / "a1-comparators.csv"
    result.save(path)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(path.read_text())):
        found.setdefault(row["case"], {})[row["item"]] = row
    assert len(found) == len(result.record.matched_pairs.people) >= 10
    for case in found.values():
        row = case["row"]
        assert (row["group"], row["other"]) == ("a", "b")
        person = people.iloc[int(row["person"])]
        own, other = (pool.iloc[int(row[name])] for name in ("own_group", "other_group"))
        assert (person["group"], own["group"], other["group"]) == ("a", "a", "b")
        for name, kind in (("skill", "may matter"), ("zone", "remaining")):
            assert case[name]["kind"] == kind
            assert float(case[name]["person"]) == person[name]
            assert float(case[name]["own_group"]) == own[name]
            assert float(case[name]["other_group"]) == other[name]
        # The person's own skill with the member's zone.
        decided = str(int(person["skill"] + other["zone"] - 0.5 > 0))
        assert case["decision"]["other_group"] == decided
        rates = case["mean rate of 1 over all pairs"]
        assert float(rates["other_group"]) > float(rates["own_group"])
