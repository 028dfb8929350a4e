"""Writes a reproduction down: table, JSON, figures, and a page that shows them."""

import json
from importlib.metadata import version
from pathlib import Path

from likewise_studies.figures import save
from likewise_studies.reproduction import Reproduction


def write(found: Reproduction, folder: Path) -> list[Path]:
    """Write all files of a reproduction into ``folder``; return where they are."""
    written = []
    for name, figure in found.figures.items():
        written += save(figure, folder, name)
    head = {"study": found.study, "likewise_version": version("likewise")}
    texts = {
        "table.csv": found.csv,
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
