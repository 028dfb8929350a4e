"""What ``likewise reproduce`` calls: run a study, write it down, say what came out."""

import json
import textwrap
from importlib.metadata import version
from pathlib import Path

from likewise.method import Progress
from likewise_studies.figures import save
from likewise_studies.reproduction import Reproduction, reproduce


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


def write(found: Reproduction, folder: Path) -> list[Path]:
    """Write all files of a reproduction into ``folder``; return where they are."""
    written = []
    for name, figure in found.figures.items():
        written += save(figure, folder, name)
    head = {"study": found.study, "likewise_version": version("likewise")}
    texts = {
        "results.json": json.dumps({**head, **found.results, "notes": found.notes}, indent=1),
        "page.md": page(found),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def page(found: Reproduction) -> str:
    """Return a Markdown page: heading, tables, figures, notes."""
    parts = [f"# {found.title}"]
    for table in found.tables:
        parts += [f"{table.title}.", table.markdown()]
    parts += [f"![{name.replace('_', ' ')}]({name}.png)" for name in found.figures]
    parts += ["## What to know", "\n".join(f"- {note}" for note in found.notes)]
    return "\n\n".join(parts) + "\n"
