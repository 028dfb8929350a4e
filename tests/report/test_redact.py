"""Redaction: nobody can be found in what remains, and it says what was left out."""

import json
import math

import pytest

import sample_records as samples
from helpers import run
from likewise.record import FoldInfluence, Record
from likewise.report.export import WRITERS
from likewise.report.html import to_html
from likewise.report.redact import redact
from sample_records import changed

TECHNICAL = {
    *("schema_version", "seed", "redraws", "neighbours", "steps", "evaluations", "planned"),
    *("n_features", "dimension", "people_needed", "pool_needed"),
}


def counts(value, name=""):
    """Yield every whole number of people in a record, with its name."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else ((name, v) for v in value):
            yield from counts(inner, key)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


def with_levels(record, levels):
    data = record.data.model_copy(update={"protected": levels})
    return record.model_copy(update={"data": data})


def test_no_person_and_no_small_count_is_left_in_what_is_written(sample):
    hidden = redact(sample)
    assert Record.from_json(hidden.to_json()).redacted
    assert all(write(hidden) for write in WRITERS.values())
    hidden = json.loads(hidden.model_dump_json(exclude={"settings"}))
    assert hidden["perturbed"] == []
    assert not hidden["matched_pairs"] or hidden["matched_pairs"]["people"] == []
    found = [(name, n) for name, n in counts(hidden) if name not in TECHNICAL]
    assert [(name, n) for name, n in found if n % 10 and n > 0] == []


def test_values_rows_and_labels_of_people_are_gone():
    said = redact(samples.evidence()).to_json() + redact(samples.flow()).to_json()
    for word in ("Never-married", "Not-in-family", "HS-grad", "1234", "99999 in", "loss_before"):
        assert word not in said
    page = to_html(redact(samples.evidence()))
    assert "this report is redacted" in page
    assert "Counts are rounded to tens" in page


def test_levels_of_few_people_are_named_other_and_their_tables_left_out():
    record = samples.evidence()
    race = {"White": 8000, "non-White": 1000, "Martian": 4, "Venusian": 7}
    extra = samples.comparison("race", "Martian", "White", 0.2, 0.4, people=12)
    rows = (*record.matched_pairs.comparisons, extra)
    texts = ("White and little green ones cannot be compared", "The model is new")
    labels = {"race = Martian": "little green ones", "race = White": "Whites"}
    given = {"label_map": {"Martian": "1"}, "bins": {"race": [1], "age": [40]}}
    settings = record.settings.changed(labels=labels, columns=given)
    said = {"warnings": texts, "skipped": texts, "causes": ("Martian is too small; leave it out",)}
    said |= {"settings": settings, "command": "likewise audit --label-map Martian=1"}
    levels = {"race": race, "sex": {"a": 50, "b": 3}}
    record = changed(record, rows=rows).model_copy(update=said)
    hidden = redact(with_levels(record, levels))
    assert hidden.data.protected == {"race": {"White": 8000, "non-White": 1000, "other": 10}}
    assert len(hidden.matched_pairs.comparisons) == 4
    assert hidden.warnings == hidden.skipped == ("The model is new",)
    assert hidden.causes == ("other is too small; leave it out",)
    assert hidden.settings.labels == {"race = White": "Whites"}
    assert hidden.settings.columns.bins == {"age": (40,)}
    assert not any(word in hidden.to_json() for word in ("Martian", "green"))


def test_where_every_comparison_is_small_nothing_is_said_of_it():
    levels = {"race": {"White": 900, "non-White": 7}}
    few = changed(samples.inconclusive(), {"people": 6, "n": 7})
    hidden = redact(with_levels(few, levels))
    kept = hidden.matched_pairs.comparisons[0]
    assert (kept.group, kept.n, kept.people) == ("other", 0, 0)
    assert math.isnan(kept.own)
    assert "non-White" not in to_html(hidden)


@pytest.mark.parametrize("rate", [0.001, 0.999, 0.0])
def test_rates_that_tell_of_a_few_are_left_out_with_all_of_their_group(rate):
    record = samples.evidence()
    small = ("Female", "selection_rate")
    measures = tuple(
        m.model_copy(update={"value": rate} if (m.group, m.name) == small else {})
        for m in record.measures
    )
    hidden = redact(record.model_copy(update={"measures": measures}))
    assert {m.group for m in hidden.measures} == {"Male", "White", "non-White", ""}


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_with_a_few_people_in_a_bin_are_left_out_and_sums_of_weights(weighted):
    record = samples.evidence()
    few = record.matched_pairs.changes[0]
    many = few.model_copy(update={"counts": tuple(max(c, 10.0) for c in few.counts)})
    folds = {"weight": (500.0,) * 20, "error": (100.0,) * 20}
    record = changed(record, changes=(many, few), performance_folds=folds)
    data = record.data.model_copy(update={"weighted": weighted})
    hidden = redact(record.model_copy(update={"data": data})).matched_pairs
    assert hidden.changes == (() if weighted else (many,))
    assert bool(hidden.performance_folds) is not weighted


@pytest.mark.parametrize(
    ("people", "count", "kept"), [(150, 20, False), (2874, 20, True), (390, 40, False)]
)
def test_folds_of_fewer_than_ten_people_are_left_out(people, count, kept):
    folds = FoldInfluence(**dict.fromkeys(FoldInfluence.model_fields, (0.1,) * count))
    weights = {"weight": (people / count,) * count, "error": (people / count / 5,) * count}
    row = {"folds": folds, "people": people}
    hidden = redact(changed(samples.evidence(), row, performance_folds=weights)).matched_pairs
    assert bool(hidden.performance_folds) is kept
    assert (hidden.comparisons[0].folds is not None) is kept


def test_shares_that_are_a_few_people_are_left_out():
    few = {"people": 3012, "changed_up": 4 / 3012, "changed_down": 0.0, "events": 3.0}
    (found,) = redact(changed(samples.evidence(), few)).matched_pairs.comparisons
    assert math.isnan(found.changed_up)
    assert math.isnan(found.events)
    assert found.changed_down == 0


def test_what_names_levels_in_a_metric_or_its_features_is_gone():
    record = samples.flow()
    origin = {**record.metric.origin, "levels": ["Martian"], "first_row": 1234}
    about = {"origin": origin, "directions": ({"job=Spy": 0.9},)}
    features = {"features": ("age", "job=Spy", "job=Baker")}
    update = {"metric": record.metric.model_copy(update=about)}
    update["data"] = record.data.model_copy(update=features)
    hidden = redact(record.model_copy(update=update))
    assert hidden.data.features == ("age", "job")
    assert len(hidden.metric.directions) == 1
    assert hidden.metric.origin == record.metric.origin
    assert not any(word in hidden.to_json() for word in ("Martian", "Spy"))


@pytest.mark.parametrize(("newly_wrong", "kept"), [(9, False), (104, True)])
def test_tables_of_errors_with_a_small_cell_are_left_out(newly_wrong, kept):
    cells = {"both": 500.0, "newly_wrong": newly_wrong, "newly_right": 61.0, "neither": 700.0}
    test = samples.flow().tests["loss_ratio"].model_copy(update={"details": cells | {"kish": 1.2}})
    hidden = redact(samples.flow(tests={"loss_ratio": test})).tests["loss_ratio"].details
    rounded = {"both": 500, "newly_wrong": 100, "newly_right": 60, "neither": 700}
    assert hidden == {"kish": 1.2} | (rounded if kept else {})


@pytest.mark.parametrize("name", ["comparators.csv", "rows.parquet"])
def test_files_of_single_people_are_refused(tmp_path, name):
    result = tmp_path / "result.json"
    result.write_text(samples.evidence().to_json())
    ended = run("report", result, "--redact", "-o", tmp_path / name)
    assert ended.exit_code == 2
    assert not (tmp_path / name).exists()
