"""Writes the reference from the code whenever the site is built, so that it is never old."""

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from mkdocs.structure.files import File, Files

import likewise
from likewise.cli.app import COMMANDS
from likewise.cli.app import command as built
from likewise.report.export import result_schema
from likewise.settings.choices import CHECKS, METHODS, Registry, parameters
from likewise.settings.settings_file import write_settings

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put generated text in the place of its mark; mkdocs calls this for every page."""
    return MARK.sub(lambda match: GENERATED[match[1]](), markdown)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the JSON schema of the result file to the site."""
    name = "reference/result.schema.json"
    files.append(File.generated(config, name, content=result_schema()))
    return files


def api() -> str:
    """Return an entry for every public name, where it is defined."""
    lines = []
    for name in likewise.__all__:
        found = getattr(likewise, name)
        if isinstance(found, type(likewise)):
            public = ", ".join(f"`{part}`" for part in getattr(found, "__all__", ()))
            lines += [f"### likewise.{name}", "", (found.__doc__ or "").strip(), "", public, ""]
        else:
            lines += [f"::: {found.__module__}.{found.__qualname__}", ""]
    return "\n".join(lines)


def commands() -> str:
    """Return the help of every command, as it is printed."""
    parts = []
    for name in COMMANDS:
        command = built(name)
        context = command.make_context(f"likewise {name}", [], resilient_parsing=True)
        context.max_content_width = context.terminal_width = 80
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def settings() -> str:
    """Return every setting with its default, as a settings file has them."""
    text = write_settings(likewise.Settings(), everything=True)
    return f"```toml\n{text}```\n"


def methods() -> str:
    """Return the parameters of every method."""
    return _parameters(METHODS)


def checks() -> str:
    """Return the parameters of every check."""
    return _parameters(CHECKS)


def _parameters(registry: Registry) -> str:
    parts = []
    for name, place in registry.built_in.items():
        module, _, cls = place.partition(":")
        found = getattr(importlib.import_module(f"likewise.{module}"), cls)
        first = (found.__doc__ or "").strip().splitlines()[0]
        parts.append(f"### {name}\n\n{first}\n")
        words = explain(found)
        fields = [(field.name, field.default) for field in parameters(found).values()]
        if fields:
            rows = [f"| `{field}` | `{default!r}` | {words[field]} |" for field, default in fields]
            parts.append(
                "| parameter | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
            )
    return "\n".join(parts)


def explain(cls: type) -> dict[str, str]:
    """Return a sentence on every parameter, from the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        _, _, body = text.partition("Parameters\n----------\n")
        body = re.split(r"\n\S[^\n]*\n-{3,}\n", body)[0]
        for names, words in re.findall(r"^(\w[\w, ]*)\n((?:[ \t]+.*\n?|\n)+)", body, re.M):
            sentence = " ".join(words.split())
            sentence = re.sub(r":math:`([^`]*)`", r"\1", sentence).replace("``", "")
            found |= dict.fromkeys(names.split(", "), re.split(r"(?<=\.) ", sentence)[0])
    return {name: found.get(name, "") for name in parameters(cls)}


GENERATED: dict[str, Callable[[], str]] = {
    "api": api,
    "commands": commands,
    "settings": settings,
    "methods": methods,
    "checks": checks,
}
"""What a mark in a page stands for."""
