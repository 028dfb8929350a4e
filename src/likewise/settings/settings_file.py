"""Settings files: TOML that explains every line, and holds only what differs from the default."""

import json
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from likewise.errors import InvalidFile
from likewise.files import read_whole
from likewise.settings.audit_settings import Settings, make_settings

LARGEST = 1_000_000
"""Bytes of a settings file that are read."""


def read_settings(path: str | Path) -> Settings:
    """Read a settings file (TOML)."""
    try:
        choices = tomllib.loads(read_whole(path, most=LARGEST).decode())
    except InvalidFile:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{str(path)!r} is not a TOML settings file: {error}.") from None
    return make_settings(choices, f" in {path}")


Explain = Callable[[str, str], Mapping[str, str]]
"""From a kind (``map``, ``test``, ``check``) and a name to a sentence on each parameter."""


def write_settings(
    settings: Settings, *, everything: bool = False, explain: Explain | None = None
) -> str:
    """Return the text of a settings file that `read_settings` turns back into these settings.

    Parameters
    ----------
    everything
        Write also what is the default; without it the file holds only what differs.
    explain
        Says what the parameters of maps, tests and checks mean (`explain` of `choices`).
    """
    lines = ["# Choices of an audit. Fix them before you look at the data."]
    if not everything:
        lines.append(
            "# What is not said here has its default: `likewise init --all` writes that too."
        )
    lines += _section(settings, Settings(), (), everything, explain or (lambda kind, name: {}))
    return "\n".join(lines).rstrip() + "\n"


def _section(
    section: pydantic.BaseModel,
    usual: pydantic.BaseModel,
    path: tuple[str, ...],
    everything: bool,
    explain: Explain,
    why: str = "",
) -> Iterator[str]:
    """Yield the lines of a section: what stands in it, then the sections within."""
    own, within = [], []
    for name, field in type(section).model_fields.items():
        value, default = getattr(section, name), getattr(usual, name)
        if isinstance(value, pydantic.BaseModel):
            within.append((name, value, default, field.description or ""))
        elif everything or value != default:
            own.append((name, value, field.description or ""))
    tables = {k: v for k, v in (section.model_extra or {}).items() if isinstance(v, dict)}
    plain = {k: v for k, v in (section.model_extra or {}).items() if k not in tables}
    known = explain(path[0], getattr(section, "name", "")) if plain else {}
    own += [
        (name, value, known.get(name, "")) for name, value in plain.items() if value is not None
    ]
    if own and path:
        yield from ("", *comment(why), f"[{'.'.join(path)}]")
    for name, value, words in own:
        yield from comment(words)
        yield f"# {name} =" if value is None else f"{name} = {_toml(value)}"
    for name, inner, default, about in within:
        yield from _section(inner, default, (*path, name), everything, explain, about)
    for name, params in tables.items():
        known = explain(path[0].removesuffix("s"), name)
        yield from ("", f"[{'.'.join((*path, name))}]")
        for key, value in params.items():
            if value is not None:
                yield from comment(known.get(key, ""))
                yield f"{key} = {_toml(value)}"


def comment(words: str, indent: str = "") -> list[str]:
    """Return a sentence as lines of comment."""
    return textwrap.wrap(
        words, 98, initial_indent=f"# {indent}", subsequent_indent=f"# {indent}{indent}"
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's too, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
