"""Numbers and text as people write them, within the width of a page."""

import math
import textwrap
from collections.abc import Iterable

WIDTH = 78


def title_case(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def wrap(text: str, indent: str = "  ") -> list[str]:
    """Break text at the width of the page."""
    return textwrap.wrap(
        text.strip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of ``name  value``, long values continued below."""
    lines: list[str] = []
    for name, value in rows:
        text, after = f"{name:13}{value}", " " * 13
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=after, break_on_hyphens=False) or [
            name
        ]
    return lines


def number(value: float, digits: int = 4) -> str:
    """Return a number as people write it: four digits, no noise."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits - 1}f}"


def p_value(value: float) -> str:
    """Return a p-value; below one in ten thousand only that is said."""
    return "–" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.4f}"


def percent(share: float) -> str:
    """Return a share as a percentage without needless digits."""
    return f"{100 * share:.4g} %"
