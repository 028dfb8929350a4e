"""``likewise init``: write a settings file."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.errors import InvalidFile
from likewise.files import write_whole


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("audit.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a settings file with every choice of an audit, ready to be changed.

    Example: likewise init audit.toml
    """
    from likewise.settings import Settings
    from likewise.settings_file import write_settings

    if path.exists() and not force:
        raise InvalidFile(f"{str(path)!r} exists already. Pass --force to replace it.")
    write_whole(path, write_settings(Settings(), everything=True).encode())
    print(f"Wrote {path} (settings {Settings().hash[:12]}).")
