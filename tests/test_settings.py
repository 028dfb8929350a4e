import functools
import itertools
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidFile, InvalidSettings
from likewise.settings import Settings, make_settings
from likewise.settings.arguments import resolve_settings
from likewise.settings.choices import METHODS
from likewise.settings.settings_file import settings_and_files, write_settings


@given(
    delta=st.floats(1, 5),
    alpha=st.floats(0.001, 0.5),
    label=st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20),
    lam=st.floats(1e-3, 1e6),
)
def test_a_settings_file_is_read_back_as_it_was(tmp_path_factory, delta, alpha, label, lam):
    choices = {"delta": delta, "alpha": alpha, "columns": {"label": label}}
    settings = make_settings(choices | {"method": {"name": "gradient_flow", "lam": lam}})
    path = tmp_path_factory.mktemp("settings") / "audit.toml"
    path.write_text(write_settings(settings), encoding="utf-8", newline="")
    assert settings_and_files(path)[0] == settings


def test_the_hash_changes_with_any_choice_and_with_nothing_else():
    assert Settings().hash == make_settings({"delta": 1.25}).hash
    hashes = {Settings().changed(**c).hash for c in ({}, {"method__lam": 49.0}, {"seed": 1})}
    assert len(hashes) == 3
    assert make_settings({"method": "reach"}) == make_settings({"method": {"name": "reach"}})
    named = Settings(labels={"pi_rat": "payment ratio", "black = yes": 'Black "applicants"'})
    assert make_settings(tomllib.loads(write_settings(named))) == named
    assert named.hash == Settings().hash
    assert named.with_set(['labels.sex="gender"']).labels["sex"] == "gender"


def test_a_choice_is_set_by_its_path():
    loss = ["tests.loss_ratio.interval=paper"]
    columns = ["columns.label=my label", "columns.protected=['sex', 'race']"]
    reach = ["method.name=reach", "method.budget=30", "delta=1.5"]
    settings = Settings().with_set([*reach, *loss, *columns, "decide.favourable=1"])
    assert (settings.method.name, settings.method.params) == ("reach", {"budget": 30})
    assert (settings.delta, settings.decide.favourable) == (1.5, "1")
    assert (settings.columns.label, settings.columns.protected) == ("my label", ("sex", "race"))
    assert settings.tests.params("loss_ratio") == {"interval": "paper"}
    for bad in ("method", "method..lam=2", "=3", "colour.red=1", "delta.high=1"):
        with pytest.raises(InvalidSettings):
            Settings().with_set([bad])


def test_another_map_begins_with_its_own_defaults():
    flow = Settings().changed(method="gradient_flow", method__lam=20.0)
    assert flow.changed(method__lam=30.0).method.params == {"lam": 30.0}
    assert flow.changed(method="reach", method__budget=5).method.params == {"budget": 5}
    longer = flow.changed(method="gradient_flow", method__time=2.0)
    assert longer.method.params == {"lam": 20.0, "time": 2.0}


def test_a_settings_file_holds_what_differs_and_explains_every_line():
    settings = Settings().changed(delta=1.5, method="gradient_flow", method__lam=20.0)
    lines = write_settings(settings)
    written = [line for line in lines.splitlines() if "=" in line and line[0] != "#"]
    assert written == ["delta = 1.5", 'name = "gradient_flow"', "lam = 20.0"]
    for before, line in itertools.pairwise(lines.splitlines()):
        if line and line[0] not in "#[" and "lam" not in line:
            assert before.startswith("# ")


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"delta": 0.99}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"flow": {"colour": 1}}, "flow"),
        ({"tests": {"loss_ratio": 3}}, "loss_ratio"),
        ({"tests": "full"}, "tests.run"),
        ({"metric": {"colour": 1}}, "metric.colour"),
        ({"cap": 1.2}, "cap"),
        ({"colour": "red"}, "colour"),
        ({"dleta": 1.3}, "Did you mean 'delta'"),
        ({"decide": {"thresold": 0.3}}, "Did you mean 'threshold'"),
        ({"columns": {"csv": {"separator": "ab"}}}, "one character, or tab (got 'ab')"),
        ({"columns": {"csv": {"decimal": ";"}}}, "columns.csv.decimal"),
    ],
)
def test_a_bad_choice_is_named_in_one_sentence(choices, word):
    with pytest.raises(InvalidSettings) as error:
        make_settings(choices)
    assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_settings_file_is_refused(tmp_path):
    with pytest.raises(InvalidFile, match="There is no file"):
        settings_and_files(tmp_path / "absent.toml")
    for text, words in (
        ("delta = = 2", "not a TOML"),
        ("[files]\nmodel = 3", "model under .files. in .* is a path, not 3"),
        ("[files]\ndata = []", "is a path, not "),
    ):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(InvalidFile, match=words):
            settings_and_files(tmp_path / "bad.toml")


def test_the_papers_procedure_is_the_same_however_it_is_asked_for():
    flow = METHODS.make("gradient_flow", {})
    assert (Settings().delta, Settings().alpha, flow.lam, flow.time) == (1.25, 0.05, 50.0, 5.0)
    found, _ = resolve_settings(Settings(paper=True))
    assert found == resolve_settings(None, paper=True)[0] == resolve_settings(found)[0]
    assert found.method.params == {"solver": "euler", "steps": 500}
    assert found == Settings().as_in_paper()
    assert (found.metric.C, found.decide.interval, found.decide.metric) == (1.0, "paper", "fixed")
    longer, _ = resolve_settings(Settings().with_set(["method.lam=20"]), paper=True)
    assert longer.method.params == {"solver": "euler", "steps": 500, "lam": 20}
    for other in ({"method": "reach"}, {"columns": {"may_matter": ["a"]}}):
        with pytest.raises(InvalidSettings, match="leave out the method and the columns"):
            resolve_settings(make_settings(other), paper=True)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Index])
def test_arguments_are_taken_as_they_are_written_in_python(kind):
    found, _ = resolve_settings(None, protected=kind(["a", "b"]), label_map={"no": False})
    assert (found.columns.protected, found.columns.label_map) == (("a", "b"), {"no": "False"})
    assert resolve_settings(None, protected=kind([]))[0] == Settings()
    assert resolve_settings(None, may_matter="income")[0].columns.may_matter == ("income",)
    assert resolve_settings({"delta": 1.5})[0] == Settings(delta=1.5)
    with pytest.raises(InvalidSettings, match=r"settings is 'a.toml'. Give likewise.Settings"):
        resolve_settings("a.toml")
    # Choices within choices without end are refused.
    deep = functools.reduce(lambda inner, _: [inner], range(600), 0)
    with pytest.raises(InvalidSettings, match=r"is refused: .*depth"):
        make_settings({"method": {"name": "gradient_flow", "x": deep}})
