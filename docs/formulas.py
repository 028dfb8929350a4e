"""Turns the formulas of the pages into MathML, which browsers show without any script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
ROLE = re.compile(r":math:<code>(.+?)</code>", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``$…$`` and ``$$…$$`` outside of code; mkdocs calls this for every page."""
    parts = CODE.split(markdown)
    # With one group in the pattern, code stands at every odd place.
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def on_page_content(content: str, **_: Any) -> str:
    """Replace the ``:math:`` of docstrings in pages that are already HTML."""
    return ROLE.sub(lambda match: _inline(html.unescape(match[1])), content)


def _formulas(text: str) -> str:
    text = BLOCK.sub(lambda match: convert(match[1].strip(), display="block"), text)
    return INLINE.sub(lambda match: _inline(match[1]), text)


def _inline(formula: str) -> str:
    # In a span, a formula at the start of a line is still part of its paragraph.
    return f"<span>{convert(formula)}</span>"
