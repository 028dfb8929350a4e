"""What ``likewise reproduce`` calls: run a study, write it down, say what came out."""

import textwrap
from pathlib import Path

from likewise_studies.jobs import Progress
from likewise_studies.output import write
from likewise_studies.reproduction import reproduce


def reproduce_into(
    study: str, folder: Path, *, splits: int | None, workers: int, progress: Progress | None
) -> str:
    """Run one of the paper's studies, write its files into ``folder``, and return its page of text.

    See `reproduce` for what the choices mean.
    """
    found = reproduce(study, folder, splits=splits, workers=workers, progress=progress)
    written = write(found, folder)
    notes = "\n".join(
        textwrap.fill(note, 80, initial_indent="- ", subsequent_indent="  ") for note in found.notes
    )
    names = ", ".join(path.name for path in written)
    tables = [table.text() for table in found.tables]
    return "\n\n".join([*tables, notes, f"Wrote {names} in {folder}."])
