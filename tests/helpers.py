"""What several rooms' tests need: a sample of people, and a command run in this process."""

from typing import Any

import numpy as np
from click.testing import Result
from typer.testing import CliRunner

import likewise
from likewise.cli import app


def people(n: int = 300, seed: int = 0, classes: int = 2, **more: Any) -> likewise.AuditData:
    """Return people of two groups: the first two of four features tell which, and so the label."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 4)) + np.outer(group, [1.0, 0.5, 0, 0])
    score = x @ [1.0, 1.0, 0.5, 0.0] + 0.5 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return likewise.AuditData.from_arrays(x, y, {"group": group}, **more)


def run(*arguments: Any, **environment: Any) -> Result:
    """Run ``likewise`` with these arguments; what it does not turn into a sentence is raised."""
    variables = {name: str(value) for name, value in environment.items()}
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, catch_exceptions=False, env=variables)
