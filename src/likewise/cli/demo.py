"""``likewise demo``: a real audit of a real model on real data."""

import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, say

if TYPE_CHECKING:
    import numpy as np


def demo(
    out: Annotated[Path, typer.Option(help="Folder for data, model, metric and result.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the split and of the training.")] = 0,
) -> None:
    """Train a small network on the Adult census data, and audit it.

    The model predicts whether someone earns more than 50 000 dollars. It sees neither sex nor
    race. People are compared with real people of the other sex and race, and of another side of
    a coin, which means nothing; then the paper's own test is made. Everything is written to a
    folder, and the commands are those you would type.

    Example: likewise demo --out demo
    """
    from likewise.cli.inputs import check_writable
    from likewise.files import make_folder

    make_folder(out)
    check_writable(out / "result.json")
    _prepare(out, seed)
    model, test = str(out / "model.safetensors"), str(out / "test.parquet")
    known = ["--label", "income", "--encoder", str(out / "encoder.json"), "--checks", "core"]
    code = _run(
        *("audit", model, test, "--protected", "sex,race,coin", "--may-matter", MAY_MATTER),
        *("--pool", str(out / "train.parquet"), *known),
        *("-o", str(out / "result.json"), "-o", str(out / "report.html")),
    )
    if code not in (NO_EVIDENCE, EVIDENCE):
        raise typer.Exit(code)
    print(f"\n{_of_the_coin(out / 'result.json')}")
    print(f"The audit's exit code was {code}. The report to look at: {out / 'report.html'}")
    print("\nThe paper's own test of the same model, and what it finds with the traits shuffled:")
    paper = out / "paper.json"
    code = _run(
        "audit", model, test, "--protected", "sex,race", "--paper", *known, "-o", str(paper)
    )
    if code not in (NO_EVIDENCE, EVIDENCE):
        raise typer.Exit(code)


def _of_the_coin(result: Path) -> str:
    """Say what a trait that means nothing gets."""
    from likewise.record import Record

    part = Record.read(result).counterparts
    assert part is not None
    coin = next(trait for trait in part.traits if trait.trait == "coin")
    accused = "is accused" if coin.outcome == "evidence_of_unfairness" else "is not accused"
    ratio = f"{coin.overall.estimate:.3f}"
    return f"The coin, which means nothing, gets a ratio of {ratio} and {accused}."


MAY_MATTER = "age,education-num,hours-per-week,capital-gain,capital-loss,workclass,occupation"
"""What may make a difference to what someone earns; sex, race and the family may not."""


def _prepare(out: Path, seed: int) -> None:
    """Write the two halves of the data with a coin for everyone, and a network trained on one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from likewise import data
    from likewise.models import save_model

    say("Fetching the Adult census data (once) …")
    split = data.adult(seed=seed)
    rng = np.random.default_rng(seed)
    for name, table in (("train", split.train_table), ("test", split.test_table)):
        coin = pa.array(rng.choice(["heads", "tails"], table.num_rows))
        pq.write_table(table.append_column("coin", coin), out / f"{name}.parquet")
    split.encoder.save(out / "encoder.json")
    say("Training a network with one hidden layer of 50 on the training people …")
    save_model(_train(split.train.x, split.train.y, seed), out / "model.safetensors")


def _train(x: "np.ndarray", y: "np.ndarray", seed: int) -> Any:
    """Return a small network that saw as many people of each class (Appendix F.3)."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(seed)
    pools = [np.flatnonzero(y == value) for value in np.unique(y)]
    rows = np.concatenate([rng.choice(pool, len(y) // len(pools)) for pool in pools])
    network = MLPClassifier(
        (50,), alpha=0, batch_size=250, learning_rate_init=1e-4, max_iter=20, random_state=seed
    )
    with warnings.catch_warnings():
        # Twenty passes are enough for a demonstration.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(x[rows], y[rows])


def _run(*arguments: str) -> int:
    """Run a command as a user would, and show it."""
    words = textwrap.wrap(
        shlex.join(["likewise", *arguments]),
        76,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n$ " + " \\\n".join(words), flush=True)
    return subprocess.run([sys.executable, "-m", "likewise", *arguments], check=False).returncode
