"""Protected attributes cut and crossed, repeated people merged, and the pool read alike."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import likewise
from likewise.data.source import as_source, read_pool
from likewise.errors import InvalidData

FRAME = pd.DataFrame(
    {
        "pay": [1.0, 2.0, 3.0, 1.0, 5.0, 6.0],
        "age": [39, 40, np.nan, 39, 59.5, 60],
        "sex": ["f", "m", "f", "f", None, "m"],
        "race": [1, 2, 1, 1, 2, 2],
        "person": ["a", "b", "c", "a", "d", "e"],
        "home": [7, 7, 8, 7, 9, 9],
        "y": [0, 1, 0, 0, 1, 1],
    }
)
ROLES = {"label": "y", "ignore": ["person", "home"], "inputs": ["pay"]}


def test_numbers_are_cut_into_groups():
    people = likewise.read(FRAME, protected="age", bins={"age": [40, 60]}, **ROLES)
    assert people.protected["age"].tolist() == [
        *("under 40", "40 to under 60", None, "under 40", "40 to under 60", "60 or over")
    ]
    assert people.table["age"].to_pylist()[0] == 39  # the model may read the number itself
    two = likewise.read(FRAME, protected="age", bins={"age": 39.5}, **ROLES)
    assert set(two.protected["age"].tolist()) == {"under 39.5", "39.5 or over", None}


@pytest.mark.parametrize("name", ["sex*race", "sex×race", "sex × race"])
def test_attributes_are_crossed(name):
    roles = {"label": "y", "ignore": ["person", "home", "age"]}
    people = likewise.read(FRAME, protected=["sex", name], **roles)
    assert list(people.protected) == ["sex", "sex×race"]
    crossed = ["f × 1", "m × 2", "f × 1", "f × 1", None, "m × 2"]
    assert people.protected["sex×race"].tolist() == crossed
    assert people.features == ("pay",)  # neither sex nor race is an input


def test_a_cut_attribute_can_be_crossed_and_a_column_keeps_its_own_name():
    people = likewise.read(FRAME, protected="sex*age", bins={"age": [40]}, **ROLES)
    groups = ["f × under 40", "m × 40 or over", None, "f × under 40", None, "m × 40 or over"]
    assert people.protected["sex×age"].tolist() == groups
    odd = FRAME.assign(**{"a*b": list("uvwuvw")})
    assert likewise.read(odd, protected="a*b", **ROLES).protected["a*b"].tolist() == list("uvwuvw")


def test_rows_of_one_person_that_differ_are_refused_and_lead_to_clusters():
    roles = {**ROLES, "ignore": ["home"], "protected": "sex", "id": "person"}
    people = likewise.read(FRAME, **roles)
    assert people.id.tolist() == ["a", "b", "c", "d", "e"]
    assert "person" not in people.table.column_names
    plain = likewise.read(FRAME.drop(columns="age"), label="y", protected="sex", id="person")
    assert plain.features == ("pay", "race", "home")
    words = r"Rows 1 and 4 are both of person = 'a', but differ.*--clusters person"
    with pytest.raises(InvalidData, match=words):
        likewise.read(FRAME.assign(pay=range(6)), **roles)
    with pytest.raises(InvalidData, match=r"missing in 'person' \(1\)"):
        likewise.read(FRAME.assign(person=["a", None, "c", "a", "d", "e"]), **roles)


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({"bins": {"age": [50, 40]}}, "'age' cannot be cut at .50, 40.: limits are"),
        ({"bins": {"age": []}}, "numbers that rise"),
        ({"bins": {"age": "old"}}, "cut at 'old'"),
        ({"bins": {"race": [1]}}, "no column 'race', named as a protected attribute to cut"),
        ({"bins": {"sex": [1]}}, "'sex' holds no numbers"),
        ({"protected": "sex*rice"}, "no column 'rice', named as protected.*'race'"),
        ({"id": "pay", "inputs": ["pay"]}, "named as id, so it cannot be an input"),
    ],
)
def test_impossible_cuts_crossings_and_ids_are_refused(roles, words):
    with pytest.raises(InvalidData, match=words):
        likewise.read(FRAME, **{**ROLES, "protected": ["sex", "age"], **roles})


@pytest.fixture
def pool():
    more = FRAME.assign(person=["e", "p", "q", "r", "s", "t"], home=[1, 2, 7, 4, 5, 6], extra=1.0)
    return more.astype({"race": "int32"})[["race", "extra", *FRAME.columns.drop("race")]]


@pytest.mark.parametrize("form", ["frame", "file", "people"])
def test_a_pool_has_the_columns_types_and_groups_of_the_audited(pool, form, tmp_path):
    named = {"protected": ["sex*race", "age"], "bins": {"age": [40]}}
    source = as_source(FRAME, **ROLES, **named)
    given = pool
    if form == "file":
        given = tmp_path / "pool.csv"
        pool.to_csv(given, index=False, sep=";", decimal=",")
    if form == "people":
        given = likewise.read(pool, **ROLES, **named)
    csv = {"separator": ";", "decimal": ","}
    read = read_pool(given, source, label="y", csv=csv, **named)
    assert len(read) == 6
    assert read.table["race"].type == pa.int64()
    assert set(read.table.column_names) == {"pay", "age", "sex", "race"}
    assert read.protected["age"].tolist()[:2] == ["under 40", "40 or over"]
    assert read.protected["sex×race"].tolist()[:2] == ["f × 1", "m × 2"]
    assert read.y.tolist() == FRAME["y"].tolist()


def test_audited_people_and_clusters_leave_the_pool(pool):
    roles = {"label": "y", "protected": "sex", "inputs": ["pay"]}
    by_id = {"id": "person"}
    once = FRAME.drop(index=3)
    read = read_pool(pool, as_source(once, **roles, **by_id), protected="sex", **by_id)
    assert read.id.tolist() == ["p", "q", "r", "s", "t"]
    assert read.dropped == {"id is audited": 1}
    by_home = {"cluster": "home"}
    for people in (FRAME, likewise.read(FRAME, **roles, **by_home)):
        source = as_source(people, **roles, **by_home)
        read = read_pool(pool, source, protected="sex", **by_home)
        assert read.cluster.tolist() == [1, 2, 4, 5, 6]
        assert read.dropped == {"cluster is audited": 1}
    with pytest.raises(InvalidData, match=r"Every 'home' in the pool is audited too.*Leave out"):
        read_pool(FRAME, as_source(FRAME, **roles, **by_home), protected="sex", **by_home)
    with pytest.raises(InvalidData, match="Everyone in the pool is audited"):
        read_pool(once, as_source(once, **roles, **by_id), protected="sex", **by_id)
    read = read_pool(pool, as_source(once, **roles), protected="sex", drop_missing=True)
    assert len(read) == len(pool) - read.dropped["missing age"] == 5


def test_a_pool_of_another_type_is_refused_and_keeps_labels_only_if_everyone_has_one(pool):
    source = as_source(FRAME, **ROLES, protected="sex")
    some = pool.assign(y=[0, 1, None, 0, 1, 1])
    assert set(read_pool(some, source, label="y", protected="sex").y.tolist()) == {0}
    with pytest.raises(InvalidData, match="'pay' holds text in the pool and numbers among"):
        read_pool(pool.assign(pay="high"), source, protected="sex")
    with pytest.raises(InvalidData, match="no column 'sex', named as protected"):
        read_pool(pool.drop(columns="sex"), source, protected="sex")
