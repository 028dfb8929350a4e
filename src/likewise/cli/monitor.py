"""``likewise monitor``: follow a model as people come, and look whenever you like."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, say
from likewise.cli.options import argument, option

ROWS = (
    "Rows of audits (.parquet), in order; before them the first audit's result (.json) to start "
    "matched pairs."
)


def monitor(
    files: Annotated[list[Path], argument(ROWS, "[RESULT] ROWS...")],
    state: Annotated[Path | None, option("File to go on from and to save to.", "FILE")] = None,
    delta: options.Delta = None,
) -> None:
    """Feed rows of audits to a betting test that stays valid however often you look.

    All rows must come from audits with the same model and settings. Files that were fed before are
    skipped, so that it can run every night. The exit code is 1 from the first evidence on.

    Example: likewise monitor first.json monday.parquet tuesday.parquet --state state.json
    """
    import hashlib

    from likewise.errors import InvalidSettings
    from likewise.files import check_outputs
    from likewise.outcomes import Outcomes, read_rows
    from likewise.record import Record
    from likewise.stats.monitor import Monitor

    check_outputs([state], files)
    first = files[0] if files[0].suffix == ".json" else None
    given: dict[str, Any] = {} if delta is None else {"delta": delta}
    if state is not None and state.exists():
        follower = Monitor.load(state, **given)
    else:
        follower = Monitor(**given) if first is None else Monitor.from_audit(Record.read(first))
        if delta not in (None, follower.delta):
            raise InvalidSettings(
                f"--delta was {follower.delta:g} in the first audit: {delta:g} needs another one."
            )
    lines = []
    for path in files if first is None else files[1:]:
        piece: Any = read_rows(path) if follower.bets else Outcomes.read(path)
        with path.open("rb") as file:
            source = hashlib.file_digest(file, "sha256").hexdigest()
        if source in follower.sources:
            say(f"{path.name} was fed before and is skipped.")
            continue
        follower.update(piece, source=source)
        if state is not None:
            follower.save(state)
        one = follower.look()
        whom = f" with {one.bet.attribute} = {one.bet.group}" if one.bet else ""
        fed = f"{one.n:>10,} people{whom} so far"
        lines.append(f"{path.name:30} {fed}   smallest p {one.p_value:.2g}")
    found, rejected = _found(follower)
    print("\n".join([*lines, found]))
    raise typer.Exit(EVIDENCE if rejected else NO_EVIDENCE)


def _found(follower: Any) -> tuple[str, bool]:
    """Return what is known now in words, and whether it is evidence."""
    for look in follower.looks():
        by, what = "", f"the mean loss ratio is above {follower.delta:.3g}"
        if (bet := look.bet) is not None:
            way = "above" if bet.direction == "up" else "below"
            by = f" by {bet.attribute},"
            what = (
                f"the ratio {bet.group} → {bet.other} of {bet.outcome!r} is {way} {bet.limit:.3g}"
            )
        if look.held_back:
            return f"Inconclusive: the limit was exceeded, but {look.held_back}.", False
        if look.rejected:
            return f"Evidence of unfairness{by} since row {look.rejected_at:,}: {what}.", True
    return (
        f"Inconclusive so far. A model within the limit {follower.delta:g} is ever flagged "
        f"with probability at most {100 * follower.alpha:g} %, however often you look."
    ), False
