"""Names from anywhere: what is written with them is read again, whatever they hold."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import likewise
from helpers import run
from likewise.audit_data import AuditData
from likewise.errors import UNPRINTABLE, InvalidData, InvalidSettings, printable_name
from likewise.record import Record

PARTS = (
    *("\r", "\n", "\t", "\x00", "\x1b[31m", "\u202e", "\u2066", "\x85", "\x7f", "\\r", "\\x1b"),
    *("'", '"', "<b>", "&amp;", "|", "=1+1", "@x", "×", "*", ",", ";", ":", "→", " ", "", "NaN"),
    *("None", "null", "other", "all", "é", "漢", "\U0001f469\u200d\U0001f467", "\ufeff", "\u200b"),
    *("x" * 300, "../..", "%s", "{0}", "$", "`", "#", "[x](y)", "http://a/?k=1", "-", "0", "True"),
    *("\u2028", "\ufffd", "\ue000", "\U0010ffff"),
)


def hostile(count, seed=0):
    """Return so many different names that nobody should be called by."""
    draw, found = random.Random(seed), {}
    while len(found) < count:
        found["".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 4)))] = None
    return list(found)


def people(levels, rng, n=400):
    g = rng.choice(np.array(levels, dtype=object), n)
    x, z = rng.normal(size=n) + (g == levels[0]), rng.normal(size=n)
    y = (x + rng.normal(size=n) > 0).astype(int)
    table = pa.table({"x": x, "z": z, "g": pa.array(g.tolist()), "y": y})
    return table, LogisticRegression().fit(np.column_stack([x, z]), y)


def reported(result, folder):
    """Write a result, and have it read and rendered again."""
    result.save(folder / "result.json")
    files = [folder / f"r.{end}" for end in ("html", "md", "csv", "xml", "json")]
    ended = run("report", folder / "result.json", *(word for f in files for word in ("-o", f)))
    assert ended.exit_code == 0, ended.stderr
    assert run("report", folder / "result.json", "--verbose", "--redact").exit_code == 0
    again = Record.read(folder / "result.json")
    assert again.to_json() == result.record.to_json()


@pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_groups_of_any_name_are_written_and_read_again(first, tmp_path, rng):
    names = hostile(500)[first : first + 100]
    levels = {f"g{k}" if k else "g": names[20 * k : 20 * k + 20] for k in range(5)}
    table, model = people(levels["g"], rng, n=600)
    for attribute in list(levels)[1:]:
        own = rng.choice(np.array(levels[attribute], dtype=object), 600)
        table = table.append_column(attribute, pa.array(own.tolist()))
    data = likewise.read(table, label="y", protected=list(levels))
    metric = likewise.metrics.ProjectionMetric(np.array([[1.0, 0.0]]), features=("x", "z"))
    result = likewise.audit(model, data, metric=metric, checks="core")
    for attribute, own in levels.items():
        found = {row.group for row in result.record.groups if row.attribute == attribute}
        assert found == set(map(printable_name, own))
    reported(result, tmp_path)


@pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
@pytest.mark.parametrize(
    "names", [("red\r", "blue"), ("a", "a\r"), ("\x00", "\x01"), ("a\\r", "a\r")]
)
def test_matched_pairs_of_any_name_are_written_and_read_again(names, tmp_path, rng):
    table, model = people(list(names), rng)
    choices = {"label": "y", "protected": "g", "may_matter": ["z"], "checks": "core"}
    result = likewise.audit(model, table, **choices)
    groups = {row.group for row in result.record.matched_pairs.comparisons}
    assert groups == {printable_name(name) for name in names}
    reported(result, tmp_path)


def test_a_column_that_cannot_be_shown_is_refused_before_work_begins(tmp_path, rng):
    table, model = people(["a", "b"], rng)
    with pytest.raises(InvalidData, match=r"'z\\r' in .* has characters that cannot be shown"):
        likewise.audit(model, table.rename_columns(["x", "z\r", "g", "y"]), label="y")
    with pytest.raises(InvalidSettings, match="'\\\\r', which cannot be shown"):
        likewise.audit(model, table, label="y", protected="g", favourable="1\r")
    pq.write_table(table.rename_columns(["x", "z", "g", "y\x1b"]), tmp_path / "t.parquet")
    with pytest.raises(InvalidData, match="cannot be shown"):
        likewise.read(tmp_path / "t.parquet", label="y", protected="g")


def test_different_names_stay_different():
    names = [*hostile(2000), *PARTS, *(printable_name(name) for name in hostile(300))]
    shown = {printable_name(name) for name in set(names)}
    assert len(shown) == len(set(names))
    assert not any(UNPRINTABLE.search(name) for name in shown)


def test_arrays_with_names_of_any_kind_are_audited(tmp_path, rng):
    x = rng.normal(size=(200, 2))
    groups = np.where(x[:, 1] > 0, "red\r", "blue\x1b")
    data = AuditData.from_arrays(x, x[:, 0] > 0, {"co\rlour": groups}, features=("a\r", "b"))
    assert list(data.protected) == ["co\\rlour"]
    assert set(data.protected["co\\rlour"]) == {"red\\r", "blue\\x1b"}
    assert data.features == ("a\\r", "b")


@pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
@pytest.mark.parametrize("may_matter", [["x"], None])
def test_values_of_any_name_in_what_a_model_reads_are_written_and_read_again(
    may_matter, tmp_path, rng
):
    jobs = [*hostile(6, seed=6), "red\r"]
    table, _ = people(hostile(2, seed=1), rng)
    frame = table.to_pandas().drop(columns="z")
    frame["job"] = rng.choice(np.array(jobs, dtype=object), len(frame))
    frame["y"] = np.where(frame["x"] + (frame["job"] == jobs[0]) > 0.5, "yes\r", "no\x1b")
    inputs = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(inputs, LogisticRegression()).fit(frame[["x", "job"]], frame["y"])
    result = likewise.audit(
        model, frame, label="y", protected="g", may_matter=may_matter, checks="core"
    )
    reported(result, tmp_path)
