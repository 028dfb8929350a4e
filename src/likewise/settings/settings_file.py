"""Settings files: TOML that explains every line, and holds only what differs from the default."""

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic

from likewise.errors import InvalidFile
from likewise.files import read_whole
from likewise.settings import Settings, make_settings

MAX_BYTES = 1_000_000  # bytes of a settings file that are read


def settings_and_files(path: str | Path | None) -> tuple[Settings, dict[str, Any]]:
    """Read a settings file, and what it names in ``[files]``: model, data, pool, metric, encoder.

    Paths have no part in the settings and their hash.
    """
    if path is None:
        return Settings(), {}
    content = read_whole(path, most=MAX_BYTES)
    try:
        choices = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{str(path)!r} is not a TOML settings file: {error}.") from None
    files = choices.pop("files", {})
    known = ("model", "data", "pool", "metric", "encoder")
    if not isinstance(files, dict) or not set(files) <= set(known):
        raise InvalidFile(f"[files] in {str(path)!r} names {', '.join(known)}, and nothing else.")
    found: dict[str, Any] = {}
    for name, value in files.items():
        several = [value] if isinstance(value, str) else value
        if not (isinstance(several, list) and several and all(isinstance(p, str) for p in several)):
            raise InvalidFile(f"{name} under [files] in {str(path)!r} is a path, not {value!r}.")
        # Relative to the settings file, unless it is an address or a module's name.
        places = [one if ":" in one else str(Path(path).parent / one) for one in several]
        found[name] = places if name in ("data", "pool") else places[0]
    return make_settings(choices, f" in {path}"), found


def write_settings(settings: Settings, *, everything: bool = False) -> str:
    """Return a settings file that is read as these settings: what differs, or everything."""
    lines = ["# Choices of an audit. Fix them before you look at the data."]
    lines += [] if everything else ["# What is not said here has its default."]
    lines += _section(settings, None if everything else Settings(), (), "")
    return "\n".join(lines).rstrip() + "\n"


def _section(
    section: pydantic.BaseModel, usual: pydantic.BaseModel | None, path: tuple[str, ...], why: str
) -> Iterator[str]:
    """Yield the lines of a section: what stands in it (other than usual), then those within."""

    def comment(words: str) -> list[str]:
        return textwrap.wrap(words, 98, initial_indent="# ", subsequent_indent="# ")

    own: list[str] = []
    within: list[str] = []
    for name, value in section:
        field, default = type(section).model_fields.get(name), getattr(usual, name, None)
        words = (field and field.description) or ""
        if isinstance(value, pydantic.BaseModel):
            within += _section(value, default, (*path, name), words)
        elif field is None and isinstance(value, dict):
            within += ["", f"[{'.'.join((*path, name))}]"]
            within += [f"{key} = {_toml(v)}" for key, v in value.items() if v is not None]
        elif usual is None or value != default:
            shown = f"# {name} =" if value is None else f"{name} = {_toml(value)}"
            own += [*comment(words), shown]
    if own and path:
        yield from ("", *comment(why), f"[{'.'.join(path)}]")
    yield from (*own, *within)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        keys = {k: k if re.fullmatch(r"[A-Za-z0-9_-]+", k) else _toml(k) for k in value}
        pairs = [f"{keys[k]} = {_toml(v)}" for k, v in value.items() if v is not None]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's too, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
