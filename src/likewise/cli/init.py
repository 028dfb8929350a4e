"""``likewise init``: write a settings file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.errors import InvalidFile
from likewise.files import write_whole

PLAIN = bool | int | float | str


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("audit.toml"),
    assigned: options.Set = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Write every choice, also those at their default.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a settings file: the choices named by --set, or all of them, each explained.

    What the file does not say has its default.

    Example: likewise init audit.toml --set columns.label=income --set map.lam=20
    """
    from likewise.settings.settings_file import write_settings

    if path.exists() and not force:
        raise InvalidFile(f"{str(path)!r} exists already. Pass --force to replace it.")
    settings = options.settings_from(None, {}, assigned)
    text = write_settings(settings, everything=everything, explain=explain)
    if everything:
        text += "\n" + "\n".join(parameters()) + "\n"
    write_whole(path, text.encode())
    print(f"Wrote {path} (settings {settings.hash[:12]}).")


def explain(kind: str, name: str) -> Mapping[str, str]:
    """Return a sentence on each parameter of a map, test or check that is known by its name."""
    from likewise.errors import LikewiseError
    from likewise.settings import choices

    known = getattr(choices, f"{kind.upper()}S", None)
    try:
        return {} if known is None else choices.explain(known.find(name))
    except LikewiseError:
        return {}


def parameters() -> Iterator[str]:
    """Yield a comment on every parameter of what is built in: its default, and what it means."""
    from likewise.settings import choices
    from likewise.settings.settings_file import comment

    for section, known in (("map", choices.MAPS), ("tests", choices.TESTS)):
        for name in known.built_in:
            made = known.find(name)
            yield from ("", f"# Of the {known.kind} {name}:")
            for parameter, words in choices.explain(made).items():
                default = choices.parameters(made)[parameter].default
                where = parameter if section == "map" else f"{name}.{parameter}"
                usual = f" = {json.dumps(default)}" if isinstance(default, PLAIN) else ""
                yield from comment(f"{section}.{where}{usual}: {words}", "  ")
