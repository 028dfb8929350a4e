"""Text within the width of a page."""

import textwrap
from collections.abc import Iterable

WIDTH = 78


def title_case(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def wrap(text: str, indent: str = "  ") -> list[str]:
    """Break text at the width of the page."""
    return textwrap.wrap(text.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent)


def facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of ``name  value``, long values continued below."""
    lines: list[str] = []
    for name, value in rows:
        lines += textwrap.wrap(f"{name:13}{value}", WIDTH, subsequent_indent=" " * 13) or [name]
    return lines
