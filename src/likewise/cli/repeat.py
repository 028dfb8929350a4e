"""``likewise test``: repeat the tests on saved outcomes."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, NOT_TRUSTWORTHY


def repeat(
    outcomes: Annotated[Path, typer.Argument(help="Outcomes saved by an audit (Parquet).")],
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    interval: options.Interval = None,
) -> None:
    """Repeat both tests on saved OUTCOMES, without the model; the metric is taken as given.

    A metric that was learned accuses only if the audit's placebos allow it.

    Example: likewise test outcomes.parquet --delta 1.1
    """
    from likewise.engine.decide import judge_outcomes
    from likewise.outcomes import Outcomes, troubles
    from likewise.report.layout import wrap
    from likewise.report.verdict_words import sentence, tests_table

    settings = options.settings_from(
        None, {"delta": delta, "alpha": alpha, "decide__interval": interval}
    )
    saved = Outcomes.read(outcomes)
    judged = judge_outcomes(saved, settings)
    print(tests_table(judged.records.values()))
    made = saved.about.get("settings_hash")
    audited = f"; the audit's own {made[:12]}" if made else ""
    tolerance = f"Tolerance {settings.delta:g}, level {settings.alpha:g}"
    print(f"{tolerance}; settings {settings.hash[:12]}{audited}")
    learned = saved.about.get("placebo") is not None
    print("\n".join(wrap(sentence(judged.deciding, this_metric=learned), "")))
    if stuck := troubles(saved.counts()):
        print("\n".join(f"Not trustworthy: {reason}." for reason in stuck))
        raise typer.Exit(NOT_TRUSTWORTHY)
    unfair = judged.deciding.outcome == "evidence_of_unfairness"
    raise typer.Exit(EVIDENCE if unfair else NO_EVIDENCE)
