"""``likewise monitor``: follow a model as people come, and look whenever you like."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, say
from likewise.cli.options import Number, argument, option

ROWS = (
    "Rows of audits (.parquet), in order; before them the first audit's result (.json) to start "
    "matched pairs."
)


def monitor(
    files: Annotated[list[Path], argument(ROWS, "[RESULT] ROWS...")],
    state: Annotated[Path | None, option("File to go on from and to save to.", "FILE")] = None,
    delta: options.Delta = None,
    lo: Annotated[Number, option("Gradient flow: smallest ratio that can occur.", "NUMBER")] = None,
) -> None:
    """Feed rows of audits to a betting test that stays valid however often you look.

    All rows must come from audits with the same model and settings. Files that were fed before are
    skipped, so that it can run every night. The exit code is 1 from the first evidence on.

    Example: likewise monitor first.json monday.parquet tuesday.parquet --state state.json
    """
    from likewise.files import check_outputs

    check_outputs([state], files)
    first = files[0] if files[0].suffix == ".json" else None
    follower = _follower(first, state, {"delta": delta, "lo": lo})
    lines = list(_feed(follower, files[1:] if first is not None else files, state))
    found, rejected = _said(follower)
    print("\n".join([*lines, found]))
    raise typer.Exit(EVIDENCE if rejected else NO_EVIDENCE)


def _follower(first: Path | None, state: Path | None, settings: dict[str, float | None]) -> Any:
    """Return a monitor: the saved one, one that starts from an audit, or one of loss ratios."""
    from likewise.record import Record
    from likewise.stats.monitor import Monitor

    given: dict[str, Any] = {name: v for name, v in settings.items() if v is not None}
    if state is not None and state.exists():
        return Monitor.load(state, **given)
    return Monitor(**given) if first is None else Monitor.from_audit(Record.read(first))


def _feed(follower: Any, rows: list[Path], state: Path | None) -> Iterator[str]:
    """Feed files one after another, saving the state after each; yield a line for each."""
    import hashlib

    from likewise.outcomes import Outcomes, read_rows

    pairs = follower.kind == "matched_pairs"
    for path in rows:
        piece = read_rows(path) if pairs else Outcomes.read(path)
        with path.open("rb") as file:
            source = hashlib.file_digest(file, "sha256").hexdigest()
        if source in follower.sources:
            say(f"{path.name} was fed before and is skipped.")
            continue
        follower.update(piece, source=source)
        if state is not None:
            follower.save(state)
        looks = follower.look() if pairs else (follower.look(),)
        one = min(looks, key=lambda look: look.p_value)
        whom = f" with {one.bet.attribute} = {one.bet.group}" if pairs else ""
        mean = "" if pairs else f"   mean ratio {one.mean:.3g}"
        fed = f"{one.n:>10,} people{whom} so far{mean}"
        yield f"{path.name:30} {fed}   smallest p {one.p_value:.2g}"


def _said(follower: Any) -> tuple[str, bool]:
    """Return what is known now in words, and whether it is evidence."""
    look = follower.look()
    if follower.kind == "matched_pairs":
        found = [one for one in look if one.rejected_at is not None]
        if found:
            bet = found[0].bet
            way = "above" if bet.direction == "up" else "below"
            return (
                f"Evidence of unfairness by {bet.attribute}, since row {found[0].rejected_at:,}: "
                f"the ratio {bet.group} → {bet.other} of {bet.outcome!r} is {way} {bet.limit:.3g}."
            ), True
        return (
            f"Inconclusive so far. A model within the limit {follower.delta:g} is ever flagged "
            f"with probability at most {follower.alpha:.0%}, however often you look."
        ), False
    if look.held_back:
        return f"Inconclusive: the limit was exceeded, but {look.held_back}.", False
    if look.rejected:
        return (
            f"Evidence of unfairness since row {look.rejected_at:,}: the mean loss ratio exceeds "
            f"{look.delta:g}. A model within the limit is ever flagged with probability at most "
            f"{look.alpha:.0%}."
        ), True
    return f"Inconclusive so far (p {look.p_value:.2g}, valid at any time).", False
