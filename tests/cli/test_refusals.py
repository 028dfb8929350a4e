"""Bad input that is easily taken for a bug: one sentence, exit code 2, and nothing guessed."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from typer.testing import CliRunner

import likewise
from likewise.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def sentence(result):
    """Return the one line with which a command refused."""
    assert result.exit_code == 2, result.output + result.stderr
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Warning")]
    assert len(lines) == 1, lines
    return lines[0]


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
    likewise.save_model(module, folder / "model.safetensors", classes=("no", "yes"))
    return folder


def audited(world, *flags):
    """Rehearse the audit of this world."""
    return run("audit", world / "model.safetensors", world / "people.csv", "--label", "y",
               "--protected", "sex", "--dry-run", *flags)  # fmt: skip


def test_inputs_that_were_named_are_not_added_to(world):
    assert audited(world).exit_code == 0
    assert "takes 3 features, but the data have 2" in sentence(audited(world, "--inputs", "b,a"))
    assert audited(world, "--inputs", "sex,b,a").exit_code == 0
