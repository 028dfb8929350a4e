"""``likewise demo``: a real audit of a real model on real data."""

import importlib
import shlex
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, NOT_TRUSTWORTHY, say
from likewise.cli.options import option


def demo(
    out: Annotated[Path, option("Folder for data, model and results.", "FOLDER")] = Path("demo"),
) -> None:
    """Train a small network on the Adult census data, and audit it.

    The model predicts whether someone earns more than 50,000 dollars. It sees neither sex nor
    race. People of the test sample are compared with comparable people of a reference sample, on
    which the model was not trained. Then the ICLR 2021 paper's test is made. Everything is written
    to a folder, and the commands are those you would type.

    Example: likewise demo --out demo
    """
    from likewise.files import check_outputs, make_folder

    make_folder(out)
    result, paper = out / "result.json", out / "paper.json"
    check_outputs([result, paper, out / "report.html"])
    _prepare(out)
    model, test = str(out / "model.safetensors"), str(out / "test.parquet")
    (out / "names.toml").write_text(DISPLAY_NAMES)
    known = ["--label", "income", "--protected", "sex,race", "--encoder", str(out / "encoder.json")]
    known += ["--settings", str(out / "names.toml")]
    code = _run(
        *("audit", model, test, *known, "--favourable", ">50K", "--may-matter", MAY_MATTER),
        *("--pool", str(out / "reference.parquet")),
        *("-o", str(result), "-o", str(out / "report.html")),
    )
    if code not in (NO_EVIDENCE, EVIDENCE, NOT_TRUSTWORTHY):
        raise typer.Exit(code)
    print("\nThe ICLR 2021 paper's test of the same model, its metric learned from the people:")
    code = _run("audit", model, test, *known, "--paper", "--checks", "core", "-o", str(paper))
    if code not in (NO_EVIDENCE, EVIDENCE):
        raise typer.Exit(code)


MAY_MATTER = "age,education-num,hours-per-week,capital-gain,capital-loss,workclass,occupation"
"""What may make a difference to what someone earns; sex, race and the family may not."""

DISPLAY_NAMES = """[labels]
"sex = Female" = "women"
"sex = Male" = "men"
"""
"""How groups are named in sentences and tables, in place of their values in the data."""

TRAINED = 0.6
"""Share of the training split that the model is trained on; the rest is the reference sample."""


def _prepare(out: Path) -> None:
    """Write three parts of the data, and a network that was trained on the first."""
    import numpy as np
    import pyarrow.parquet as pq
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    from likewise.models import save_model

    say("Fetching the Adult census data (once) …")
    # By name: the library itself does not depend on the studies that come with it.
    split = importlib.import_module("likewise_studies.datasets").adult(seed=0)
    trained = int(TRAINED * len(split.train))
    pq.write_table(split.train_table.slice(trained), out / "reference.parquet")
    pq.write_table(split.test_table, out / "test.parquet")
    split.encoder.save(out / "encoder.json")
    say(f"Training a network with one hidden layer of 50 on {trained:,} people …")
    x, y = split.train.x[:trained], split.train.y[:trained]
    rng = np.random.default_rng(0)
    # As many people of each class (Appendix F.3).
    classes = [np.flatnonzero(y == value) for value in np.unique(y)]
    rows = np.concatenate([rng.choice(one, len(y) // len(classes)) for one in classes])
    network = MLPClassifier(
        (50,), alpha=0, batch_size=250, learning_rate_init=1e-4, max_iter=20, random_state=0
    )
    with warnings.catch_warnings():
        # Twenty passes are enough for a demonstration.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(x[rows], y[rows])
    save_model(network, out / "model.safetensors")


def _run(*arguments: str) -> int:
    """Run a command as a user would, and show it."""
    command = shlex.join(["likewise", *arguments])
    words = textwrap.wrap(command, 76, break_long_words=False, break_on_hyphens=False)
    print("\n$ " + " \\\n    ".join(words), flush=True)
    return subprocess.call([sys.executable, "-P", "-m", "likewise", *arguments])
