"""``likewise test``: repeat the tests on saved outcomes."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE


def repeat(
    outcomes: Annotated[Path, typer.Argument(help="Outcomes saved by an audit (Parquet).")],
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    interval: options.Interval = None,
) -> None:
    """Repeat both tests on saved OUTCOMES, without the model.

    Example: likewise test outcomes.parquet --delta 1.1
    """
    from likewise.checks.judge import judge
    from likewise.inference.outcomes import Outcomes
    from likewise.report.words import sentence, tests_table, wrap

    settings = options.settings_from(
        None, {"delta": delta, "alpha": alpha, "decide__interval": interval}
    )
    judged = judge(Outcomes.read(outcomes), settings)
    print(tests_table(judged.records.values()))
    print("\n".join(wrap(sentence(judged.deciding), "")))
    unfair = judged.deciding.outcome == "evidence_of_unfairness"
    raise typer.Exit(EVIDENCE if unfair else NO_EVIDENCE)
