"""``likewise monitor``: follow outcomes as they come, and look whenever you like."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, say

WIDTH = 78


def monitor(
    outcomes: Annotated[
        list[Path],
        typer.Argument(
            help="Outcomes saved by audits, in the order they came.", show_default=False
        ),
    ],
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    lo: Annotated[
        float | None, typer.Option(help="Smallest ratio that can occur; 0 is always right.")
    ] = None,
    planned: Annotated[
        int | None, typer.Option(help="Rows at which the confidence sequence is tightest (1000).")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="File to go on from and to save to; made if missing.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write what is known now to this file.")] = None,
) -> None:
    """Feed OUTCOMES to a sequential test that stays valid however often one looks.

    All pieces must come from the same model, metric and map. Files that were fed before are
    recognised and skipped, so `likewise monitor outcomes/*.parquet --state state.json` can run
    every night. The exit code is 1 from the first evidence of unfairness on. A metric that was
    learned accuses only if the audits' placebos allow it.

    Example: likewise monitor monday.parquet tuesday.parquet --state state.json
    """
    from likewise.inference.monitor import Monitor
    from likewise.outcomes import Outcomes

    chosen = {"delta": delta, "alpha": alpha, "lo": lo, "planned": planned}
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    resumed = state is not None and state.exists()
    follower = Monitor.load(state, **given) if resumed and state else Monitor(**given)
    lines = [_line(f"(so far, {state.name})", follower.look())] if resumed and state else []
    for path in outcomes:
        piece = Outcomes.read(path)
        source = _fingerprint(path)
        if source in follower.sources:
            say(f"{path.name} was fed before and is skipped.")
            continue
        follower.update(piece, source=source)
        if state is not None:
            follower.save(state)
        lines.append(_line(path.name, follower.look()))
    look = follower.look()
    made = follower.settings_hash
    print("\n".join([*_heading(look, made), *lines, "-" * WIDTH, *_sentences(look)]))
    if json is not None:
        _write(json, look, made)
    raise typer.Exit(EVIDENCE if look.rejected else NO_EVIDENCE)


def _heading(look: Any, made: str) -> list[str]:
    settings = f"; settings {made[:12]}" if made else ""
    return [
        f"Loss ratio against the tolerance {look.delta:g}, at level {look.alpha:g}{settings}",
        "-" * WIDTH,
        f"{'outcomes':36}{'rows':>10}{'mean':>9}{'e-value':>11}{'lower end':>12}",
    ]


def _line(name: str, look: Any) -> str:
    from likewise.report.layout import number

    bound = "–" if look.lower_bound is None else number(look.lower_bound)
    shown = name if len(name) <= 35 else "…" + name[-34:]
    return f"{shown:36}{look.n:>10}{number(look.mean):>9}{number(look.e_value, 3):>11}{bound:>12}"


def _sentences(look: Any) -> list[str]:
    from likewise.report.layout import number, percent, wrap

    needed = f"{1 / look.alpha:g}"
    if look.held_back:
        verdict = (
            f"Inconclusive: the e-value reached {needed} at row {look.rejected_at}, but "
            f"{look.held_back}."
        )
    elif look.rejected:
        verdict = (
            f"Evidence of unfairness since row {look.rejected_at}: the e-value reached {needed} "
            f"there. However often one looks, a model within the tolerance {look.delta:g} ever "
            f"gets that far with probability at most {percent(look.alpha)}."
        )
    else:
        verdict = (
            f"Inconclusive so far: the e-value has not reached {needed} (p-value "
            f"{look.p_value:.2g}, valid at any time). More rows may decide; a monitor never "
            "certifies."
        )
    if look.lower_bound is None:
        beside = "The confidence sequence says nothing before row 100, or while rows are equal."
    else:
        beside = (
            f"The mean ratio is above {number(look.lower_bound)} by the confidence sequence "
            f"({percent(1 - look.alpha)}, at all looks together, for many rows)."
        )
    return wrap(beside, "") + wrap(verdict, "")


def _fingerprint(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, look: Any, made: str) -> None:
    import dataclasses
    import json

    from likewise.files import write_whole
    from likewise.inference.verdict import plain

    values = dataclasses.asdict(look) | {
        "e_value": look.e_value,
        "rejected": look.rejected,
        "outcome": look.outcome,
        "settings_hash": made,
    }
    write_whole(path, f"{json.dumps(plain(values), indent=2)}\n".encode())
