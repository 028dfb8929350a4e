"""Bad input that is easily taken for a bug: one sentence, exit code 2, and nothing guessed."""

import os
import re
import subprocess
import sys
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from helpers import run, sentence
from likewise.cli.init import _association
from likewise.cli.options import mapping
from likewise.models import save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """People whose sex is 0 or 1, and a network that reads sex, a and b."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(3)
    sex, a, b = rng.integers(0, 2, 200), rng.normal(size=200), rng.normal(size=200)
    y = np.where(a + b + rng.normal(size=200) > 0, "yes", "no")
    table = pa.table({"sex": sex, "a": a, "b": b, "y": y})
    pyarrow.csv.write_csv(table, folder / "people.csv")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    save_model(module, folder / "model.safetensors", classes=("no", "yes"))
    return folder


def audited(world, *flags):
    """Rehearse the audit of this world."""
    return run("audit", world / "model.safetensors", world / "people.csv", "--label", "y",
               "--protected", "sex", "--dry-run", *flags)  # fmt: skip


def test_columns_that_a_model_reads_are_named_and_not_guessed(world):
    said = sentence(audited(world))
    assert "takes 3 inputs" in said
    assert "model.columns" in said
    assert audited(world, "--set", "model.columns=sex,a,b").exit_code == 0
    assert "takes 3 features, but the data have 2" in sentence(
        audited(world, "--set", "model.columns=b,a")
    )
    assert "reads a column 'c'" in sentence(audited(world, "--set", "model.columns=sex,a,c"))


def test_a_cell_that_keeps_the_model_from_being_run_is_named(world, tmp_path):
    header, *lines = (world / "people.csv").read_text().splitlines()
    sex, _, *rest = lines[3].split(",")
    lines[3] = ",".join([sex, "abc", *rest])
    (tmp_path / "bad.csv").write_text("\n".join([header, *lines]))
    flags = ["--label", "y", "--protected", "sex", "--set", "model.columns=sex,a,b", "--dry-run"]
    said = sentence(run("audit", world / "model.safetensors", tmp_path / "bad.csv", *flags))
    assert "Column 'a' of bad.csv is read as text, because row 4 holds 'abc' among" in said


def test_labels_are_mapped_to_classes_of_the_model_alone(world):
    columns = ["--set", "model.columns=sex,a,b"]
    assert audited(world, *columns, "--label-map", "yes=yes,no=no").exit_code == 0
    said = sentence(audited(world, *columns, "--label-map", "yes=banana,no=no"))
    assert "'banana' (label_map), which is not a class" in said
    assert "'no', 'yes'" in said
    said = sentence(audited(world, *columns, "--label-map", "yes=yes", "--label-map", "yes=no"))
    assert "--label-map maps 'yes' to 'yes' and 'no'. Name one." in said


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ("sex=0,1", "--bins '1' is no pair: write COLUMN=CUT, several as age=30:50."),
        ("sex=zero", "'columns.bins.sex.0' is refused: input should be a valid number"),
    ],
)
def test_how_cuts_are_written_is_said(world, cut, words):
    assert words in sentence(audited(world, "--bins", cut))


def test_cuts_of_a_repeated_name_add_up():
    for typed in (["age=30", "age=50", "years=2"], ["age=30:50,age=30:50", "years=2"]):
        assert mapping(typed, "--bins") == {"age": "30:50", "years": "2"}


LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        ("demo", "--out", "{file}"),
        ("audit", "{long}.onnx", "{file}", "--label", "y"),
        ("audit", "m.onnx", "{file}", "--label", "y", "-o", "{long}/r.json"),
        ("audit", "m.onnx", "{long}.csv", "--label", "y"),
        ("monitor", "o.parquet", "--state", "{long}.json"),
        ("init", "m.onnx", "{file}", "-o", "{long}.toml"),
    ],
)
def test_a_path_that_cannot_be_used_is_no_bug(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("y\n1\n")
    (tmp_path / "m.onnx").write_text("")
    said = sentence(run(*(word.format(file="file", long=LONG) for word in command)))
    assert "Internal" not in said


DEEP, HUGE = "[" * 100_000, "1" * 5000


@pytest.mark.parametrize("text", [DEEP, HUGE])
def test_files_no_audit_wrote_are_refused(tmp_path, text):
    (tmp_path / "f.json").write_text(f'{{"schema_version": {text}')
    assert "is not a result file" in sentence(run("report", tmp_path / "f.json"))
    (tmp_path / "f.toml").write_text(f"delta = {text}")
    said = sentence(run("audit", "m.onnx", "d.csv", "--settings", tmp_path / "f.toml"))
    assert "is not a TOML settings file" in said
    fed = ("monitor", "o.parquet", "--state", tmp_path / "f.json")
    assert "is not a monitor file" in sentence(run(*fed))
    (tmp_path / "f.json").write_text('{"schema_version": 1, "x": [{"y": 1' + "0" * 400 + "}]}")
    assert "of more than 300 digits" in sentence(run("report", tmp_path / "f.json"))
    assert "of more than 300 digits" in sentence(run(*fed))


PIPED = """
import typer
from likewise.cli.exits import guarded

app = typer.Typer()

@app.command()
@guarded
def command():
    print("line\\n" * {lines})
    raise typer.Exit(1)

app()
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [10, 100_000])
def test_a_reader_that_leaves_does_not_change_the_exit_code(unbuffered, lines):
    nobody, pipe = os.pipe()
    os.close(nobody)
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-c", PIPED.format(lines=lines)]
    ended = subprocess.run(
        command, stdout=pipe, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(pipe)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_key_in_an_address_is_not_in_the_command_of_a_result(monkeypatch):
    from likewise.cli.options import typed_command

    typed = ["likewise", "audit", "http://host/predict?api_key=abc", "--html=http://h/?k=abc"]
    monkeypatch.setattr("sys.argv", typed)
    assert "abc" not in typed_command()
    assert typed_command().startswith("likewise audit 'http://host/predict?sha256=")


def test_improve_names_what_is_lacking_and_nothing_else(world):
    asked = ("improve", "model.onnx", world / "people.csv", "--label", "y", "--protected", "sex")
    assert sentence(run(*asked)).endswith("Name the columns that may matter (--may-matter).")


@pytest.mark.parametrize("command", ["audit", "improve", "metric"])
def test_commands_take_the_encoder_that_a_settings_file_names(world, tmp_path, command):
    (tmp_path / "audit.toml").write_text('[files]\nencoder = "none.json"\n')
    model = [] if command == "metric" else [world / "model.safetensors"]
    asked = [command, *model, world / "people.csv", "--settings", tmp_path / "audit.toml"]
    asked += ["--label", "y", "--protected", "sex", "-o", tmp_path / "o.json"]
    assert "none.json" in sentence(run(*asked))


@pytest.mark.parametrize("command", ["init", "improve"])
def test_commands_that_read_csv_take_the_settings_that_their_errors_name(world, tmp_path, command):
    text = (world / "people.csv").read_text().replace(",", ";").replace(".", ",")
    (tmp_path / "people.csv").write_text(text)
    asked = [command, world / "model.safetensors", tmp_path / "people.csv", "--protected", "sex"]
    asked += ["-o", tmp_path / "out"]
    asked += ["--label", "y", "--may-matter", "a"] if command == "improve" else []
    assert "--set" in sentence(run(*asked))
    read = run(*asked, "--set", "columns.csv.separator=;", "--set", "columns.csv.decimal=,")
    if command == "improve":
        assert "200 people are too few" in sentence(read)
        return
    columns = tomllib.loads((tmp_path / "out").read_text())["columns"]
    assert columns["csv"] == {"separator": ";", "decimal": ","}
    assert "alone. Write others into" in sentence(run(*asked, "--set", "delta=2"))


def test_a_settings_file_lists_every_column_and_no_value_ends_a_comment(world, tmp_path):
    people = pyarrow.csv.read_csv(world / "people.csv")
    evil = pa.array(["x\ndelta = 9\n", "\r\x1b[2J", "ok", "ok"] * 50)
    pq.write_table(people.append_column("a\nb", evil), tmp_path / "people.parquet")
    path = tmp_path / "likewise.toml"
    made = run("init", world / "model.safetensors", tmp_path / "people.parquet",
               "--protected", "sex", "-o", path)  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert "fill in label and may_matter, then run" in made.output
    text = path.read_text()
    assert set(tomllib.loads(text)) == {"files", "columns", "decide"}
    assert tomllib.loads(text)["columns"] == {"protected": ["sex"]}
    for name in people.column_names:
        assert re.search(rf"^#   {name} .*(;|,)", text, re.MULTILINE)
    assert text.count("sex: association") == 4


def test_association_is_about_zero_for_any_random_column_and_one_for_a_copy():
    rng = np.random.default_rng(0)
    days = rng.permutation(np.datetime64("2020-01-01") + np.arange(1500))
    sex = rng.choice(["f", "m"], 1500)
    rows = pa.table(
        {
            "sex": sex,
            "copy": np.char.upper(sex),
            "date": days,
            "text": days.astype(str),
            "time": [f"{day} 12:30:00" for day in days],
            "name": [f"n{k}" for k in range(1500)],
            "number": rng.normal(size=1500),
        }
    )
    assert _association(rows, "copy", "sex") == pytest.approx(1)
    for name in rows.column_names[2:]:
        assert _association(rows, name, "sex") < 0.08
