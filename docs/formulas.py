"""Turns the formulas of the pages into MathML, which browsers show without any script."""

import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``$…$`` and ``$$…$$`` outside of code; mkdocs calls this for every page."""
    parts = CODE.split(markdown)
    # With one group in the pattern, code stands at every odd place.
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = BLOCK.sub(lambda match: convert(match[1].strip(), display="block"), text)
    return INLINE.sub(lambda match: convert(match[1]), text)
