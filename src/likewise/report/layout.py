"""Numbers and text as people write them, within the width of a page."""

import math
import re
import textwrap
from collections.abc import Iterable

WIDTH = 78


def title_case(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at spaces, and words that no line can hold after their commas."""

    def _split(self, text: str) -> list[str]:
        room = self.width - len(self.subsequent_indent)
        chunks = super()._split(text)
        pieces = (re.findall(r"[^,]*,|[^,]+", c) if len(c) > room else [c] for c in chunks)
        return [piece for found in pieces for piece in found]


def wrap(text: str, indent: str = "  ") -> list[str]:
    """Break text at the width of the page."""
    wrapper = _Wrapper(WIDTH, indent, indent, break_on_hyphens=False)
    return wrapper.wrap(text.strip())


def facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of ``name  value``, long values continued below."""
    wrapper = _Wrapper(WIDTH, subsequent_indent=" " * 13, break_on_hyphens=False)
    return [line for name, value in rows for line in wrapper.wrap(f"{name:13}{value}") or [name]]


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
