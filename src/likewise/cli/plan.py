"""``likewise plan``: how many people an audit needs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options

WIDTH = 78


def plan(
    effect: Annotated[
        float | None, typer.Option(help="Ratio the audit should find; above delta.")
    ] = None,
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    power: Annotated[float, typer.Option(help="How often it should be found.")] = 0.8,
    sd: Annotated[
        float | None, typer.Option(help="Standard deviation of one person's loss ratio.")
    ] = None,
    skewness: Annotated[
        float | None, typer.Option(help="Skewness of one person's loss ratio, with --sd.")
    ] = None,
    base_error: Annotated[
        float | None, typer.Option(help="Share of wrong decisions before anybody is moved.")
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="Outcomes of a small audit, in place of --sd and the like.")
    ] = None,
    seed: options.Seed = None,
) -> None:
    """Say how many people it takes to find an unfairness of a given size.

    For the loss ratio give --sd, for the error rates --base-error, or for both the outcomes of a
    pilot audit, from which samples are drawn. The metric is taken as given: where a learned one is
    held back by placebos, no number of people helps. Audits by counterparts (--may-matter) cannot
    be planned: they say themselves which ratios they would find (Detectable).

    Example: likewise plan --effect 1.4 --sd 0.9 --base-error 0.2
    """
    from likewise.inference.sample_size import plan as make_plan
    from likewise.outcomes import Outcomes

    settings = options.settings_from(None, {"delta": delta, "alpha": alpha, "seed": seed})
    saved = None if pilot is None else Outcomes.read(pilot)
    planned = make_plan(
        effect,
        settings.delta,
        settings.alpha,
        power,
        sd=sd,
        skewness=skewness,
        base_error=base_error,
        pilot=saved,
        seed=settings.seed,
    )
    print(_page(planned))
    if saved is not None:
        _warn(planned, saved)
    print(f"Settings {settings.hash[:12]}")


def _page(planned: Any) -> str:
    from likewise.report.layout import number, percent, wrap
    from likewise.report.verdict_words import TITLES

    lines = [
        f"People needed for a power of {percent(planned.power)} "
        f"(tolerance {planned.delta:g}, level {planned.alpha:g})"
    ]
    for row in planned.rows:
        lines += ["-" * WIDTH, f"{TITLES[row.test]} of {number(row.effect, 3)}: {row.n} people"]
        lines += ["  people " + "".join(f"{n:>11}" for n, _ in row.curve)]
        lines += ["  power  " + "".join(f"{percent_of(p):>11}" for _, p in row.curve)]
        lines += wrap(f"{row.assumes} ({row.method})")
    lines.append("-" * WIDTH)
    for note in planned.notes:
        lines += wrap(note, "")
    return "\n".join(lines)


def _warn(planned: Any, pilot: Any) -> None:
    """Say where placebos of the pilot would hold a finding back, however many people there are."""
    from likewise.inference.verdict import placebos_against, placebos_tried
    from likewise.report.layout import wrap
    from likewise.report.verdict_words import TITLES

    for row in planned.rows:
        tried = placebos_tried(pilot.about, row.test)
        if tried and (why := placebos_against(tried, planned.alpha)):
            said = f"Under this metric no number of people would do: in the pilot {why}."
            print("\n".join(wrap(f"Warning ({TITLES[row.test]}): {said}", "")))


def percent_of(power: float) -> str:
    """Return a power to a tenth of a per cent, never rounded up to all."""
    return f"{min(100 * power, 99.9):.1f} %"
